"""Counters that split long loops into turns of the event loop, so that others run in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_coordinator.cooperative_yield import next_turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from typing import TypeVar

    Item = TypeVar("Item")

ITEMS_PER_TURN: Final = 400
"""Of what takes up to 25 microseconds each."""


class Turns:
    """Counts the items that one call handles, and lets other tasks run in between."""

    def __init__(self) -> None:
        self._items = 0

    async def spend(self, items: int) -> None:
        """Notes that this many items were handled."""
        self._items += items
        if self._items >= ITEMS_PER_TURN:
            self._items = 0
            await next_turn()

    async def each(self, items: Iterable[Item]) -> AsyncIterator[Item]:
        """Yields the items one by one, at most the allowed number in each turn."""
        for item in items:
            yield item
            await self.spend(1)
