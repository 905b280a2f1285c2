"""The waiting primitives of the code that is written once for both clients. These are asyncio's.

`sleep` waits; `called` calls a user's function, which may be a coroutine function here. `spawn`
starts a background `Task`. `Lock`, `Event` and `Condition` can wait with a time limit. `Future` has
`result_of` for one and `wait_all` for several. `in_parallel` makes several calls at once.
`others_go_on` lets other tasks run. `Guard` protects state that is changed without waiting; asyncio
needs no lock for that. Also `Cancelled`, `when_gone` and `when_process_ends`. The twin in `sync`
offers the same names for threads.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any, TypeVar, cast

Result = TypeVar("Result")
Item = TypeVar("Item")

PARALLEL_MAX = 64
"""The most calls of `in_parallel` at the same time."""

Cancelled = asyncio.CancelledError
Future = asyncio.Future
sleep = asyncio.sleep
Lock = asyncio.Lock


async def called(function: Callable[..., Result | Awaitable[Result]], *arguments: Any) -> Result:
    """Calls the function, and awaits its result if it is awaitable."""
    result = function(*arguments)
    if inspect.isawaitable(result):
        return await cast("Awaitable[Result]", result)
    return result


def new_future(_group_id: str) -> asyncio.Future[Any]:
    """A future to wait for or to cancel. asyncio logs an error that is never retrieved."""
    return asyncio.get_running_loop().create_future()


def result_of(future: asyncio.Future[Result]) -> Awaitable[Result]:
    """Waits for the result of a future."""
    return future


async def wait_all(futures: Collection[asyncio.Future[Any]], timeout_s: float) -> None:
    """Waits until all futures are done, at most `timeout_s` seconds."""
    if futures:
        await asyncio.wait(futures, timeout=timeout_s)


async def in_parallel(
    call: Callable[[Item], Awaitable[Result]], items: Iterable[Item]
) -> list[Result]:
    """Calls the function with each item, a few at a time. Returns the results in order.

    Raises the first error.
    """
    limit = asyncio.Semaphore(PARALLEL_MAX)

    async def limited(item: Item) -> Result:
        async with limit:
            return await call(item)

    tasks = [asyncio.ensure_future(limited(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def others_go_on() -> None:
    """Lets the receivers of an outcome run before the next outcome is delivered."""
    await asyncio.sleep(0)


def when_gone(owner: object, function: Callable[[], None]) -> None:
    """Does nothing: the background work ends with its event loop."""


def when_process_ends(owner: object) -> None:
    """Does nothing: the event loop has ended by then."""
    del owner


class Guard:
    """A guard without a lock: no other task runs before this one waits."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class Task:
    """Work in the background.

    It is not interrupted: work that may have to end early checks an `Event`.
    """

    def __init__(self, task: asyncio.Task[None]) -> None:
        """Use `spawn`."""
        self._task = task

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this task."""
        return self._task is asyncio.current_task()

    async def join(self, timeout_s: float | None = None) -> bool:
        """Waits for the work's end. Returns whether it has ended. Raises none of its errors."""
        done, _ = await asyncio.wait([self._task], timeout=timeout_s)
        return bool(done)


def spawn(work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any, name: str) -> Task:
    """Starts work in the background, under a name for debuggers."""
    return Task(asyncio.get_running_loop().create_task(work(*arguments), name=name))


class Event(asyncio.Event):
    """An `asyncio.Event` whose wait can have a time limit."""

    async def wait(self, timeout_s: float | None = None) -> bool:  # type: ignore[override]
        """Waits at most `timeout_s` seconds. Returns whether the event is set."""
        if self.is_set() or timeout_s is None:
            return await super().wait()
        try:
            async with asyncio.timeout(timeout_s):
                return await super().wait()
        except TimeoutError:
            return self.is_set()


class Condition(asyncio.Condition):
    """An `asyncio.Condition` whose wait can have a time limit."""

    async def wait(self, timeout_s: float | None = None) -> bool:  # type: ignore[override]
        """Waits at most `timeout_s` seconds.

        Returns whether it was notified. The lock is held again.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await super().wait()
        except TimeoutError:
            return False
        return True
