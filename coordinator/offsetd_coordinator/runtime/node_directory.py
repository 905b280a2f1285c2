"""The nodes of a cluster, and the log partitions that each of them serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class ClusterNode(NamedTuple):
    """One node, as the other nodes know it."""

    node_id: str
    address: str
    """The address for clients, as `host:port`."""
    partitions: tuple[int, ...]
    """The log partitions that are assigned to the node, in ascending order."""


class NodeDirectory(Protocol):
    """What a node knows of all nodes. It may be outdated. For the event loop's thread."""

    def nodes(self) -> Sequence[ClusterNode]:
        """All nodes, this one too, by node id."""

    def owner(self, partition: int) -> ClusterNode | None:
        """The node that serves a log partition, or None while no node is known to serve it."""
