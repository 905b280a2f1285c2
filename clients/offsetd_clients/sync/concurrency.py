"""What code that is written once for both clients waits with; here: threads'.

`sleep`, `called` (a function of the user's), `spawn` (work in the background, to be joined),
`Lock`, `Event` and `Condition`, whose waits may have a bound, a `Future`, `result_of` one and
`wait_all` of several, `others_go_on`, `Guard` for state that is changed without waiting,
`Cancelled`, `when_gone` and `when_process_ends`. The twin in `aio` offers the same names for
asyncio.
"""

import atexit
import concurrent.futures
import logging
import threading
import time
import weakref
from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar

log = logging.getLogger("offsetd_clients")

Result = TypeVar("Result")

Cancelled = concurrent.futures.CancelledError
Future = concurrent.futures.Future
Guard = threading.Lock
sleep = time.sleep
Lock = threading.Lock
Condition = threading.Condition


def called(function: Callable[..., Result], *arguments: Any) -> Result:
    """What the function returns."""
    return function(*arguments)


class _HeardFuture(concurrent.futures.Future[Any]):
    """Logs an error that nobody has asked for, as asyncio's futures do."""

    def __init__(self, group_id: str) -> None:
        super().__init__()
        self._group_id = group_id
        self._is_heard = False

    def result(self, timeout: float | None = None) -> Any:
        """As of any future."""
        self._is_heard = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As of any future."""
        self._is_heard = True
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[Any]], Any]) -> None:
        """As of any future."""
        self._is_heard = True
        super().add_done_callback(fn)

    def __del__(self) -> None:
        if not self._is_heard and self._exception is not None:
            log.error("a commit of group %s has failed: %r", self._group_id, self._exception)


def new_future(group_id: str) -> concurrent.futures.Future[Any]:
    """What somebody waits for, of a commit of this group. It cannot be cancelled, so that it is
    settled once. An error that nobody has asked for is logged.
    """
    future = _HeardFuture(group_id)
    future.set_running_or_notify_cancel()
    return future


def result_of(future: concurrent.futures.Future[Result]) -> Result:
    """Waits for what comes of it."""
    return future.result()


def wait_all(futures: Collection[concurrent.futures.Future[Any]], timeout_s: float) -> None:
    """Waits until all of them are done, at the longest `timeout_s` from now."""
    concurrent.futures.wait(futures, timeout_s)


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


class EndsWithProcess(Protocol):
    """What has something to do before the process ends."""

    def end_with_process(self) -> None:
        """Called once, when no other code of the user's runs any more."""


_ending: weakref.WeakSet[EndsWithProcess] = weakref.WeakSet()


def when_process_ends(owner: EndsWithProcess) -> None:
    """Has it told, if it is still there then."""
    _ending.add(owner)


@atexit.register
def _end_with_process() -> None:
    for owner in list(_ending):
        owner.end_with_process()


class Task:
    """Work in the background. It is not interrupted: what is to end early heeds an `Event`."""

    def __init__(self, thread: threading.Thread) -> None:
        """For `spawn`."""
        self._thread = thread

    @property
    def is_current(self) -> bool:
        """Whether who asks is this work itself."""
        return self._thread is threading.current_thread()

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits for its end; whether it has come. Raises nothing that the work raised."""
        if self.is_current:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


def spawn(work: Callable[..., None], *arguments: Any, name: str) -> Task:
    """Begins work in the background, under a name for debuggers; it keeps no process alive."""
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    thread.start()
    return Task(thread)
