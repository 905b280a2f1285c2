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
    """Counts what one call does, and lets the others in between."""

    def __init__(self) -> None:
        self._items = 0

    async def spend(self, items: int) -> None:
        """Notes that so many items were dealt with."""
        self._items += items
        if self._items >= ITEMS_PER_TURN:
            self._items = 0
            await next_turn()

    async def each(self, items: Iterable[Item]) -> AsyncIterator[Item]:
        """The items, one by one, as many in a turn as there may be."""
        for item in items:
            yield item
            await self.spend(1)
