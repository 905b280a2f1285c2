"""Appends to the logs of a store: the checks of a batch, and its entry in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from offsetd_storage.batch.append_timestamps import prepared_at_append, unchanged_timestamps_ms
from offsetd_storage.batch.batch_runs import AppendedRuns, read_runs, split_run
from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.errors import StorageError, StorageFailed, StorageFull

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_storage.batch.batch_runs import Run
    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.failure_latch import FailureLatch
    from offsetd_storage.kernels.scan import Bytes, Numbers
    from offsetd_storage.log.journal_size import JournalSize
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.pending_frames import PendingFrames


class _Bounds(NamedTuple):
    """The limits within which a run is appended unchanged, by the settings of its log."""

    config: LogConfig
    batch_bytes_max: int
    earliest_ms: int
    latest_ms: int


class LogAppends:
    """Appends for one store. The caller holds the lock `pending`.

    If a failure may have changed anything, it is latched: the store acknowledges nothing more.
    """

    def __init__(self, unflushed: PendingFrames, room: JournalSize, latch: FailureLatch) -> None:
        self._unflushed = unflushed
        self._room = room
        self._latch = latch

    def append(
        self, log: PartitionLog, batch: bytes, last_offset: int, max_timestamp_ms: int, now_ms: int
    ) -> bytes:
        """Appends a batch to its log and to the journal's frame, for `LogStore.append`."""
        self._room.refuse_large(log, len(batch))
        _refuse_misplaced(log, int.from_bytes(batch[:8]), int.from_bytes(batch[12:16]))
        batch, max_timestamp_ms = prepared_at_append(
            batch, log.config, max_timestamp_ms=max_timestamp_ms, now_ms=now_ms
        )
        self._unflushed.make_room(len(batch))
        try:
            log.append(
                batch, last_offset=last_offset, max_timestamp_ms=max_timestamp_ms, now_ms=now_ms
            )
            self._unflushed.add(log, batch)
        except StorageFull:
            raise  # Nothing has changed.
        except BaseException as error:
            self._latch.latch(error)
            raise
        return batch

    def append_runs(
        self, logs: Sequence[PartitionLog], content: Bytes, spans: Numbers, now_ms: int
    ) -> AppendedRuns:
        """Appends runs to their logs and to the journal's frame, for `LogStore.append_runs`."""
        runs = read_runs(content, spans)
        counts, refusals = [0] * len(runs), dict[int, StorageError]()
        with self._latch.fail_stop():
            whole, split = self._put_runs(logs, runs, now_ms)
            self._unflushed.add_runs([logs[place] for place in whole], content, spans[whole])
            for place in whole:
                counts[place] = runs[place].batch_count
            for place in split:
                counts[place], refusal = self._put_batches(logs[place], runs[place], now_ms)
                if refusal is not None:
                    refusals[place] = refusal
        return AppendedRuns(counts, refusals)

    def _put_runs(
        self, logs: Sequence[PartitionLog], runs: Sequence[Run], now_ms: int
    ) -> tuple[list[int], list[int]]:
        """Appends each run that needs no change to its log. The caller adds it to the frame.

        Returns the places of these runs, and the places of the others, whose batches are then
        checked one by one.
        """
        whole: list[int] = []
        split: list[int] = []
        fits = self._unflushed.make_room(sum(len(run.content) for run in runs), runs=len(runs))
        bounds: _Bounds | None = None
        for place, (log, run) in enumerate(zip(logs, runs, strict=True)):
            if bounds is None or bounds.config is not log.config:
                bounds = _Bounds(
                    log.config,
                    min(log.batch_bytes_max, self._room.batch_bytes_max),
                    *unchanged_timestamps_ms(log.config, now_ms=now_ms),
                )
            is_plain = (
                run.base_offset == log.offset_next
                and run.leader_epoch_max <= log.leader_epoch
                and run.batch_bytes_max <= bounds.batch_bytes_max
                and run.timestamp_ms_min >= bounds.earliest_ms
                and run.timestamp_ms_max <= bounds.latest_ms
            )
            (whole if fits and is_plain and log.append_run(run) else split).append(place)
        return whole, split

    def _put_batches(
        self, log: PartitionLog, run: Run, now_ms: int
    ) -> tuple[int, StorageError | None]:
        """Appends the batches of a run one by one.

        Returns how many were appended, and the error that stopped it, if any.
        """
        _refuse_misplaced(log, run.base_offset, run.leader_epoch_max)
        count = 0
        try:
            for batch in split_run(run.content):
                header = batch_header(batch)
                self.append(log, batch, header.last_offset, header.max_timestamp_ms, now_ms)
                count += 1
        except StorageFailed:
            raise
        except StorageError as error:
            return count, error
        return count, None


def _refuse_misplaced(log: PartitionLog, base_offset: int, leader_epoch: int) -> None:
    """Raises ValueError if the offset or the leader epoch is wrong.

    Recovery relies on both, so this check stays when Python runs without assertions.
    """
    if base_offset != log.offset_next:
        raise ValueError(f"{log.topic_partition}: a batch has to continue the offsets of its log")
    if leader_epoch > log.leader_epoch:
        raise ValueError(f"{log.topic_partition}: only brokers raise leader epochs")
