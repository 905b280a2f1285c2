"""Logs of keys and values, what they say when they are replayed, and a cleaner by hand.

The cleaner here knows none of the engine's rules and kernels: it keeps the records that it is
told to keep. So it judges what happens to files and segments, not which records stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.cleaner.cleaned_segment import CleanedSegmentWriter
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.log.segment_list import ListedSegment, read_segment_list, segment_flaws
from offsetd_storage.recovery.swap_recovery import (
    apply_swaps,
    plan_swaps,
    sync_segments,
    unlink_orphans,
)
from partition_logs import FOLDER, NOW_MS, created, everything, opened, segment_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.segment import Segment
    from offsetd_storage.log.segment_list import SegmentFlaw

CONFIG = LogConfig(segment_bytes_max=1000, index_interval_bytes=70, preallocate_step_bytes=512)


def record_batch(
    offset: int, key: str, value: str | None, *, timestamp_ms: int | None = None
) -> bytes:
    """One record; of so small a batch that most of a segment is headers."""
    record = Record(
        key=key.encode(),
        value=None if value is None else value.encode(),
        offset=offset,
        timestamp_ms=NOW_MS + offset if timestamp_ms is None else timestamp_ms,
    )
    return encode_batch([record], base_offset=offset)


def put(log: PartitionLog, key: str, value: str | None) -> None:
    offset = log.offset_next
    batch = record_batch(offset, key, value)
    log.append(batch, last_offset=offset, max_timestamp_ms=NOW_MS + offset, now_ms=NOW_MS)


def keyed_log(
    files: Files, segments: Sequence[str], *, folder: Path = FOLDER, config: LogConfig = CONFIG
) -> PartitionLog:
    """A durable log, a segment for each word, a record for each of its letters.

    A small letter is a key that gets a new value, a capital one its tombstone. The last word may
    be empty: so is the active segment then.
    """
    log = created(files, folder, config=config)
    for place, word in enumerate(segments):
        if place:
            log.roll()
        for letter in word:
            is_tombstone = letter.isupper()
            value = None if is_tombstone else f"{letter}{log.offset_next}"
            put(log, letter.lower(), value)
    log.write()
    log.sync()
    return log


def replayed(batches: bytes) -> dict[bytes, bytes]:
    """The values of all keys, as whoever reads them in order knows them in the end."""
    values: dict[bytes, bytes] = {}
    for batch in decode_batches(batches):
        for record in batch.records:
            assert record.key is not None
            if record.value is None:
                values.pop(record.key, None)
            else:
                values[record.key] = record.value
    return values


def offsets_of(batches: bytes) -> list[int]:
    return [record.offset for batch in decode_batches(batches) for record in batch.records]


def clean_group(
    files: Files,
    segments: Sequence[Segment],
    kept: Iterable[int],
    *,
    folder: Path = FOLDER,
    config: LogConfig = CONFIG,
) -> Segment | None:
    """One segment of state `.cleaned` with the batches of these offsets."""
    writer = CleanedSegmentWriter(files, folder, segments[0].base_offset, config)
    wanted = set(kept)
    for batch in decode_batches(b"".join(map(segment_bytes, segments))):
        if batch.base_offset in wanted:
            (record,) = batch.records
            raw = encode_batch([record], base_offset=batch.base_offset)
            writer.write(np.frombuffer(raw, np.uint8))
    return writer.finish(modified_ms=files.modified_ms(segments[-1].path))


def last_offsets(log: PartitionLog, offset_next: int) -> set[int]:
    """Where the last record of each key lies, below `offset_next`; not those of tombstones."""
    last: dict[bytes | None, tuple[int, bool]] = {}
    for batch in decode_batches(everything(log)):
        for record in batch.records:
            if record.offset < offset_next:
                last[record.key] = (record.offset, record.value is None)
    return {offset for offset, is_tombstone in last.values() if not is_tombstone}


def recovered(
    files: Files,
    *,
    folder: Path = FOLDER,
    config: LogConfig = CONFIG,
    log_start_offset: int = 0,
) -> PartitionLog:
    """The log as a start finds it after a crash."""
    sync_segments(files, folder, drop_cache=True)
    apply_swaps(files, folder, plan_swaps(files, folder))
    unlink_orphans(files, folder)
    log = opened(files, folder, config=config, log_start_offset=log_start_offset)
    assert not flaws_of(files, log)
    return log


def flaws_of(files: Files, log: PartitionLog) -> list[SegmentFlaw]:
    """How the segments of a log without unwritten batches differ from their list."""
    listed = read_segment_list(files, log.folder)
    if listed is None:
        return []
    found = {each.base_offset: ListedSegment.of_segment(each) for each in log.segments}
    return segment_flaws(listed, found, below=listed.below, log_start_offset=log.log_start_offset)


def names_of(found: Iterable[str]) -> list[str]:
    """Those of segments."""
    return [name for name in found if name[0].isdigit()]
