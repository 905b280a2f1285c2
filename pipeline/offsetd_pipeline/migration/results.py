"""What steps of a migration came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


@attrs.frozen(kw_only=True)
class RunResult:
    """Groups and offsets by outcome, as `clients` calls them. `refused`: the first refused groups,
    as rows of outcomes. `stopped_by`: why files of the plan were not come to; empty: all were.
    """

    is_dry_run: bool
    group_counts: Mapping[str, int]
    offset_counts: Mapping[str, int]
    refused: pa.Table
    stopped_by: str = ""
    seconds: float = 0.0

    @property
    def refused_count(self) -> int:
        """Groups."""
        return self.group_counts.get("refused", 0)

    @property
    def group_count(self) -> int:
        """All that something is known of."""
        return sum(self.group_counts.values())


@attrs.frozen(kw_only=True)
class VerifyResult:
    """How many of `offset_count` do not stand at the server as planned, by state, and the first of
    them. `ahead_count`: so many are larger there, which was allowed; they are none of these.
    """

    offset_count: int
    ahead_count: int
    counts: Mapping[str, int]
    differences: pa.Table
    seconds: float = 0.0

    @property
    def difference_count(self) -> int:
        """Offsets."""
        return sum(self.counts.values())
