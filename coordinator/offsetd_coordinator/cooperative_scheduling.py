"""Limits of work in one turn of the event loop, so that one caller does not delay the others.

The rule for all work that grows with a group: one turn handles at most `SLICE_ROWS` of its offsets,
or `SLICE_BLOCKS` blocks of the table; then `next_turn` lets others run. Python loops over items
count them with `Turns`, or take them in `parts`. Longer work runs on a thread, in kernels that
release the interpreter's lock, or slice by slice.

A turn ends with a pause. A commit needs about five passes of the event loop and a flush; with only
one pass between two turns, it would wait for five turns. All calls that pause wait in one row, with
a pause after each turn. So many long calls delay the others no more than one does.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

Item = TypeVar("Item")

SLICE_ROWS: Final = 4096
"""Offsets that are read, written or encoded at once. A group of no more is small."""
SLICE_BLOCKS: Final = 8192
"""Blocks of the table that are read at once, of all groups together."""
ITEMS_PER_TURN: Final = 50
"""Items that a Python loop handles in one turn; each takes up to 25 microseconds."""
REST_SECONDS: Final = 0.001
"""The pause between two turns: about the time of a commit."""
WORK_SECONDS: Final = 0.001
"""Short turns run without pauses for this long: otherwise cheap items would mostly wait."""


def call_soon(
    loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object
) -> None:
    """Calls on the event loop's thread. For any thread; does nothing once the loop is closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)


class _Row:
    """The calls that pause between two turns, in their order, on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_moving = False
        self._begun_seconds = -REST_SECONDS

    async def enter(self) -> None:
        """Waits for a turn, unless no other call has had one for the time of a pause."""
        now_seconds = self._loop.time()
        if self._is_moving or now_seconds - self._begun_seconds < REST_SECONDS:
            await self.wait()
        self._begun_seconds = self._loop.time()

    async def wait(self) -> None:
        """Waits until the calls in front have had their turns, and for a pause."""
        turn = self._loop.create_future()
        self._waiting.append(turn)
        if not self._is_moving:
            self._pause()
        await turn

    def _pause(self) -> None:
        self._is_moving = bool(self._waiting)
        if self._is_moving:
            self._loop.call_later(REST_SECONDS, self._begin_turn)

    def _begin_turn(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # Its call may have been cancelled.
                turn.set_result(None)
                break
        # The loop calls this after the turn, which it was told of before.
        self._loop.call_soon(self._pause)


_rows: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Row]] = WeakKeyDictionary()


def _row() -> _Row:
    loop = asyncio.get_running_loop()
    row = _rows.get(loop)
    if row is None:
        row = _rows[loop] = _Row(loop)
    return row


async def first_turn() -> None:
    """Begins work that may take long. Many calls that arrive together do not begin at once."""
    await _row().enter()


async def next_turn() -> None:
    """Lets other tasks run: those that are ready, and those that they wake during the pause."""
    await _row().wait()


def parts(items: Iterable[Item]) -> Iterator[list[Item]]:
    """The items in lists, each of as many as one turn may handle; the last may be shorter."""
    left = iter(items)
    while part := list(islice(left, ITEMS_PER_TURN)):
        yield part


class Turns:
    """Counts the items that one call handles, and lets other tasks run between them."""

    items_max = ITEMS_PER_TURN
    work_seconds_max = WORK_SECONDS

    def __init__(self) -> None:
        self._items = 0
        self._rested_seconds = time.monotonic()

    async def spend(self, items: int) -> None:
        """Notes that this many items were handled."""
        self._items += items
        if self._items >= self.items_max:
            self._items = 0
            await self._end_turn()

    async def _end_turn(self) -> None:
        if time.monotonic() - self._rested_seconds < self.work_seconds_max:
            await asyncio.sleep(0)
            return
        await self._rest()
        self._rested_seconds = time.monotonic()

    async def _rest(self) -> None:
        await next_turn()

    async def each(self, items: Iterable[Item]) -> AsyncIterator[Item]:
        """Yields the items one by one, at most the allowed number in each turn."""
        for item in items:
            yield item
            await self.spend(1)


class CommitTurns(Turns):
    """Turns of a stream of commits: longer, and not in the row, since commits are what others wait
    for.
    """

    items_max = 400
    work_seconds_max = 0.004

    async def _rest(self) -> None:
        await asyncio.sleep(REST_SECONDS)
