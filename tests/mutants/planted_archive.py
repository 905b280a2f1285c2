"""Planted bugs of archives, and of what is brought back from them."""

from __future__ import annotations

from mutants.planted import Mutant

_LOGS = "tests/unit/pipeline/archive/test_log_run.py"
_MANIFESTS = "tests/unit/pipeline/archive/test_manifests.py"
_PAST = "tests/unit/pipeline/archive/test_archive_table.py"
_LIVES = "tests/spark/test_archive_lives.py"
_VANISHED = "test_a_deletion_that_was_cleaned_away_before_it_was_archived_is_none_the_less_one"
_JOBS = "tests/spark/test_archive.py"
_OTHER = "test_another_servers_archive_is_told_of_and_restored_only_if_that_is_said"

ARCHIVE_MUTANTS = (
    Mutant(
        name="what an open transaction wrote is archived as it stands",
        where="offsetd_pipeline.archive.log_run:_LogRunning._take",
        replace="if is_open.any():",
        by="if False:",
        caught_by=f"{_LOGS}::test_nothing_behind_an_open_transaction_is_taken",
    ),
    Mutant(
        name="a run begins where the run before began",
        where="offsetd_pipeline.archive.log_run:_LogRunning._take",
        replace="is_new = offsets >= max(self._begin, self._log.log_start_offset)",
        by="is_new = offsets >= self._log.log_start_offset",
        caught_by=f"{_LOGS}::test_only_what_is_new_is_taken",
    ),
    Mutant(
        name="an older copy of the log is taken for one with nothing new",
        where="offsetd_pipeline.archive.log_run:_LogRunning._check_end",
        replace="if self._log_end < self._begin:",
        by="if False:",
        caught_by=f"{_LOGS}::test_a_log_that_does_not_go_on_from_the_archive_is_refused",
    ),
    Mutant(
        name="a log that was set back and written to is gone on with",
        where="offsetd_pipeline.archive.log_run:_LogRunning._check_known",
        replace="if rows.fields[place, fields.TIMESTAMP] != known.last_timestamp_ms:",
        by="if False:",
        caught_by=f"{_LOGS}::test_a_log_that_does_not_go_on_from_the_archive_is_refused",
    ),
    Mutant(
        name="nobody counts what was compacted away",
        where="offsetd_pipeline.archive.log_run:_LogRunning._gap",
        replace="if not missing:",
        by="if missing >= 0:",
        caught_by=_LOGS,
    ),
    Mutant(
        name="rows of a batch of one are overwritten by the next batch",
        where="offsetd_pipeline.arrow_columns:ChosenRows.__init__",
        replace='np.array((rows.fields if is_all else rows.fields[chosen]).T, order="C")',
        by="np.ascontiguousarray((rows.fields if is_all else rows.fields[chosen]).T)",
        caught_by=_LOGS,
    ),
    Mutant(
        name="a manifest takes the place of another run's",
        where="offsetd_pipeline.files:create_file",
        replace="os.link(part, path)",
        by="os.replace(part, path)",
        caught_by=f"{_MANIFESTS}::test_a_manifest_is_made_once",
    ),
    Mutant(
        name="what a killed run left stays for ever",
        where="offsetd_pipeline.archive.manifests:ArchiveFolder.remove_orphans",
        replace="for path in orphans:\n    remove_file(self.path / path)",
        by="",
        caught_by=f"{_MANIFESTS}::test_what_no_manifest_names_is_removed_and_nothing_else",
    ),
    Mutant(
        name="a time in a gap is as good as any",
        where="offsetd_pipeline.archive.archive_table:gaps_at",
        replace="and at_ms < gap.to_ms",
        by="and at_ms < 0",
        caught_by=_PAST,
    ),
    Mutant(
        name="a deletion that was cleaned away is not looked for",
        where="offsetd_pipeline.archive.run:_Run._vanished",
        replace="if not runs:",
        by="if runs or not runs:",
        caught_by=f"{_LIVES}::{_VANISHED}",
    ),
    Mutant(
        name="readers take every file that is there",
        where="offsetd_pipeline.archive.archive_table:rows_of",
        replace="*(spark_path(folder.path / each.path) for each in files)",
        by="str(folder.path.absolute())",
        caught_by=f"{_JOBS}::test_a_folder_that_does_not_go_on_from_the_archive_is_refused",
    ),
    Mutant(
        name="a gap ends before what stands for the missing records counts",
        where="offsetd_pipeline.archive.log_run:_LogRunning._gap",
        replace="max(self._settled_ms, self._superseding_ms)",
        by="self._settled_ms",
        caught_by=f"{_LOGS}::test_a_gap_ends_when_all_that_may_stand_for_what_is_missing_counts",
    ),
    Mutant(
        name="one line that is not good refuses all groups",
        where="offsetd_pipeline.archive.restoring:_Restoring._import",
        replace="if not bad:",
        by="if bad:",
        caught_by=f"{_JOBS}::test_groups_that_cannot_be_restored_stop_no_other",
    ),
    Mutant(
        name="another cluster's archive is restored without a word",
        where="offsetd_pipeline.archive.restoring:restore",
        replace="other_source = None if source == server_id else source",
        by="other_source = None",
        caught_by=f"{_JOBS}::{_OTHER}",
    ),
    Mutant(
        name="a restore does not list what a group has besides",
        where="offsetd_pipeline.jobs.restore:_print",
        replace="if each.outcome is not Outcome.UNCHANGED or each.other_count",
        by="if each.outcome is not Outcome.UNCHANGED",
        caught_by="tests/spark/test_restore_promises.py::"
        "test_a_restore_touches_what_it_was_told_to",
    ),
)
