"""What code that is written once for both clients waits with; here: asyncio's.

`sleep`, `called` (a function of the user's, which here may be a coroutine's), `spawn` (work in the
background, to be joined), `Lock`, `Event` and `Condition`, whose waits may have a bound. The twin
in `sync` offers the same names for threads.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

Result = TypeVar("Result")

sleep = asyncio.sleep
Lock = asyncio.Lock


async def called(function: Callable[..., Result | Awaitable[Result]], *arguments: Any) -> Result:
    """What the function returns, awaited if need be."""
    result = function(*arguments)
    if inspect.isawaitable(result):
        return await cast("Awaitable[Result]", result)
    return result


class Task:
    """Work in the background. It is not interrupted: what is to end early heeds an `Event`."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        """For `spawn`."""
        self._task = task

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
        if not self.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await super().wait()
            except TimeoutError:
                return self.is_set()
        return True


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
