"""Damage of index files, named by file and byte."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from offsetd_coordinator.offline.verification.findings import Finding
from offsetd_coordinator.offline.verification.index_check import IndexVerifier
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.log.partition_log import PartitionLog
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.log.segment_scan import scan_segment
from offsetd_storage.topic_partition import TopicPartition

NAME = "__consumer_offsets-4"
BASE_OFFSET = 1000
BATCHES = 300
OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed log whose indexes are denser than the verification's own scan would make them."""
    folder = tmp_path / NAME
    log = PartitionLog.create(
        OsFiles(),
        folder,
        TopicPartition("__consumer_offsets", 4),
        LogConfig(index_interval_bytes=256),
        base_offset=BASE_OFFSET,
    )
    for offset in range(BASE_OFFSET, BASE_OFFSET + BATCHES):
        record = Record(key=b"k", value=b"v", offset=offset, timestamp_ms=offset * 10)
        batch = encode_batch([record], base_offset=offset)
        log.append(batch, last_offset=offset, max_timestamp_ms=offset * 10, now_ms=0)
    log.close()
    return folder


def findings(folder: Path) -> list[Finding]:
    files = OsFiles()
    file = files.open(segment_path(folder, BASE_OFFSET), read_only=True)
    try:
        scan = scan_segment(file, size=file.size(), base_offset=BASE_OFFSET, offset_min=0)
        return list(IndexVerifier(files, folder, BASE_OFFSET, file, scan).findings())
    finally:
        file.close()


def index(folder: Path, suffix: str) -> Path:
    return segment_path(folder, BASE_OFFSET, suffix)


def test_indexes_denser_than_ours_are_right(folder: Path) -> None:
    assert index(folder, ".index").stat().st_size > 50 * OFFSET_ENTRY.size
    assert findings(folder) == []


def test_the_zeros_that_a_killed_broker_leaves_are_right(folder: Path) -> None:
    for suffix, entry in ((".index", OFFSET_ENTRY), (".timeindex", TIME_ENTRY)):
        path = index(folder, suffix)
        path.write_bytes(path.read_bytes() + bytes(1000 * entry.size))
    assert findings(folder) == []


def with_entry(path: Path, entry: struct.Struct, slot: int, *change: int) -> None:
    raw = bytearray(path.read_bytes())
    fields = entry.unpack_from(raw, slot * entry.size)
    entry.pack_into(raw, slot * entry.size, *map(sum, zip(fields, change, strict=True)))
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("suffix", "damage", "position", "reason"),
    [
        (".index", Path.unlink, None, "the index is missing"),
        (".timeindex", Path.unlink, None, "the index is missing"),
        (".index", lambda path: path.write_bytes(path.read_bytes()[:-3]), None, "multiple of 8"),
        (".timeindex", lambda path: path.write_bytes(path.read_bytes() + b"x"), None, "of 12"),
        (".index", lambda path: with_entry(path, OFFSET_ENTRY, 9, 0, 1), 72, "is not at byte"),
        (".index", lambda path: with_entry(path, OFFSET_ENTRY, 9, -1, 0), 72, "is not at byte"),
        (".index", lambda path: with_entry(path, OFFSET_ENTRY, 9, -900, 0), None, "do not grow"),
        (".index", lambda path: with_entry(path, OFFSET_ENTRY, -1, 0, 10**6), None, "outside"),
        (".timeindex", lambda path: with_entry(path, TIME_ENTRY, 9, 1, 0), 108, "not have"),
        (".timeindex", lambda path: with_entry(path, TIME_ENTRY, 9, 0, 1), 108, "not have"),
        (".timeindex", lambda path: with_entry(path, TIME_ENTRY, -1, 0, 999), None, "outside"),
    ],
    ids=[
        "no index",
        "no time index",
        "size",
        "time size",
        "position",
        "offset",
        "order",
        "outside",
        "time",
        "time's offset",
        "time outside",
    ],
)
def test_each_kind_of_damage_is_named(
    folder: Path, suffix: str, damage: Callable[[Path], object], position: int | None, reason: str
) -> None:
    path = index(folder, suffix)
    damage(path)
    (finding,) = findings(folder)
    assert finding.file == f"{NAME}/{path.name}"
    assert finding.position == position
    assert reason in finding.reason


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_of_any_size_is_not_read_whole(folder: Path, suffix: str) -> None:
    os.truncate(index(folder, suffix), 1 << 40)
    assert [each.reason.split(",")[0] for each in findings(folder)] == [
        "it is larger than 268435456 bytes"
    ]
