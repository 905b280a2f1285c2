"""Validation of a batch from an untrusted client, as a broker does it (`LogValidator`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.batch.append_timestamps import prepared_batch
from offsetd_storage.batch.record_batch import (
    BATCH_HEADER,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    RecordBatch,
    decode_batch,
)
from offsetd_storage.errors import CorruptBatch, InvalidRecord
from offsetd_storage.timestamp_type import TimestampType

if TYPE_CHECKING:
    from offsetd_storage.configuration.log_config import LogConfig

# Places in `BATCH_HEADER`.
_BASE_OFFSET: Final = 0
_LEADER_EPOCH: Final = 2


def produced_batch(
    batch: bytes, config: LogConfig, *, base_offset: int, leader_epoch: int, now_ms: int
) -> bytes:
    """The batch with its place in the log, after a check of every record.

    Raises CorruptBatch, InvalidRecord, InvalidTimestamp.
    """
    decoded = decode_batch(batch)
    if decoded.size_bytes != len(batch):
        raise CorruptBatch("bytes follow the batch", position=decoded.size_bytes)
    _check_header(decoded)
    if config.is_compacted:
        _check_keys(decoded)
    prepared = prepared_batch(batch, config, now_ms=now_ms)
    # The checksum does not cover these two fields.
    fields = list(BATCH_HEADER.unpack_from(prepared))
    fields[_BASE_OFFSET], fields[_LEADER_EPOCH] = base_offset, leader_epoch
    return BATCH_HEADER.pack(*fields) + prepared[BATCH_HEADER.size :]


def _check_header(batch: RecordBatch) -> None:
    """Refuses batches that only brokers write (markers, append times, gaps), and producer ids."""
    if batch.is_control or batch.is_transactional or batch.producer_id != NO_PRODUCER_ID:
        raise InvalidRecord("batches of transactions and of idempotent producers are not accepted")
    if batch.has_delete_horizon:
        raise InvalidRecord("only the cleaner sets a delete horizon")
    if batch.timestamp_type is not TimestampType.CREATE_TIME:
        raise InvalidRecord("only the log sets the time of the append as a timestamp")
    offsets = [each.offset for each in batch.records]
    if not offsets or offsets != list(range(batch.base_offset, batch.last_offset + 1)):
        raise InvalidRecord(
            f"{len(offsets)} records do not fill the offsets from {batch.base_offset} to"
            f" {batch.last_offset}"
        )
    largest_ms = max((each.timestamp_ms for each in batch.records), default=NO_TIMESTAMP)
    if batch.max_timestamp_ms != largest_ms:
        raise InvalidRecord(
            f"the header's largest timestamp is {batch.max_timestamp_ms}, the records' {largest_ms}"
        )


def _check_keys(batch: RecordBatch) -> None:
    """Refuses records without a key: no later record would ever supersede them."""
    for place, record in enumerate(batch.records):
        if record.key is None:
            raise InvalidRecord(f"record {place} of the batch has no key, and the log is compacted")
