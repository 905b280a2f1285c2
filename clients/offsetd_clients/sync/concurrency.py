"""What code that is written once for both clients waits with; here: threads'.

`sleep`, `called` (a function of the user's), `spawn` (work in the background, to be joined),
`Lock`, `Event` and `Condition`, whose waits may have a bound, a `Future` and `result_of` it,
`others_go_on`, `Guard` for state that is changed without waiting, and `when_gone`. The twin in
`aio` offers the same names for asyncio.
"""

import concurrent.futures
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

Future = concurrent.futures.Future
Guard = threading.Lock
sleep = time.sleep
Lock = threading.Lock
Condition = threading.Condition


def called(function: Callable[..., Result], *arguments: Any) -> Result:
    """What the function returns."""
    return function(*arguments)


def new_future() -> concurrent.futures.Future[Any]:
    """What somebody waits for. It cannot be cancelled, so that it is settled once."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()
    return future


def result_of(future: concurrent.futures.Future[Result]) -> Result:
    """Waits for what comes of it."""
    return future.result()


class Event:
    """As `threading.Event`; a signal's handler may set it, whatever it has interrupted."""

    def __init__(self) -> None:
        # Its lock may be taken again by whoever has it; that of threading's Event may not.
        self._condition = threading.Condition()
        self._is_set = False

    def is_set(self) -> bool:
        """Whether it is."""
        return self._is_set

    def set(self) -> None:
        """Whoever waits goes on."""
        with self._condition:
            self._is_set = True
            self._condition.notify_all()

    def clear(self) -> None:
        """It is not set any more."""
        self._is_set = False

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it is set; at the longest `timeout_s` from now."""
        with self._condition:
            return self._condition.wait_for(self.is_set, timeout_s)


def others_go_on() -> None:
    """Nothing: other threads go on by themselves."""


def when_gone(owner: object, function: Callable[[], None]) -> None:
    """Calls a function when nobody has the owner any more. It must not wait, nor know the owner."""
    weakref.finalize(owner, function).atexit = False


class Task:
    """Work in the background. It is not interrupted: what is to end early heeds an `Event`."""

    def __init__(self, thread: threading.Thread) -> None:
        """For `spawn`."""
        self._thread = thread

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits for its end; whether it has come. Raises nothing that the work raised."""
        if self._thread is threading.current_thread():
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


def spawn(work: Callable[..., None], *arguments: Any, name: str) -> Task:
    """Begins work in the background, under a name for debuggers; it keeps no process alive."""
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    thread.start()
    return Task(thread)
