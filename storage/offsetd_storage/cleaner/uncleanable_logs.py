"""Logs that could not be cleaned: the errors, their times, and the times of the next tries.

In Kafka such a log is not cleaned until the broker restarts, and nothing reports why. Here it is
tried again after a delay that doubles with each failure in a row, or at once if an operator asks.
The state is in memory only: a restart tries again anyway.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import attrs

from offsetd_storage.tasks.supervision import backoff_ms

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from offsetd_storage.topic_partition import TopicPartition


@attrs.frozen(kw_only=True)
class UncleanablePartition:
    """A log whose last round failed."""

    topic_partition: TopicPartition
    reason: str
    is_damaged: bool  # Its contents cannot be read, so it keeps everything.
    failures_in_row: int
    since_ms: int  # The first failure in a row, by the wall clock.
    last_ms: int  # The last failure.
    retry_in_ms: int  # From now; 0 means now.


@attrs.frozen(kw_only=True)
class _Rest:
    """A log that is not tried until the monotonic clock says `due_ms`."""

    due_ms: int
    failure: UncleanablePartition | None  # None if it was not the log's fault.


class CleaningFailures:
    """The logs whose last cleaning failed. They are not cleaned again for some time.

    Any thread may use it. Its times are monotonic.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rests: dict[TopicPartition, _Rest] = {}

    def fail(
        self,
        topic_partition: TopicPartition,
        reason: str,
        *,
        is_damaged: bool,
        now_ms: int,
        monotonic_ms: int,
    ) -> UncleanablePartition:
        """Notes a failed round. `now_ms` is by the wall clock."""
        with self._lock:
            before = self._failure(topic_partition)
            in_row = 1 if before is None else before.failures_in_row + 1
            wait_ms = backoff_ms(in_row)
            failure = UncleanablePartition(
                topic_partition=topic_partition,
                reason=reason,
                is_damaged=is_damaged,
                failures_in_row=in_row,
                since_ms=now_ms if before is None else before.since_ms,
                last_ms=now_ms,
                retry_in_ms=wait_ms,
            )
            self._rests[topic_partition] = _Rest(due_ms=monotonic_ms + wait_ms, failure=failure)
            return failure

    def postpone(self, topic_partition: TopicPartition, *, due_ms: int) -> None:
        """Notes that a round lacked room, which is not the log's fault."""
        with self._lock:
            self._rests[topic_partition] = _Rest(
                due_ms=due_ms, failure=self._failure(topic_partition)
            )

    def succeed(self, topic_partition: TopicPartition) -> None:
        """Notes that a round succeeded: earlier failures no longer count."""
        with self._lock:
            self._rests.pop(topic_partition, None)

    def keep(self, topic_partitions: AbstractSet[TopicPartition]) -> None:
        """Forgets the failures of all other logs, which are no longer cleaned."""
        with self._lock:
            for each in self._rests.keys() - topic_partitions:
                del self._rests[each]

    def retry(self, topic_partition: TopicPartition) -> bool:
        """Lets a log be tried at once; returns whether it was resting. Its failures still count."""
        with self._lock:
            rest = self._rests.get(topic_partition)
            if rest is None:
                return False
            self._rests[topic_partition] = attrs.evolve(rest, due_ms=0)
            return True

    def rests(self, topic_partition: TopicPartition, *, monotonic_ms: int) -> bool:
        """Whether a log may not be tried yet."""
        rest = self._rests.get(topic_partition)
        return rest is not None and monotonic_ms < rest.due_ms

    def failure(
        self, topic_partition: TopicPartition, *, monotonic_ms: int
    ) -> UncleanablePartition | None:
        """The last failure of a log; None if its last round succeeded."""
        with self._lock:
            rest = self._rests.get(topic_partition)
        return None if rest is None else _as_of(rest, monotonic_ms)

    def all(self, *, monotonic_ms: int) -> tuple[UncleanablePartition, ...]:
        """Every log whose last round failed, in order."""
        with self._lock:
            found = [_as_of(rest, monotonic_ms) for rest in self._rests.values()]
        failures = [each for each in found if each is not None]
        return tuple(sorted(failures, key=lambda each: each.topic_partition))

    def next_due_ms(self, *, monotonic_ms: int) -> int | None:
        """The time at which the next resting log may be tried; None if none rests."""
        with self._lock:
            due = [each.due_ms for each in self._rests.values() if each.due_ms > monotonic_ms]
        return min(due, default=None)

    def _failure(self, topic_partition: TopicPartition) -> UncleanablePartition | None:
        rest = self._rests.get(topic_partition)
        return None if rest is None else rest.failure


def _as_of(rest: _Rest, monotonic_ms: int) -> UncleanablePartition | None:
    if rest.failure is None:
        return None
    return attrs.evolve(rest.failure, retry_in_ms=max(0, rest.due_ms - monotonic_ms))
