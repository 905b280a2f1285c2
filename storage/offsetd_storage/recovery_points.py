"""Which recovery points can be reached now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_storage.journal_format import LogEnd, RecoveryPoint
    from offsetd_storage.partition_log import PartitionLog
    from offsetd_storage.topic_partition import TopicPartition


def points_to_reach(
    logs: Mapping[TopicPartition, PartitionLog],
    points: Mapping[TopicPartition, RecoveryPoint],
    journaled: Mapping[TopicPartition, LogEnd],
) -> dict[TopicPartition, RecoveryPoint]:
    """Those where the journal ends, of the logs whose `points` are not there yet.

    `journaled` is where each log ends in the journal. A point that cannot move still says anew
    where its log starts. If its log has rolled right there, it leaves the old segment, which can
    be cleaned then.
    """
    to_reach = {}
    for topic_partition, log in logs.items():
        durable = points[topic_partition]
        last = journaled.get(topic_partition)
        point = attrs.evolve(durable, log_start_offset=log.log_start_offset)
        if last is not None and last.offset_next > durable.offset:
            point = attrs.evolve(
                point,
                offset=last.offset_next,
                segment_base_offset=last.segment_base_offset,
                segment_bytes=last.segment_bytes,
            )
        if log.segments_from(point.offset)[0].base_offset == point.offset:
            point = attrs.evolve(point, segment_base_offset=point.offset, segment_bytes=0)
        if point != durable:
            to_reach[topic_partition] = point
    return to_reach
