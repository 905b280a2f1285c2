"""Kafka records of our topics, from our record batches and back.

Each record of a batch becomes one Kafka record with the same key, value, headers and timestamp, so
that Kafka compacts the topic as our cleaner compacts a log. One more header has the *log offset* of
the record and the log offset at which its batch begins. Kafka's own offsets cannot take their
place: an aborted transaction uses offsets, and so does the marker of each transaction.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from offsetd_storage.batch.record_batch import (
    BATCH_HEADER,
    NO_TIMESTAMP,
    Record,
    batch_header,
    decode_batch,
    encode_batch,
)
from offsetd_storage.kernels import padded_copy
from offsetd_storage.kernels.decode import RECORD_COLUMNS, index_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PLACE_HEADER: Final = "offsetd.place"
"""The name of the header with the two log offsets."""
_PLACE: Final = struct.Struct(">qq")
_GAP_OFFSETS_MAX: Final = 2**31 - 1

Headers = list[tuple[str, bytes | None]]


class TopicRecord(NamedTuple):
    """One record, as a Kafka producer takes it."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers


class PlacedRecord(NamedTuple):
    """A record that was read from a topic, with its place in our log."""

    batch_offset: int
    """The log offset at which its batch begins."""
    record: Record


def topic_records(batch: bytes) -> Iterator[TopicRecord]:
    """The records of one of our batches. The batch has no compression and one timestamp."""
    header = batch_header(batch)
    buffer = padded_copy(batch)
    rows = np.empty((header.count, RECORD_COLUMNS), np.int64)
    found = index_records(buffer, BATCH_HEADER.size, len(batch), rows)
    assert found == header.count, "a batch of ours is whole"
    base_offset, base_timestamp_ms = header.base_offset, header.base_timestamp_ms
    if rows[:, 8].any():
        yield from _records_with_headers(batch)
        return
    for _, time, delta, key_at, key_size, value_at, value_size, _, _ in rows.tolist():
        place = _PLACE.pack(base_offset + delta, base_offset)
        yield TopicRecord(
            None if key_size < 0 else batch[key_at : key_at + key_size],
            None if value_size < 0 else batch[value_at : value_at + value_size],
            base_timestamp_ms + time,
            [(PLACE_HEADER, place)],
        )


def _records_with_headers(batch: bytes) -> Iterator[TopicRecord]:
    decoded = decode_batch(batch, check_crc=False)
    for each in decoded.records:
        place = _PLACE.pack(each.offset, decoded.base_offset)
        yield TopicRecord(
            each.key, each.value, each.timestamp_ms, [*each.headers, (PLACE_HEADER, place)]
        )


def placed_header(offset: int, batch_offset: int) -> tuple[str, bytes]:
    """The last header of a record: its log offset, and where its batch begins."""
    return PLACE_HEADER, _PLACE.pack(offset, batch_offset)


def placed_record(message: Any) -> PlacedRecord | None:
    """The record in a message of a Kafka consumer, or None for a record without a place."""
    headers = message.headers()
    if not headers or headers[-1][0] != PLACE_HEADER:
        return None
    offset, batch_offset = _PLACE.unpack(headers[-1][1])
    record = Record(
        key=message.key(),
        value=message.value(),
        offset=offset,
        timestamp_ms=message.timestamp()[1],
        headers=tuple(headers[:-1]),
    )
    return PlacedRecord(batch_offset, record)


def batches_of(records: Iterable[PlacedRecord]) -> Iterator[bytes]:
    """Our batches, from records in the order of their log offsets.

    Records that Kafka has compacted away are missing in a batch, as after our own cleaning.
    """
    batch_offset, batch = -1, list[Record]()
    for placed in records:
        if placed.batch_offset != batch_offset and batch:
            yield encode_batch(batch, base_offset=batch_offset)
            batch = []
        batch_offset = placed.batch_offset
        batch.append(placed.record)
    if batch:
        yield encode_batch(batch, base_offset=batch_offset)


def gap_batches(start: int, end: int, *, is_unused: bool) -> Iterator[bytes]:
    """Batches without records for the log offsets from `start` to `end` (exclusive).

    A log has no gaps between its batches, but log offsets of a cluster have. `is_unused` means that
    no record ever had these log offsets. If not, Kafka may have compacted records away, and the
    history of the log begins after the gap.
    """
    timestamp_ms = NO_TIMESTAMP if is_unused else 0
    while start < end:
        last = min(end - 1, start + _GAP_OFFSETS_MAX)
        yield encode_batch(
            [],
            base_offset=start,
            last_offset=last,
            base_timestamp_ms=timestamp_ms,
            max_timestamp_ms=timestamp_ms,
        )
        start = last + 1
