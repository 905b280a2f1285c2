"""Open addressing: from a hash to a row of some array.

A slot is 0, or the hash's 32-bit tag in the high half and the row + 1 in the low half. Probing is
linear. Removing a slot closes the gap, so that there are no tombstone markers. Any number of slots
is possible; the caller keeps a quarter of them free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.registry import inline_kernel, kernel

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Int64s

_LOW_HALF: Final = (1 << 32) - 1


@inline_kernel
def home_of(slots: Int64s, tag: int) -> int:
    """The slot at which probing for a tag starts."""
    return (tag * slots.size) >> 32


@inline_kernel
def slot_after(slots: Int64s, at: int) -> int:
    """The next slot; after the last one, the first."""
    at += 1
    return 0 if at == slots.size else at


@inline_kernel
def row_in(slot: int) -> int:
    """The row of a used slot; -1 for an empty one."""
    return (slot & _LOW_HALF) - 1


@inline_kernel
def has_tag(slot: int, tag: int) -> bool:
    """Returns whether a used slot has this tag."""
    return (slot >> 32) & _LOW_HALF == tag


@inline_kernel
def add_slot(slots: Int64s, tag: int, row: int) -> None:
    """Fill the first free slot for `tag`; there is one."""
    at = home_of(slots, tag)
    while slots[at] != 0:
        at = slot_after(slots, at)
    slots[at] = (tag << 32) | (row + 1)


@inline_kernel
def remove_slot(slots: Int64s, tag: int, row: int) -> None:
    """Empty the slot of `row`, which exists, and move later slots of its probe run into the gap."""
    hole = home_of(slots, tag)
    while row_in(slots[hole]) != row:
        hole = slot_after(slots, hole)
    at = hole
    while True:
        at = slot_after(slots, at)
        slot = slots[at]
        if slot == 0:
            break
        home = home_of(slots, (slot >> 32) & _LOW_HALF)
        # It may move into the hole unless its home is after the hole.
        if _distance(slots, home, at) >= _distance(slots, hole, at):
            slots[hole] = slot
            hole = at
    slots[hole] = 0


@inline_kernel
def _distance(slots: Int64s, start: int, end: int) -> int:
    return end - start if end >= start else end - start + slots.size


@kernel("void(int64[::1], int64[::1])")
def refill_slots(old: Int64s, new: Int64s) -> None:
    """Fill empty slots, of another number, with the rows of the old ones."""
    for at in range(old.size):
        slot = old[at]
        if slot != 0:
            add_slot(new, (slot >> 32) & _LOW_HALF, row_in(slot))
