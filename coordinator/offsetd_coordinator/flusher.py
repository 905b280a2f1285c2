"""Group commit: threads that make what was appended durable, one fsync for all who wait.

Tickets count appends: ticket 7 is durable once a flush that began after the seventh append has
returned. The loop's thread raises `appended`; the flusher's thread flushes while something is
pending and reports how far it came, once a flush. A second thread moves the recovery points, so
that the journal can be reused.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Protocol

from offsetd_storage.durations import Durations
from offsetd_storage.errors import StorageFailed

if TYPE_CHECKING:
    from collections.abc import Callable

# Beyond this, recovery points move without waiting for their time: a full journal holds up flushes.
_JOURNAL_USED_RATIO_MAX = 0.5
# From the start of one flush to that of the next. A call with one commit costs about a third of a
# millisecond, so the loop has work in the meantime (measured: benchmarks/commit_path).
_DISTANCE_SECONDS_PER_COMMIT = 0.0006
_DISTANCE_SECONDS_MAX = 0.002


class FlushedStore(Protocol):
    """What the flusher needs of `offsetd_storage.log_store.LogStore`."""

    def flush(self) -> None:
        """Returns when all that was appended before the call is durable, or raises."""

    def advance_recovery_points(self) -> None:
        """Makes the segments durable too, or raises."""

    @property
    def journal_used_ratio(self) -> float:
        """How much of the journal is used, 0 to 1."""


class Flusher:
    """Two threads around one store. `on_durable` and `on_failed` are called from them.

    After the first failure nothing is flushed again and `on_durable` is never called again.
    """

    def __init__(
        self,
        store: FlushedStore,
        *,
        recovery_point_interval_ms: int,
        on_durable: Callable[[int], object],
        on_failed: Callable[[BaseException], object],
    ) -> None:
        self._store = store
        self._recovery_point_interval_seconds = min(
            recovery_point_interval_ms / 1000, threading.TIMEOUT_MAX
        )
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._failed = False
        self._stopping = False
        self._kicks: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._advance = threading.Event()
        self._threads = [
            threading.Thread(target=self._guard, args=(body,), name=name, daemon=True)
            for name, body in (("flush", self._flush), ("recovery-points", self._move_points))
        ]
        self.flush_durations = Durations()
        self.appended = 0
        """The newest ticket. Raised by the one thread that appends, after the append."""

    def start(self) -> None:
        """Starts the threads."""
        for thread in self._threads:
            thread.start()

    def kick(self) -> None:
        """Something was appended. One kick a round is enough."""
        self._kicks.put(None)

    def stop(self) -> None:
        """Flushes what is pending, reports it, and ends the threads. Blocks."""
        self._stopping = True
        self._advance.set()
        self.kick()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _guard(self, body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001  Whatever it was: nothing more is durable.
            self._failed = True
            self._advance.set()
            self._on_failed(error)

    def _flush(self) -> None:
        durable = 0
        earliest_seconds = 0.0
        while not self._failed:
            if self.appended > durable:
                self._sleep_until(earliest_seconds)
                # Read before the flush: whoever got a ticket up to here appended before it began.
                ticket = self.appended
                covered = ticket - durable
                begun_seconds = time.perf_counter()
                self._store.flush()
                if self._failed:
                    return
                self.flush_durations.note(time.perf_counter() - begun_seconds)
                durable = ticket
                self._on_durable(ticket)
                if covered > 1 or self.appended > ticket:
                    distance_seconds = covered * _DISTANCE_SECONDS_PER_COMMIT
                    earliest_seconds = begun_seconds + min(distance_seconds, _DISTANCE_SECONDS_MAX)
                if self._store.journal_used_ratio > _JOURNAL_USED_RATIO_MAX:
                    self._advance.set()
            elif self._stopping:
                return
            else:
                self._kicks.get()

    @staticmethod
    def _sleep_until(seconds: float) -> None:
        remaining_seconds = seconds - time.perf_counter()
        if remaining_seconds > 0:
            time.sleep(remaining_seconds)

    def _move_points(self) -> None:
        while True:
            self._advance.wait(self._recovery_point_interval_seconds)
            self._advance.clear()
            if self._stopping or self._failed:
                return
            self._store.advance_recovery_points()


class FlushDefect(StorageFailed):
    """Not the disk failed but our own code; what follows is the same. The cause is `__cause__`."""


def as_storage_failed(error: BaseException) -> StorageFailed:
    """`error` as the one that says: nothing more becomes durable; FlushDefect if we are to blame.

    A store that has stopped for a defect refuses with StorageFailed too: the oldest cause counts.
    """
    first = error
    while isinstance(first, StorageFailed) and first.__cause__ is not None:
        first = first.__cause__
    if isinstance(first, StorageFailed | OSError):
        return error if isinstance(error, StorageFailed) else StorageFailed(_told(error))
    if isinstance(error, FlushDefect):
        return error
    defect = FlushDefect(_told(first))
    defect.__cause__ = first
    return defect


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
