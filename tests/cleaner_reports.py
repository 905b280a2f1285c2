"""A round and its report, as tests of what is told of rounds take it."""

from __future__ import annotations

import attrs
from offsetd_storage.cleaner.cleaner_status import FinishedRound
from offsetd_storage.cleaner.cleaning_round import CleanReport
from offsetd_storage.topic_partition import TopicPartition

MIB = 1024 * 1024
REPORT = CleanReport(
    topic_partition=TopicPartition("__consumer_offsets", 7),
    first_dirty=309_313_806,
    first_uncleanable=310_221_664,
    offset_next=310_221_664,
    started_ms=1_702_699_459_123,
    last_modified_ms=1_702_699_458_000,
    tombstones_until_ms=1_702_613_059_123,
    map_is_full=False,
    map_utilization=0.25,
    map_bytes_read=100 * MIB,
    map_messages_read=907_866,
    bytes_read=1500 * MIB,
    bytes_written=375 * MIB,
    messages_read=1_000_000,
    messages_written=100_000,
    invalid_messages=0,
    segments_before=15,
    segments_after=4,
    segments_left_alone=0,
    delete_horizon_ms=None,
    index_ms=500,
    elapsed_ms=2500,
)


def finished(report: CleanReport = REPORT, *, thread: int = 0, **changes: object) -> FinishedRound:
    """A round of a cleaner's thread."""
    return FinishedRound(
        thread=thread,
        report=attrs.evolve(report, **changes),
        ended_ms=report.started_ms + report.elapsed_ms,
        overdue_ms=0,
        dirty_ratio=0.6,
        map_slots=5_592_405,
        requested=False,
    )
