"""Planted bugs that break what a cleaned log guarantees, seen through properties of whole logs."""

from __future__ import annotations

from mutants.planted import Mutant

_CLEANER = "storage/offsetd_storage/cleaner"
_READERS = "tests/property/test_cleaned_log_machine.py"
_SHARDS = "tests/property/test_cleaning_guarantees.py"
_NODES = "tests/sim/test_node_crashes.py"

GUARANTEE_MUTANTS = (
    Mutant(
        name="a tombstone goes though what it hides was not mapped yet",
        file="storage/offsetd_storage/kernels/record_retention.py",
        replace="        stays = STAYS_AS_TOMBSTONE if is_tombstone else STAYS\n",
        by=(
            "        stays = STAYS_AS_TOMBSTONE if is_tombstone else STAYS\n"
            "        if is_tombstone and horizon_passed:\n"
            "            stays = GOES\n"
        ),
        caught_by=_READERS,
    ),
    Mutant(
        name="tombstones are held for no time",
        file="storage/offsetd_storage/cleaner/segment_filter.py",
        replace="state[record_retention.NEW_HORIZON] = rules.now_ms + rules.delete_retention_ms",
        by="state[record_retention.NEW_HORIZON] = rules.now_ms",
        caught_by=_READERS,
    ),
    Mutant(
        name="records are cleaned while their request ids count",
        file="coordinator/offsetd_coordinator/configuration/server_topics.py",
        replace="least=request_id_window_ms + 1,",
        by="least=request_id_window_ms,",
        caught_by=_SHARDS,
    ),
    Mutant(
        name="a log that is dirty to more than the ratio is not due",
        file="storage/offsetd_storage/cleaner/cleaning_plan.py",
        replace="is_dirty=found.cleanable_ratio > config.dirty_ratio_min)",
        by="is_dirty=found.cleanable_ratio > 2 * config.dirty_ratio_min)",
        caught_by=_SHARDS,
    ),
    Mutant(
        name="the cleaner's threads go beyond the recovery point",
        file=f"{_CLEANER}/candidates.py",
        replace="                recovery_point=point,\n                history=_NO_HISTORY",
        by="                recovery_point=None,\n                history=_NO_HISTORY",
        caught_by=f"{_NODES}::test_the_cleaner_waits_for_the_recovery_point",
    ),
)
