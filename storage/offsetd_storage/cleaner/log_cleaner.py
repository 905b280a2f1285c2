"""Kafka's LogCleaner: threads that compact the logs of an open store, one log per thread at a time.

`cleaner_loop` holds what a thread does. A thread that dies is replaced (`cleaner_thread`).
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from offsetd_storage.cleaner.cleaner_loop import CleanerLoop
from offsetd_storage.cleaner.cleaner_status import (
    CleanerStatus,
    FinishedRound,
    LogCleaningStatus,
    log_cleaning_status,
)
from offsetd_storage.cleaner.cleaner_thread import CleanerThread, new_map
from offsetd_storage.cleaner.cleaning_round import CleanerTools
from offsetd_storage.cleaner.preview import preview_round
from offsetd_storage.cleaner.throttle import Throttle
from offsetd_storage.errors import CleaningAborted, StorageFailed, StorageFull
from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
from offsetd_storage.retention.log_claims import LogClaims
from offsetd_storage.retention.log_retention import LogRetention

if TYPE_CHECKING:
    import random as random_module
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future
    from pathlib import Path

    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.cleaner.uncleanable_logs import UncleanablePartition
    from offsetd_storage.clock import Clock
    from offsetd_storage.configuration.server_config import CleanerConfig
    from offsetd_storage.disk.delayed_deletion import FileDeleter
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.retention.retention_rules import FutureTimestamp
    from offsetd_storage.topic_partition import TopicPartition

_PATIENCE_SECONDS: Final = 30.0  # How long a preview waits for its log.


class LogCleaner:
    """The cleaner of a store. Any thread may use it.

    `on_round`, `on_failed` and `on_uncleanable` are called on the cleaner's threads. `on_failed`
    gets the store's failure, perhaps more than once: the process must exit.
    """

    def __init__(
        self,
        store: LogStore,
        config: CleanerConfig,
        *,
        held: str | None = None,
        files: Files,
        folder: Path,
        clock: Clock,
        random: random_module.Random,
        sleep: Callable[[float], None],
        deleter: FileDeleter,
        initial_delay_ms: int = 0,
        on_round: Callable[[FinishedRound], object],
        on_failed: Callable[[StorageFailed], object],
        on_uncleanable: Callable[[UncleanablePartition], object] = lambda _: None,
        on_blocked: Callable[[TopicPartition, FutureTimestamp | None], object] | None = None,
    ) -> None:
        """Reads the checkpoint; `folder` is the store's. Raises OSError.

        `held` is the reason why nothing may be cleaned for now; None if there is none.
        """
        self.config = config
        self.held = held
        self.states = LogClaims()
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
        self._throttle = Throttle(config.io_bytes_per_second_max, clock=clock, sleep=sleep)
        self._life_lock = threading.Lock()  # Held while starting and stopping.
        self._threads: tuple[CleanerThread, ...] = ()
        self._initial_delay_ms = initial_delay_ms
        self._is_started = False
        self.steps = CleanerLoop(
            store,
            files=files,
            clock=clock,
            backoff_ms=config.backoff_ms,
            throttle=self._throttle,
            states=self.states,
            checkpoint=self.checkpoint,
            retention=self.retention,
            on_round=on_round,
            on_failed=on_failed,
            on_uncleanable=on_uncleanable,
        )

    # Life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the threads, unless `log.cleaner.enable` is false.

        Removes logs that do not exist any more from the checkpoint. Raises StorageFailed.
        """
        with self._life_lock:
            if not self._is_started:
                self._forget_missing_logs()
                self._is_started = True
                self._start_threads(initial_delay_ms=self._initial_delay_ms)

    def stop(self) -> None:
        """Ends the threads; rounds end at their next chunk. Requests that are not done fail."""
        with self._life_lock:
            self._is_started = False
            self._stop_threads()
        self.steps.requests.fail_all(CleaningAborted("the cleaner has stopped"))

    @property
    def is_on(self) -> bool:
        """Whether its threads should clean."""
        return self.config.is_enabled and self.held is None

    def configure(self, config: CleanerConfig, *, held: str | None = None) -> None:
        """Takes new settings; requests stay.

        Blocks if the threads must be replaced, because their number or their buffers change. Then
        rounds end at their next chunk; otherwise they continue.
        """
        with self._life_lock:
            if (config, held) == (self.config, self.held):
                return
            before, was_on = self.config, self.is_on
            self.config, self.held = config, held
            self.steps.backoff_ms = config.backoff_ms
            self._throttle.configure(config.io_bytes_per_second_max)
            if (self.is_on, _made_with(config)) != (was_on, _made_with(before)):
                self._stop_threads()
                if self._is_started:
                    self._start_threads()
        self.wake()
        if not self.is_on:
            self.steps.requests.fail_all(self._off())

    def wake(self) -> None:
        """Checks for work again, for example after the clock was moved by hand."""
        for thread in self._threads:
            thread.wake()

    def gains_if_idle(self, log: PartitionLog, *, is_rolled: bool) -> bool:
        """Whether an idle log is worth a round.

        With `is_rolled`, its active segment counts as closed; it must hold at least as much as is
        reserved ahead of it. A log whose last round failed is not worth a round. Raises OSError.
        """
        config, active = log.config, log.segments[-1]
        return (
            self.is_on
            and config.is_compacted
            and not (is_rolled and active.size_bytes < config.preallocate_step_bytes)
            and self._failure(log.topic_partition) is None
            and self.steps.candidates.gains_if_idle(
                log, is_rolled=is_rolled, now_ms=self._clock.now_ms()
            )
        )

    def _start_threads(self, *, initial_delay_ms: int = 0) -> None:
        config = self.config
        if not self.is_on:
            return
        self._threads = tuple(
            CleanerThread(
                number,
                self.steps.step,
                config,
                hash_key=self._random.randbytes(16),
                clock=self._clock,
                initial_delay_ms=initial_delay_ms,
            )
            for number in range(config.threads)
        )
        for thread in self._threads:
            thread.start()

    def _stop_threads(self) -> None:
        # This comes first, so that a thread that has ended is not taken for one that died.
        threads, self._threads = self._threads, ()
        for thread in threads:
            thread.tell_to_stop()
        for thread in threads:
            thread.stop()

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
        """Requests that each of these logs is cleaned once and soon, at any ratio.

        With `rolls_active`, the records of the active segments are cleaned, too. Returns at once. A
        future returns None if no segment is closed. It raises the errors of the round;
        PartitionQuarantined; PolicyViolation if the log is not compacted; CleaningAborted if the
        cleaner stops, or is off.
        """
        requests = self.steps.requests
        answers = {each: requests.add(each, rolls_active=rolls_active) for each in topic_partitions}
        if not self.is_on:
            requests.fail_all(self._off())
        elif not self._is_started:
            requests.fail_all(CleaningAborted("the cleaner does not run"))
        self.wake()
        return answers

    def preview(
        self,
        topic_partition: TopicPartition,
        *,
        rolls_active: bool = False,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> CleanReport | None:
        """The report that `compact` would give. Changes nothing. None if no segment may be cleaned.

        Waits while another thread has the log, and then keeps the log from others. A pause of the
        log ends the preview, like a round. It shares the threads' rate limit, and allocates a map
        of its own. Raises the errors of `clean_log`, MemoryError, and PartitionQuarantined;
        CleaningAborted also if another thread has the log for too long.
        """

        def is_over() -> bool:
            return should_stop() or self.states.should_abort(topic_partition)

        log = self._store.log(topic_partition)
        tools = CleanerTools(
            files=self._files,
            offset_map=new_map(self.config, hash_key=self._random.randbytes(16)),
            clock=self._clock,
            throttle=partial(self._throttle, should_stop=is_over),
            should_stop=is_over,
        )
        if rolls_active:
            self._store.flush()  # A preview reads only flushed batches.
        if not self.states.begin(topic_partition, patience_seconds=_PATIENCE_SECONDS):
            raise CleaningAborted(f"{topic_partition} is being cleaned just now")
        try:
            return preview_round(
                log,
                tools,
                recovery_point=self._store.recovery_point(topic_partition),
                first_dirty=self.checkpoint.first_dirty(topic_partition),
                rolls_active=rolls_active,
            )
        finally:
            self.states.end(topic_partition)

    def retry(self, topic_partition: TopicPartition) -> bool:
        """Lets the cleaner try a log again at once. Returns whether the log waited for that."""
        was_resting = self.steps.failures.retry(topic_partition)
        self.wake()
        return was_resting

    def abort(self, topic_partition: TopicPartition) -> None:
        """Ends a round or a deletion on a log, and waits for its end."""
        with self.states.paused(topic_partition):
            pass

    @property
    def status(self) -> CleanerStatus:
        """The present state of the cleaner."""
        return CleanerStatus(
            is_enabled=self.config.is_enabled,
            held=self.held,
            threads=tuple(each.status for each in self._threads),
            last_look=self.steps.last_look,
            uncleanable=self.steps.failures.all(monotonic_ms=self._clock.monotonic_ms()),
        )

    def log_status(self, topic_partition: TopicPartition) -> LogCleaningStatus:
        """The state of the cleaning of a log. Raises PartitionQuarantined."""
        log = self._store.log(topic_partition)
        return log_cleaning_status(
            log,
            self.steps.candidates,
            now_ms=self._clock.now_ms(),
            state=self.states.state(topic_partition),
            uncleanable=self._failure(topic_partition),
            last=self.steps.last_rounds.get(topic_partition),
        )

    def _off(self) -> CleaningAborted:
        return CleaningAborted(self.held or "log.cleaner.enable is false")

    def _failure(self, topic_partition: TopicPartition) -> UncleanablePartition | None:
        return self.steps.failures.failure(topic_partition, monotonic_ms=self._clock.monotonic_ms())


def _made_with(config: CleanerConfig) -> tuple[object, ...]:
    """The settings that threads cannot change after they were made."""
    buffers = config.dedupe_buffer_bytes, config.dedupe_load_factor, config.io_buffer_bytes
    return config.threads, *buffers
