"""The records of a single server's logs, batch by batch, in the order of their log offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.batch.record_batch import decode_batches

from offsetd_coordinator.cluster.moving.log_digest import LogDigest, MoveRefused
from offsetd_coordinator.cluster.topic_records import PlacedRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.log.readable_log import ReadableLog
    from offsetd_storage.topic_partition import TopicPartition

_CHUNK_BYTES: Final = 512 * 1024


def log_batches(
    topic_partition: TopicPartition, log: ReadableLog, *, has_keys: bool
) -> Iterator[list[PlacedRecord]]:
    """The records of each batch that has some. Raises MoveRefused, CorruptBatch, OSError."""
    for buffer, end in log.read_chunks(_CHUNK_BYTES):
        for batch in decode_batches(buffer[:end].tobytes()):
            if batch.is_transactional or batch.is_control:
                raise MoveRefused(
                    "{log} has transactions of Kafka's producers at offset {offset}, which cannot"
                    " be moved: bring its groups in with offsetd migrate kafka",
                    log=topic_partition.folder_name,
                    offset=batch.base_offset,
                )
            if has_keys and any(each.key is None for each in batch.records):
                raise MoveRefused(
                    "{log} has a record without a key in the batch at offset {offset}, and a"
                    " compacted topic takes none",
                    log=topic_partition.folder_name,
                    offset=batch.base_offset,
                )
            if batch.records:
                yield [PlacedRecord(batch.base_offset, each) for each in batch.records]


def log_digest(topic_partition: TopicPartition, log: ReadableLog, *, has_keys: bool) -> LogDigest:
    """The digest of a whole log. Raises the errors of `log_batches`."""
    digest = LogDigest()
    for records in log_batches(topic_partition, log, has_keys=has_keys):
        for each in records:
            digest.add(each)
    return digest
