"""Planted bugs of backups and restores."""

from __future__ import annotations

from mutants.planted import Mutant

_STORAGE = "offsetd_storage.backups"
_UNIT = "tests/unit/storage/backups/test_backups.py"
_CLEANED = "tests/property/test_backups_of_cleaned_logs.py"
_CRASHES = "tests/sim/test_backup_crashes.py"
_GROUPS = "tests/unit/coordinator/offline/test_restored_groups.py"
_SERVICE = "tests/unit/coordinator/services/test_backup_calls.py"

BACKUP_MUTANTS = (
    Mutant(
        name="a restored log goes on where the backup ended",
        where=f"{_STORAGE}.log_restoring:LogRestoring._restore_log",
        replace="""next_offset = offset_after_restore(
            log.end_offset, moment_ms=self.manifest.moment_ms, now_ms=self.now_ms
        )""",
        by="next_offset = log.end_offset",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a backup that is restored twice gives out the same offsets",
        where=f"{_STORAGE}.log_restoring:offset_after_restore",
        replace="(now_ms - moment_ms + CLOCK_SLACK_MS)",
        by="CLOCK_SLACK_MS",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a clock before the backup is taken",
        where=f"{_STORAGE}.log_restoring:offset_after_restore",
        replace="if now_ms < moment_ms:",
        by="if now_ms < 0:",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a log that was cleaned beyond the moment is pinned",
        where=f"{_STORAGE}.pinned_logs:_entry",
        replace="if superseders_end > end or start_offset > end:",
        by="if start_offset > end:",
        caught_by=_CLEANED,
    ),
    Mutant(
        name="what waits in memory is not in a backup",
        where=f"{_STORAGE}.pinned_logs:_pinned_segments",
        replace="if end > log.offset_next_written:",
        by="if end > log.offset_next:",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a backup has what was not durable",
        where=f"{_STORAGE}.pinned_logs:PinnedLogs._pinned",
        replace="logs = [(store.log(each), ends[each]) for each in sorted(ends)]",
        by="logs = [(store.log(each), store.log(each).offset_next) for each in sorted(ends)]",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a quarantined log is left out",
        where=f"{_STORAGE}.pinned_logs:PinnedLogs.pin",
        replace="if damaged := sorted(store.quarantined):",
        by="if damaged := sorted({}):",
        caught_by=_UNIT,
    ),
    Mutant(
        name="digests of a segment that grows are remembered",
        where=f"{_STORAGE}.pinned_logs:_pinned_segments",
        replace="is_whole = segment is not segments[-1] and segment.offset_next <= end",
        by="is_whole = segment.offset_next <= end",
        caught_by=_UNIT,
    ),
    Mutant(
        name="each backup reads all segments again",
        where=f"{_STORAGE}.chunk_reading:chunks_of",
        replace="known.note(segment, tuple(digests))",
        by="",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a chunk that came is not checked",
        where=f"{_STORAGE}.backup_writing:_Writer._chunk",
        replace="if len(content) != size or digest_of(content) != digest:",
        by="if len(content) != size:",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a chunk that is left out need not be there",
        where=f"{_STORAGE}.backup_writing:_Writer._chunk",
        replace="elif self._held.get(digest) != size:",
        by="elif not size:",
        caught_by=_UNIT,
    ),
    Mutant(
        name="the manifest is durable before the chunks",
        where=f"{_STORAGE}.repository:Repository.put_manifest",
        replace="self.target.settle()\n        self.target.put(",
        by="self.target.put(",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="a file gets its name before it is synced",
        where=f"{_STORAGE}.targets:FolderTarget.settle",
        replace="file.sync()",
        by="pass",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="a chunk is restored without a check",
        where=f"{_STORAGE}.repository:Repository.chunk",
        replace="if digest_of(content) != digest:",
        by="if not content:",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a manifest is used without a check",
        where=f"{_STORAGE}.manifest:Manifest.decode",
        replace="""if not content.endswith(b"\\n") or last != digest_of(body + b"\\n").encode():""",
        by="""if not content.endswith(b"\\n"):""",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a prune removes what a kept backup shares",
        where=f"{_STORAGE}.repository:Repository.planned_prune",
        replace="for each in kept:",
        by="for each in kept[-1:]:",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a prune does not look for backups that go on",
        where=f"{_STORAGE}.repository:Repository.prune",
        replace="if others := self._marks(_BACKUP_MARKS, now_ms):",
        by="if others := []:",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a backup does not look for a prune",
        where=f"{_STORAGE}.repository:Repository.begin_backup",
        replace="if self._marks(_PRUNE_MARK, now_ms):",
        by="if not now_ms:",
        caught_by=_UNIT,
    ),
    Mutant(
        name="the mark of a killed backup stops prunes for ever",
        where=f"{_STORAGE}.repository:Repository._young_marks",
        replace="since_ms.isdecimal() and now_ms - int(since_ms) <= MARK_MS_MAX",
        by="since_ms.isdecimal()",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a restore that was killed can be opened",
        where="offsetd_storage.folder.unfinished_restore:refuse_unfinished",
        replace="if files.exists(folder / RESTORE_MARK):",
        by="if not files:",
        caught_by=_UNIT,
    ),
    Mutant(
        name="the mark of a restore is written last",
        where="offsetd_storage.folder.unfinished_restore:begin_restore",
        replace="replace_file(files, folder / RESTORE_MARK, _TEXT)",
        by="",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a restore goes into a folder with files",
        where="offsetd_storage.folder.unfinished_restore:begin_restore",
        replace="if RESTORE_MARK not in names and names - {_MARK_BEGUN}:",
        by="if not names and names - {_MARK_BEGUN}:",
        caught_by=_UNIT,
    ),
    Mutant(
        name="the start of a log is not restored",
        where=f"{_STORAGE}.log_restoring:LogRestoring.restore",
        replace="write_offset_checkpoint(files, folder / LOG_START_CHECKPOINT, starts)",
        by="",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a time is restored although its state was compacted away",
        where=f"{_STORAGE}.point_in_time:cuts_at",
        replace="if time_ms < exact_from_ms:",
        by="if time_ms < 0:",
        caught_by=_CLEANED,
    ),
    Mutant(
        name="a record of exactly that time is left out",
        where=f"{_STORAGE}.point_in_time:log_times",
        replace="header.max_timestamp_ms > time_ms",
        by="header.max_timestamp_ms >= time_ms",
        caught_by=_CLEANED,
    ),
    Mutant(
        name="a time is restored from a backup before it",
        where=f"{_STORAGE}.point_in_time:backup_for",
        replace="manifest.moment_ms >= time_ms",
        by="manifest.moment_ms >= 0",
        caught_by=_CLEANED,
    ),
    Mutant(
        name="a writer that held its lease at the backup holds it again",
        where="offsetd_coordinator.offline.restored_groups:_pairs",
        replace="if settings is not None and settings.lease is not None:",
        by="if settings is not None and settings.lease is not None and not now_ms:",
        caught_by=_GROUPS,
    ),
    Mutant(
        name="members of the backup stay",
        where="offsetd_coordinator.offline.restored_groups:_pairs",
        replace="members=(),",
        by="",
        caught_by=_GROUPS,
    ),
    Mutant(
        name="generations are given again",
        where="offsetd_coordinator.offline.restored_groups:_pairs",
        replace="classic.generation + raised_by",
        by="classic.generation",
        caught_by=_GROUPS,
    ),
    Mutant(
        name="the parts of a cluster have the latest moment",
        where="offsetd_coordinator.messages.backup_messages:joined",
        replace="min(head.moment_ms for head, _ in streams)",
        by="max(head.moment_ms for head, _ in streams)",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a call that is cancelled while it pins holds the pin for ever",
        where="offsetd_coordinator.services.backup_calls:_finished",
        replace="await asyncio.wait([running])",
        by="",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a server that stops waits for a slow backup",
        where="offsetd_coordinator.services.backup_calls:BackupService._rest",
        replace="while seconds > _STEP_SECONDS:",
        by="while seconds < 0:",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a target that has vanished is made anew",
        where="offsetd_coordinator.background.scheduled_backups:ScheduledBackups._make",
        replace="self._check_last(repository)",
        by="pass",
        caught_by="tests/fault/test_backups.py::test_a_target_that_vanishes_is_not_made_anew",
    ),
    Mutant(
        name="backups are kept in the data folder",
        where="offsetd_storage.backups.targets:target_of",
        replace="_refuse_servers_folder(files, path)",
        by="pass",
        caught_by="tests/unit/storage/backups/test_targets.py",
    ),
)
