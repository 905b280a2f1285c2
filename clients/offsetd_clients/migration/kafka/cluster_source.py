"""A running Kafka cluster as the source of a migration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_clients.migration.values import (
    FoundGroup,
    FoundOffset,
    Problem,
    ProblemKind,
    SourceDescription,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from offsetd_clients.migration.kafka.cluster import ClusterGroup, KafkaCluster

CLUSTER_KIND: Final = "kafka"


class ClusterSource:
    """The groups of a cluster that `takes` accepts. Other groups are not read.

    Metadata is left out unless `with_metadata` is set: `cluster` says why it cannot be trusted. The
    offsets with metadata are counted.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        *,
        takes: Callable[[str], bool] = lambda _: True,
        with_metadata: bool = False,
    ) -> None:
        self.left_out_metadata_count = 0
        self._cluster = cluster
        self._takes = takes
        self._with_metadata = with_metadata

    @property
    def description(self) -> SourceDescription:
        """The cluster's address, without credentials."""
        return SourceDescription(
            kind=CLUSTER_KIND,
            address=self._cluster.address,
            options={"with_metadata": self._with_metadata},
        )

    def groups(self) -> Iterator[FoundGroup]:
        """Yields each group that has offsets.

        Raises SourceFailed, also if only one broker is silent.
        """
        for found in self.read_again(list(filter(self._takes, self._cluster.group_ids()))):
            if found.offsets or found.problems:
                yield found

    def read_again(self, group_ids: Sequence[str]) -> Iterator[FoundGroup]:
        """Yields those groups in their present state.

        A deleted group has no offsets. Raises SourceFailed.
        """
        return map(self._found, self._cluster.read(group_ids))

    def _found(self, group: ClusterGroup) -> FoundGroup:
        if not self._with_metadata:
            self.left_out_metadata_count += sum(bool(each.metadata) for each in group.offsets)
        problem = Problem(
            kind=ProblemKind.UNREADABLE,
            where=f"group {group.group_id}",
            detail=group.problem,
            group_id=group.group_id,
        )
        return FoundGroup(
            group_id=group.group_id,
            offsets=tuple(
                FoundOffset(
                    topic=each.topic_partition.topic,
                    partition=each.topic_partition.partition,
                    offset=each.offset,
                    leader_epoch=each.leader_epoch,
                    metadata=each.metadata if self._with_metadata else "",
                )
                for each in group.offsets
            ),
            owners=group.members,
            problems=(problem,) if group.problem else (),
        )
