"""Short ways to make batches and logs, and to open a log as recovery does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.log.partition_log import PartitionLog
from offsetd_storage.log.segment_files import segment_base_offsets, segment_path
from offsetd_storage.log.segment_scan import SegmentScan, scan_file
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from random import Random

    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.segment import Segment

TOPIC_PARTITION = TopicPartition("__consumer_offsets", 7)
FOLDER = Path("/__consumer_offsets-7")
GOLDEN = Path(__file__).parent / "golden" / "kafka-4.1.1" / "data"
GOLDEN_PARTITIONS = sorted(path.name for path in GOLDEN.glob("__consumer_offsets-*"))
HEADER_BYTES = 61
NOW_MS = 1_700_000_000_000


def batch_of(
    base_offset: int,
    *,
    count: int = 1,
    timestamp_ms: int = NOW_MS,
    size_bytes: int | None = None,
    leader_epoch: int = 0,
) -> bytes:
    """A batch of `count` records with one timestamp; of `size_bytes`, or one more.

    Lengths are varints: one more where no batch is that long.
    """

    def encoded(filling: int) -> bytes:
        records = [
            Record(key=b"k", value=None, offset=offset, timestamp_ms=timestamp_ms)
            for offset in range(base_offset, base_offset + count)
        ]
        records[-1] = attrs.evolve(records[-1], key=b"k" * filling)
        return encode_batch(records, base_offset=base_offset, leader_epoch=leader_epoch)

    smallest = encoded(1)
    if size_bytes is None:
        return smallest
    most = max(1, size_bytes - len(smallest) + 1)
    sizes = (encoded(most - less) for less in range(min(8, most)))
    return min((batch for batch in sizes if len(batch) >= size_bytes), key=len)


def append(
    log: PartitionLog,
    *,
    count: int = 1,
    timestamp_ms: int = NOW_MS,
    size_bytes: int | None = None,
    now_ms: int = NOW_MS,
) -> bytes:
    """Appends a batch at the log's end and returns it."""
    batch = batch_of(log.offset_next, count=count, timestamp_ms=timestamp_ms, size_bytes=size_bytes)
    last_offset = log.offset_next + count - 1
    log.append(batch, last_offset=last_offset, max_timestamp_ms=timestamp_ms, now_ms=now_ms)
    return batch


def created(
    files: Files,
    folder: Path = FOLDER,
    *,
    config: LogConfig | None = None,
    base_offset: int = 0,
    random: Random | None = None,
) -> PartitionLog:
    return PartitionLog.create(
        files,
        folder,
        TOPIC_PARTITION,
        config or LogConfig(),
        base_offset=base_offset,
        random=random,
    )


def scans_of(files: Files, folder: Path, config: LogConfig) -> dict[int, SegmentScan]:
    scans = {}
    offset_min = 0
    for base_offset in segment_base_offsets(files, folder):
        scan = scan_file(
            files,
            segment_path(folder, base_offset),
            base_offset=base_offset,
            offset_min=offset_min,
            index_interval_bytes=config.index_interval_bytes,
        )
        scans[base_offset] = scan
        offset_min = scan.offset_next
    return scans


def opened(
    files: Files,
    folder: Path = FOLDER,
    *,
    config: LogConfig | None = None,
    log_start_offset: int = 0,
    synced: bool = False,
) -> PartitionLog:
    config = config or LogConfig()
    return PartitionLog.open(
        files,
        folder,
        TOPIC_PARTITION,
        config,
        scans_of(files, folder, config),
        log_start_offset=log_start_offset,
        synced=synced,
    )


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def segment_bytes(segment: Segment) -> bytes:
    """All that is written of a segment."""
    with segment.reader() as reader:
        return reader.file.pread(segment.written_bytes, 0)


def everything(log: PartitionLog) -> bytes:
    """All that is written, read in one go for each segment."""
    return b"".join(map(segment_bytes, log.segments))


def contents(files: Files, folder: Path = FOLDER) -> dict[str, bytes]:
    return {name: files.read_bytes(folder / name) for name in files.list_folder(folder)}
