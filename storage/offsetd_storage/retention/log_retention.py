"""Retention of a store's logs: segments that are due are deleted, below the recovery point.

A log that is due up to its end is rolled first and checked again, so that a record appended during
the check is not deleted. Then the recovery point is moved past the segments to delete, and the
log's start is raised durably. Only after that are the segments removed. `retention_rules` picks
them.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.errors import OffsetOutOfRange, PolicyViolation, StorageFull
from offsetd_storage.retention.retention_rules import plan_of_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from offsetd_storage.broker_logs import OpenLogs
    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.delayed_deletion import FileDeleter
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.retention.log_claims import LogClaims
    from offsetd_storage.retention.retention_rules import FutureTimestamp, RetentionPlan
    from offsetd_storage.topic_partition import TopicPartition

    Discard = Callable[[Sequence[Path]], None]

LOG_END: Final = -1  # Kafka's offset for "everything" in DeleteRecords.


def planned(
    store: OpenLogs,
    topic_partition: TopicPartition,
    *,
    files: Files,
    clock: Clock,
    goes_by_age: bool = True,
) -> RetentionPlan:
    """The plan of the segments that are due in a log.

    Changes nothing. Raises PartitionQuarantined, OSError.
    """
    log, now_ms = store.log(topic_partition), clock.age_now_ms()
    return plan_of_log(files, log, now_ms=now_ms, goes_by_age=goes_by_age)


def retain(
    store: OpenLogs,
    topic_partition: TopicPartition,
    *,
    files: Files,
    clock: Clock,
    discard: Discard | None = None,
    goes_by_age: bool = True,
) -> RetentionPlan:
    """Deletes the due segments, and returns the plan.

    No other thread may clean the log during the call. `discard` removes the files, by default at
    once. Without `goes_by_age`, nothing is deleted because of `retention.ms`. Raises
    PartitionQuarantined, OSError (nothing was changed), StorageFailed.
    """
    plan_now = partial(
        planned, store, topic_partition, files=files, clock=clock, goes_by_age=goes_by_age
    )
    plan = plan_now()
    if plan.rolls_active:
        with suppress(StorageFull):  # Without room for a new segment, the active one stays.
            store.roll(topic_partition)
        plan = _without_active(plan_now())
    if plan.deletions:
        _raise_start(store, topic_partition, plan.log_start_offset)
        store.delete_oldest(topic_partition, len(plan.deletions), discard=discard)
    return plan


def _without_active(plan: RetentionPlan) -> RetentionPlan:
    """The plan without the active segment, which the next check handles."""
    if not plan.rolls_active:
        return plan
    *deletions, last = plan.deletions
    return attrs.evolve(
        plan,
        deletions=tuple(deletions),
        log_start_offset=last.segment.base_offset,
        rolls_active=False,
    )


def delete_records(
    store: OpenLogs,
    topic_partition: TopicPartition,
    offset: int,
    *,
    discard: Discard | None = None,
) -> int:
    """Kafka's DeleteRecords: hides the records below `offset`, and removes whole segments there.

    No other thread may clean the log during the call. `LOG_END` means all records. Returns the new
    start of the log, which is durable. Raises OffsetOutOfRange if `offset` is not in the log,
    PolicyViolation if its policy does not allow deletion, PartitionQuarantined, StorageFailed.
    """
    log = store.log(topic_partition)
    if not log.config.is_deleted:
        raise PolicyViolation(f"{topic_partition}: cleanup.policy has no delete")
    end = log.offset_next
    if offset == LOG_END:
        offset = end
    if not 0 <= offset <= end:
        raise OffsetOutOfRange(f"{topic_partition} ends at {end}, and cannot start at {offset}")
    if offset == end:
        # If the disk has no room for a new segment, the active segment stays. The start of the log
        # is raised all the same, so the records below it cannot be read any more.
        with suppress(StorageFull):
            store.roll(topic_partition)
    _raise_start(store, topic_partition, offset)
    delete_hidden(store, topic_partition, discard=discard)
    return log.log_start_offset


def delete_hidden(
    store: OpenLogs, topic_partition: TopicPartition, *, discard: Discard | None = None
) -> None:
    """Removes the segments that lie below the durable start of the log."""
    log = store.log(topic_partition)
    if not has_hidden(log):
        return
    _raise_start(store, topic_partition, log.log_start_offset)
    point = store.recovery_point(topic_partition)
    bound = min(point.log_start_offset, point.segment_base_offset)
    count = sum(each.base_offset <= bound for each in log.segments[1:])
    if count:
        store.delete_oldest(topic_partition, count, discard=discard)


def has_hidden(log: PartitionLog) -> bool:
    """Returns whether a segment lies below the log's start."""
    segments = log.segments
    return len(segments) > 1 and segments[1].base_offset <= log.log_start_offset


def _raise_start(store: OpenLogs, topic_partition: TopicPartition, offset: int) -> None:
    """Raises the log's start, durably. First moves the recovery point and its segment to it."""
    point = store.recovery_point(topic_partition)
    if point.offset < offset or point.segment_base_offset < offset:
        store.settle_points()
    store.raise_log_start_offset(topic_partition, offset)


class LogRetention:
    """Retention of a store that has a cleaner: only one of the two works on a log at a time.

    It remembers the timestamp that blocks a log. Any thread may use it. `on_blocked` is called when
    the cause that blocks a log changes, with None when nothing blocks it any more.
    """

    def __init__(
        self,
        store: LogStore,
        states: LogClaims,
        *,
        files: Files,
        clock: Clock,
        deleter: FileDeleter,
        on_blocked: Callable[[TopicPartition, FutureTimestamp | None], object] | None = None,
    ) -> None:
        self._store = store
        self._states = states
        self._files = files
        self._clock = clock
        self._deleter = deleter
        self._on_blocked = on_blocked
        self._blocked: dict[TopicPartition, FutureTimestamp] = {}
        self._age_held_until_ms = clock.monotonic_ms()

    @property
    def blocked(self) -> Mapping[TopicPartition, FutureTimestamp]:
        """For each log, the timestamp that blocked retention by time at the last check."""
        return dict(self._blocked)

    def hold_age(self, for_ms: int) -> None:
        """Stops deletion by age for at least `for_ms`, because the time is in doubt."""
        until_ms = self._clock.monotonic_ms() + for_ms
        self._age_held_until_ms = max(self._age_held_until_ms, until_ms)

    def concerns(self, log: PartitionLog) -> bool:
        """Returns whether a check of a log may delete something, or end a block."""
        return log.config.is_deleted or has_hidden(log) or log.topic_partition in self._blocked

    def discard_of(self, log: PartitionLog) -> Discard:
        """A function that removes the files of a log's segments after the delay in its settings."""
        return partial(self._deleter.discard, delay_ms=log.config.file_delete_delay_ms)

    def check(self, topic_partition: TopicPartition) -> RetentionPlan | None:
        """Deletes the due segments. Returns None if the log is being cleaned, or is paused.

        Raises the errors of `retain`.
        """
        if not self._states.begin(topic_partition):
            return None
        try:
            plan = retain(
                self._store,
                topic_partition,
                files=self._files,
                clock=self._clock,
                discard=self.discard_of(self._store.log(topic_partition)),
                goes_by_age=self._clock.monotonic_ms() >= self._age_held_until_ms,
            )
        finally:
            self._states.end(topic_partition)
        self._note(topic_partition, plan.blocked)
        return plan

    def delete_records(self, topic_partition: TopicPartition, offset: int) -> int:
        """Ends a cleaning round, waits for it, and then calls the function `delete_records`."""
        with self._states.paused(topic_partition):
            return delete_records(
                self._store,
                topic_partition,
                offset,
                discard=self.discard_of(self._store.log(topic_partition)),
            )

    def _note(self, topic_partition: TopicPartition, blocked: FutureTimestamp | None) -> None:
        before = self._blocked.get(topic_partition)
        if blocked is None:
            self._blocked.pop(topic_partition, None)
        else:
            self._blocked[topic_partition] = blocked
        if self._on_blocked is not None and _cause(before) != _cause(blocked):
            self._on_blocked(topic_partition, blocked)


def _cause(blocked: FutureTimestamp | None) -> tuple[int, int] | None:
    return None if blocked is None else (blocked.base_offset, blocked.timestamp_ms)
