"""Planted bugs of calls over all nodes of a cluster, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_CALLS = "tests/unit/coordinator/services/test_cluster_calls.py"
_CLIENT = "tests/unit/clients/test_cluster.py"
_OWNERSHIP = "tests/unit/coordinator/test_partition_ownership.py"
_LEAVING = "tests/unit/clients/calling/test_leaving_groups.py"
_WATCH = "tests/unit/clients/test_cluster_watch.py"
_ORDER = (
    "tests/property/test_commit_order_in_clusters.py"
    "::test_each_group_is_committed_in_order_while_partitions_move"
)

CLUSTER_CLIENT_MUTANTS = (
    Mutant(
        name="a node answers for log partitions of others",
        where="offsetd_coordinator.services.cluster_calls:node_share",
        replace="here = [each for each in concerned if _is_here(runtime, each)]",
        by="here = list(concerned)",
        caught_by=f"{_CALLS}::test_a_node_lists_its_own_groups_and_names_the_owners_of_the_others",
    ),
    Mutant(
        name="a list begins anew in a log partition that moved",
        where="offsetd_clients.cluster_parts:Part.split",
        replace='"" if place else self.page_token',
        by='""',
        caught_by=f"{_CLIENT}::test_the_list_has_each_group_once_while_partitions_move",
    ),
    Mutant(
        name="an export leaves out log partitions whose stream broke",
        where="offsetd_clients.aio.cluster_lists:exported_pieces",
        replace="parts[:0] = Part(tuple(missing)).split()",
        by="parts[:0] = []",
        caught_by=(
            f"{_CLIENT}"
            "::test_a_partition_that_leaves_during_its_export_is_exported_by_its_next_owner"
        ),
    ),
    Mutant(
        name="a client stays with an address that does not answer",
        where="offsetd_clients.calling.group_owners:Owners.leave",
        replace="if asked == self.home:",
        by="if not asked:",
        caught_by=f"{_CLIENT}::test_the_next_address_is_tried_if_one_cannot_be_reached",
    ),
    Mutant(
        name="the token of a watch has the positions of one node only",
        where="offsetd_clients.aio.watch_feeds:ClusterWatch._batch",
        replace="token=merged([self._positions, answer.token])",
        by="token=answer.token",
        caught_by=f"{_WATCH}::test_one_token_goes_on_at_any_node",
    ),
    Mutant(
        name="a stream goes on at the position of its begin",
        where="offsetd_clients.aio.watch_feeds:ClusterWatch._note_taken",
        replace="self._positions = merged([self._positions, answer.token])",
        by="self._positions = self._positions or merged([answer.token])",
        caught_by=f"{_WATCH}::test_each_event_comes_once_and_in_order_while_partitions_move",
    ),
    Mutant(
        name="a watch begins before each log partition has a position",
        where="offsetd_clients.aio.watch_feeds:ClusterWatch._has_all_positions",
        replace="return self._concerned <= known | set(self.unreachable_log_partitions)",
        by="return bool(known)",
        caught_by=(
            f"{_WATCH}::test_a_watch_from_now_on_has_positions_in_all_partitions_at_its_first_batch"
        ),
    ),
    Mutant(
        name="commits overtake those that wait for their group's owner",
        where="offsetd_clients.calling.commit_queue:CommitQueue._enqueue",
        replace="lane = self._lanes.get(commit.request.group_id) if self._lanes else None",
        by="lane = None",
        caught_by=_ORDER,
    ),
    Mutant(
        name="a group leaves a server while commits are on their way there",
        where="offsetd_clients.calling.commit_queue:CommitQueue._can_leave",
        replace="group_id in on_the_way",
        by="False",
        caught_by=_ORDER,
    ),
    Mutant(
        name="new commits of a group go to its owner before the earlier ones have left",
        where="offsetd_clients.sync.commits:Commits._release",
        replace="address = self._owners.address_of(group_id)",
        by="""
address = self._owners.address_of(group_id)
self._seats.settle(group_id, address)
""",
        caught_by=f"{_LEAVING}::test_a_group_keeps_its_queue_until_its_commits_have_left",
    ),
    Mutant(
        name="a group leaves a server while a refusal of its commits is being read",
        where="offsetd_clients.sync.commits:Commits._stream",
        replace="""
with self._guard:
    final = self._final(self._queue.take_results(response))
""",
        by="""
with self._guard:
    outcomes = self._queue.take_results(response)
final = self._final(outcomes)
with self._guard:
""",
        caught_by=f"{_LEAVING}::test_a_refusal_is_read_and_its_commits_are_held_under_one_lock",
    ),
    Mutant(
        name="a fenced writer is accepted after its group has moved",
        where="offsetd_coordinator.state.leases:check_epoch",
        replace="if status is not None and status.lease.epoch == epoch:",
        by="if status is not None and status.lease.epoch >= epoch:",
        caught_by=(
            "tests/property/test_leases_in_clusters.py"
            "::test_no_fenced_writer_is_accepted_while_partitions_move"
        ),
    ),
    Mutant(
        name="a stream accepts commits behind those that were lost with their partition",
        where="offsetd_coordinator.grpc.commit_stream:CommitStream._check_order",
        replace="if self._losses != runtime.log.losses:",
        by="if False:",
        caught_by=f"{_OWNERSHIP}::test_a_stream_accepts_no_commits_behind_those_that_were_lost",
    ),
    Mutant(
        name="a stream accepts commits of a log partition that came back",
        where="offsetd_coordinator.grpc.commit_stream:CommitStream._check_order",
        replace="if runtime.serves(partition):",
        by="if False:",
        caught_by=f"{_CALLS}::test_a_stream_ends_before_commits_behind_a_refused_one_are_accepted",
    ),
)
