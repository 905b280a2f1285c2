"""Planted bugs of what runs beside the appends, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_UPKEEP = "tests/unit/storage/maintenance/test_upkeep.py"
_IDLE = "tests/unit/storage/maintenance/test_idle_rolls.py"
_STEPS = "tests/unit/storage/cleaner/test_cleaner_loop.py"

UPKEEP_MUTANTS = (
    Mutant(
        name="retention does not ask who has the log",
        where="offsetd_storage.retention.log_retention:LogRetention.check",
        replace="if not self._states.begin(topic_partition):\n    return None",
        by="self._states.begin(topic_partition)",
        caught_by=f"{_UPKEEP}::test_nothing_is_deleted_of_a_log_that_another_has_taken",
    ),
    Mutant(
        name="records are deleted below a recovery point that was not moved",
        where="offsetd_storage.retention.log_retention:_raise_start",
        replace="    store.settle_points()\nstore.raise_log_start_offset",
        by="    pass\nstore.raise_log_start_offset",
        caught_by=f"{_UPKEEP}::test_all_records_are_deleted_with_the_active_segment",
    ),
    Mutant(
        name="a log that is rolled to be deleted is not looked at again",
        where="offsetd_storage.retention.log_retention:retain",
        replace="plan = _without_active(plan_now())",
        by="",
        caught_by=f"{_UPKEEP}::test_a_record_that_comes_while_its_log_is_deleted_stays",
    ),
    Mutant(
        name="a batch that waits to be written is as old as its file",
        where="offsetd_storage.retention.retention_rules:segment_figures",
        replace="files.modified_ms(segment.path) if whole else NOT_YET_MS",
        by="files.modified_ms(segment.path)",
        caught_by=(
            "tests/unit/storage/retention/test_retention_rules.py"
            "::test_a_segment_that_waits_to_be_written_has_no_age_by_its_file"
        ),
    ),
    Mutant(
        name="the recovery point stays when the clock has rolled an idle log",
        where="offsetd_storage.maintenance.upkeep:Upkeep._roll",
        replace="if rolled:\n    self._store.settle_points()",
        by="if rolled:",
        caught_by=f"{_UPKEEP}::test_an_idle_log_loses_its_deleted_keys_without_another_append",
    ),
    Mutant(
        name="an idle log is rolled though what it holds is too young to be cleaned",
        where="offsetd_storage.cleaner.candidates:Candidates.gains_if_idle",
        replace="return is_dirty and found.first_uncleanable >= end",
        by="return log.size_bytes > 0",
        caught_by=f"{_IDLE}::test_a_log_waits_until_all_of_it_is_old_enough_to_be_cleaned",
    ),
    Mutant(
        name="an idle log is judged by what its closed segments hold",
        where="offsetd_storage.cleaner.candidates:Candidates._find_rolled",
        replace="log_to_clean(as_rolled(summary, log), log.config",
        by="log_to_clean(summary, log.config",
        caught_by=f"{_IDLE}::test_an_idle_dirty_log_is_rolled_cleaned_and_then_at_rest",
    ),
    Mutant(
        name="an idle log is rolled, and waits for as much dirt as one that is appended to",
        where="offsetd_storage.maintenance.upkeep:Upkeep._roll_idle",
        replace="self.cleaner.compact([*self._roll(rolling), *dirty])",
        by="self._roll(rolling)",
        caught_by=f"{_IDLE}::test_an_idle_log_is_cleaned_at_half_the_ratio",
    ),
    Mutant(
        name="an idle log whose round did not come when it was rolled stays as it is",
        where="offsetd_storage.maintenance.upkeep:Upkeep._roll_idle",
        replace="[*self._roll(rolling), *dirty]",
        by="self._roll(rolling)",
        caught_by=(
            f"{_IDLE}::test_an_idle_log_is_cleaned_though_its_round_did_not_come_when_it_was_rolled"
        ),
    ),
    Mutant(
        name="every look finds a log idle since the start",
        where="offsetd_storage.maintenance.idle_logs:IdleLogs.look",
        replace="known if known and is_idle else (end, now_ms)",
        by="(end, known[1]) if known else (end, now_ms)",
        caught_by=(
            "tests/unit/storage/maintenance/test_idle_logs.py"
            "::test_a_log_is_idle_from_the_first_look_that_found_its_end"
        ),
    ),
    Mutant(
        name="a delete horizon is forgotten at a restart",
        where="offsetd_storage.cleaner.candidates:Candidates.survey",
        replace="delete_horizon_ms=history.delete_horizon_ms",
        by="delete_horizon_ms=None",
        caught_by=(
            f"{_UPKEEP}::test_a_horizon_that_an_earlier_process_left_is_known_after_a_restart"
        ),
    ),
    Mutant(
        name="a damaged log is deleted of",
        where="offsetd_storage.cleaner.cleaner_loop:CleanerLoop._retain_compacted",
        replace="if not is_damaged and",
        by="if",
        caught_by=(
            f"{_STEPS}::test_a_log_that_cannot_be_cleaned_still_deletes_unless_it_is_damaged"
        ),
    ),
    Mutant(
        name="what was asked for is lost when its thread dies",
        where="offsetd_storage.cleaner.cleaner_loop:CleanerLoop._note_end",
        replace="self.requests.put_back(work.request)",
        by="pass",
        caught_by=(f"{_STEPS}::test_a_thread_that_dies_is_replaced_and_the_request_is_not_lost"),
    ),
    Mutant(
        name="a worker's failure is read after what it says of itself",
        where="offsetd_storage.tasks.scheduler:SupervisedWorker.life",
        replace="has_thread, run = self._scheduler.threads_alive > 0, self._scheduler.statuses[0]",
        by="run, has_thread = self._scheduler.statuses[0], self._scheduler.threads_alive > 0",
        caught_by=(
            "tests/unit/storage/tasks/test_scheduler.py"
            "::test_a_worker_that_fails_while_it_is_asked_says_of_what"
        ),
    ),
    Mutant(
        name="the cleaner's threads count as dead while they are exchanged",
        where="offsetd_storage.cleaner.log_cleaner:LogCleaner._stop_threads",
        replace="threads, self._threads = self._threads, ()",
        by="threads = self._threads",
        caught_by=(
            "tests/unit/storage/cleaner/test_log_cleaner.py"
            "::test_threads_that_are_exchanged_are_none_that_died"
        ),
    ),
)
