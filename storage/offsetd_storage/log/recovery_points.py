"""Recovery points: those that can be reached now, and the one at the end of a durable log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.journal.journal_format import RecoveryPoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_storage.journal.journal_format import LogEnd
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.topic_partition import TopicPartition


def with_listings(
    logs: Mapping[TopicPartition, PartitionLog], points: Mapping[TopicPartition, RecoveryPoint]
) -> dict[TopicPartition, RecoveryPoint]:
    """The points, with the digests of their segments. Lists the segments before these.

    All batches below the points are in the segments, durably. Raises CorruptBatch, OSError.
    """
    return {
        each: attrs.evolve(
            point,
            headers_digest=_headers_digest(logs[each], point),
            listed_below=logs[each].listing.cover(point.segment_base_offset),
        )
        for each, point in points.items()
    }


def _headers_digest(log: PartitionLog, point: RecoveryPoint) -> int:
    segment = log.segments_from(point.segment_base_offset)[0]
    assert segment.base_offset == point.segment_base_offset, "a point's segment stays in the log"
    known = segment.headers_digest
    if known.size_bytes < point.segment_bytes:
        with segment.reader() as reader:
            known.up_to(reader.file, point.segment_bytes)
    assert known.size_bytes == point.segment_bytes, "recovery points do not go back"
    return known.digest


def points_to_reach(
    logs: Mapping[TopicPartition, PartitionLog],
    points: Mapping[TopicPartition, RecoveryPoint],
    journaled: Mapping[TopicPartition, LogEnd],
) -> dict[TopicPartition, RecoveryPoint]:
    """The points at the journal's end, for the logs whose `points` have not reached it.

    `journaled` holds the end of each log in the journal. A point whose offset does not move is
    still returned if its log's start has moved. If a log has rolled exactly at its point, the point
    leaves the old segment, so that the old segment can be cleaned.
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


def point_at_end(log: PartitionLog) -> RecoveryPoint:
    """The point of a log that is durable up to its end, without the listing of its segments."""
    return RecoveryPoint(
        topic_partition=log.topic_partition,
        offset=log.offset_next,
        journal_offset_next=log.offset_next,
        segment_base_offset=log.segments[-1].base_offset,
        segment_bytes=log.segments[-1].size_bytes,
        leader_epoch=log.leader_epoch,
        log_start_offset=log.log_start_offset,
    )
