"""The partitions that a message names. A row has a topic's span and a partition's number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.kernels.byte_order import equal_bytes
from offsetd_storage.kernels.registry import inline_kernel

from offsetd_coordinator.kernels.columns import PARTITION, TOPIC_SIZE, TOPIC_START
from offsetd_coordinator.kernels.table.keyed_hash import hash_bytes, tag_of
from offsetd_coordinator.kernels.table.slots import add_slot, has_tag, home_of, row_in, slot_after

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s


@inline_kernel
def has_duplicates(
    message: Bytes,
    columns: Int64s,
    first_row: int,
    rows: int,
    seed: int,
    seed_2: int,
    slots: Int64s,
) -> bool:
    """Returns whether a partition is named twice. `slots` is scratch with twice the rows."""
    if rows == 1:
        return False
    used = slots[: 2 * rows]
    for at in range(used.size):
        used[at] = 0
    for row in range(first_row, first_row + rows):
        start = columns[row, TOPIC_START]
        size = columns[row, TOPIC_SIZE]
        partition = columns[row, PARTITION]
        tag = tag_of(hash_bytes(message, start, size, seed, seed_2 ^ partition))
        at = home_of(used, tag)
        while used[at] != 0:
            other = row_in(used[at])
            if (
                has_tag(used[at], tag)
                and columns[other, PARTITION] == partition
                and columns[other, TOPIC_SIZE] == size
                and equal_bytes(message, columns[other, TOPIC_START], message, start, size)
            ):
                return True
            at = slot_after(used, at)
        add_slot(used, tag, row)
    return False
