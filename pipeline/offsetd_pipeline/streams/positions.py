"""The position of a stream over a folder, in the form that Spark stores in its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

BEGUN: Final = "from"
"""An extra field with the end of a first batch: the position at which it was planned to begin."""
_GAPS: Final = "gaps"
_OTHERS: Final = (BEGUN, _GAPS)


def _nonzero(gaps: Mapping[int, int]) -> dict[int, int]:
    return {each: count for each, count in gaps.items() if count}


@attrs.frozen(kw_only=True)
class Positions:
    """The next log offset of each log partition, and the number of later offsets without a record.

    The number is computed when the stream begins a partition whose log was cleaned before. With it,
    the stream knows the number of records in every range, and can detect a missing record.
    """

    offsets: Mapping[int, int]
    gaps: Mapping[int, int] = attrs.field(factory=dict, converter=_nonzero)

    @classmethod
    def of(cls, text: Mapping[str, Any]) -> Positions:
        """Reads Spark's JSON. Raises ValueError."""
        return cls(
            offsets=_numbers({name: each for name, each in text.items() if name not in _OTHERS}),
            gaps=_numbers(text.get(_GAPS, {})),
        )

    def text(self) -> dict[str, Any]:
        """The positions for Spark's JSON. Equal positions give equal texts."""
        found: dict[str, Any] = {str(each): self.offsets[each] for each in sorted(self.offsets)}
        gaps = {str(each): self.gaps[each] for each in sorted(self.gaps)}
        return found | ({_GAPS: gaps} if gaps else {})

    def gaps_of(self, log_partition: int) -> int:
        """The number of offsets after the position without a record."""
        return self.gaps.get(log_partition, 0)


def _numbers(text: Mapping[str, Any]) -> dict[int, int]:
    for name, each in text.items():
        if not name.isdecimal() or type(each) is not int or each < 0:
            raise ValueError(f"{name}: {each!r} is not a log offset of a log partition")
    return {int(name): each for name, each in text.items()}
