"""Planted bugs of when segments are written, and of runs in the journal, and what notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_STORAGE = "storage/offsetd_storage"
_WRITES = "tests/unit/storage/test_log_store_writes.py"
_SEGMENT = "tests/unit/storage/test_segment.py"
_UNFLUSHED = "tests/unit/storage/test_unflushed.py"
_RUNS = "tests/unit/storage/test_runs.py"
_CRASHES = "tests/sim/test_crashes.py"

LATE_WRITE_MUTANTS = (
    Mutant(
        name="recovery points move to where nothing was written",
        file=f"{_STORAGE}/log_store.py",
        replace=(
            "            log.write()\n"
            "            synced = log.sync()\n"
            '            assert synced >= point.offset, "the journal runs ahead of the segment"\n'
        ),
        by="            log.sync()\n",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="a segment is synced and written after that",
        file=f"{_STORAGE}/log_store.py",
        replace=(
            "            log.write()\n"
            "            synced = log.sync()\n"
            '            assert synced >= point.offset, "the journal runs ahead of the segment"\n'
        ),
        by="            log.sync()\n            log.write()\n",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="a reader of what is durable does not have it written",
        file=f"{_STORAGE}/log/readable_log.py",
        replace=(
            "        if offset_limit is None or offset_limit > self.offset_next_written:\n"
            "            self.write()\n"
        ),
        by="",
        caught_by=_WRITES,
    ),
    Mutant(
        name="a time is looked up in what is written",
        file=f"{_STORAGE}/log/readable_log.py",
        replace="        self.write()\n        while True:\n",
        by="        while True:\n",
        caught_by=_WRITES,
    ),
    Mutant(
        name="two threads write a log at the same position",
        file=f"{_STORAGE}/log/partition_log.py",
        replace=(
            "        with self._write_lock:\n            if self._write_failed is not None:\n"
        ),
        by="        if True:\n            if self._write_failed is not None:\n",
        caught_by=_WRITES,
    ),
    Mutant(
        name="a late reader writes a log that was closed",
        file=f"{_STORAGE}/log/partition_log.py",
        replace='                self._write_failed = StorageFailed("the log is closed")\n',
        by="                pass\n",
        caught_by=_WRITES,
    ),
    Mutant(
        name="a write that failed is passed over by the next one",
        file=f"{_STORAGE}/log/partition_log.py",
        replace="                self._write_failed = error\n",
        by="",
        caught_by=_WRITES,
    ),
    Mutant(
        name="nobody is told of a reader's write that failed",
        file=f"{_STORAGE}/log/partition_log.py",
        replace="                self.on_write_failed(error)\n",
        by="",
        caught_by=_WRITES,
    ),
    Mutant(
        name="what waits in memory grows until recovery points move",
        file=f"{_STORAGE}/log_store.py",
        replace="                if log.unwritten_bytes > self._unwritten_bytes_max:\n",
        by="                if False:\n",
        caught_by=_WRITES,
    ),
    Mutant(
        name="segments are written before who waits for a flush is told",
        file="coordinator/offsetd_coordinator/runtime/flusher.py",
        replace="                self._on_durable(ticket)\n",
        by="                self._store.bound_unwritten(), self._on_durable(ticket)\n",
        caught_by=(
            "tests/unit/coordinator/test_flusher.py"
            "::test_who_waits_is_told_before_segments_are_written"
        ),
    ),
    Mutant(
        name="of a run only the first batch comes back",
        file=f"{_STORAGE}/journal/journal_recovery.py",
        replace="                for batch in split_run(run):\n",
        by="                for batch in list(split_run(run))[:1]:\n",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="a frame that is full ends behind a batch that it does not hold",
        file=f"{_STORAGE}/log/log_appends.py",
        replace=(
            "        self._unflushed.make_room(len(batch))\n"
            "        try:\n"
            "            log.append(\n"
            "                batch, last_offset=last_offset, max_timestamp_ms=max_timestamp_ms,"
            " now_ms=now_ms\n"
            "            )\n"
        ),
        by=(
            "        try:\n"
            "            log.append(\n"
            "                batch, last_offset=last_offset, max_timestamp_ms=max_timestamp_ms,"
            " now_ms=now_ms\n"
            "            )\n"
            "            self._unflushed.make_room(len(batch))\n"
        ),
        caught_by=_UNFLUSHED,
    ),
    Mutant(
        name="a run in a frame has the name of another log",
        file=f"{_STORAGE}/kernels/journal_runs.py",
        replace="        name += name_bytes\n",
        by="",
        caught_by=_UNFLUSHED,
    ),
    Mutant(
        name="a frame that grows loses what it held",
        file=f"{_STORAGE}/journal/batches_frame.py",
        replace="            larger[: self._end] = self._buffer[: self._end]\n",
        by="",
        caught_by=_UNFLUSHED,
    ),
    Mutant(
        name="what is appended goes into the frame that is being flushed",
        file=f"{_STORAGE}/log/pending_frames.py",
        replace="        free = BatchesFrame() if self._taken else self._taken\n",
        by="        free = self._taken\n",
        caught_by=_UNFLUSHED,
    ),
    Mutant(
        name="a frame does not say where the logs of its runs end",
        file=f"{_STORAGE}/log/pending_frames.py",
        replace="        self._logs.update(dict.fromkeys(logs))\n",
        by="",
        caught_by=_UNFLUSHED,
    ),
    Mutant(
        name="runs go into a frame that cannot take them",
        file=f"{_STORAGE}/log/pending_frames.py",
        replace="        return COUNT.size + added_bytes <= self.payload_bytes_max\n",
        by="        return True\n",
        caught_by=_UNFLUSHED,
    ),
    Mutant(
        name="much is reserved ahead of a segment that grows slowly",
        file=f"{_STORAGE}/log/segment.py",
        replace="            is_fast = now_ms - self._reserved_ms < _AHEAD_LASTS_MS\n",
        by="            is_fast = self._reserved_ms >= 0\n",
        caught_by=_SEGMENT,
    ),
    Mutant(
        name="groups that make way take too much from those that stay",
        file="coordinator/offsetd_coordinator/runtime/commit_guards.py",
        replace="        taken = sorted(counts.values(), reverse=True)[_GROUPS_LEFT_MAX]\n",
        by="        taken = sorted(counts.values(), reverse=True)[_GROUPS_LEFT_MAX // 8]\n",
        caught_by="tests/unit/coordinator/test_commit_guards.py",
    ),
    Mutant(
        name="a run fills the index beyond its bound",
        file=f"{_STORAGE}/log/segment.py",
        replace="(self._free_slots - 2) * index_step_bytes(config.index_interval_bytes)",
        by="1 << 40",
        caught_by=_RUNS,
    ),
    Mutant(
        name="all that is queued is looked at again for each entry",
        file=f"{_STORAGE}/log/segment.py",
        replace="        queued = self._unwritten[self._indexed_pieces :]\n",
        by="        queued, self._indexed_pieces = list(self._unwritten), 0\n",
        caught_by=f"{_SEGMENT}::test_each_batch_is_looked_at_once_for_the_indexes",
    ),
    Mutant(
        name="batches are written without index entries",
        file=f"{_STORAGE}/log/segment.py",
        replace="        self.index_queued()\n        queued, self._unwritten",
        by="        queued, self._unwritten",
        caught_by=f"{_SEGMENT}::test_what_is_queued_is_indexed_when_it_is_written",
    ),
    Mutant(
        name="another index interval counts for what came before, too",
        file=f"{_STORAGE}/log/segment.py",
        replace="        self.index_queued()\n        self._config = config\n",
        by="        self._config = config\n",
        caught_by=(
            "tests/unit/storage/test_log_store_appends.py"
            "::test_a_changed_index_interval_counts_from_the_next_append_on"
        ),
    ),
    Mutant(
        name="the largest timestamp of a run is said to be its last batch's",
        file=f"{_STORAGE}/log/partition_log.py",
        replace="                run.timestamp_ms_max_offset,\n",
        by="                run.last_offset,\n",
        caught_by=_RUNS,
    ),
    Mutant(
        name="a batch goes in behind a hole",
        file=f"{_STORAGE}/log/log_appends.py",
        replace="    if base_offset != log.offset_next:\n",
        by="    if base_offset < log.offset_next:\n",
        caught_by=_RUNS,
    ),
    Mutant(
        name="nobody looks at the times of a run",
        file=f"{_STORAGE}/log/log_appends.py",
        replace="                and run.timestamp_ms_max <= bounds.latest_ms\n",
        by="",
        caught_by=_RUNS,
    ),
    Mutant(
        name="a header that is not all there is looked at",
        file=f"{_STORAGE}/kernels/scan.py",
        replace="    if end - position < BATCH_HEADER_BYTES:\n        return INCOMPLETE\n",
        by="",
        caught_by=_RUNS,
    ),
)
