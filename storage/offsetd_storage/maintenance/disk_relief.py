"""Repeated work that frees space while the disk is low.

A round that frees nothing still reads whole logs. So the pauses between rounds double, up to a
bound. Later rounds may free more, because more records have become old enough by then
(`min.compaction.lag.ms`, `delete.retention.ms`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.disk_space import DiskSpace

REST_MS_MIN: Final = 1000
# Kafka's log.cleaner.backoff.ms: the rest of a cleaner thread without work.
REST_MS_MAX: Final = 15_000


class DiskRelief:
    """The task `offsetd-disk-space`: checks the disk, and starts rounds while it is low.

    `begin_round` removes files that only wait for removal, rolls active segments and has all logs
    cleaned. It returns at once, with futures that end when the work succeeds or fails. `run` is for
    one thread at a time.
    """

    def __init__(
        self,
        disk: DiskSpace,
        begin_round: Callable[[], Iterable[Future[Any]]],
        *,
        clock: Clock,
    ) -> None:
        self.rounds = 0  # Started so far.
        self._disk = disk
        self._begin_round = begin_round
        self._clock = clock
        self._pending: tuple[Future[Any], ...] = ()
        self._rest_ms = 0  # The pause before the next round; 0 while the disk is not low.
        self._due_ms: int | None = None  # None if a round is running, or none was started.

    def run(self) -> None:
        """Checks the disk. Raises the errors of `DiskSpace.check` and `begin_round`."""
        if self._pending:
            if not all(each.done() for each in self._pending):
                self._disk.check()
                return
            self._pending = ()
            self._due_ms = self._clock.monotonic_ms() + self._rest_ms
        self._disk.check()
        if not self._disk.is_low:
            self._rest_ms, self._due_ms = 0, None
            return
        if self._due_ms is not None and self._clock.monotonic_ms() < self._due_ms:
            return
        self._rest_ms = min(max(2 * self._rest_ms, REST_MS_MIN), REST_MS_MAX)
        # Set the time before the round starts: if the start fails, it is tried again at this time.
        self._due_ms = self._clock.monotonic_ms() + self._rest_ms
        self.rounds += 1
        self._pending = tuple(self._begin_round())
