"""Planted bugs of a folder that is not at its path, and of settings that cannot be read."""

from __future__ import annotations

from mutants.planted import Mutant

_LOCK_TESTS = "tests/unit/storage/folder/test_folder_lock.py"
_MOVED = "tests/fault/test_moved_folder.py"
_TWO = f"{_MOVED}::test_of_two_servers_on_one_path_the_first_stops_and_neither_loses_anything"
_GONE = f"{_MOVED}::test_a_server_whose_folder_or_lock_is_deleted_stops"
_EXPIRER_TESTS = "tests/unit/coordinator/background/test_expirer.py"
_REPAIRS = "tests/unit/storage/recovery/test_partition_repair.py"
_UPKEEP_TESTS = "tests/unit/storage/maintenance/test_upkeep.py"

DOUBT_MUTANTS = (
    Mutant(
        name="a locked folder is reached by its path",
        where="offsetd_storage.disk.files:OsFiles._place",
        replace="return name, self._locked.folder",
        by="return path, None",
        caught_by=(
            f"{_LOCK_TESTS}::test_what_is_reached_through_a_lock_is_the_folder_that_was_locked"
        ),
    ),
    Mutant(
        name="names change in a folder that is not at its path",
        where="offsetd_storage.disk.files:OsFiles._place",
        replace="if changes_names and not self._locked.is_in_place():",
        by="if False:",
        caught_by=f"{_LOCK_TESTS}::test_no_name_changes_in_a_folder_that_is_not_at_its_path",
    ),
    Mutant(
        name="a store works with the files of before the lock",
        where="offsetd_storage.recovery.folder_recovery:recover_folder",
        replace="files = lock.files\nfolder = RecoveryRequest(\n    files=files,",
        by="folder = RecoveryRequest(\n    files=files,",
        caught_by=_TWO,
    ),
    Mutant(
        name="nobody looks whether the folder is in its place",
        where="offsetd_storage.maintenance.upkeep:Upkeep._new_tasks",
        replace=(
            "self._task(FOLDER_IN_PLACE, store.check_folder, _FOLDER_LOOK_MS, initial_delay_ms=0),"
        ),
        by="",
        caught_by=_GONE,
    ),
    Mutant(
        name="a lock's file that was removed is no concern",
        where="offsetd_storage.disk.files:OsFileLock.is_in_place",
        replace="and os.path.samestat(os.stat(self._path), os.fstat(self._file))",
        by="",
        caught_by=f"{_LOCK_TESTS}::test_a_lock_whose_file_was_removed_or_replaced_is_none",
    ),
    Mutant(
        name="a damaged log of settings counts as empty",
        where="offsetd_coordinator.administration.internal_topics:InternalTopics.doubt",
        replace="return None if self.accepts_defaults else self._what_is_lost()",
        by="return None",
        caught_by=(
            f"{_EXPIRER_TESTS}"
            "::test_while_settings_cannot_be_read_nothing_expires_and_mending_brings_them_back"
        ),
    ),
    Mutant(
        name="what is not known of the settings does not hold expiry",
        where="offsetd_coordinator.background.expirer:Expirer.held",
        replace="if self._administration.settings_doubt is not None:",
        by="if False:",
        caught_by=(
            f"{_EXPIRER_TESTS}::test_a_setting_that_is_not_used_holds_expiry_until_it_is_taken_back"
        ),
    ),
    Mutant(
        name="retention goes on while the settings are not known",
        where="offsetd_storage.maintenance.upkeep:Upkeep._retain",
        replace="if self.config.held is not None:\n    return",
        by="",
        caught_by=(
            f"{_UPKEEP_TESTS}"
            "::test_what_is_held_is_neither_cleaned_nor_deleted_until_it_is_not_held"
        ),
    ),
    Mutant(
        name="a damaged note of the last stop means that there was no grace",
        where="offsetd_coordinator.expiry.uptime_marker:",
        replace="UNREADABLE: Final = UptimeMarker(up_ms=0, grace_until_ms=2**63 - 1)",
        by="UNREADABLE: Final = UptimeMarker(up_ms=0, grace_until_ms=0)",
        caught_by=f"{_EXPIRER_TESTS}::test_a_damaged_note_of_the_last_stop_holds_for_a_whole_grace",
    ),
    Mutant(
        name="a topic of a broker's that is cleaned gets a list of ours",
        where="offsetd_storage.broker_logs:BrokerLogs.open",
        replace="is_listed=False",
        by="is_listed=True",
        caught_by="tests/interop/test_broker_on_guest_logs.py",
    ),
    Mutant(
        name="a log that goes on behind where it was closed is not looked at",
        where="offsetd_storage.recovery.partition_recovery:_plan_closed_log",
        replace="attrs.evolve(plan, known=known_of_longer(known, plan.scans, claim.point))",
        by="plan",
        caught_by="tests/unit/storage/recovery/test_partial_restores.py",
    ),
    Mutant(
        name="a list that knows more than the journal is believed",
        where="offsetd_storage.recovery.segment_comparison:ahead_reason",
        replace="if listed.below <= offset_next:",
        by="if True:",
        caught_by="tests/unit/storage/recovery/test_partial_restores.py",
    ),
    Mutant(
        name="a broker's snapshots do not tell that it had the log",
        where="offsetd_storage.recovery.segment_comparison:may_be_a_brokers",
        replace="if not known.snapshots.issuperset(found_snapshots(files, log_folder)):",
        by="if False:",
        caught_by="tests/unit/storage/recovery/test_segment_comparison.py",
    ),
    Mutant(
        name="a leader epoch that has rotted is a broker's",
        where="offsetd_storage.recovery.partition_recovery:_plan_crashed_log",
        replace="if epoch_cut > epoch_known and reader",
        by="if False and reader",
        caught_by="tests/unit/storage/recovery/test_recovery_after_a_broker.py",
    ),
    Mutant(
        name="what a broker wrote behind the recovery point counts as the journal's",
        where="offsetd_storage.recovery.tail_comparison:is_of_journal",
        replace="if not batch or _without_epoch(found) != _without_epoch(batch):",
        by="if not batch:",
        caught_by="tests/unit/storage/recovery/test_recovery_after_a_broker.py",
    ),
    Mutant(
        name="a folder of settings that is lost begins anew",
        where="offsetd_coordinator.administration.internal_topics:internal_topic_specs",
        replace="is_removable=topic != CONFIG_TOPIC",
        by="is_removable=True",
        caught_by=(
            "tests/fault/test_rotten_settings.py"
            "::test_lost_settings_hold_everything_back_like_unreadable_ones"
        ),
    ),
    Mutant(
        name="nobody looks whether the journal is the one that is open",
        where="offsetd_storage.log_store:LogStore.check_folder",
        replace="self._in_place.check_journal()",
        by="pass",
        caught_by=f"{_MOVED}::test_a_server_whose_journal_is_removed_stops_and_loses_nothing",
    ),
    Mutant(
        name="nobody looks whether the last segments are there",
        where="offsetd_storage.log_store:LogStore.check_folder",
        replace="self._in_place.check_some_logs()",
        by="",
        caught_by=f"{_MOVED}::test_a_server_whose_partition_is_removed_stops",
    ),
    Mutant(
        name="a journal that is gone takes along what only it had",
        where="offsetd_storage.log_store:LogStore.check_folder",
        replace="self._write_what_is_left()",
        by="",
        caught_by=f"{_MOVED}::test_a_server_whose_journal_is_removed_stops_and_loses_nothing",
    ),
    Mutant(
        name="a repair takes what looks like a batch within a bad one",
        where="offsetd_storage.recovery.repair_plan:_valid_batches",
        replace="following = _where_length_leads(content, position)",
        by="following = None",
        caught_by=f"{_REPAIRS}::test_what_looks_like_a_batch_within_a_bad_one_is_not_taken",
    ),
    Mutant(
        name="a repair keeps no damaged segment beside",
        where="offsetd_storage.recovery.partition_recovery:apply_plan",
        replace="put_aside(files, log_folder, plan.mended, now_ms=now_ms)",
        by="",
        caught_by=f"{_REPAIRS}::test_one_bad_batch_costs_itself_alone",
    ),
    Mutant(
        name="a repaired log ends where its last batch does",
        where="offsetd_storage.recovery.partition_recovery:apply_plan",
        replace="log.roll()",
        by="pass  # By its name",
        caught_by=f"{_REPAIRS}::test_a_segment_that_is_missing_costs_its_batches_alone",
    ),
    Mutant(
        name="a longer log is ours whatever it holds",
        where="offsetd_storage.recovery.partition_recovery:_plan_closed_log",
        replace="require_point(reader.scan_up_to(claim.point), claim.point)",
        by="pass",
        caught_by="tests/unit/storage/recovery/test_segment_comparison.py",
    ),
    Mutant(
        name="a verification does not miss a partition",
        where="offsetd_coordinator.offline.verification.folder_check:folder_findings",
        replace="yield from _missing_findings(files, view)",
        by="",
        caught_by="tests/unit/coordinator/commands/test_log_verify_lost.py",
    ),
)
