"""Segments made of batches in memory, and short ways to map and to filter them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offsetd_storage.batch.record_batch import Record, RecordBatch, decode_batches, encode_batch
from offsetd_storage.cleaner.cleaned_transactions import (
    CleanedTransactions,
    ProducerHistory,
    read_producers,
)
from offsetd_storage.cleaner.offset_map import SLOT_BYTES, MappedRange, OffsetMap
from offsetd_storage.cleaner.segment_chunks import SegmentChunks
from offsetd_storage.cleaner.segment_filter import KeepRules, KeepStats, filter_segment
from offsetd_storage.disk.simulated_files import SimulatedFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOW_MS = 1_700_000_000_000
RETENTION_MS = 1000
HORIZON_MS = NOW_MS + RETENTION_MS
HASH_KEY = bytes(range(16))
ABORT, COMMIT = 0, 1


def rec(offset: int, key: str | None, value: str | None = "v", **fields: Any) -> Record:
    """A record; its time is its offset, 1 ms apart, unless it is given."""
    return Record(
        key=None if key is None else key.encode(),
        value=None if value is None else value.encode(),
        offset=offset,
        timestamp_ms=fields.pop("timestamp_ms", NOW_MS - 100_000 + offset),
        **fields,
    )


def batch(*records: Record, base: int | None = None, **fields: Any) -> bytes:
    base_offset = records[0].offset if base is None else base
    return encode_batch(records, base_offset=base_offset, **fields)


def keyed(*keys: str | None, at: int = 0, **fields: Any) -> bytes:
    """A batch of one record a key, from offset `at` on."""
    return batch(*(rec(at + n, key) for n, key in enumerate(keys)), **fields)


def marker(offset: int, kind: int, producer_id: int, *, epoch: int = 0, **fields: Any) -> bytes:
    record = Record(
        key=struct.pack(">hh", 0, kind),
        value=struct.pack(">hi", 0, 0),
        offset=offset,
        timestamp_ms=NOW_MS - 100_000 + offset,
    )
    return encode_batch(
        [record],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        is_transactional=True,
        is_control=True,
        **fields,
    )


def segments(*contents: Iterable[bytes], end: int | None = None) -> list[SegmentChunks]:
    """A log's segments, each of batches; `end` is where the last one ends."""
    files = SimulatedFiles()
    found = []
    for number, batches in enumerate(contents):
        content = b"".join(batches)
        decoded = list(decode_batches(content, check_crc=False))
        file = files.open(Path(f"/{number}.log"), create=True)
        file.pwrite([content], 0)
        base_offset = decoded[0].base_offset if decoded else 0
        found.append((file, len(content), base_offset, decoded[-1].last_offset + 1))
    ends = [base for _, _, base, _ in found[1:]] + [found[-1][3] if end is None else end]
    return [
        SegmentChunks(file=file, size_bytes=size, base_offset=base, offset_next=offset_next)
        for (file, size, base, _), offset_next in zip(found, ends, strict=True)
    ]


def map_of(slots: int = 1000, *, bitmap_bytes_max: int = 1 << 20) -> OffsetMap:
    return OffsetMap(
        slots * SLOT_BYTES,
        load_factor=0.9,
        hash_key=HASH_KEY,
        bitmap_bytes_max=bitmap_bytes_max,
    )


def no_throttle(_: int) -> None:
    pass


def mapped(
    offset_map: OffsetMap, source: Sequence[SegmentChunks], *, first_dirty: int = 0
) -> MappedRange:
    """Maps the segments that do not end below the first dirty offset."""
    return offset_map.build(
        [each for each in source if each.offset_next > first_dirty],
        first_dirty=first_dirty,
        first_uncleanable=source[-1].offset_next,
        aborted=read_producers(source).aborted,
        throttle=no_throttle,
    )


def cleaned(
    source: Sequence[SegmentChunks],
    *,
    first_dirty: int = 0,
    slots: int = 1000,
    bitmap_bytes_max: int = 1 << 20,
    now_ms: int = NOW_MS,
    history: ProducerHistory | None = None,
    expiration_ms: int = 0,
) -> tuple[list[bytes], KeepStats, MappedRange]:
    """What a round leaves of each segment that begins below the end of the map."""
    offset_map = map_of(slots, bitmap_bytes_max=bitmap_bytes_max)
    range_mapped = mapped(offset_map, source, first_dirty=first_dirty)
    history = history or read_producers(source)
    transactions = CleanedTransactions(history.aborted)
    rules = KeepRules(
        now_ms=now_ms,
        delete_retention_ms=RETENTION_MS,
        first_uncleanable=source[-1].offset_next,
        last_records=history.active(now_ms=now_ms, expiration_ms=expiration_ms),
    )
    left: list[bytes] = []
    total = KeepStats()
    for each in source:
        if each.base_offset >= range_mapped.offset_next:
            continue
        written: list[bytes] = []
        total += filter_segment(
            each,
            offset_map,
            range_mapped,
            transactions,
            rules,
            lambda array, written=written: written.append(array.tobytes()),
            throttle=no_throttle,
        )
        left.append(b"".join(written))
    return left, total, range_mapped


def batches_of(content: bytes) -> list[RecordBatch]:
    return list(decode_batches(content))
