"""The limits of a stream's batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence


@attrs.frozen(kw_only=True)
class Limit:
    """The limits of a batch: the most records, or about the most bytes. None: unlimited.

    If there are fewer records than `records_min`, the batch reads none.
    """

    records_max: int | None = None
    bytes_max: int | None = None
    records_min: int = 0

    @classmethod
    def of(cls, spark_limit: object) -> Limit:
        """Reads Spark's limit, which versions before 4.2 do not have. Raises ValueError."""
        match type(spark_limit).__name__:
            case "ReadAllAvailable":
                return cls()
            case "ReadMaxRows":
                return cls(records_max=spark_limit.max_rows)  # type: ignore[attr-defined]
            case "ReadMinRows":
                return cls(records_min=spark_limit.min_rows)  # type: ignore[attr-defined]
            case "ReadMaxBytes":
                return cls(bytes_max=spark_limit.max_bytes)  # type: ignore[attr-defined]
            case name:
                raise ValueError(f"a stream of offsets knows no {name}: rows and bytes are limited")

    def records_of(self, record_count: int, size_bytes: int) -> int:
        """The number of these records, with this total size, that a batch reads."""
        if record_count < self.records_min:
            return 0
        allowed = record_count if self.records_max is None else self.records_max
        if self.bytes_max is not None and size_bytes > self.bytes_max:
            allowed = min(allowed, max(record_count * self.bytes_max // size_bytes, 1))
        return min(allowed, record_count)


def shares(counts: Sequence[int], allowed: int) -> list[int]:
    """Divides `allowed` among the counts, in proportion to them."""
    total = sum(counts)
    if not total:
        return [0] * len(counts)
    taken, before, behind = [], 0, 0
    for count in counts:
        behind += count
        taken.append(behind * allowed // total - before * allowed // total)
        before = behind
    return taken
