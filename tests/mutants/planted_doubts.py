"""Planted bugs of a folder that is not at its path, and of settings that cannot be read."""

from __future__ import annotations

from mutants.planted import Mutant

_FILES = "storage/offsetd_storage/disk/files.py"
_LOCK = "storage/offsetd_storage/folder/folder_lock.py"
_UPKEEP = "storage/offsetd_storage/maintenance/upkeep.py"
_RECOVERY = "storage/offsetd_storage/recovery/recovery.py"
_GUESTS = "storage/offsetd_storage/guest_logs.py"
_STEPS = "storage/offsetd_storage/cleaner/cleaning_steps.py"
_OWN = "coordinator/offsetd_coordinator/administration/internal_topics.py"
_EXPIRER = "coordinator/offsetd_coordinator/background/expirer.py"
_LAST_UP = "coordinator/offsetd_coordinator/expiry/uptime_marker.py"
_LOCK_TESTS = "tests/unit/storage/test_folder_lock.py"
_MOVED = "tests/fault/test_moved_folder.py"
_TWO = f"{_MOVED}::test_of_two_servers_on_one_path_the_first_stops_and_neither_loses_anything"
_GONE = f"{_MOVED}::test_a_server_whose_folder_or_lock_is_deleted_stops"
_EXPIRER_TESTS = "tests/unit/coordinator/test_expirer.py"
_REPAIRS = "tests/unit/storage/test_log_repair.py"
_UPKEEP_TESTS = "tests/unit/storage/test_upkeep.py"

DOUBT_MUTANTS = (
    Mutant(
        name="a locked folder is reached by its path",
        file=_FILES,
        replace="        return name, self._locked.folder\n",
        by="        return path, None\n",
        caught_by=(
            f"{_LOCK_TESTS}::test_what_is_reached_through_a_lock_is_the_folder_that_was_locked"
        ),
    ),
    Mutant(
        name="names change in a folder that is not at its path",
        file=_FILES,
        replace="        if changes_names and not self._locked.is_in_place():\n",
        by="        if False:\n",
        caught_by=f"{_LOCK_TESTS}::test_no_name_changes_in_a_folder_that_is_not_at_its_path",
    ),
    Mutant(
        name="a store works with the files of before the lock",
        file=_RECOVERY,
        replace="    files = lock.files\n    folder = RecoveryScope(\n        files=files,\n",
        by="    folder = RecoveryScope(\n        files=files,\n",
        caught_by=_TWO,
    ),
    Mutant(
        name="nobody looks whether the folder is in its place",
        file=_UPKEEP,
        replace=(
            "            self._task(FOLDER_IN_PLACE, store.check_folder, _FOLDER_LOOK_MS,"
            " initial_delay_ms=0),\n"
        ),
        by="",
        caught_by=_GONE,
    ),
    Mutant(
        name="a lock's file that was removed is no concern",
        file=_FILES,
        replace=" and os.path.samestat(os.stat(self._path), os.fstat(self._file))",
        by="",
        caught_by=f"{_LOCK_TESTS}::test_a_lock_whose_file_was_removed_or_replaced_is_none",
    ),
    Mutant(
        name="a damaged log of settings counts as empty",
        file=_OWN,
        replace="        return None if self.accepts_defaults else self._what_is_lost()\n",
        by="        return None\n",
        caught_by=(
            f"{_EXPIRER_TESTS}"
            "::test_while_settings_cannot_be_read_nothing_expires_and_mending_brings_them_back"
        ),
    ),
    Mutant(
        name="what is not known of the settings does not hold expiry",
        file=_EXPIRER,
        replace="        if self._administration.settings_doubt is not None:\n",
        by="        if False:\n",
        caught_by=(
            f"{_EXPIRER_TESTS}::test_a_setting_that_is_not_used_holds_expiry_until_it_is_taken_back"
        ),
    ),
    Mutant(
        name="retention goes on while the settings are not known",
        file=_UPKEEP,
        replace="        if self.config.held is not None:\n            return\n",
        by="",
        caught_by=(
            f"{_UPKEEP_TESTS}"
            "::test_what_is_held_is_neither_cleaned_nor_deleted_until_it_is_not_held"
        ),
    ),
    Mutant(
        name="a damaged note of the last stop means that there was no grace",
        file=_LAST_UP,
        replace="UNREADABLE: Final = LastUp(up_ms=0, grace_until_ms=2**63 - 1)\n",
        by="UNREADABLE: Final = LastUp(up_ms=0, grace_until_ms=0)\n",
        caught_by=f"{_EXPIRER_TESTS}::test_a_damaged_note_of_the_last_stop_holds_for_a_whole_grace",
    ),
    Mutant(
        name="a topic of a broker's that is cleaned gets a list of ours",
        file=_GUESTS,
        replace="                        is_listed=False,\n",
        by="                        is_listed=True,\n",
        caught_by="tests/interop/test_broker_on_guest_logs.py",
    ),
    Mutant(
        name="a log that goes on behind where it was closed is not looked at",
        file="storage/offsetd_storage/recovery/partition_recovery.py",
        replace="attrs.evolve(plan, known=known_of_longer(known, plan.scans, claim.point))",
        by="plan",
        caught_by="tests/unit/storage/test_partial_restores.py",
    ),
    Mutant(
        name="a list that knows more than the journal is believed",
        file="storage/offsetd_storage/recovery/segment_comparison.py",
        replace="    if listed.below <= offset_next:\n",
        by="    if True:\n",
        caught_by="tests/unit/storage/test_partial_restores.py",
    ),
    Mutant(
        name="a broker's snapshots do not tell that it had the log",
        file="storage/offsetd_storage/recovery/segment_comparison.py",
        replace="    if not known.snapshots.issuperset(found_snapshots(files, log_folder)):\n",
        by="    if False:\n",
        caught_by="tests/unit/storage/test_foreign_partitions.py",
    ),
    Mutant(
        name="a leader epoch that has rotted is a broker's",
        file="storage/offsetd_storage/recovery/partition_recovery.py",
        replace="    if epoch_cut > epoch_known and reader",
        by="    if False and reader",
        caught_by="tests/unit/storage/test_recovery_after_a_broker.py",
    ),
    Mutant(
        name="what a broker wrote behind the recovery point counts as the journal's",
        file="storage/offsetd_storage/recovery/journaled_tail.py",
        replace="if not batch or _without_epoch(found) != _without_epoch(batch):",
        by="if not batch:",
        caught_by="tests/unit/storage/test_recovery_after_a_broker.py",
    ),
    Mutant(
        name="a folder of settings that is lost begins anew",
        file=_OWN,
        replace="            is_removable=topic != CONFIG_TOPIC,\n",
        by="            is_removable=True,\n",
        caught_by=(
            "tests/fault/test_rotten_settings.py"
            "::test_lost_settings_hold_everything_back_like_unreadable_ones"
        ),
    ),
    Mutant(
        name="nobody looks whether the journal is the one that is open",
        file="storage/offsetd_storage/log_store.py",
        replace="                    self._in_place.check_journal()\n",
        by="                    pass\n",
        caught_by=f"{_MOVED}::test_a_server_whose_journal_is_removed_stops_and_loses_nothing",
    ),
    Mutant(
        name="nobody looks whether the last segments are there",
        file="storage/offsetd_storage/log_store.py",
        replace="                self._in_place.check_some_logs()\n",
        by="",
        caught_by=f"{_MOVED}::test_a_server_whose_partition_is_removed_stops",
    ),
    Mutant(
        name="a journal that is gone takes along what only it had",
        file="storage/offsetd_storage/log_store.py",
        replace="                self._write_what_is_left()\n",
        by="",
        caught_by=f"{_MOVED}::test_a_server_whose_journal_is_removed_stops_and_loses_nothing",
    ),
    Mutant(
        name="a repair takes what looks like a batch within a bad one",
        file="storage/offsetd_storage/recovery/repair_plan.py",
        replace="        following = _where_length_leads(content, position)\n",
        by="        following = None\n",
        caught_by=f"{_REPAIRS}::test_what_looks_like_a_batch_within_a_bad_one_is_not_taken",
    ),
    Mutant(
        name="a repair keeps no damaged segment beside",
        file="storage/offsetd_storage/recovery/partition_recovery.py",
        replace="        put_aside(files, log_folder, plan.mended, now_ms=now_ms)\n",
        by="",
        caught_by=f"{_REPAIRS}::test_one_bad_batch_costs_itself_alone",
    ),
    Mutant(
        name="a repaired log ends where its last batch does",
        file="storage/offsetd_storage/recovery/partition_recovery.py",
        replace="                log.roll()  # By its name",
        by="                pass  # By its name",
        caught_by=f"{_REPAIRS}::test_a_segment_that_is_missing_costs_its_batches_alone",
    ),
    Mutant(
        name="a longer log is ours whatever it holds",
        file="storage/offsetd_storage/recovery/partition_recovery.py",
        replace="            require_point(reader.scan_up_to(claim.point), claim.point)\n",
        by="            pass\n",
        caught_by="tests/unit/storage/test_foreign_partitions.py",
    ),
    Mutant(
        name="a verification does not miss a partition",
        file="coordinator/offsetd_coordinator/offline/verification/folder_check.py",
        replace="    yield from _missing_findings(files, view)\n",
        by="",
        caught_by="tests/unit/coordinator/test_commands_log_verify_lost.py",
    ),
)
