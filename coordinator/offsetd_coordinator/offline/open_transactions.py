"""Transactions of a log that have no end, and the marker that aborts one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.cleaner.cleaning_round import read_history
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, decode_key
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.offsets_topic.schemas.transaction_marker import (
    ControlType,
    EndTransactionMarker,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from offsetd_storage.log.partition_log import PartitionLog

_CHUNK_BYTES: Final = 1 << 20


@attrs.frozen(kw_only=True)
class OpenTransaction:
    """A producer's transaction that has no end in the log.

    `first_offset` is a log offset. `begun_ms` and `last_ms` are the times of its first and its last
    batch. `offset_count` counts the partitions whose offsets it would commit.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    begun_ms: int
    last_ms: int
    group_ids: tuple[str, ...]
    offset_count: int


def open_transactions(log: PartitionLog) -> list[OpenTransaction]:
    """The open transactions of a log, the oldest first. It reads the whole log.

    Raises OSError, CorruptBatch.
    """
    history = read_history(log)
    begun = sorted((offset, each) for each, offset in history.open_first_offsets.items())
    return [
        _transaction(log, producer_id, history.last_records[producer_id].producer_epoch, offset)
        for offset, producer_id in begun
    ]


def _transaction(
    log: PartitionLog, producer_id: int, producer_epoch: int, first_offset: int
) -> OpenTransaction:
    times_ms: list[int] = []
    keys: set[OffsetKey] = set()
    for buffer, end in log.read_chunks(_CHUNK_BYTES, offset=first_offset):
        for batch in decode_batches(buffer[:end].tobytes()):
            if batch.producer_id == producer_id and batch.is_transactional:
                times_ms.append(batch.max_timestamp_ms)
                keys.update(_offset_keys(batch.records))
    return OpenTransaction(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        first_offset=first_offset,
        begun_ms=min(times_ms),
        last_ms=max(times_ms),
        group_ids=tuple(sorted({key.group for key in keys})),
        offset_count=len(keys),
    )


def _offset_keys(records: Iterable[Record]) -> Iterator[OffsetKey]:
    for record in records:
        try:
            key = decode_key(record.key or b"")
        except UndecodableRecord:
            continue
        if isinstance(key, OffsetKey):
            yield key


def abort_marker(transaction: OpenTransaction, log: PartitionLog, *, now_ms: int) -> bytes:
    """The control batch that aborts a transaction, to be appended to the log.

    It is what a broker writes for `kafka-transactions.sh abort` (WriteTxnMarkers with the epoch of
    the producer, and 0 for that of the coordinator).
    """
    marker = EndTransactionMarker(control_type=ControlType.ABORT, coordinator_epoch=0)
    key, value = marker.encode()
    record = Record(key=key, value=value, offset=log.offset_next, timestamp_ms=now_ms)
    return encode_batch(
        [record],
        base_offset=log.offset_next,
        leader_epoch=log.leader_epoch,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        is_transactional=True,
        is_control=True,
    )
