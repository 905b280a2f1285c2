"""Which nodes keep a copy of a partition that they do not own.

Each node computes the same from the list of nodes: the nodes are ranked for each partition by a
hash (rendezvous hashing), so few copies move when a node comes or goes.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from offsetd_coordinator.runtime.node_directory import ClusterNode


def standby_nodes(partition: int, nodes: Iterable[ClusterNode], *, copies: int) -> list[str]:
    """The ids of the nodes that keep a copy of a partition, without its owner."""
    others = [each.node_id for each in nodes if partition not in each.partitions]
    others.sort(key=lambda node_id: zlib.crc32(f"{partition} {node_id}".encode()))
    return others[:copies]


def standby_partitions(
    node_id: str, nodes: Sequence[ClusterNode], *, partitions: int, copies: int
) -> frozenset[int]:
    """The partitions of which a node keeps a copy although it does not own them."""
    return frozenset(
        partition
        for partition in range(partitions)
        if node_id in standby_nodes(partition, nodes, copies=copies)
    )
