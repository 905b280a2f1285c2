"""Compare-and-set: a write is accepted only if the stored offsets are those that it expects.

For commits, which may expect an offset, a revision, or that nothing is stored, the kernel
`kernels.records.commit_batch.decide_commit` compares. This module compares for the writes of
administrators, and makes the refusal for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.errors import CONFLICTS_MAX, Conflict, OffsetConflict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_coordinator.offset_changes import Partition, PutColumns
    from offsetd_coordinator.state.offset_batches import PutRows
    from offsetd_coordinator.state.offset_table import OffsetTable


def check_expected(
    offsets: OffsetTable,
    expected: Mapping[Partition, int | None],
    puts: PutColumns,
    rows: PutRows,
) -> None:
    """Compares the revisions of stored offsets with the expected ones.

    If the expected revision is None, no offset may be stored. `rows` are the rows of `puts`.
    Partitions that `expected` does not name may have any offset.

    Raises OffsetConflict.
    """
    place = rows.names, rows.group_size, rows.keys
    stored = offsets.revisions_at(*place)
    partitions = zip(puts.topics, puts.partitions, strict=True)
    wrong = [
        row
        for row, partition in enumerate(partitions)
        if partition in expected and stored[row] != expected[partition]
    ]
    if not wrong:
        return
    values = offsets.offsets_at(*place)
    conflicts = tuple(
        Conflict(
            topic=puts.topics[row],
            partition=puts.partitions[row],
            offset=values[row],
            revision=stored[row],
        )
        for row in wrong[:CONFLICTS_MAX]
    )
    raise offset_conflict(conflicts, len(wrong), offset_count=len(stored))


def offset_conflict(
    conflicts: tuple[Conflict, ...], total: int, *, offset_count: int
) -> OffsetConflict:
    """The refusal: `total` preconditions do not hold; `conflicts` has the first of them."""
    return OffsetConflict(
        "preconditions do not hold: {conflict_count} of {offset_count}",
        conflicts,
        total,
        offset_count=offset_count,
    )
