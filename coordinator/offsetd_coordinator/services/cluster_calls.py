"""The nodes of a cluster: DescribeCluster, and this node's share of calls about all groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from offsetd.v1 import admin_service_pb2, types_pb2

from offsetd_coordinator.errors import CoordinatorLoadInProgress, InvalidRequest, NotCoordinator
from offsetd_coordinator.messages import validation
from offsetd_coordinator.runtime.commit_log import PartitionState
from offsetd_coordinator.runtime.node_directory import ClusterNode, ClusterReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from offsetd_coordinator.node import Node
    from offsetd_coordinator.runtime.runtime import Runtime

_STATES = {
    PartitionState.LOADING: admin_service_pb2.LOG_PARTITION_STATE_LOADING,
    PartitionState.SERVING: admin_service_pb2.LOG_PARTITION_STATE_SERVING,
    PartitionState.FAILED: admin_service_pb2.LOG_PARTITION_STATE_FAILED,
}


class NodeShare(NamedTuple):
    """The log partitions that an answer is about, and what a node of a cluster says of them."""

    partitions: Sequence[int]
    """In ascending order; damaged ones too."""
    message: types_pb2.ClusterShare | None
    """None on a single server."""


def node_share(
    runtime: Runtime,
    concerned: Sequence[int],
    *,
    named: Sequence[int] = (),
    this_node_only: bool = False,
) -> NodeShare:
    """The share of a call about the `concerned` log partitions, which are in ascending order.

    `named` and `this_node_only` are the request's fields. Raises InvalidRequest, and the errors of
    `Runtime.refusal` if this node does not serve a log partition that it has to answer for.
    """
    _check_named(named, runtime.partitions)
    here, elsewhere = list(concerned), list[int]()
    if named:
        chosen = set(named)
        here = [each for each in concerned if each in chosen]
    elif this_node_only:
        here = [each for each in concerned if _is_here(runtime, each)]
        elsewhere = [each for each in concerned if not _is_here(runtime, each)]
    for partition in here:
        if not _is_here(runtime, partition):
            raise _refusal(runtime, partition, is_of_several=len(concerned) > 1 and not named)
    if runtime.directory is None:
        return NodeShare(here, None)
    message = types_pb2.ClusterShare(log_partitions=here)
    for address, partitions in _by_owner(runtime, elsewhere).items():
        message.elsewhere.add(address=address, log_partitions=partitions)
    return NodeShare(here, message)


def cluster_id(node: Node) -> str:
    """The id of the cluster; empty on a single server."""
    if node.runtime is None or node.runtime.directory is None:
        return ""
    return node.folder_id or ""


def other_addresses(node: Node) -> list[str]:
    """The addresses of the other nodes of the cluster; none on a single server."""
    runtime = node.runtime
    if runtime is None or runtime.directory is None:
        return []
    return [
        each.address
        for each in runtime.directory.nodes()
        if each.node_id != node.node_id and each.address
    ]


class ClusterService:
    """The method: it takes a request's bytes and returns the answer's bytes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def describe_cluster(self, message: bytes) -> bytes:
        """Describes all nodes. Raises CoordinatorLoadInProgress before the partitions are known."""
        validation.parse(admin_service_pb2.DescribeClusterRequest, message)
        node, runtime = self._node, self._node.runtime
        if node.partitions is None:
            raise CoordinatorLoadInProgress("the server is opening its folder")
        partitions = range(node.partitions)
        directory = None if runtime is None else runtime.directory
        if directory is None:
            nodes: Sequence[ClusterNode] = [
                ClusterNode(node.node_id, node.address, tuple(partitions))
            ]
            owners: list[ClusterNode | None] = [*nodes] * len(partitions)
        else:
            nodes = directory.nodes()
            owners = [directory.owner(each) for each in partitions]
        report = ClusterReport() if node.cluster_report is None else node.cluster_report()
        response = admin_service_pb2.DescribeClusterResponse(
            cluster_id=cluster_id(node),
            node_id=node.node_id,
            problems=report.problems,
        )
        for each in nodes:
            response.nodes.add(
                node_id=each.node_id, address=each.address, log_partitions=each.partitions
            )
        for partition, owner in zip(partitions, owners, strict=True):
            described = response.partitions.add(
                log_partition=partition, node_id="" if owner is None else owner.node_id
            )
            if runtime is None:
                described.state = admin_service_pb2.LOG_PARTITION_STATE_LOADING
            else:
                _describe(described, runtime, report)
        if report.replication is not None:
            response.replication.topic = report.replication.topic
            response.replication.replication_factor = report.replication.replication_factor
            response.replication.min_insync_replicas = report.replication.min_insync_replicas
        return response.SerializeToString()


def _describe(
    message: admin_service_pb2.ClusterPartition, runtime: Runtime, report: ClusterReport
) -> None:
    """Adds what only the node of a log partition knows."""
    partition = message.log_partition
    if partition in report.copy_lags:
        message.copy_lag = report.copy_lags[partition]
    state = runtime.log.state(partition)
    if state not in _STATES:
        return
    message.state = _STATES[state]
    if partition in report.epochs:
        message.epoch = report.epochs[partition]
    elif runtime.serves(partition):
        message.epoch = runtime.log.reader(partition).leader_epoch


def _is_here(runtime: Runtime, partition: int) -> bool:
    """Whether a log partition has to be asked of this node: it is served, or damaged here."""
    return runtime.serves(partition) or runtime.log.state(partition) is PartitionState.FAILED


def _check_named(named: Sequence[int], partitions: int) -> None:
    known = set[int]()
    for index, each in enumerate(named):
        if not 0 <= each < partitions or each in known:
            raise InvalidRequest(
                f"log_partitions[{index}]",
                "{partition} is named twice, or is not below {partitions}",
                partition=each,
                partitions=partitions,
            )
        known.add(each)


def _refusal(runtime: Runtime, partition: int, *, is_of_several: bool) -> Exception:
    refusal = runtime.refusal(partition)
    if not is_of_several or not isinstance(refusal, NotCoordinator):
        return refusal
    return NotCoordinator(
        "this node does not serve log partition {log_partition}: ask every node of DescribeCluster,"
        " with `this_node_only`, or use a client that knows clusters",
        **refusal.variables,
    )


def _by_owner(runtime: Runtime, partitions: Iterable[int]) -> dict[str, list[int]]:
    """Log partitions by the address of their owner; the empty address for those without one."""
    assert runtime.directory is not None, "a single server serves all log partitions"
    found: dict[str, list[int]] = {}
    for partition in partitions:
        owner = runtime.directory.owner(partition)
        found.setdefault("" if owner is None else owner.address, []).append(partition)
    return found
