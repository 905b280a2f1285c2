"""Rows of an array that are freed and taken again, for what has one array of its own.

Three counters next to each other say how many rows are taken, from where on none ever was, and the
first free one below that, + 1. A free row has the next one in some column, also + 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.registry import inline_kernel

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Int64s

# Behind the counter of how many are taken.
_END: Final = 1
_FREE: Final = 2


@inline_kernel
def take_row(rows: Int64s, link: int, counters: Int64s, count: int) -> int:
    """A row that was free; the caller has made room. `count` is the first of the counters."""
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
    """Have a row taken again."""
    rows[row, link] = counters[count + _FREE]
    counters[count + _FREE] = row + 1
    counters[count] -= 1
