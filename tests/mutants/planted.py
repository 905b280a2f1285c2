"""The bugs that the tests have to notice: what is replaced in which function, and who notices."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Mutant:
    """One replacement in one function, and the test (or file of tests) that has to fail.

    `where` is a dotted module and, behind a colon, the qualified name of the function: as
    `offsetd_storage.journal.journal:Journal.flush`. A class may stand there too, or nothing (the
    module). `replace` is code that stands there once. White space, line breaks, comments and a
    comma before a closing bracket do not count. `by` comes in its place; "" deletes it. Both are
    written without the indentation of their place: `mutants.planting` adds it to `by`.
    """

    name: str
    where: str
    replace: str
    by: str
    caught_by: str


_CRASHES = "tests/sim/test_crashes.py"
_DISK_ERRORS = "tests/sim/test_disk_errors.py"

MUTANTS = (
    Mutant(
        name="no fsync of the journal",
        where="offsetd_storage.journal.journal:Journal._put_frame",
        replace="begun_seconds = time.perf_counter()\nfile.datasync()",
        by="begun_seconds = time.perf_counter()",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="acknowledged before the fsync",
        where="offsetd_coordinator.runtime.flusher:Flusher._run",
        replace="with self._turn:\n    ticket = self._flush()\nself._on_durable(ticket)",
        by="self._on_durable(self.appended)\nwith self._turn:\n    ticket = self._flush()",
        caught_by="tests/unit/coordinator/runtime/test_flusher.py",
    ),
    Mutant(
        name="what is appended while the flusher begins to wait is not seen",
        where="offsetd_coordinator.runtime.flusher:Flusher._run",
        replace=(
            "elif not self._is_waiting:\n"
            "    self._is_waiting = True\n"
            "else:\n"
            "    self._wake_up.sleep()"
        ),
        by="else:\n    self._is_waiting = True\n    self._wake_up.sleep()",
        caught_by=(
            "tests/unit/coordinator/runtime/test_flusher.py"
            "::test_what_is_appended_while_the_thread_begins_to_wait_is_flushed"
        ),
    ),
    Mutant(
        name="an idle server lets callers wait for a flush as if it were busy",
        where="offsetd_coordinator.runtime.flusher:FlushPace._is_busy",
        replace="and used - used_then >= (now - looked) * _BUSY_RATIO",
        by="and used - used_then >= (now - looked) * 0",
        caught_by="tests/unit/coordinator/runtime/test_flush_pace.py",
    ),
    Mutant(
        name="callers whose commits came in one message wait for others that do not come",
        where="offsetd_coordinator.runtime.flusher:FlushPace._is_busy",
        replace="(rounds - rounds_then) * _COMMITS_PER_ROUND_MAX",
        by="(rounds - rounds_then) * 1000",
        caught_by="tests/unit/coordinator/runtime/test_flush_pace.py",
    ),
    Mutant(
        name="callers whose commits came in one message wait as those who take turns",
        where="offsetd_coordinator.runtime.flusher:FlushPace.note_ended",
        replace="if covered > self._rounds_covered * _COMMITS_PER_ROUND_MAX:",
        by="if covered > self._rounds_covered * 1000:",
        caught_by="tests/unit/coordinator/runtime/test_flush_pace.py",
    ),
    Mutant(
        name="a failed fsync is tried again",
        where="offsetd_storage.journal.journal:Journal._put_frame",
        replace="begun_seconds = time.perf_counter()\nfile.datasync()",
        by=(
            "begun_seconds = time.perf_counter()\n"
            "try:\n"
            "    file.datasync()\n"
            "except OSError:\n"
            "    file.datasync()"
        ),
        caught_by=_DISK_ERRORS,
    ),
    Mutant(
        name="no fsync of a partition's folder",
        where="offsetd_storage.log.partition_log:PartitionLog.sync",
        replace="for folder in folders:\n    self._files.sync_folder(folder)",
        by="",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="names are trusted that may never have been synced",
        where="offsetd_storage.recovery.survey:check_format",
        replace="sync_names(files, path)",
        by="",
        caught_by="tests/unit/storage/recovery/test_recovery_hardening.py",
    ),
    Mutant(
        name="the page cache is trusted after a crash",
        where="offsetd_storage.recovery.swap_recovery:sync_segments",
        replace="file.sync()\nif drop_cache:\n    file.drop_cache()",
        by="pass",
        caught_by="tests/unit/storage/recovery/test_recovery_of_brokers.py",
    ),
    Mutant(
        name="the log is cut at a bad batch in its middle",
        where="offsetd_storage.recovery.partition_recovery:_plan_whole_log",
        replace=(
            "if reader.has_valid_batch(base_offset, scan.stop.position) or any(\n"
            "    reader.has_valid_batch(each, 0) for each in later\n"
            "):\n"
            "    require_whole(scan, base_offset)"
        ),
        by="",
        caught_by="tests/unit/storage/recovery/test_folder_recovery.py",
    ),
    Mutant(
        name="the log is cut at the checkpoint's recovery point without a journal",
        where="offsetd_storage.recovery.folder_recovery:apply_all",
        replace="cleanup.callback(log.abandon)\nlogs[topic_partition] = log",
        by=(
            "cleanup.callback(log.abandon)\n"
            "if plan.leader_epoch_known < 0:\n"
            "    known = survey.checkpoints.recovery_points\n"
            "    end = known.get(topic_partition, log.offset_next)\n"
            "    log.truncate(min(log.offset_next, end))\n"
            "logs[topic_partition] = log"
        ),
        caught_by="tests/unit/storage/recovery/test_recovery_of_brokers.py",
    ),
    Mutant(
        name="the journal is released before the recovery point is durable",
        where="offsetd_storage.journal.journal:Journal.other_file_is_free",
        replace="return nothing_needed_before(self._begun_at, self._points)",
        by="return True",
        caught_by="tests/unit/storage/journal/test_journal.py",
    ),
    Mutant(
        name="a new life restarts the journal's sequence",
        where="offsetd_storage.journal.journal:Journal.begin_life",
        replace="old_life, self._life = self._life, life",
        by="old_life, self._life = self._life, life\nself._next_sequence = 1",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="no checksum of batches",
        where="offsetd_storage.kernels.scan:batch_flaw",
        replace="if not has_valid_checksum(buffer, position, size):",
        by="if size < 0:",
        caught_by="tests/unit/storage/kernels/test_scan.py",
    ),
    Mutant(
        name="no checksum of frames",
        where="offsetd_storage.journal.journal_format:read_frame",
        replace="if crc32c(buffer, position + _CRC_END, end) != crc or kind not in _KINDS:",
        by="if kind not in _KINDS:",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="no lock on the folder",
        where="offsetd_storage.disk.files:OsFiles.lock",
        replace="request = _FLOCK.pack(fcntl.F_WRLCK,",
        by="request = _FLOCK.pack(fcntl.F_UNLCK,",
        caught_by="tests/unit/storage/folder/test_folder_lock.py",
    ),
    Mutant(
        name="a read before what it rests on is durable",
        where="offsetd_coordinator.runtime.runtime:Runtime._ask",
        replace="return self._tickets[partition], question(shard)",
        by="return 0, question(shard)",
        caught_by="tests/unit/coordinator/runtime/test_runtime.py",
    ),
    Mutant(
        name="a refusal before what it rests on is durable",
        where="offsetd_coordinator.runtime.runtime:Runtime.submit",
        replace="return self._tickets[partition], _outcome(decision)",
        by=(
            "ticket = self._tickets[partition] if decision.batch is not None else 0\n"
            "return ticket, _outcome(decision)"
        ),
        caught_by="tests/unit/coordinator/runtime/test_runtime.py",
    ),
)
