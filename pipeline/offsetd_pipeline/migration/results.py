"""The results of the steps of a migration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


@attrs.frozen(kw_only=True)
class RunResult:
    """Groups and offsets by outcome, as in `offsetd_clients.migration`.

    `refused`: the first refused groups, as rows of outcomes.
    `stopped_by`: the reason why some files of the plan were not reached; empty if all were.
    """

    is_dry_run: bool
    group_counts: Mapping[str, int]
    offset_counts: Mapping[str, int]
    refused: pa.Table
    stopped_by: str = ""
    seconds: float = 0.0

    @property
    def refused_count(self) -> int:
        """The number of refused groups."""
        return self.group_counts.get("refused", 0)

    @property
    def group_count(self) -> int:
        """The number of groups with a known outcome."""
        return sum(self.group_counts.values())


@attrs.frozen(kw_only=True)
class VerifyResult:
    """The number of offsets that are not stored as planned, by state, with the first of them.

    `ahead_count`: offsets that are larger on the server, if that was allowed. The other counts do
    not include them.
    """

    offset_count: int
    ahead_count: int
    counts: Mapping[str, int]
    differences: pa.Table
    seconds: float = 0.0

    @property
    def difference_count(self) -> int:
        """The number of offsets that differ."""
        return sum(self.counts.values())
