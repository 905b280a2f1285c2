"""Planted bugs of `offsetd size`."""

from __future__ import annotations

from mutants.planted import Mutant

_SIZING = "offsetd_coordinator.offline.sizing"
_TESTS = "tests/fault/test_sizing.py"
_LOAD = f"{_TESTS}::test_the_estimate_of_memory_and_disk_is_within_30_percent"
_TOTALS = f"{_TESTS}::test_totals_are_the_sums_and_grow_with_the_load"

SIZING_MUTANTS = (
    Mutant(
        name="a record on the disk has no names",
        where=f"{_SIZING}:Workload.commit_bytes",
        replace="+ 2 * self.name_bytes",
        by="",
        caught_by=_LOAD,
    ),
    Mutant(
        name="lag windows take no memory",
        where=f"{_SIZING}:_memory",
        replace='workload.offsets * _of("lag window")',
        by="0.0",
        caught_by=_LOAD,
    ),
    Mutant(
        name="the history does not count in days",
        where=f"{_SIZING}:_disk",
        replace="workload.history_days * DAY_S",
        by="workload.history_days",
        caught_by=_TOTALS,
    ),
    Mutant(
        name="a busy event loop is not told",
        where=f"{_SIZING}:loop_share",
        replace="workload.commits_per_second * us / 1e6",
        by="us / 1e6",
        caught_by=f"{_TESTS}::test_more_commits_than_one_loop_decides_on_are_told",
    ),
)
