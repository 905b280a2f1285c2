"""The changes and partitions of a large group as answers list them, made from rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from offsetd_coordinator.kernels import columns
from offsetd_coordinator.offset_changes import OffsetChange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_coordinator.committed_offsets import OffsetRows
    from offsetd_coordinator.kernels.columns import Int64s

NO_OFFSET: Final = np.iinfo(np.int64).min
"""The offset before or after a change if there is none."""
_ROWS_AT_ONCE: Final = 1024


@attrs.frozen(eq=False)
class RowPartitions(Collection[tuple[bytes, int]]):
    """The partitions of some rows, in their order."""

    rows: OffsetRows

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, partition: object) -> bool:
        return any(each == partition for each in self)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        for first in range(0, len(self.rows), _ROWS_AT_ONCE):
            yield from partitions_of(self.rows, slice(first, first + _ROWS_AT_ONCE))


@attrs.frozen(eq=False)
class RowChanges(Collection[OffsetChange]):
    """The changes in the order of `rows`. Only the partitions of the rows are used.

    `before` and `after` are offsets, or NO_OFFSET. A revision of -1 means none.
    """

    rows: OffsetRows
    before: Int64s
    after: Int64s
    revisions: Int64s

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, change: object) -> bool:
        return any(each == change for each in self)

    def __iter__(self) -> Iterator[OffsetChange]:
        for first in range(0, len(self.rows), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            columns_of = zip(
                partitions_of(self.rows, part),
                _known(self.before[part], NO_OFFSET),
                _known(self.after[part], NO_OFFSET),
                _known(self.revisions[part], -1),
                strict=True,
            )
            for (topic, partition), before, after, revision in columns_of:
                yield OffsetChange(topic, partition, before, after, revision)


def partitions_of(rows: OffsetRows, part: slice) -> list[tuple[bytes, int]]:
    """The topics and partitions of some of the rows."""
    texts, topics = rows.texts, dict[tuple[int, int], bytes]()
    found = []
    for start, size, partition in rows.rows[part, : columns.PARTITION + 1].tolist():
        topic = topics.get((start, size))
        if topic is None:
            topic = topics[start, size] = texts[start : start + size].tobytes()
        found.append((topic, partition))
    return found


def _known(values: Int64s, unknown: int) -> list[int | None]:
    return [None if value == unknown else value for value in values.tolist()]
