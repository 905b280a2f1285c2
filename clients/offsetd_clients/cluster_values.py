"""The nodes of a cluster: plain values, no protobuf."""

from enum import StrEnum

import attrs

from offsetd_clients.values import ServerInfo


class LogPartitionState(StrEnum):
    """The state of a log partition on its node. UNKNOWN: no node that answered has it."""

    UNKNOWN = "unknown"
    LOADING = "loading"
    SERVING = "serving"
    FAILED = "failed"


@attrs.frozen(kw_only=True)
class ClusterPartition:
    """A log partition, as its node describes it. `node_id` is empty if no node serves it.

    `epoch` grows with each change of the owner; None: not known. `copy_lag`: how many records the
    best copy of another node is behind; None: no other node that answered has one.
    """

    log_partition: int
    node_id: str
    state: LogPartitionState
    epoch: int | None
    copy_lag: int | None = None


@attrs.frozen(kw_only=True)
class ClusterNode:
    """A node of a cluster. `server` is None if the node did not answer.

    `copy_lag`: the most records that one of its copies of other nodes' partitions is behind; None:
    it has none, or did not answer.
    """

    node_id: str
    address: str
    log_partitions: tuple[int, ...]
    server: ServerInfo | None
    copy_lag: int | None = None


@attrs.frozen(kw_only=True)
class Replication:
    """The replication of the topic that keeps the log."""

    topic: str
    replication_factor: int
    min_insync_replicas: int


@attrs.frozen(kw_only=True)
class Cluster:
    """All nodes, and all log partitions in ascending order.

    A single server is a cluster of one node, with an empty `cluster_id`. `replication` is None if
    the log is on the server's own disk, or if it is not known.
    """

    cluster_id: str
    nodes: tuple[ClusterNode, ...]
    partitions: tuple[ClusterPartition, ...]
    replication: Replication | None
    problems: tuple[str, ...]
