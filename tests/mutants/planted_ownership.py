"""Planted bugs of partitions that come and go, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_OWNERSHIP = "tests/unit/coordinator/test_partition_ownership.py"

OWNERSHIP_MUTANTS = (
    Mutant(
        name="a released partition is answered as damaged",
        where="offsetd_coordinator.runtime.runtime:Runtime.refusal",
        replace="case PartitionState.FAILED:",
        by="case PartitionState.FAILED | PartitionState.RELEASED:",
        caught_by=f"{_OWNERSHIP}::test_over_grpc_each_state_has_its_status",
    ),
    Mutant(
        name="one partition that fails fails the others",
        where="offsetd_coordinator.runtime.runtime:Runtime._shard_of",
        replace="self.log.state(partition) is not PartitionState.SERVING",
        by="not self.log.serves_all",
        caught_by=(
            f"{_OWNERSHIP}::test_a_partition_that_does_not_serve_refuses_and_the_others_serve"
        ),
    ),
    Mutant(
        name="a read that rests on a lost partition and a durable one is answered",
        where="offsetd_coordinator.runtime.commit_log:until_all_durable",
        replace="if lost is not None:",
        by="if lost is not None and not tickets:",
        caught_by=f"{_OWNERSHIP}::test_what_waits_ends_with_its_partition_and_the_others_wait_on",
    ),
    Mutant(
        name="a stream answers commits that were lost with their partition",
        where="offsetd_coordinator.grpc.commit_stream:CommitStream._write",
        replace="lost = runtime.log.lost(unanswered[0].tickets)",
        by="lost = None",
        caught_by=(
            f"{_OWNERSHIP}::test_a_stream_with_commits_of_a_lost_partition_ends_and_another_goes_on"
        ),
    ),
    Mutant(
        name="a large change goes on in a partition that came back",
        where="offsetd_coordinator.large_groups.large_changes:_Change._write",
        replace="runtime.check_shard(partition, shard)",
        by="runtime.shard_of(self._request.group_id)",
        caught_by=(
            f"{_OWNERSHIP}"
            "::test_a_large_change_ends_when_its_partition_goes_and_spares_what_comes_after"
        ),
    ),
    Mutant(
        name="a large read mixes a partition that went with the one that came back",
        where="offsetd_coordinator.large_groups.group_reading:_read",
        replace="runtime.check_shard(partition, shard)",
        by="",
        caught_by=f"{_OWNERSHIP}::test_a_large_read_ends_when_its_partition_goes",
    ),
    Mutant(
        name="commits of a message are decided on by a shard that is gone",
        where="offsetd_coordinator.runtime.commit_runs:CommitRuns._decisions",
        replace="if self._made is None or self._made[0] != version:",
        by="if self._made is None:",
        caught_by=(
            f"{_OWNERSHIP}::test_commits_of_a_message_go_together_after_a_partition_came_back"
        ),
    ),
)
