"""Planted bugs of the guards against too many commits, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_RULES = "tests/unit/coordinator/shard/test_commit_verdicts.py"
_GUARDS = "tests/unit/coordinator/runtime/test_commit_guards.py"

GUARD_MUTANTS = (
    Mutant(
        name="unchanged offsets are left out however old they are",
        where="offsetd_coordinator.kernels.records.commit_batch:_is_unchanged",
        replace="if age_ms < 0 or age_ms >= unchanged_ms or not",
        by="if age_ms < 0 or not",
        caught_by=f"{_RULES}::test_only_what_was_committed_a_moment_ago_is_not_written_again",
    ),
    Mutant(
        name="unchanged offsets are left out beside an open transaction",
        where="offsetd_coordinator.kernels.records.commit_batch:_is_unchanged",
        replace="times.expire_timestamp >= 0 or table.counters[OPEN_TRANSACTIONS] > 0:",
        by="times.expire_timestamp >= 0:",
        caught_by=f"{_RULES}::test_beside_an_open_transaction_everything_is_written",
    ),
    Mutant(
        name="a commit is left out although its metadata differ",
        where="offsetd_coordinator.kernels.records.commit_batch:_is_same",
        replace="if table.metadata[start + place] != commit.names[metadata_start + place]:",
        by="if table.metadata[start + place] < 0:",
        caught_by=f"{_RULES}::test_what_differs_in_one_partition_is_written_as_a_whole",
    ),
    Mutant(
        name="offsets of a group with a short retention expire although they are committed",
        where="offsetd_coordinator.state.commit_verdicts:unchanged_ms_of",
        replace="return min(unchanged_ms, settings.retention_ms // UNCHANGED_SHARE)",
        by="return unchanged_ms",
        caught_by=f"{_RULES}::test_it_is_at_most_a_tenth_of_the_groups_retention",
    ),
    Mutant(
        name="offsets expire although they are committed, as the settings do not fit",
        where="offsetd_coordinator.configuration.dynamic_settings:ExpiryConfig.__attrs_post_init__",
        replace="if self.retention_minutes > 0 and self.unchanged_commit_ms > most:",
        by="if self.retention_minutes > 0 and self.unchanged_commit_ms < 0:",
        caught_by="tests/unit/coordinator/configuration/test_dynamic_settings.py",
    ),
    Mutant(
        name="a member that commits the same offset over and over is taken for dead",
        where="offsetd_coordinator.runtime.runtime:Runtime.submit",
        replace="shard.apply(decision)\nself._note_life(shard, request)",
        by="shard.apply(decision)",
        caught_by="tests/unit/coordinator/runtime/test_member_calls.py",
    ),
    Mutant(
        name="buckets of idle groups are kept",
        where="offsetd_coordinator.quotas.token_buckets:TokenBuckets._forget_idle",
        replace="if buckets[oldest] > now_ns and len(buckets) <= self._count_max:",
        by="if len(buckets) <= self._count_max:",
        caught_by=f"{_GUARDS}::test_idle_groups_are_forgotten_and_the_others_bounded",
    ),
    Mutant(
        name="every group that ever committed is counted",
        where="offsetd_coordinator.runtime.commit_guards:GroupActivity.note_all",
        replace="if len(self._counts) > 2 * _GROUPS_LEFT_MAX:",
        by="if len(self._counts) > 10**9:",
        caught_by=_GUARDS,
    ),
)
