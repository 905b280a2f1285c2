"""Kafka's LogCleaner: threads that compact the logs of an open store, one log at a time each.

A thread takes what an operator asked for; else a log that is overdue, then the dirtiest above its
ratio, then one with a delete horizon that is due. Where there is none, it sees to the retention of
compacted logs, and rests: for `log.cleaner.backoff.ms`, or until the clock alone makes a log due.

A log whose round fails rests by itself (`failures`), the others go on; it still deletes, unless it
is damaged. A thread that dies is replaced. A store that failed ends it all: `on_failed`.

Batches that the store appends are taken to have no producers; those of a broker's folder may have.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.cleaner.candidates import Candidates
from offsetd_storage.cleaner.checkpoint import CleanerCheckpoint
from offsetd_storage.cleaner.clean import CleanerTools, clean_and_checkpoint
from offsetd_storage.cleaner.cleaner_status import (
    CleanerStatus,
    FinishedRound,
    LastLook,
    LogCleaningStatus,
    log_cleaning_status,
)
from offsetd_storage.cleaner.cleaner_thread import CleanerThread
from offsetd_storage.cleaner.compaction_requests import CompactionRequests
from offsetd_storage.cleaner.failures import CleaningFailures, UncleanablePartition
from offsetd_storage.cleaner.plan import select
from offsetd_storage.cleaner.states import CleaningState, CleaningStates
from offsetd_storage.cleaner.throttle import Throttle
from offsetd_storage.errors import (
    CleaningAborted,
    CorruptBatch,
    PolicyViolation,
    StorageError,
    StorageFailed,
    StorageFull,
)
from offsetd_storage.log_retention import LogRetention, has_hidden
from offsetd_storage.quarantine import DamageFound

if TYPE_CHECKING:
    import random as random_module
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future
    from pathlib import Path

    from offsetd_storage.cleaner.clean import CleanReport
    from offsetd_storage.cleaner.compaction_requests import CompactionRequest
    from offsetd_storage.cleaner.plan import LogToClean
    from offsetd_storage.clock import Clock
    from offsetd_storage.delayed_deletion import FileDeleter
    from offsetd_storage.files import Files
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.partition_log import PartitionLog
    from offsetd_storage.retention import FutureTimestamp
    from offsetd_storage.server_config import CleanerConfig
    from offsetd_storage.topic_partition import TopicPartition

_REST_MS_MIN: Final = 10  # With a backoff of 0, too, a thread that finds nothing stands still.
_FULL_DISK_REST_MS: Final = 2000
_FAILED_STORE_REST_MS: Final = 60_000


@attrs.frozen(kw_only=True)
class _Work:
    """A log that a thread has taken."""

    log: PartitionLog
    request: CompactionRequest | None = None  # None: it is due, or its headers are to be read.

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.topic_partition


class LogCleaner:
    """For any thread. `on_round`, `on_failed` and `on_uncleanable` are called on the cleaner's.

    `on_failed` gets the store's failure, perhaps more than once: the process has to exit.
    """

    def __init__(
        self,
        store: LogStore,
        config: CleanerConfig,
        *,
        files: Files,
        folder: Path,
        clock: Clock,
        random: random_module.Random,
        sleep: Callable[[float], None],
        deleter: FileDeleter,
        on_round: Callable[[FinishedRound], object],
        on_failed: Callable[[StorageFailed], object],
        on_uncleanable: Callable[[UncleanablePartition], object] = lambda _: None,
        on_blocked: Callable[[TopicPartition, FutureTimestamp | None], object] | None = None,
    ) -> None:
        """Reads the checkpoint; `folder` is the store's. Raises OSError."""
        self.config = config
        self.states = CleaningStates()
        self.retention = LogRetention(
            store,
            self.states,
            files=files,
            clock=clock,
            deleter=deleter,
            on_blocked=on_blocked,
        )
        self.checkpoint = CleanerCheckpoint(files, folder)
        self._store = store
        self._files = files
        self._folder = folder
        self._clock = clock
        self._random = random
        self._sleep = sleep
        self._on_round = on_round
        self._on_failed = on_failed
        self._on_uncleanable = on_uncleanable
        self._failures = CleaningFailures()
        self._candidates = Candidates(store, files, self.checkpoint)
        self._requests = CompactionRequests()
        self._last: dict[TopicPartition, FinishedRound] = {}
        self._life_lock = threading.Lock()  # Of starting and stopping.
        self._choosing = threading.Lock()  # One thread at a time looks for what to do.
        self._threads: tuple[CleanerThread, ...] = ()
        self._is_started = False
        self._look = LastLook()
        self._retained_ms: int | None = None

    # Life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the threads, unless `log.cleaner.enable` is false.

        Logs that are not there any more leave the checkpoint. Raises StorageFailed.
        """
        with self._life_lock:
            if not self._is_started:
                self._forget_missing_logs()
                self._is_started = True
                self._start_threads()

    def stop(self) -> None:
        """Ends the threads, rounds at their next chunk; what was asked for and not done fails."""
        with self._life_lock:
            self._is_started = False
            self._stop_threads()
        self._requests.fail_all(CleaningAborted("the cleaner has stopped"))

    def configure(self, config: CleanerConfig) -> None:
        """Exchanges the threads for those of other settings; what was asked for stays. Blocks."""
        with self._life_lock:
            if config == self.config:
                return
            self._stop_threads()
            self.config = config
            if self._is_started:
                self._start_threads()
        if not config.is_enabled:
            self._requests.fail_all(_disabled())

    def wake(self) -> None:
        """Looks for work again; the clock may have been moved."""
        for thread in self._threads:
            thread.wake()

    def _start_threads(self) -> None:
        config = self.config
        if not config.is_enabled:
            return
        self._throttle = self._new_throttle()
        self._threads = tuple(
            CleanerThread(
                number,
                self._step,
                config,
                hash_key=self._random.randbytes(16),
                clock=self._clock,
            )
            for number in range(config.threads)
        )
        for thread in self._threads:
            thread.start()

    def _stop_threads(self) -> None:
        for thread in self._threads:
            thread.tell_to_stop()
        for thread in self._threads:
            thread.stop()
        self._threads = ()

    def _new_throttle(self) -> Throttle:
        return Throttle(self.config.io_bytes_per_second_max, clock=self._clock, sleep=self._sleep)

    def _forget_missing_logs(self) -> None:
        for topic_partition in self.checkpoint.topic_partitions:
            is_known = topic_partition in self._store.logs
            if not is_known and not self._files.exists(self._folder / topic_partition.folder_name):
                with suppress(StorageFull), self._store.latching():
                    self.checkpoint.advance(topic_partition, None)

    # For operators ---------------------------------------------------------------------------

    def compact(
        self, topic_partitions: Iterable[TopicPartition], *, rolls_active: bool = False
    ) -> dict[TopicPartition, Future[CleanReport | None]]:
        """Has each of these logs cleaned once, whatever its ratio is, and soon.

        `rolls_active`: with what their active segments hold. Returns at once. None comes where no
        segment is closed. A future raises what the round did; PartitionQuarantined; PolicyViolation
        for a log that is not compacted; CleaningAborted where the cleaner stops, or is off.
        """
        answers = {
            each: self._requests.add(each, rolls_active=rolls_active) for each in topic_partitions
        }
        if not self.config.is_enabled:
            self._requests.fail_all(_disabled())
        elif not self._is_started:
            self._requests.fail_all(CleaningAborted("the cleaner does not run"))
        self.wake()
        return answers

    def retry(self, topic_partition: TopicPartition) -> bool:
        """Lets a log that rests after a failure be tried at once; whether it was resting."""
        was_resting = self._failures.retry(topic_partition)
        self.wake()
        return was_resting

    def abort(self, topic_partition: TopicPartition) -> None:
        """Ends a round over a log, if there is one, and waits for that."""
        with self.states.paused(topic_partition):
            pass

    @property
    def status(self) -> CleanerStatus:
        """The cleaner as it is now."""
        return CleanerStatus(
            is_enabled=self.config.is_enabled,
            threads=tuple(each.status for each in self._threads),
            last_look=self._look,
            uncleanable=self._failures.all(monotonic_ms=self._clock.monotonic_ms()),
        )

    def log_status(self, topic_partition: TopicPartition) -> LogCleaningStatus:
        """Where cleaning stands with a log. Raises PartitionQuarantined."""
        log = self._store.log(topic_partition)
        monotonic_ms = self._clock.monotonic_ms()
        return log_cleaning_status(
            log,
            self._candidates,
            now_ms=self._clock.now_ms(),
            state=self.states.state(topic_partition),
            uncleanable=self._failures.failure(topic_partition, monotonic_ms=monotonic_ms),
            last=self._last.get(topic_partition),
        )

    # A thread's steps ------------------------------------------------------------------------

    def _step(self, thread: CleanerThread) -> int:
        """Finds and does one piece of work; returns how long to rest after it."""
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
                return 0
            self._retain_compacted(thread)
            return self._rest_ms()
        finally:
            if self._store.failed is not None:
                self._on_failed(self._store.failed)

    def _take(self, thread: CleanerThread) -> _Work | None:
        """Takes a log: one that was asked for, one that is due, one that is not known yet."""
        if thread.is_told_to_stop:
            return None
        self._roll_requested()
        request = self._requests.take(self.states.begin)
        if request is not None:
            return self._requested(request)
        monotonic_ms = self._clock.monotonic_ms()
        idle = [
            log
            for log in self._compacted_logs()
            if self.states.state(log.topic_partition) is CleaningState.IDLE
            and not self._failures.rests(log.topic_partition, monotonic_ms=monotonic_ms)
        ]
        found = self._look_at([log for log in idle if not self._candidates.needs_survey(log)])
        for each in found:
            if not each.is_due:  # What made it fail has gone some other way.
                self._failures.succeed(each.topic_partition)
        chosen = select(found)
        if chosen is not None and self.states.begin(chosen.topic_partition):
            return _Work(log=self._store.log(chosen.topic_partition))
        for log in idle:
            if self._candidates.needs_survey(log) and self.states.begin(log.topic_partition):
                return _Work(log=log)
        return None

    def _requested(self, request: CompactionRequest) -> _Work | None:
        """Refuses what cannot be: then there is something else to do, at once."""
        log: PartitionLog | None = None
        try:
            log = self._store.log(request.topic_partition)
            if log.config.is_compacted:
                return _Work(log=log, request=request)
            raise PolicyViolation(f"{request.topic_partition}: cleanup.policy has no compact")
        except StorageError as error:
            self.states.end(request.topic_partition)
            request.fail(error)
            self.wake()
            return None

    def _roll_requested(self) -> None:
        """Ends the active segments of all logs that wait to be cleaned with them."""
        rolled = []
        for topic_partition in self._requests.take_rolls():
            if topic_partition in self._store.logs:
                with suppress(StorageFull):  # What is closed already can still be cleaned.
                    rolled.append(self._store.roll(topic_partition))
        if rolled:
            self._store.settle_points()

    def _compacted_logs(self) -> list[PartitionLog]:
        return [log for log in list(self._store.logs.values()) if log.config.is_compacted]

    def _look_at(self, logs: Iterable[PartitionLog]) -> list[LogToClean]:
        now_ms = self._clock.now_ms()
        found = [self._candidates.find(log, now_ms=now_ms) for log in logs]
        self._look = LastLook(
            at_ms=now_ms,
            max_dirty_ratio=max((each.cleanable_ratio for each in found), default=0.0),
            max_overdue_ms=max((each.overdue_ms for each in found), default=0),
        )
        return found

    def _do(self, thread: CleanerThread, work: _Work) -> None:
        """One round, or the reading of headers, and what becomes of it."""
        topic_partition, request = work.topic_partition, work.request
        thread.cleans = topic_partition
        try:
            try:
                finished = self._clean(thread, work)
            finally:
                thread.cleans = None
                self.states.end(topic_partition)
        except BaseException as error:
            self._note_end(work, error)
            if isinstance(error, StorageFailed | MemoryError) or not isinstance(error, Exception):
                raise  # Not the log's fault.
            return
        self._failures.succeed(topic_partition)
        if request is not None:
            request.answer(None if finished is None else finished.report)
        if finished is not None:
            self._on_round(finished)

    def _note_end(self, work: _Work, error: BaseException) -> None:
        """A round ended early: who waits for it, and when the log is tried again."""
        again = isinstance(error, CleaningAborted | MemoryError) or not isinstance(error, Exception)
        if work.request is not None:
            if again:
                self._requests.put_back(work.request)
            elif isinstance(error, Exception):
                work.request.fail(error)
        if again or isinstance(error, StorageFailed):
            return
        if isinstance(error, StorageFull):
            due_ms = self._clock.monotonic_ms() + _FULL_DISK_REST_MS
            self._failures.postpone(work.topic_partition, due_ms=due_ms)
        else:
            self._note_failure(work.topic_partition, error)

    def _note_failure(self, topic_partition: TopicPartition, error: BaseException) -> None:
        failure = self._failures.fail(
            topic_partition,
            f"{type(error).__name__}: {error}",
            is_damaged=isinstance(error, CorruptBatch | DamageFound),
            now_ms=self._clock.now_ms(),
            monotonic_ms=self._clock.monotonic_ms(),
        )
        self._on_uncleanable(failure)

    def _clean(self, thread: CleanerThread, work: _Work) -> FinishedRound | None:
        """None where it turns out that there is nothing to clean. Raises what a round does."""
        log, topic_partition = work.log, work.topic_partition
        tools = self._tools(thread, log)
        if self._candidates.needs_survey(log):
            self._candidates.survey(log, tools.pace)
            if log.index_problems:
                self._store.sync_segments(topic_partition)  # A swap takes durable segments only.
        found = self._candidates.find(log, now_ms=self._clock.now_ms())
        if work.request is None and not found.is_due:
            return None
        if log.segments[0].base_offset >= found.first_uncleanable:
            return None
        with self._store.latching():
            report = clean_and_checkpoint(
                log,
                tools,
                found,
                self.checkpoint,
                history=self._candidates.history(topic_partition),
            )
        self._candidates.note(report)
        finished = FinishedRound(
            thread=thread.number,
            report=report,
            ended_ms=self._clock.now_ms(),
            overdue_ms=found.overdue_ms,
            dirty_ratio=found.cleanable_ratio,
            map_slots=tools.offset_map.slots,
            requested=work.request is not None,
        )
        self._last[topic_partition] = thread.last = finished
        return finished

    def _tools(self, thread: CleanerThread, log: PartitionLog) -> CleanerTools:
        def should_stop() -> bool:
            thread.note_progress()
            return (
                thread.is_told_to_stop
                or self.states.should_abort(log.topic_partition)
                or not log.config.is_compacted
                or self._store.failed is not None
            )

        return CleanerTools(
            files=self._files,
            offset_map=thread.offset_map(),
            clock=self._clock,
            throttle=partial(self._throttle, should_stop=should_stop),
            should_stop=should_stop,
            discard=self.retention.discard_of(log),
            chunk_bytes=thread.chunk_bytes,
        )

    def _retain_compacted(self, thread: CleanerThread) -> None:
        """Retention of the logs that `kafka-log-retention` leaves to the cleaner.

        One that failed still deletes; one that is damaged keeps everything.
        """
        monotonic_ms = self._clock.monotonic_ms()
        with self._choosing:
            last_ms = self._retained_ms
            if last_ms is not None and monotonic_ms - last_ms < self.config.backoff_ms:
                return
            self._retained_ms = monotonic_ms
        for log in self._compacted_logs():
            if thread.is_told_to_stop:
                return
            failure = self._failures.failure(log.topic_partition, monotonic_ms=monotonic_ms)
            is_damaged = failure is not None and failure.is_damaged
            if not is_damaged and (log.config.is_deleted or has_hidden(log)):
                try:
                    self.retention.check(log.topic_partition)
                except StorageFailed:
                    raise
                except (StorageError, OSError) as error:
                    self._note_failure(log.topic_partition, error)

    def _rest_ms(self) -> int:
        """Until something may be due by the clock alone, and at most the backoff."""
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        rests = [self.config.backoff_ms]
        retry_ms = self._failures.next_due_ms(monotonic_ms=monotonic_ms)
        if retry_ms is not None:
            rests.append(retry_ms - monotonic_ms)
        for log in self._compacted_logs():
            found = self._candidates.find(log, now_ms=now_ms)
            due_ms = self._candidates.next_due_ms(log, found)
            if due_ms is not None:
                rests.append(due_ms - now_ms)
        return max(min(rests), _REST_MS_MIN)


def _disabled() -> CleaningAborted:
    return CleaningAborted("log.cleaner.enable is false")
