"""The waiting primitives of the code that is written once for both clients; here: for threads.

`sleep` waits; `called` calls a user's function. `spawn` starts a background `Task`. `Lock`, `Event`
and `Condition` can wait with a time limit. `Future` has `result_of` for one and `wait_all` for
several. `in_parallel` makes several calls at once. `others_go_on` lets others run. `Guard` protects
state that is changed without waiting. Also `Cancelled`, `when_gone` and `when_process_ends`. The
twin in `aio` offers the same names for asyncio.
"""

import atexit
import concurrent.futures
import logging
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol, TypeVar

log = logging.getLogger("offsetd_clients")

Result = TypeVar("Result")
Item = TypeVar("Item")

PARALLEL_MAX = 16
"""The most calls of `in_parallel` at the same time."""

Cancelled = concurrent.futures.CancelledError
Future = concurrent.futures.Future
Guard = threading.Lock
sleep = time.sleep
Lock = threading.Lock
Condition = threading.Condition


def called(function: Callable[..., Result], *arguments: Any) -> Result:
    """Calls the function."""
    return function(*arguments)


class _HeardFuture(concurrent.futures.Future[Any]):
    """A future that logs an error that is never retrieved, as asyncio's futures do."""

    def __init__(self, group_id: str) -> None:
        super().__init__()
        self._group_id = group_id
        self._is_heard = False

    def result(self, timeout: float | None = None) -> Any:
        """As `Future.result`."""
        self._is_heard = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As `Future.exception`."""
        self._is_heard = True
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[Any]], Any]) -> None:
        """As `Future.add_done_callback`."""
        self._is_heard = True
        super().add_done_callback(fn)

    def __del__(self) -> None:
        if not self._is_heard and self._exception is not None:
            log.error("a commit of group %s has failed: %r", self._group_id, self._exception)


def new_future(group_id: str) -> concurrent.futures.Future[Any]:
    """A future for a commit of this group. It cannot be cancelled, so it is settled once.

    It logs an error that is never retrieved.
    """
    future = _HeardFuture(group_id)
    future.set_running_or_notify_cancel()
    return future


def result_of(future: concurrent.futures.Future[Result]) -> Result:
    """Waits for the result of a future."""
    return future.result()


def wait_all(futures: Collection[concurrent.futures.Future[Any]], timeout_s: float) -> None:
    """Waits until all futures are done, at most `timeout_s` seconds."""
    concurrent.futures.wait(futures, timeout_s)


def in_parallel(call: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Calls the function with each item, a few at a time. Returns the results in order.

    Raises the first error.
    """
    given = list(items)
    if len(given) < 2:
        return [call(item) for item in given]
    with concurrent.futures.ThreadPoolExecutor(min(len(given), PARALLEL_MAX)) as threads:
        return list(threads.map(call, given))


class Event:
    """A `threading.Event` that a signal handler may set, whatever code it interrupts."""

    def __init__(self) -> None:
        # Its lock is reentrant, unlike that of threading's Event.
        self._condition = threading.Condition()
        self._is_set = False

    def is_set(self) -> bool:
        """Whether the event is set."""
        return self._is_set

    def set(self) -> None:
        """Sets the event and wakes all waiting threads."""
        with self._condition:
            self._is_set = True
            self._condition.notify_all()

    def clear(self) -> None:
        """Clears the event."""
        self._is_set = False

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits at most `timeout_s` seconds. Returns whether the event is set."""
        with self._condition:
            return self._condition.wait_for(self.is_set, timeout_s)


def others_go_on() -> None:
    """Does nothing: other threads run anyway."""


def when_gone(owner: object, function: Callable[[], None]) -> None:
    """Calls a function once the owner is garbage.

    It must not wait, and must not refer to the owner.
    """
    weakref.finalize(owner, function).atexit = False


class EndsWithProcess(Protocol):
    """An object with work to do before the process ends."""

    def end_with_process(self) -> None:
        """Called once, when no other user code runs any more."""


_ending: weakref.WeakSet[EndsWithProcess] = weakref.WeakSet()


def when_process_ends(owner: EndsWithProcess) -> None:
    """Calls `end_with_process` of the owner when the process ends, if the owner still exists."""
    _ending.add(owner)


@atexit.register
def _end_with_process() -> None:
    for owner in list(_ending):
        owner.end_with_process()


class Task:
    """Work in the background.

    It is not interrupted: work that may have to end early checks an `Event`.
    """

    def __init__(self, thread: threading.Thread) -> None:
        """For `spawn`."""
        self._thread = thread

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return self._thread is threading.current_thread()

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits for its end. Returns whether it has ended. Raises none of the work's errors."""
        if self.is_current:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


def spawn(work: Callable[..., None], *arguments: Any, name: str) -> Task:
    """Starts work in the background, under a name for debuggers. It keeps no process alive."""
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    thread.start()
    return Task(thread)
