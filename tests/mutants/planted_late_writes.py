"""Planted bugs of when segments are written, and of runs in the journal, and what notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_WRITES = "tests/unit/storage/test_log_store_writes.py"
_SEGMENT = "tests/unit/storage/log/test_segment.py"
_UNFLUSHED = "tests/unit/storage/log/test_pending_frames.py"
_RUNS = "tests/unit/storage/batch/test_batch_runs.py"
_CRASHES = "tests/sim/test_crashes.py"

LATE_WRITE_MUTANTS = (
    Mutant(
        name="recovery points move to where nothing was written",
        where="offsetd_storage.log_store:LogStore._advance_once",
        replace=(
            "log.write()\n"
            "synced = log.sync()\n"
            'assert synced >= point.offset, "the journal runs ahead of the segment"'
        ),
        by="log.sync()",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="a segment is synced and written after that",
        where="offsetd_storage.log_store:LogStore._advance_once",
        replace=(
            "log.write()\n"
            "synced = log.sync()\n"
            'assert synced >= point.offset, "the journal runs ahead of the segment"'
        ),
        by="log.sync()\nlog.write()",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="a reader of what is durable does not have it written",
        where="offsetd_storage.log.readable_log:ReadableLog._written_up_to",
        replace=(
            "if offset_limit is None or offset_limit > self.offset_next_written:\n    self.write()"
        ),
        by="",
        caught_by=_WRITES,
    ),
    Mutant(
        name="a time is looked up in what is written",
        where="offsetd_storage.log.readable_log:ReadableLog.offset_for_timestamp",
        replace="self.write()\nwhile True:",
        by="while True:",
        caught_by=_WRITES,
    ),
    Mutant(
        name="two threads write a log at the same position",
        where="offsetd_storage.log.partition_log:PartitionLog.write",
        replace="with self._write_lock:\n    if self._write_failed is not None:",
        by="if True:\n    if self._write_failed is not None:",
        caught_by=_WRITES,
    ),
    Mutant(
        name="a late reader writes a log that was closed",
        where="offsetd_storage.log.partition_log:PartitionLog.abandon",
        replace='self._write_failed = StorageFailed("the log is closed")',
        by="pass",
        caught_by=_WRITES,
    ),
    Mutant(
        name="a write that failed is passed over by the next one",
        where="offsetd_storage.log.partition_log:PartitionLog.write",
        replace="self._write_failed = error",
        by="",
        caught_by=_WRITES,
    ),
    Mutant(
        name="nobody is told of a reader's write that failed",
        where="offsetd_storage.log.partition_log:PartitionLog.write",
        replace="self.on_write_failed(error)",
        by="",
        caught_by=_WRITES,
    ),
    Mutant(
        name="what waits in memory grows until recovery points move",
        where="offsetd_storage.log_store:LogStore.bound_unwritten",
        replace="if log.unwritten_bytes > self._unwritten_bytes_max:",
        by="if False:",
        caught_by=_WRITES,
    ),
    Mutant(
        name="segments are written before who waits for a flush is told",
        where="offsetd_coordinator.runtime.flusher:Flusher._run",
        replace="self._on_durable(ticket)",
        by="self._store.bound_unwritten(), self._on_durable(ticket)",
        caught_by=(
            "tests/unit/coordinator/runtime/test_flusher.py"
            "::test_who_waits_is_told_before_segments_are_written"
        ),
    ),
    Mutant(
        name="of a run only the first batch comes back",
        where="offsetd_storage.journal.journal_recovery:_collect",
        replace="for batch in split_run(run):",
        by="for batch in list(split_run(run))[:1]:",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="a frame that is full ends behind a batch that it does not hold",
        where="offsetd_storage.log.log_appends:LogAppends.append",
        replace=(
            "self._unflushed.make_room(len(batch))\n"
            "try:\n"
            "    log.append(\n"
            "        batch, last_offset=last_offset, max_timestamp_ms=max_timestamp_ms, "
            "now_ms=now_ms\n"
            "    )"
        ),
        by=(
            "try:\n"
            "    log.append(\n"
            "        batch, last_offset=last_offset, max_timestamp_ms=max_timestamp_ms, "
            "now_ms=now_ms\n"
            "    )\n"
            "    self._unflushed.make_room(len(batch))"
        ),
        caught_by=_UNFLUSHED,
    ),
    Mutant(
        name="a run in a frame has the name of another log",
        where="offsetd_storage.kernels.journal_runs:put_runs",
        replace="name += name_bytes",
        by="",
        caught_by=_UNFLUSHED,
    ),
    Mutant(
        name="a frame that grows loses what it held",
        where="offsetd_storage.journal.batches_frame:BatchesFrame._make_room",
        replace="larger[: self._end] = self._buffer[: self._end]",
        by="",
        caught_by=_UNFLUSHED,
    ),
    Mutant(
        name="what is appended goes into the frame that is being flushed",
        where="offsetd_storage.log.pending_frames:PendingFrames.take",
        replace="free = BatchesFrame() if self._taken else self._taken",
        by="free = self._taken",
        caught_by=_UNFLUSHED,
    ),
    Mutant(
        name="a frame does not say where the logs of its runs end",
        where="offsetd_storage.log.pending_frames:PendingFrames.add_runs",
        replace="self._logs.update(dict.fromkeys(logs))",
        by="",
        caught_by=_UNFLUSHED,
    ),
    Mutant(
        name="runs go into a frame that cannot take them",
        where="offsetd_storage.log.pending_frames:PendingFrames.make_room",
        replace="return COUNT.size + added_bytes <= self.payload_bytes_max",
        by="return True",
        caught_by=_UNFLUSHED,
    ),
    Mutant(
        name="much is reserved ahead of a segment that grows slowly",
        where="offsetd_storage.log.segment:Segment.make_room",
        replace="is_fast = now_ms - self._reserved_ms < _AHEAD_LASTS_MS",
        by="is_fast = self._reserved_ms >= 0",
        caught_by=_SEGMENT,
    ),
    Mutant(
        name="groups that make way take too much from those that stay",
        where="offsetd_coordinator.runtime.commit_guards:GroupActivity._make_way",
        replace="taken = sorted(counts.values(), reverse=True)[_GROUPS_LEFT_MAX]",
        by="taken = sorted(counts.values(), reverse=True)[_GROUPS_LEFT_MAX // 8]",
        caught_by="tests/unit/coordinator/runtime/test_commit_guards.py",
    ),
    Mutant(
        name="a run fills the index beyond its bound",
        where="offsetd_storage.log.segment:Segment.make_room",
        replace="(self._free_slots - 2) * index_step_bytes(config.index_interval_bytes)",
        by="1 << 40",
        caught_by=_RUNS,
    ),
    Mutant(
        name="all that is queued is looked at again for each entry",
        where="offsetd_storage.log.segment:Segment.index_queued",
        replace="queued = self._unwritten[self._indexed_pieces :]",
        by="queued, self._indexed_pieces = list(self._unwritten), 0",
        caught_by=f"{_SEGMENT}::test_each_batch_is_looked_at_once_for_the_indexes",
    ),
    Mutant(
        name="batches are written without index entries",
        where="offsetd_storage.log.segment:Segment.take_unwritten",
        replace="self.index_queued()\nqueued, self._unwritten",
        by="queued, self._unwritten",
        caught_by=f"{_SEGMENT}::test_what_is_queued_is_indexed_when_it_is_written",
    ),
    Mutant(
        name="another index interval counts for what came before, too",
        where="offsetd_storage.log.segment:Segment.configure",
        replace="self.index_queued()\nself._config = config",
        by="self._config = config",
        caught_by=(
            "tests/unit/storage/test_log_store_appends.py"
            "::test_a_changed_index_interval_counts_from_the_next_append_on"
        ),
    ),
    Mutant(
        name="the largest timestamp of a run is said to be its last batch's",
        where="offsetd_storage.log.partition_log:PartitionLog.append_run",
        replace="run.timestamp_ms_max_offset",
        by="run.last_offset",
        caught_by=_RUNS,
    ),
    Mutant(
        name="a batch goes in behind a hole",
        where="offsetd_storage.log.log_appends:_refuse_misplaced",
        replace="if base_offset != log.offset_next:",
        by="if base_offset < log.offset_next:",
        caught_by=_RUNS,
    ),
    Mutant(
        name="nobody looks at the times of a run",
        where="offsetd_storage.log.log_appends:LogAppends._put_runs",
        replace="and run.timestamp_ms_max <= bounds.latest_ms",
        by="",
        caught_by=_RUNS,
    ),
    Mutant(
        name="a header that is not all there is looked at",
        where="offsetd_storage.kernels.scan:header_flaw",
        replace="if end - position < BATCH_HEADER_BYTES:\n    return INCOMPLETE",
        by="",
        caught_by=_RUNS,
    ),
)
