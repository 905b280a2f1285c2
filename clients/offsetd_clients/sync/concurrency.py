"""What code that is written once for both clients waits with; here: threads'.

`sleep`, `called` (a function of the user's), `spawn` (work in the background, to be joined),
`Lock`, `Event` and `Condition`, whose waits may have a bound. The twin in `aio` offers the same
names for asyncio.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

sleep = time.sleep
Lock = threading.Lock
Event = threading.Event
Condition = threading.Condition


def called(function: Callable[..., Result], *arguments: Any) -> Result:
    """What the function returns."""
    return function(*arguments)


class Task:
    """Work in the background. It is not interrupted: what is to end early heeds an `Event`."""

    def __init__(self, thread: threading.Thread) -> None:
        """For `spawn`."""
        self._thread = thread

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits for its end; whether it has come. Raises nothing that the work raised."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


def spawn(work: Callable[..., None], *arguments: Any, name: str) -> Task:
    """Begins work in the background, under a name for debuggers; it keeps no process alive."""
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    thread.start()
    return Task(thread)
