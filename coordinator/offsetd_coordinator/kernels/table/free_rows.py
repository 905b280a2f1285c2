"""Rows of an array that are freed and used again.

An array has three adjacent counters: the number of used rows, the end of the rows that were ever
used, and the first free row + 1. A free row has the next free row + 1 in its link column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.registry import inline_kernel

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Int64s

# The places of the other two counters after the number of used rows.
_END: Final = 1
_FREE: Final = 2


@inline_kernel
def take_row(rows: Int64s, link: int, counters: Int64s, count: int) -> int:
    """Use a free row and return it; the caller has made room. `count` is the first counter."""
    counters[count] += 1
    if counters[count + _FREE] != 0:
        row = int(counters[count + _FREE] - 1)
        counters[count + _FREE] = rows[row, link]
    else:
        row = int(counters[count + _END])
        counters[count + _END] += 1
    return row


@inline_kernel
def free_row(rows: Int64s, link: int, counters: Int64s, count: int, row: int) -> None:
    """Free a row, so that it can be used again."""
    rows[row, link] = counters[count + _FREE]
    counters[count + _FREE] = row + 1
    counters[count] -= 1
