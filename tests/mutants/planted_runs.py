"""Planted bugs of commits that are written together, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_REPLAYS = "tests/unit/coordinator/state/test_replayed_state.py"
_TAKEN_AWAY = f"{_REPLAYS}::test_what_a_batch_takes_away_it_may_bring_again"
_RUNS = "tests/unit/coordinator/runtime/test_commit_runs.py"

RUN_MUTANTS = (
    Mutant(
        name="results of a run before it is durable",
        where="offsetd_coordinator.runtime.commit_runs:CommitRuns._append_and_replay",
        replace="return max(tickets), written",
        by="return 0, written",
        caught_by=f"{_RUNS}::test_commits_come_to_the_same_as_one_after_the_other",
    ),
    Mutant(
        name="a condition is judged by what was stored before the run",
        where="offsetd_coordinator.kernels.records.commit_batches:decide_runs",
        replace=(
            "if _looks(commit, unchanged_ms) and _is_group_in(names, commits, "
            "run[:written], commit):\n"
            "    break"
        ),
        by="",
        caught_by=f"{_RUNS}::test_commits_come_to_the_same_as_one_after_the_other",
    ),
    Mutant(
        name="a run takes commits of groups that are leased",
        where="offsetd_coordinator.shard.batch_commit_decider:_count_free",
        replace="        return place\nreturn int(run.size)",
        by="        pass\nreturn int(run.size)",
        caught_by=f"{_RUNS}::test_commits_come_to_the_same_as_one_after_the_other",
    ),
    Mutant(
        name="a run on a full disk is said to be committed whole",
        where="offsetd_coordinator.runtime.store_commit_log:StoreCommitLog.append_runs",
        replace="return LoggedRuns(appended.batch_counts,",
        by="return LoggedRuns([count + 1 for count in appended.batch_counts],",
        caught_by=f"{_RUNS}::test_a_full_disk_refuses_what_is_behind_and_keeps_what_went_in",
    ),
    Mutant(
        name="a run whose table has no room is not replayed to its end",
        where="offsetd_coordinator.shard.batch_commit_decider:BatchCommitDecider.replay",
        replace="shard.replay_on(self.batches, int(runs[at, RUN_BYTES_END]), self._cursor)",
        by="pass",
        caught_by=f"{_RUNS}::test_tables_grow_while_runs_are_replayed",
    ),
    Mutant(
        name="a replay remembers names that a tombstone took away",
        where="offsetd_coordinator.kernels.records.replay:_replay_record",
        replace="remove_offset(table, buffer, key)\ncursor[LAST_GROUP_SIZE] = -1",
        by="remove_offset(table, buffer, key)\ncursor[LAST_BLOCK] = -1",
        caught_by=_TAKEN_AWAY,
    ),
    Mutant(
        name="a replay remembers names that may have gone while it stopped",
        where="offsetd_coordinator.kernels.records.replay:_describe_record",
        replace="cursor[LAST_GROUP_SIZE] = -1",
        by="cursor[LAST_BLOCK] = -1",
        caught_by=_TAKEN_AWAY,
    ),
    Mutant(
        name="a directory has the arrays of a table from before it grew",
        where="offsetd_coordinator.state.offset_table:OffsetTable._publish",
        replace="fill_row(self.directory_row, arrays)",
        by="if not self.directory_row.any():\n    fill_row(self.directory_row, arrays)",
        caught_by=(
            "tests/unit/coordinator/kernels/test_table_directory.py::"
            "test_a_row_is_that_of_the_arrays_that_a_table_has_now"
        ),
    ),
)
