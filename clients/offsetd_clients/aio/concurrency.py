"""What code that is written once for both clients waits with; here: asyncio's.

`sleep`, `called` (a function of the user's, which here may be a coroutine's), `spawn` (work in the
background, to be joined), `Lock`, `Event` and `Condition`, whose waits may have a bound, `Future`,
`result_of` one and `wait_all` of several, `others_go_on`, `Guard` for state that is changed without
waiting, which needs none here, `Cancelled`, `when_gone` and `when_process_ends`. The twin in `sync`
offers the same names for threads.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeVar, cast

Result = TypeVar("Result")

Cancelled = asyncio.CancelledError
Future = asyncio.Future
sleep = asyncio.sleep
Lock = asyncio.Lock


async def called(function: Callable[..., Result | Awaitable[Result]], *arguments: Any) -> Result:
    """What the function returns, awaited if need be."""
    result = function(*arguments)
    if inspect.isawaitable(result):
        return await cast("Awaitable[Result]", result)
    return result


def new_future(_group_id: str) -> asyncio.Future[Any]:
    """What somebody waits for, or gives up. asyncio logs an error that nobody has asked for."""
    return asyncio.get_running_loop().create_future()


def result_of(future: asyncio.Future[Result]) -> Awaitable[Result]:
    """Waits for what comes of it."""
    return future


async def wait_all(futures: Collection[asyncio.Future[Any]], timeout_s: float) -> None:
    """Waits until all of them are done, at the longest `timeout_s` from now."""
    if futures:
        await asyncio.wait(futures, timeout=timeout_s)


async def others_go_on() -> None:
    """Lets whoever was told something do something with it, before more is told."""
    await asyncio.sleep(0)


def when_gone(owner: object, function: Callable[[], None]) -> None:
    """Nothing: what runs in the background goes with its event loop."""


def when_process_ends(owner: object) -> None:
    """Nothing: there is no event loop any more."""
    del owner


class Guard:
    """Nobody else runs until this one waits."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class Task:
    """Work in the background. It is not interrupted: what is to end early heeds an `Event`."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        """For `spawn`."""
        self._task = task

    @property
    def is_current(self) -> bool:
        """Whether who asks is this work itself."""
        return self._task is asyncio.current_task()

    async def join(self, timeout_s: float | None = None) -> bool:
        """Waits for its end; whether it has come. Raises nothing that the work raised."""
        done, _ = await asyncio.wait([self._task], timeout=timeout_s)
        return bool(done)


def spawn(work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any, name: str) -> Task:
    """Begins work in the background, under a name for debuggers."""
    return Task(asyncio.get_running_loop().create_task(work(*arguments), name=name))


class Event(asyncio.Event):
    """As `asyncio.Event`, with a bounded wait."""

    async def wait(self, timeout_s: float | None = None) -> bool:  # type: ignore[override]
        """Whether it is set; at the longest `timeout_s` from now."""
        if self.is_set() or timeout_s is None:
            return await super().wait()
        try:
            async with asyncio.timeout(timeout_s):
                return await super().wait()
        except TimeoutError:
            return self.is_set()


class Condition(asyncio.Condition):
    """As `asyncio.Condition`, with a bounded wait."""

    async def wait(self, timeout_s: float | None = None) -> bool:  # type: ignore[override]
        """Whether it was notified; at the longest `timeout_s` from now. The lock is held again."""
        try:
            async with asyncio.timeout(timeout_s):
                await super().wait()
        except TimeoutError:
            return False
        return True
