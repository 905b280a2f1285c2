"""Limits of work in one turn of the event loop, so that one caller does not delay the others.

The rule for all work that grows with a group: one turn handles at most `SLICE_ROWS` of its offsets,
or `SLICE_BLOCKS` blocks of the table; then `next_turn` lets others run. Python loops over items
count them with `Turns`, or take them in `parts`. Longer work runs on a thread, in kernels that
release the interpreter's lock, or slice by slice.

A turn ends with a pause. A commit needs about five passes of the event loop and a flush; with only
one pass between two turns, it would wait for five turns.
"""

from __future__ import annotations

import asyncio
import time
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

Item = TypeVar("Item")

SLICE_ROWS: Final = 4096
"""Offsets that are read, written or encoded at once. A group of no more is small."""
SLICE_BLOCKS: Final = 8192
"""Blocks of the table that are read at once, of all groups together."""
ITEMS_PER_TURN: Final = 400
"""Items that a Python loop handles in one turn; each takes up to 25 microseconds."""
REST_SECONDS: Final = 0.001
"""The pause between two turns: about the time of a commit."""
WORK_SECONDS: Final = 0.004
"""Short turns run without pauses for this long: otherwise cheap items would mostly wait."""


async def next_turn() -> None:
    """Lets other tasks run: those that are ready, and those that they wake during the pause."""
    await asyncio.sleep(REST_SECONDS)


def parts(items: Iterable[Item]) -> Iterator[list[Item]]:
    """The items in lists, each of as many as one turn may handle; the last may be shorter."""
    left = iter(items)
    while part := list(islice(left, ITEMS_PER_TURN)):
        yield part


class Turns:
    """Counts the items that one call handles, and lets other tasks run between them."""

    def __init__(self) -> None:
        self._items = 0
        self._rested_seconds = time.monotonic()

    async def spend(self, items: int) -> None:
        """Notes that this many items were handled."""
        self._items += items
        if self._items >= ITEMS_PER_TURN:
            self._items = 0
            await self._end_turn()

    async def _end_turn(self) -> None:
        if time.monotonic() - self._rested_seconds < WORK_SECONDS:
            await asyncio.sleep(0)
            return
        await next_turn()
        self._rested_seconds = time.monotonic()

    async def each(self, items: Iterable[Item]) -> AsyncIterator[Item]:
        """Yields the items one by one, at most the allowed number in each turn."""
        for item in items:
            yield item
            await self.spend(1)
