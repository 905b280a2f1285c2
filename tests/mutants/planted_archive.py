"""Planted bugs of archives, and of what is brought back from them."""

from __future__ import annotations

from mutants.planted import Mutant

_PIPELINE = "pipeline/offsetd_pipeline"
_ARCHIVE = f"{_PIPELINE}/archive"
_LOGS = "tests/unit/pipeline/archive/test_log_run.py"
_MANIFESTS = "tests/unit/pipeline/archive/test_manifests.py"
_PAST = "tests/unit/pipeline/archive/test_past.py"
_LIVES = "tests/spark/test_archive_lives.py"
_VANISHED = "test_a_deletion_that_was_cleaned_away_before_it_was_archived_is_none_the_less_one"
_JOBS = "tests/spark/test_archive.py"
_OTHER = "test_another_servers_archive_is_told_of_and_restored_only_if_that_is_said"

ARCHIVE_MUTANTS = (
    Mutant(
        name="what an open transaction wrote is archived as it stands",
        file=f"{_ARCHIVE}/log_run.py",
        replace="        if is_open.any():\n",
        by="        if False:\n",
        caught_by=f"{_LOGS}::test_nothing_behind_an_open_transaction_is_taken",
    ),
    Mutant(
        name="a run begins where the run before began",
        file=f"{_ARCHIVE}/log_run.py",
        replace="is_new = offsets >= max(self._begin, self._log.log_start_offset)",
        by="is_new = offsets >= self._log.log_start_offset",
        caught_by=f"{_LOGS}::test_only_what_is_new_is_taken",
    ),
    Mutant(
        name="an older copy of the log is taken for one with nothing new",
        file=f"{_ARCHIVE}/log_run.py",
        replace="        if self._log_end < self._begin:\n",
        by="        if False:\n",
        caught_by=f"{_LOGS}::test_a_log_that_does_not_go_on_from_the_archive_is_refused",
    ),
    Mutant(
        name="a log that was set back and written to is gone on with",
        file=f"{_ARCHIVE}/log_run.py",
        replace="        if rows.fields[place, fields.TIMESTAMP] != known.last_timestamp_ms:\n",
        by="        if False:\n",
        caught_by=f"{_LOGS}::test_a_log_that_does_not_go_on_from_the_archive_is_refused",
    ),
    Mutant(
        name="nobody counts what was compacted away",
        file=f"{_ARCHIVE}/log_run.py",
        replace="        if not missing:\n",
        by="        if missing >= 0:\n",
        caught_by=_LOGS,
    ),
    Mutant(
        name="rows of a batch of one are overwritten by the next batch",
        file=f"{_PIPELINE}/arrow_columns.py",
        replace='np.array((rows.fields if is_all else rows.fields[chosen]).T, order="C")',
        by="np.ascontiguousarray((rows.fields if is_all else rows.fields[chosen]).T)",
        caught_by=_LOGS,
    ),
    Mutant(
        name="a manifest takes the place of another run's",
        file=f"{_PIPELINE}/files.py",
        replace="        os.link(part, path)\n",
        by="        os.replace(part, path)\n",
        caught_by=f"{_MANIFESTS}::test_a_manifest_is_made_once",
    ),
    Mutant(
        name="what a killed run left stays for ever",
        file=f"{_ARCHIVE}/manifests.py",
        replace="        for path in orphans:\n            remove_file(self.path / path)\n",
        by="",
        caught_by=f"{_MANIFESTS}::test_what_no_manifest_names_is_removed_and_nothing_else",
    ),
    Mutant(
        name="a time in a gap is as good as any",
        file=f"{_ARCHIVE}/past.py",
        replace="        and at_ms < gap.to_ms\n",
        by="        and at_ms < 0\n",
        caught_by=_PAST,
    ),
    Mutant(
        name="a deletion that was cleaned away is not looked for",
        file=f"{_ARCHIVE}/run.py",
        replace="        if not runs:\n",
        by="        if runs or not runs:\n",
        caught_by=f"{_LIVES}::{_VANISHED}",
    ),
    Mutant(
        name="readers take every file that is there",
        file=f"{_ARCHIVE}/past.py",
        replace="*(spark_path(folder.path / each.path) for each in files)",
        by="str(folder.path.absolute())",
        caught_by=f"{_JOBS}::test_a_folder_that_does_not_go_on_from_the_archive_is_refused",
    ),
    Mutant(
        name="a gap ends before what stands for the missing records counts",
        file=f"{_ARCHIVE}/log_run.py",
        replace="max(self._settled_ms, self._superseding_ms)",
        by="self._settled_ms",
        caught_by=f"{_LOGS}::test_a_gap_ends_when_all_that_may_stand_for_what_is_missing_counts",
    ),
    Mutant(
        name="one line that is not good refuses all groups",
        file=f"{_ARCHIVE}/restoring.py",
        replace="                if not bad:\n",
        by="                if bad:\n",
        caught_by=f"{_JOBS}::test_groups_that_cannot_be_restored_stop_no_other",
    ),
    Mutant(
        name="another cluster's archive is restored without a word",
        file=f"{_ARCHIVE}/restoring.py",
        replace="other_source = None if source == server_id else source",
        by="other_source = None",
        caught_by=f"{_JOBS}::{_OTHER}",
    ),
    Mutant(
        name="a restore does not list what a group has besides",
        file=f"{_PIPELINE}/jobs/restore.py",
        replace="        if each.outcome is not Outcome.UNCHANGED or each.other_count\n",
        by="        if each.outcome is not Outcome.UNCHANGED\n",
        caught_by="tests/spark/test_restore_promises.py::"
        "test_a_restore_touches_what_it_was_told_to",
    ),
)
