"""The loop of a cleaner thread: it finds a piece of work and does it, or rests.

The order of work: a log that an operator asked for; a log that is overdue; the dirtiest log above
its ratio; a log with a delete horizon that is due. If there is no work, the thread rests for
`log.cleaner.backoff.ms`, or until the clock alone makes a log due. At the same interval it does
retention of compacted logs, which `kafka-log-retention` leaves to the cleaner.

If the round of a log fails, only that log pauses (`failures`); the others continue. Its retention
also continues, unless the log is damaged. If the store fails, the thread calls `on_failed`.

Batches that the store appends are assumed to have no producers; a broker's batches may have one.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.cleaner.candidates import Candidates
from offsetd_storage.cleaner.cleaner_status import FinishedRound, LastLook
from offsetd_storage.cleaner.cleaning_plan import select
from offsetd_storage.cleaner.cleaning_round import CleanerTools, clean_and_checkpoint
from offsetd_storage.cleaner.compaction_requests import CompactionRequests
from offsetd_storage.cleaner.log_summaries import goes_over_any
from offsetd_storage.cleaner.uncleanable_logs import CleaningFailures, UncleanablePartition
from offsetd_storage.errors import (
    CleaningAborted,
    CorruptBatch,
    PolicyViolation,
    StorageError,
    StorageFailed,
    StorageFull,
    may_pass,
    words_of,
)
from offsetd_storage.recovery.quarantine import DamageFound
from offsetd_storage.retention.log_claims import CleaningState, LogClaims

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from offsetd_storage.cleaner.cleaner_thread import CleanerThread
    from offsetd_storage.cleaner.cleaning_plan import LogToClean
    from offsetd_storage.cleaner.compaction_requests import CompactionRequest
    from offsetd_storage.cleaner.throttle import Throttle
    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.files import Files
    from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.retention.log_retention import LogRetention
    from offsetd_storage.topic_partition import TopicPartition

_REST_MS_MIN: Final = 10  # The least rest of a thread without work, also with a backoff of 0.
# If another thread has the log of a request, the request is tried again after this time.
_TAKEN_LOG_REST_MS: Final = 100
_FULL_DISK_REST_MS: Final = 2000
_FAILED_STORE_REST_MS: Final = 60_000


@attrs.frozen(kw_only=True)
class _Work:
    """A log that a thread has taken for cleaning."""

    log: PartitionLog
    request: CompactionRequest | None = None  # None if the log is due, or its headers must be read.

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.topic_partition


class CleanerLoop:
    """The steps of the cleaner's threads. Any thread may read the results."""

    def __init__(
        self,
        store: LogStore,
        *,
        files: Files,
        clock: Clock,
        backoff_ms: int,
        throttle: Throttle,
        states: LogClaims,
        checkpoint: CleanerCheckpoint,
        retention: LogRetention,
        on_round: Callable[[FinishedRound], object],
        on_failed: Callable[[StorageFailed], object],
        on_uncleanable: Callable[[UncleanablePartition], object],
    ) -> None:
        self.backoff_ms = backoff_ms
        self.requests = CompactionRequests()
        self.failures = CleaningFailures()
        self.candidates = Candidates(store, files, checkpoint)
        self.last_look = LastLook()
        self.last_rounds: dict[TopicPartition, FinishedRound] = {}
        self._store = store
        self._files = files
        self._clock = clock
        self._throttle = throttle
        self._states = states
        self._checkpoint = checkpoint
        self._retention = retention
        self._on_round = on_round
        self._on_failed = on_failed
        self._on_uncleanable = on_uncleanable
        self._choosing = threading.Lock()  # Held while one thread searches for work.
        self._retained_ms: int | None = None

    def step(self, thread: CleanerThread) -> int:
        """Finds and does one piece of work. Returns how long to rest after it, in milliseconds."""
        if self._store.failed is not None:
            self._on_failed(self._store.failed)
            return _FAILED_STORE_REST_MS
        thread.note_progress()
        try:
            thread.offset_map()
            with self._choosing:
                work = self._take(thread)
            if work is not None:
                self._do(thread, work)
            self._retain_compacted(thread)
            return self._rest_ms() if work is None else 0
        finally:
            if self._store.failed is not None:
                self._on_failed(self._store.failed)

    def _take(self, thread: CleanerThread) -> _Work | None:
        """Takes a log: one that was requested, or is due, or was not surveyed yet."""
        if thread.is_told_to_stop:
            return None
        self._roll_requested()
        while (request := self.requests.take(self._states.begin)) is not None:
            work = self._requested(request)
            if work is not None:
                return work
        monotonic_ms = self._clock.monotonic_ms()
        compacted = self._compacted_logs()
        self.failures.keep({log.topic_partition for log in compacted})
        idle = [
            log
            for log in compacted
            if self._states.state(log.topic_partition) is CleaningState.IDLE
            and not self.failures.rests(log.topic_partition, monotonic_ms=monotonic_ms)
        ]
        found = self._look_at([log for log in idle if not self.candidates.needs_survey(log)])
        for each in found:
            if not each.is_due:  # It is not due any more: its failures do not count.
                self.failures.succeed(each.topic_partition)
        while (chosen := select(found)) is not None:
            if self._states.begin(chosen.topic_partition):
                return _Work(log=self._store.log(chosen.topic_partition))
            found.remove(chosen)  # Another thread took it first.
        for log in idle:
            if self.candidates.needs_survey(log) and self._states.begin(log.topic_partition):
                return _Work(log=log)
        return None

    def _requested(self, request: CompactionRequest) -> _Work | None:
        """The work for a request; None if it is refused."""
        try:
            log = self._store.log(request.topic_partition)
            if log.config.is_compacted:
                return _Work(log=log, request=request)
            raise PolicyViolation(f"{request.topic_partition}: cleanup.policy has no compact")
        except StorageError as error:
            self._states.end(request.topic_partition)
            request.fail(error)
            return None

    def _roll_requested(self) -> None:
        """Rolls the active segments of all logs for which a request wants that."""
        rolled = []
        for topic_partition in self.requests.take_rolls():
            if topic_partition in self._store.logs:
                with suppress(StorageFull):  # Closed segments can still be cleaned.
                    rolled.append(self._store.roll(topic_partition))
        if rolled:
            self._store.settle_points()

    def _compacted_logs(self) -> list[PartitionLog]:
        return [log for log in list(self._store.logs.values()) if log.config.is_compacted]

    def _look_at(self, logs: Iterable[PartitionLog]) -> list[LogToClean]:
        now_ms = self._clock.now_ms()
        found = [self.candidates.find(log, now_ms=now_ms) for log in logs]
        self.last_look = LastLook(
            at_ms=now_ms,
            max_dirty_ratio=max((each.cleanable_ratio for each in found), default=0.0),
            max_overdue_ms=max((each.overdue_ms for each in found), default=0),
        )
        return found

    def _do(self, thread: CleanerThread, work: _Work) -> None:
        """Does a round, or reads headers, and notes the outcome."""
        topic_partition, request = work.topic_partition, work.request
        thread.cleans = topic_partition
        try:
            try:
                finished = self._clean(thread, work)
            finally:
                thread.cleans = None
                self._states.end(topic_partition)
        except BaseException as error:
            self._note_end(work, error)
            if isinstance(error, StorageFailed | MemoryError) or not isinstance(error, Exception):
                raise  # This is not the log's fault.
            return
        self.failures.succeed(topic_partition)
        if request is not None:
            request.answer(None if finished is None else finished.report)
        if finished is not None:
            self._on_round(finished)

    def _note_end(self, work: _Work, error: BaseException) -> None:
        """Notes the early end of a round: answers its request, and decides when to try again."""
        again = isinstance(error, CleaningAborted | MemoryError) or not isinstance(error, Exception)
        if work.request is not None:
            if again:
                self.requests.put_back(work.request)
            elif isinstance(error, Exception):
                work.request.fail(error)
        if again or isinstance(error, StorageFailed):
            return
        if isinstance(error, StorageFull) or (isinstance(error, OSError) and may_pass(error)):
            due_ms = self._clock.monotonic_ms() + _FULL_DISK_REST_MS
            self.failures.postpone(work.topic_partition, due_ms=due_ms)
        else:
            self._note_failure(work.topic_partition, error)

    def _note_failure(self, topic_partition: TopicPartition, error: BaseException) -> None:
        failure = self.failures.fail(
            topic_partition,
            f"{type(error).__name__}: {words_of(error)}",
            is_damaged=isinstance(error, CorruptBatch | DamageFound),
            now_ms=self._clock.now_ms(),
            monotonic_ms=self._clock.monotonic_ms(),
        )
        self._on_uncleanable(failure)

    def _clean(self, thread: CleanerThread, work: _Work) -> FinishedRound | None:
        """The finished round; None if there is nothing to clean. Raises the errors of a round."""
        log, topic_partition = work.log, work.topic_partition
        tools = self._tools(thread, log)
        if self.candidates.needs_survey(log):
            self.candidates.survey(log, tools.pace)
        found = self.candidates.find(log, now_ms=self._clock.now_ms())
        if work.request is None and not found.is_due:
            return None
        if not goes_over_any(found, log):
            return None
        with self._store.latching():
            report = clean_and_checkpoint(
                log,
                tools,
                found,
                self._checkpoint,
                history=self.candidates.history(topic_partition),
            )
        self.candidates.note(report)
        finished = FinishedRound(
            thread=thread.number,
            report=report,
            ended_ms=self._clock.now_ms(),
            overdue_ms=found.overdue_ms,
            dirty_ratio=found.cleanable_ratio,
            map_slots=tools.offset_map.slots,
            requested=work.request is not None,
        )
        self.last_rounds[topic_partition] = thread.last = finished
        return finished

    def _tools(self, thread: CleanerThread, log: PartitionLog) -> CleanerTools:
        def should_stop() -> bool:
            thread.note_progress()
            return (
                thread.is_told_to_stop
                or self._states.should_abort(log.topic_partition)
                or not log.config.is_compacted
                or self._store.failed is not None
            )

        return CleanerTools(
            files=self._files,
            offset_map=thread.offset_map(),
            clock=self._clock,
            throttle=partial(self._throttle, should_stop=should_stop),
            should_stop=should_stop,
            discard=self._retention.discard_of(log),
            chunk_bytes=thread.chunk_bytes,
        )

    def _retain_compacted(self, thread: CleanerThread) -> None:
        """Retention of the logs that `kafka-log-retention` leaves to the cleaner.

        Retention still deletes from a log whose round failed. A damaged log keeps everything.
        """
        monotonic_ms = self._clock.monotonic_ms()
        with self._choosing:
            last_ms = self._retained_ms
            if last_ms is not None and monotonic_ms - last_ms < self.backoff_ms:
                return
            self._retained_ms = monotonic_ms
        for log in self._compacted_logs():
            if thread.is_told_to_stop:
                return
            failure = self.failures.failure(log.topic_partition, monotonic_ms=monotonic_ms)
            is_damaged = failure is not None and failure.is_damaged
            if not is_damaged and self._retention.concerns(log):
                try:
                    self._retention.check(log.topic_partition)
                except StorageFailed:
                    raise
                except (StorageError, OSError) as error:
                    if not (isinstance(error, OSError) and may_pass(error)):
                        self._note_failure(log.topic_partition, error)

    def _rest_ms(self) -> int:
        """The time until something may be due without an append; at most the backoff."""
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        rests = [self.backoff_ms]
        if self.requests.are_waiting:
            rests.append(_TAKEN_LOG_REST_MS)
        retry_ms = self.failures.next_due_ms(monotonic_ms=monotonic_ms)
        if retry_ms is not None:
            rests.append(retry_ms - monotonic_ms)
        for log in self._compacted_logs():
            found = self.candidates.find(log, now_ms=now_ms)
            due_ms = self.candidates.next_due_ms(log, found)
            if due_ms is not None:
                rests.append(due_ms - now_ms)
        return max(min(rests), _REST_MS_MIN)
