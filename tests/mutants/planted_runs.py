"""Planted bugs of commits that are written together, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_COORDINATOR = "coordinator/offsetd_coordinator"
_TAKEN_AWAY = (
    "tests/unit/coordinator/test_replayed_state.py::test_what_a_batch_takes_away_it_may_bring_again"
)
_RUNS = "tests/unit/coordinator/test_commit_runs.py"

RUN_MUTANTS = (
    Mutant(
        name="results of a run before it is durable",
        file=f"{_COORDINATOR}/runtime/commit_runs.py",
        replace="        return self._runtime.count_runs(partitions, written), written\n",
        by="        return 0 * self._runtime.count_runs(partitions, written), written\n",
        caught_by=f"{_RUNS}::test_commits_come_to_the_same_as_one_after_the_other",
    ),
    Mutant(
        name="a condition is judged by what was stored before the run",
        file=f"{_COORDINATOR}/kernels/records/commit_batches.py",
        replace=(
            "            if _looks(commit, unchanged_ms)"
            " and _is_group_in(names, commits, run[:written], commit):\n"
            "                break\n"
        ),
        by="",
        caught_by=f"{_RUNS}::test_commits_come_to_the_same_as_one_after_the_other",
    ),
    Mutant(
        name="a run takes commits of groups that are leased",
        file=f"{_COORDINATOR}/shard/batch_commit_decider.py",
        replace="            return place\n    return int(run.size)\n",
        by="            pass\n    return int(run.size)\n",
        caught_by=f"{_RUNS}::test_commits_come_to_the_same_as_one_after_the_other",
    ),
    Mutant(
        name="a run on a full disk is said to be committed whole",
        file=f"{_COORDINATOR}/runtime/runtime.py",
        replace="        return appended.batch_counts\n",
        by="        return [count + 1 for count in appended.batch_counts]\n",
        caught_by=f"{_RUNS}::test_a_full_disk_refuses_what_is_behind_and_keeps_what_went_in",
    ),
    Mutant(
        name="a run whose table has no room is not replayed to its end",
        file=f"{_COORDINATOR}/shard/batch_commit_decider.py",
        replace="shard.replay_on(self.batches, int(runs[at, RUN_BYTES_END]), self._cursor)\n",
        by="pass\n",
        caught_by=f"{_RUNS}::test_tables_grow_while_runs_are_replayed",
    ),
    Mutant(
        name="a replay remembers names that a tombstone took away",
        file=f"{_COORDINATOR}/kernels/records/replay.py",
        replace="        remove_offset(table, buffer, key)\n        cursor[LAST_GROUP_SIZE] = -1\n",
        by="        remove_offset(table, buffer, key)\n        cursor[LAST_BLOCK] = -1\n",
        caught_by=_TAKEN_AWAY,
    ),
    Mutant(
        name="a replay remembers names that may have gone while it stopped",
        file=f"{_COORDINATOR}/kernels/records/replay.py",
        replace='it may have names go."""\n    cursor[LAST_GROUP_SIZE] = -1\n',
        by='it may have names go."""\n    cursor[LAST_BLOCK] = -1\n',
        caught_by=_TAKEN_AWAY,
    ),
    Mutant(
        name="a directory has the arrays of a table from before it grew",
        file=f"{_COORDINATOR}/state/offset_table.py",
        replace="        fill_row(self.directory_row, arrays)\n",
        by=(
            "        if not self.directory_row.any():\n"
            "            fill_row(self.directory_row, arrays)\n"
        ),
        caught_by=(
            "tests/unit/coordinator/test_table_directory.py::"
            "test_a_row_is_that_of_the_arrays_that_a_table_has_now"
        ),
    ),
)
