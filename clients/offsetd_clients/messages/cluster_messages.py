"""Conversions between values and messages, without IO: the nodes of a cluster."""

from collections.abc import Iterable, Mapping

import attrs
from offsetd.v1 import admin_service_pb2

from offsetd_clients.cluster_values import (
    Cluster,
    ClusterNode,
    ClusterPartition,
    LogPartitionState,
    Replication,
)
from offsetd_clients.values import ServerInfo

Description = admin_service_pb2.DescribeClusterResponse


def cluster_of(
    asked: Description, others: Iterable[Description], servers: Mapping[str, ServerInfo]
) -> Cluster:
    """One description of those of several nodes.

    The first one names the nodes. What a node says of a log partition that it has takes precedence.
    `servers` has the nodes that answered, by address.
    """
    described = {each.log_partition: _partition(each) for each in asked.partitions}
    lags_of_nodes: dict[str, int] = {}
    lags_of_partitions: dict[int, int] = {}
    for other in others:
        for message in other.partitions:
            partition = message.log_partition
            if message.state:
                described[partition] = _partition(message, other.node_id)
            elif message.HasField("copy_lag"):
                lag = message.copy_lag
                lags_of_nodes[other.node_id] = max(lag, lags_of_nodes.get(other.node_id, 0))
                lags_of_partitions[partition] = min(lag, lags_of_partitions.get(partition, lag))
    problems = dict.fromkeys(asked.problems)
    problems |= dict.fromkeys(each for other in others for each in other.problems)
    return Cluster(
        cluster_id=asked.cluster_id,
        nodes=tuple(
            ClusterNode(
                node_id=node.node_id,
                address=node.address,
                log_partitions=tuple(node.log_partitions),
                server=servers.get(node.address),
                copy_lag=lags_of_nodes.get(node.node_id),
            )
            for node in asked.nodes
        ),
        partitions=tuple(
            attrs.evolve(described[each], copy_lag=lags_of_partitions.get(each))
            for each in sorted(described)
        ),
        replication=_replication(asked) if asked.HasField("replication") else None,
        problems=tuple(problems),
    )


def _partition(
    message: admin_service_pb2.ClusterPartition, node_id: str | None = None
) -> ClusterPartition:
    states = admin_service_pb2.LogPartitionState
    name = states.Name(message.state) if message.state in states.values() else ""
    state = name.removeprefix("LOG_PARTITION_STATE_")
    return ClusterPartition(
        log_partition=message.log_partition,
        node_id=message.node_id if node_id is None else node_id,
        state=LogPartitionState.__members__.get(state, LogPartitionState.UNKNOWN),
        epoch=message.epoch if message.HasField("epoch") else None,
    )


def _replication(response: Description) -> Replication:
    replication = response.replication
    return Replication(
        topic=replication.topic,
        replication_factor=replication.replication_factor,
        min_insync_replicas=replication.min_insync_replicas,
    )
