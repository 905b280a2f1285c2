"""Planted bugs that break what a cleaned log guarantees, seen through properties of whole logs."""

from __future__ import annotations

from mutants.planted import Mutant

_READERS = "tests/property/test_cleaned_log_machine.py"
_SHARDS = "tests/property/test_cleaning_guarantees.py"
_NODES = "tests/sim/test_node_crashes.py"

GUARANTEE_MUTANTS = (
    Mutant(
        name="a tombstone goes though what it hides was not mapped yet",
        where="offsetd_storage.kernels.compaction_filter:_judge_records",
        replace="stays = STAYS_AS_TOMBSTONE if is_tombstone else STAYS",
        by=(
            "stays = STAYS_AS_TOMBSTONE if is_tombstone else STAYS\n"
            "if is_tombstone and horizon_passed:\n"
            "    stays = GOES"
        ),
        caught_by=_READERS,
    ),
    Mutant(
        name="tombstones are held for no time",
        where="offsetd_storage.cleaner.segment_filter:_new_state",
        replace="state[compaction_filter.NEW_HORIZON] = rules.now_ms + rules.delete_retention_ms",
        by="state[compaction_filter.NEW_HORIZON] = rules.now_ms",
        caught_by=_READERS,
    ),
    Mutant(
        name="records are cleaned while their request ids count",
        where="offsetd_coordinator.configuration.internal_topic_configs:topic_floors",
        replace="least=request_id_window_ms + 1,",
        by="least=request_id_window_ms,",
        caught_by=_SHARDS,
    ),
    Mutant(
        name="a log that is dirty to more than the ratio is not due",
        where="offsetd_storage.cleaner.cleaning_plan:log_to_clean",
        replace="is_dirty=found.cleanable_ratio > config.dirty_ratio_min)",
        by="is_dirty=found.cleanable_ratio > 2 * config.dirty_ratio_min)",
        caught_by=_SHARDS,
    ),
    Mutant(
        name="the cleaner's threads go beyond the recovery point",
        where="offsetd_storage.cleaner.candidates:Candidates._summary_of",
        replace="recovery_point=point,\nhistory=_NO_HISTORY",
        by="recovery_point=None,\nhistory=_NO_HISTORY",
        caught_by=f"{_NODES}::test_the_cleaner_waits_for_the_recovery_point",
    ),
)
