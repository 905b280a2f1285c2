"""Targets with a Kafka cluster: one that only knows bounds, and one that is the target itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from offsetd_clients import Bounds, CommittedOffset, OffsetClient, TopicPartition
from offsetd_clients.migration.differences import GONE
from offsetd_clients.migration.kafka.cluster import ClusterFailed
from offsetd_clients.migration.outcomes import listed
from offsetd_clients.migration.target import Stored, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from offsetd_clients.migration.kafka.cluster import ClusterOffset, KafkaCluster
    from offsetd_clients.migration.values import PlannedGroup


class BoundedTarget(Target):
    """offsetd as the target, with the cluster's bounds.

    A missing partition has the bounds `GONE`.
    """

    def __init__(self, client: OffsetClient, cluster: KafkaCluster, *, reason: str = "") -> None:
        super().__init__(client, reason=reason)
        self._cluster = cluster

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """The bounds of partitions. Raises ClusterFailed."""
        return bounds_at(self._cluster, partitions)


class ClusterTarget(Target):
    """A cluster as the target of a comparison. It writes nothing.

    Kafka has no revisions, so an offset is its own revision. Its commit time is not known.
    """

    def __init__(self, client: OffsetClient, cluster: KafkaCluster) -> None:
        super().__init__(client)
        self._cluster = cluster

    def stored(self, group_ids: Iterable[str]) -> dict[str, Stored]:
        """The stored offsets.

        Raises ClusterFailed, also if only one of the groups cannot be read.
        """
        stored: dict[str, Stored] = {}
        for group in self._cluster.read(list(group_ids)):
            if group.problem:
                raise ClusterFailed(f"group {group.group_id}: {group.problem}")
            stored[group.group_id] = {
                each.topic_partition: _committed(each) for each in group.offsets
            }
        return stored

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """The bounds of partitions. Raises ClusterFailed."""
        return bounds_at(self._cluster, partitions)


def bounds_at(
    cluster: KafkaCluster, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, Bounds]:
    """The bounds of partitions; missing ones have `GONE`. Raises ClusterFailed."""
    bounds, gone = cluster.bounds(partitions)
    return bounds | dict.fromkeys(gone, GONE)


def objection_of(cluster: KafkaCluster) -> Callable[[PlannedGroup], str]:
    """A function that objects to groups with members, or with offsets changed after the plan.

    Raises ClusterFailed.
    """

    def objection(planned: PlannedGroup) -> str:
        [group] = cluster.read([planned.source_group_id])
        if group.problem:
            return group.problem
        if group.members:
            return f"it has members: {listed(group.members)}"
        now = {each.topic_partition: each.offset for each in group.offsets}
        return moved_on(planned, now, "there")

    return objection


def moved_on(planned: PlannedGroup, now: Mapping[TopicPartition, int], place: str) -> str:
    """How the group at its source, `place`, differs from the plan; empty if it does not."""
    moved = [
        f"{each.topic_partition} is {now.get(each.topic_partition, 'absent')} {place} by now"
        for each in planned.offsets
        if now.get(each.topic_partition) != each.offset
    ]
    return f"plan it again: {listed(moved)}" if moved else ""


def _committed(found: ClusterOffset) -> CommittedOffset:
    return CommittedOffset(
        offset=found.offset,
        leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        commit_time=cast("datetime", None),
        expire_time=None,
        revision=found.offset,
        end_offset=None,
    )
