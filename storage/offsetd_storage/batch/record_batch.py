"""Kafka's record batch, format v2, as Python values: for tools, tests and rare cases.

Code that runs for every commit or over whole segments is in `kernels`. Layout: `BATCH_HEADER`, then
the records, compressed together if the attributes say so. The checksum covers the attributes and
everything after them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from offsetd_storage.batch.compression import (
    DECOMPRESSED_BYTES_MAX,
    Compression,
    DecompressionFailed,
    compress,
    decompress,
)
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels import padded_copy
from offsetd_storage.kernels.crc32c import crc32c
from offsetd_storage.kernels.decode import RECORD_BYTES_MIN, RECORD_COLUMNS, index_records
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BATCH_HEADER_BYTES,
    LENGTH_EXCLUDES_BYTES,
    MAGIC,
)
from offsetd_storage.timestamp_type import TimestampType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    Bytes = bytes | bytearray | memoryview

# Base offset, length of the rest, leader epoch, magic, checksum; attributes, delta of the last
# offset, base and max timestamp, producer's id and epoch, base sequence, number of records.
BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
assert BATCH_HEADER.size == BATCH_HEADER_BYTES == 61, "v2 batch header is 61 bytes"

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1

_COMPRESSION_BITS: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40


@attrs.frozen(kw_only=True)
class Record:
    """A key, a value and their offset. `value=None` is a tombstone."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


@attrs.frozen(kw_only=True)
class BatchHeader:
    """The fields of a batch's header; `size_bytes` is the size of the whole batch."""

    base_offset: int
    size_bytes: int
    partition_leader_epoch: int
    crc: int
    attributes: int
    last_offset: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def compression(self) -> Compression:
        """The codec. Raises ValueError for one that Kafka does not have."""
        return Compression(self.attributes & _COMPRESSION_BITS)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(bool(self.attributes & LOG_APPEND_TIME))

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Returns whether it is a control batch, such as a transaction's marker."""
        return bool(self.attributes & _CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & _DELETE_HORIZON)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time after which the cleaner may remove the batch's tombstones; None if not set.

        KIP-534 stores it in the field of the base timestamp.
        """
        return self.base_timestamp_ms if self.has_delete_horizon else None


@attrs.frozen(kw_only=True)
class RecordBatch(BatchHeader):
    """A whole batch. After compaction it may have fewer records than offsets, or none."""

    records: tuple[Record, ...]


_HEADER_FIELDS: Final = tuple(field.name for field in attrs.fields(BatchHeader))


def with_delete_horizon(attributes: int, has_delete_horizon: bool) -> int:
    """The attributes, with or without the bit that makes the base timestamp a delete horizon."""
    return attributes & ~_DELETE_HORIZON | (_DELETE_HORIZON if has_delete_horizon else 0)


def batch_header(buffer: Bytes, position: int = 0) -> BatchHeader:
    """The header at `position`. The rest of the batch may be missing.

    Raises CorruptBatch unless there are 61 bytes, with magic 2 and possible lengths and counts.
    """
    if position + BATCH_HEADER_BYTES > len(buffer):
        raise CorruptBatch("the header is cut short", position=position)
    (
        base_offset,
        length,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = BATCH_HEADER.unpack_from(buffer, position)
    if length < BATCH_HEADER_BYTES - LENGTH_EXCLUDES_BYTES:
        raise CorruptBatch(f"length {length} is less than a header", position=position)
    if magic != MAGIC:
        raise CorruptBatch(f"magic {magic} is not {MAGIC}", position=position)
    if base_offset < 0 or not 0 <= count <= last_offset_delta + 1:
        raise CorruptBatch(
            f"{count} records in offsets {base_offset} to {base_offset + last_offset_delta}",
            position=position,
        )
    return BatchHeader(
        base_offset=base_offset,
        size_bytes=length + LENGTH_EXCLUDES_BYTES,
        partition_leader_epoch=leader_epoch,
        crc=crc,
        attributes=attributes,
        last_offset=base_offset + last_offset_delta,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=count,
    )


def decode_batch(
    buffer: Bytes,
    position: int = 0,
    *,
    check_crc: bool = True,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> RecordBatch:
    """The batch at `position`. Raises CorruptBatch if it is not a whole, valid batch."""
    header = batch_header(buffer, position)
    end = position + header.size_bytes
    if end > len(buffer):
        raise CorruptBatch("the batch is cut short", position=position)
    batch = bytes(memoryview(buffer)[position:end])
    padded = padded_copy(batch)
    if check_crc:
        computed = crc32c(padded, ATTRIBUTES_AT, len(batch))
        if computed != header.crc:
            raise CorruptBatch(
                f"checksum {computed} is not the header's {header.crc}", position=position
            )
    content, start = batch, BATCH_HEADER_BYTES
    try:
        if header.compression is not Compression.NONE:
            compressed = batch[BATCH_HEADER_BYTES:]
            content = decompress(header.compression, compressed, size_max=decompressed_bytes_max)
            padded, start = padded_copy(content), 0
    except (DecompressionFailed, ValueError) as error:
        raise CorruptBatch(str(error), position=position) from error
    rows = _index_records(padded, start, len(content), header.count, position)
    records = tuple(_decode_records(content, rows, header, position))
    fields = {name: getattr(header, name) for name in _HEADER_FIELDS}
    return RecordBatch(**fields, records=records)


def decode_batches(buffer: Bytes, *, check_crc: bool = True) -> Iterator[RecordBatch]:
    """The batches that fill `buffer`, one after the other. Raises CorruptBatch."""
    position = 0
    while position < len(buffer):
        batch = decode_batch(buffer, position, check_crc=check_crc)
        yield batch
        position += batch.size_bytes


def computed_crc(batch: bytes) -> int:
    """The checksum that the header of the whole batch `batch` should have."""
    return crc32c(padded_copy(batch), ATTRIBUTES_AT, len(batch))


def _index_records(
    buffer: npt.NDArray[np.uint8], start: int, end: int, count: int, position: int
) -> list[list[int]]:
    """A row of Python numbers for each record from `start` to `end`; see `load_record`."""
    if count > (end - start) // RECORD_BYTES_MIN:
        raise CorruptBatch(f"no room for {count} records", position=position)
    rows = np.empty((count, RECORD_COLUMNS), dtype=np.int64)
    read = index_records(buffer, start, end, rows)
    if read != count:
        what = "bytes are left behind the records" if read < 0 else f"record {read} is malformed"
        raise CorruptBatch(what, position=position)
    found: list[list[int]] = rows.tolist()
    return found


def _decode_records(
    content: bytes, rows: list[list[int]], header: BatchHeader, position: int
) -> Iterator[Record]:
    appended_ms = None
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        appended_ms = header.max_timestamp_ms
    for row in rows:
        record_end, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size = row[:7]
        offset = header.base_offset + offset_delta
        if not header.base_offset <= offset <= header.last_offset:
            raise CorruptBatch(f"offset {offset} is outside of the batch", position=position)
        yield Record(
            key=content[key_at : key_at + key_size] if key_size >= 0 else None,
            value=content[value_at : value_at + value_size] if value_size >= 0 else None,
            offset=offset,
            timestamp_ms=(
                header.base_timestamp_ms + timestamp_delta if appended_ms is None else appended_ms
            ),
            headers=_decode_headers(content, row[7], record_end, row[8], position),
        )


def _decode_headers(
    content: bytes, start: int, end: int, count: int, position: int
) -> tuple[tuple[str, bytes | None], ...]:
    headers = []
    for _ in range(count):
        name, start = _read_sized(content, start, end, position)
        value, start = _read_sized(content, start, end, position)
        if name is None:
            raise CorruptBatch("a record header has no name", position=position)
        # Names that are not UTF-8 are decoded as Java decodes them.
        headers.append((name.decode("utf-8", "replace"), value))
    if start != end:
        raise CorruptBatch("bytes are left behind a record's headers", position=position)
    return tuple(headers)


def _read_sized(content: bytes, start: int, end: int, position: int) -> tuple[bytes | None, int]:
    raw = shift = 0
    for at in range(start, min(end, start + 5)):
        raw |= (content[at] & 127) << shift
        shift += 7
        if content[at] < 128:
            size = (raw >> 1) ^ -(raw & 1)
            following = at + 1 + max(size, 0)
            if size < -1 or following > end:
                break
            return (content[at + 1 : following] if size >= 0 else None), following
    raise CorruptBatch("a record header is malformed", position=position)


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int,
    last_offset: int | None = None,
    leader_epoch: int = 0,
    base_timestamp_ms: int | None = None,
    max_timestamp_ms: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    delete_horizon_ms: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    compression: Compression = Compression.NONE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """A batch with these records, whose offsets are rising, and not below `base_offset`.

    By default the base timestamp is that of the first record, the max timestamp the largest, and
    the last offset that of the last record. Compaction leaves the last offset unchanged.
    """
    if last_offset is None:
        last_offset = records[-1].offset if records else base_offset
    if delete_horizon_ms is not None:
        base_timestamp_ms = delete_horizon_ms
    if base_timestamp_ms is None:
        base_timestamp_ms = records[0].timestamp_ms if records else NO_TIMESTAMP
    if max_timestamp_ms is None:
        max_timestamp_ms = max((each.timestamp_ms for each in records), default=NO_TIMESTAMP)
    attributes = (
        compression
        | (LOG_APPEND_TIME if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (_TRANSACTIONAL if is_transactional else 0)
        | (_CONTROL if is_control else 0)
        | (_DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    content = bytearray()
    for each in records:
        _put_record(content, each, base_offset=base_offset, base_timestamp_ms=base_timestamp_ms)
    body = compress(compression, bytes(content))
    return seal_records(
        body,
        BatchHeader(
            base_offset=base_offset,
            size_bytes=BATCH_HEADER_BYTES + len(body),
            partition_leader_epoch=leader_epoch,
            crc=0,
            attributes=attributes,
            last_offset=last_offset,
            base_timestamp_ms=base_timestamp_ms,
            max_timestamp_ms=max_timestamp_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            count=len(records),
        ),
    )


def seal_records(body: bytes, header: BatchHeader) -> bytes:
    """The batch of encoded records with `header`, whose size and checksum are computed."""
    fields: list[Any] = [
        header.base_offset,
        BATCH_HEADER_BYTES - LENGTH_EXCLUDES_BYTES + len(body),
        header.partition_leader_epoch,
        MAGIC,
        0,
        header.attributes,
        header.last_offset - header.base_offset,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.count,
    ]
    fields[4] = computed_crc(BATCH_HEADER.pack(*fields) + body)
    return BATCH_HEADER.pack(*fields) + body


def _put_record(
    out: bytearray, record: Record, *, base_offset: int, base_timestamp_ms: int
) -> None:
    body = bytearray(1)
    _put_varint(body, record.timestamp_ms - base_timestamp_ms)
    _put_varint(body, record.offset - base_offset)
    _put_sized(body, record.key)
    _put_sized(body, record.value)
    _put_varint(body, len(record.headers))
    for name, value in record.headers:
        _put_sized(body, name.encode())
        _put_sized(body, value)
    _put_varint(out, len(body))
    out += body


def _put_varint(out: bytearray, value: int) -> None:
    raw = (value << 1) ^ (value >> 63)
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)


def _put_sized(out: bytearray, content: bytes | None) -> None:
    if content is None:
        _put_varint(out, -1)
    else:
        _put_varint(out, len(content))
        out += content
