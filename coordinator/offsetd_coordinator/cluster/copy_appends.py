"""Appends to the local copy of a partition. Its log offsets may have gaps; a log has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.batch.record_batch import batch_header

from offsetd_coordinator.cluster.topic_records import gap_batches

if TYPE_CHECKING:
    from offsetd_storage.batch.record_batch import BatchHeader
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.cluster.claims import Claim
    from offsetd_coordinator.cluster.frames import FrameEntry


def append_to_copy(store: LogStore, entry: FrameEntry) -> None:
    """Appends a batch that is committed. Raises the errors of `LogStore.append`."""
    store.append(
        entry.topic_partition,
        entry.batch,
        last_offset=entry.last_offset,
        max_timestamp_ms=entry.max_timestamp_ms,
    )


def append_read_batch(store: LogStore, topic_partition: TopicPartition, batch: bytes) -> None:
    """Appends a batch that was read from the topic, unless the copy has it already."""
    header = batch_header(batch)
    if header.base_offset < store.log(topic_partition).offset_next:
        return
    fill_gap(store, topic_partition, header.base_offset)
    _append(store, topic_partition, batch, header)


def fill_gap(
    store: LogStore, topic_partition: TopicPartition, end: int, *, is_unused: bool = False
) -> None:
    """Makes a copy continue at the log offset `end`, if it ends below.

    `is_unused` means that no record ever had the log offsets in between.
    """
    start = store.log(topic_partition).offset_next
    for batch in gap_batches(start, end, is_unused=is_unused):
        _append(store, topic_partition, batch, batch_header(batch))


def skip_unused(store: LogStore, topic_partition: TopicPartition, claim: Claim) -> None:
    """Leaves out the log offsets that a node skipped when it began, unless that is not known."""
    if claim.unused_from is not None:
        fill_gap(store, topic_partition, claim.unused_from)
        fill_gap(store, topic_partition, claim.first_offset, is_unused=True)


def _append(
    store: LogStore, topic_partition: TopicPartition, batch: bytes, header: BatchHeader
) -> None:
    store.append(
        topic_partition,
        batch,
        last_offset=header.last_offset,
        max_timestamp_ms=header.max_timestamp_ms,
    )
