"""The nodes of a cluster, and the log partitions that each of them serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ClusterNode(NamedTuple):
    """One node, as the other nodes know it."""

    node_id: str
    address: str
    """The address for clients, as `host:port`."""
    partitions: tuple[int, ...]
    """The log partitions that are assigned to the node, in ascending order."""


class Replication(NamedTuple):
    """The replication of the topic that keeps the log."""

    topic: str
    replication_factor: int
    min_insync_replicas: int


class ClusterReport(NamedTuple):
    """A node's report on the cluster for operators, in addition to its directory."""

    replication: Replication | None = None
    """None if it is not known, or if the log is on the node's own disk."""
    copy_lags: Mapping[int, int] = {}
    """By log partition: the number of log offsets that the copy on this node's disk is behind."""
    epochs: Mapping[int, int] = {}
    """By log partition: the epoch of the newest claim that this node knows."""
    problems: tuple[str, ...] = ()
    """Problems of the cluster, as text for operators."""


class NodeDirectory(Protocol):
    """What a node knows of all nodes. It may be outdated. For the event loop's thread."""

    def nodes(self) -> Sequence[ClusterNode]:
        """All nodes, this one too, by node id."""

    def owner(self, partition: int) -> ClusterNode | None:
        """The node that serves a log partition, or None while no node is known to serve it."""
