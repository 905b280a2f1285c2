"""Planted bugs of commits that are written together, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_COORDINATOR = "coordinator/offsetd_coordinator"
_RUNS = "tests/unit/coordinator/test_commit_runs.py"

RUN_MUTANTS = (
    Mutant(
        name="results of a run before it is durable",
        file=f"{_COORDINATOR}/runtime.py",
        replace="        return self._tickets[partition], count\n",
        by="        return 0, count\n",
        caught_by=f"{_RUNS}::test_commits_come_to_the_same_as_one_after_the_other",
    ),
    Mutant(
        name="a condition is judged by what was stored before the run",
        file=f"{_COORDINATOR}/kernels/commit_runs.py",
        replace=(
            "        if _looks(commit, unchanged_ms)"
            " and _is_group_in(names, commits, run[:place], commit):\n"
            "            return place\n"
        ),
        by="",
        caught_by=f"{_RUNS}::test_commits_come_to_the_same_as_one_after_the_other",
    ),
    Mutant(
        name="a run takes commits of groups that are leased",
        file=f"{_COORDINATOR}/commit_decisions.py",
        replace="                return place\n        return len(group_ids)\n",
        by="                pass\n        return len(group_ids)\n",
        caught_by=f"{_RUNS}::test_commits_come_to_the_same_as_one_after_the_other",
    ),
    Mutant(
        name="a run on a full disk is said to be committed whole",
        file=f"{_COORDINATOR}/runtime.py",
        replace="        return appended.batch_count\n",
        by="        return len(decision.ends)\n",
        caught_by=f"{_RUNS}::test_a_full_disk_refuses_what_is_behind_and_keeps_what_went_in",
    ),
)
