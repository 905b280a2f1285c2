"""The bugs that the tests have to notice: what is replaced in which file, and who notices."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Mutant:
    """One replacement in one source file, and the test (or file of tests) that has to fail."""

    name: str
    file: str
    replace: str
    by: str
    caught_by: str


_STORAGE = "storage/offsetd_storage"
_COORDINATOR = "coordinator/offsetd_coordinator"
_CRASHES = "tests/sim/test_crashes.py"
_DISK_ERRORS = "tests/sim/test_disk_errors.py"

MUTANTS = (
    Mutant(
        name="no fsync of the journal",
        file=f"{_STORAGE}/journal/journal.py",
        replace=("        begun_seconds = time.perf_counter()\n        file.datasync()\n"),
        by="        begun_seconds = time.perf_counter()\n",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="acknowledged before the fsync",
        file=f"{_COORDINATOR}/runtime/flusher.py",
        replace=(
            "                with self._turn:\n"
            "                    ticket = self._flush()\n"
            "                self._on_durable(ticket)\n"
        ),
        by=(
            "                self._on_durable(self.appended)\n"
            "                with self._turn:\n"
            "                    ticket = self._flush()\n"
        ),
        caught_by="tests/unit/coordinator/test_flusher.py",
    ),
    Mutant(
        name="what is appended while the flusher begins to wait is not seen",
        file=f"{_COORDINATOR}/runtime/flusher.py",
        replace=(
            "            elif not self._is_waiting:\n"
            "                # From here on it is kicked. What came just before is seen now.\n"
            "                self._is_waiting = True\n"
            "            else:\n"
            "                self._wake_up.sleep()\n"
        ),
        by=(
            "            else:\n"
            "                self._is_waiting = True\n"
            "                self._wake_up.sleep()\n"
        ),
        caught_by=(
            "tests/unit/coordinator/test_flusher.py"
            "::test_what_is_appended_while_the_thread_begins_to_wait_is_flushed"
        ),
    ),
    Mutant(
        name="an idle server lets callers wait for a flush as if it were busy",
        file=f"{_COORDINATOR}/runtime/flush_pace.py",
        replace="            and used - used_then >= (now - looked) * _BUSY_RATIO\n",
        by="            and used - used_then >= (now - looked) * 0\n",
        caught_by="tests/unit/coordinator/test_flush_pace.py",
    ),
    Mutant(
        name="callers whose commits came in one message wait for others that do not come",
        file=f"{_COORDINATOR}/runtime/flush_pace.py",
        replace="(rounds - rounds_then) * _COMMITS_PER_ROUND_MAX\n",
        by="(rounds - rounds_then) * 1000\n",
        caught_by="tests/unit/coordinator/test_flush_pace.py",
    ),
    Mutant(
        name="callers whose commits came in one message wait as those who take turns",
        file=f"{_COORDINATOR}/runtime/flush_pace.py",
        replace="if covered > self._rounds_covered * _COMMITS_PER_ROUND_MAX:\n",
        by="if covered > self._rounds_covered * 1000:\n",
        caught_by="tests/unit/coordinator/test_flush_pace.py",
    ),
    Mutant(
        name="a failed fsync is tried again",
        file=f"{_STORAGE}/journal/journal.py",
        replace=("        begun_seconds = time.perf_counter()\n        file.datasync()\n"),
        by=(
            "        begun_seconds = time.perf_counter()\n"
            "        try:\n"
            "            file.datasync()\n"
            "        except OSError:\n"
            "            file.datasync()\n"
        ),
        caught_by=_DISK_ERRORS,
    ),
    Mutant(
        name="no fsync of a partition's folder",
        file=f"{_STORAGE}/log/partition_log.py",
        replace="        for folder in folders:\n            self._files.sync_folder(folder)\n",
        by="",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="names are trusted that may never have been synced",
        file=f"{_STORAGE}/recovery/survey.py",
        replace="    sync_names(files, path)\n",
        by="",
        caught_by="tests/unit/storage/test_recovery_hardening.py",
    ),
    Mutant(
        name="the page cache is trusted after a crash",
        file=f"{_STORAGE}/recovery/swap_recovery.py",
        replace=(
            "            file.sync()\n"
            "            if drop_cache:\n"
            "                file.drop_cache()\n"
        ),
        by="            pass\n",
        caught_by="tests/unit/storage/test_recovery_of_brokers.py",
    ),
    Mutant(
        name="the log is cut at a bad batch in its middle",
        file=f"{_STORAGE}/recovery/partition_recovery.py",
        replace=(
            "        if reader.has_valid_batch(base_offset, scan.stop.position) or any(\n"
            "            reader.has_valid_batch(each, 0) for each in later\n"
            "        ):\n"
            "            require_whole(scan, base_offset)\n"
        ),
        by="",
        caught_by="tests/unit/storage/test_recovery.py",
    ),
    Mutant(
        name="the log is cut at the checkpoint's recovery point without a journal",
        file=f"{_STORAGE}/recovery/recovery.py",
        replace="        cleanup.callback(log.abandon)\n        logs[topic_partition] = log\n",
        by=(
            "        cleanup.callback(log.abandon)\n"
            "        if plan.leader_epoch_known < 0:\n"
            "            known = survey.checkpoints.recovery_points\n"
            "            end = known.get(topic_partition, log.offset_next)\n"
            "            log.truncate(min(log.offset_next, end))\n"
            "        logs[topic_partition] = log\n"
        ),
        caught_by="tests/unit/storage/test_recovery_of_brokers.py",
    ),
    Mutant(
        name="the journal is released before the recovery point is durable",
        file=f"{_STORAGE}/journal/journal.py",
        replace="        return nothing_needed_before(self._begun_at, self._points)\n",
        by="        return True\n",
        caught_by="tests/unit/storage/test_journal.py",
    ),
    Mutant(
        name="a new life restarts the journal's sequence",
        file=f"{_STORAGE}/journal/journal.py",
        replace="        old_life, self._life = self._life, life\n",
        by="        old_life, self._life = self._life, life\n        self._next_sequence = 1\n",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="no checksum of batches",
        file=f"{_STORAGE}/kernels/scan.py",
        replace="    if not has_valid_checksum(buffer, position, size):\n",
        by="    if size < 0:\n",
        caught_by="tests/unit/storage/test_scan.py",
    ),
    Mutant(
        name="no checksum of frames",
        file=f"{_STORAGE}/journal/journal_format.py",
        replace="    if crc32c(buffer, position + _CRC_END, end) != crc or kind not in _KINDS:\n",
        by="    if kind not in _KINDS:\n",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="no lock on the folder",
        file=f"{_STORAGE}/disk/files.py",
        replace="            request = _FLOCK.pack(fcntl.F_WRLCK,",
        by="            request = _FLOCK.pack(fcntl.F_UNLCK,",
        caught_by="tests/unit/storage/test_folder_lock.py",
    ),
    Mutant(
        name="a read before what it rests on is durable",
        file=f"{_COORDINATOR}/runtime/runtime.py",
        replace="            return self._tickets[partition], question(shard)\n",
        by="            return 0, question(shard)\n",
        caught_by="tests/unit/coordinator/test_runtime.py",
    ),
    Mutant(
        name="a refusal before what it rests on is durable",
        file=f"{_COORDINATOR}/runtime/runtime.py",
        replace="        return self._tickets[partition], _outcome(decision)\n",
        by=(
            "        ticket = self._tickets[partition] if decision.batch is not None else 0\n"
            "        return ticket, _outcome(decision)\n"
        ),
        caught_by="tests/unit/coordinator/test_runtime.py",
    ),
)
