"""The dump where Kafka's tool gives up, and its options; `tests/golden` compares the rest."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from offsetd_coordinator.offline import segment_batches
from offsetd_coordinator.offline.log_dump import dump_log
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.journal.journal_format import RecoveryPoint
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import LogView

NOW_MS = 1_700_000_000_000
KEY = encode_key(OffsetKey(group="g", topic="t", partition=0))
VALUE = OffsetCommitValue(offset=7, commit_timestamp_ms=NOW_MS).encode(4)
DECODED = (
    ' key: {"type":"1","data":{"group":"g","topic":"t","partition":0}} payload: {"version":"4",'
    '"data":{"offset":7,"leaderEpoch":-1,"metadata":"","commitTimestamp":1700000000000}}'
)


def record(offset: int, key: bytes | None = KEY, value: bytes | None = VALUE) -> Record:
    return Record(key=key, value=value, offset=offset, timestamp_ms=NOW_MS)


def batch(offset: int, compression: Compression = Compression.NONE) -> bytes:
    return encode_batch([record(offset)], base_offset=offset, compression=compression)


def changed(encoded: bytes, position: int, byte: int) -> bytes:
    return encoded[:position] + bytes([byte]) + encoded[position + 1 :]


def partition(folder: Path, *segments: tuple[int, Sequence[bytes]]) -> LogView:
    topic_partition = TopicPartition("__consumer_offsets", 7)
    log_folder = folder / topic_partition.folder_name
    log_folder.mkdir()
    for base_offset, batches in segments:
        (log_folder / f"{base_offset:020d}.log").write_bytes(b"".join(batches))
    return LogView(topic_partition=topic_partition, folder=log_folder, recovery_point=None)


def shown(lines: Sequence[str]) -> list[str]:
    """Each line in short: offsets of batches and records, and all of other lines."""
    short = []
    for line in lines:
        if line.startswith("baseOffset: "):
            validity = "" if line.endswith("isvalid: true") else " invalid"
            short.append(f"batch {line.split()[1]}{validity}")
        elif line.startswith("| offset: "):
            short.append(f"record {line.split()[2]}")
        else:
            short.append(line)
    return short


SKIPPED = f"| Error in the batch at position {2 * len(batch(0))}, skipping. "
TORN = "Found {} invalid bytes at the end of 00000000000000000000.log"


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        ([bytes(4096)], [TORN.format(4096)]),
        ([changed(batch(2), 16, 1), batch(3)], [TORN.format(2 * len(batch(2)))]),
        ([changed(batch(2), 60, 2), batch(3)], [TORN.format(2 * len(batch(2)))]),
        ([b"\xff" * 100], [TORN.format(100)]),
        (
            [changed(batch(2), 61, 0x7F), batch(3)],
            ["batch 2 invalid", SKIPPED, "batch 3", "record 3"],
        ),
        (
            [changed(batch(2, Compression.ZSTD), 61, 0), batch(3)],
            ["batch 2 invalid", SKIPPED, "batch 3", "record 3"],
        ),
        (
            [changed(batch(2), 22, 6), batch(3)],
            ["batch 2 invalid", SKIPPED, "batch 3", "record 3"],
        ),
    ],
    ids=["zeros", "magic", "count", "noise", "record size", "compressed bytes", "unknown codec"],
)
def test_damage_is_a_line_and_the_dump_goes_on_as_far_as_it_can(
    tmp_path: Path, behind: list[bytes], expected: list[str]
) -> None:
    log = partition(tmp_path, (0, [batch(0), batch(1), *behind]))
    lines = list(dump_log(OsFiles(), log))
    short = [
        line[: line.index("skipping. ") + 10] if line.startswith("| Error") else line
        for line in shown(lines)
    ]
    assert short[2:] == ["batch 0", "record 0", "batch 1", "record 1", *expected]


@pytest.mark.parametrize(
    ("key", "value", "is_control", "expected"),
    [
        (None, VALUE, False, " key: Error at offset 0, skipping. The record has no key."),
        (b"\x00\x00\x00\x02", b"", True, " controlType: UNKNOWN(2)"),
        (
            b"\x00\x00\x00\x01",
            b"\x00",
            True,
            " Error at offset 0, skipping. 2 bytes needed, 1 left",
        ),
        (None, b"", True, " Error at offset 0, skipping. 2 bytes needed, 0 left"),
    ],
)
def test_a_record_that_stops_kafkas_tool_is_a_line_here(
    tmp_path: Path, key: bytes | None, value: bytes, is_control: bool, expected: str
) -> None:
    encoded = encode_batch([record(0, key, value)], base_offset=0, is_control=is_control)
    lines = list(dump_log(OsFiles(), partition(tmp_path, (0, [encoded, batch(1)]))))
    assert lines[3].partition("headerKeys: []")[2] == expected
    assert lines[5].endswith(DECODED)


def test_without_the_decoder_records_are_shown_without_their_content(tmp_path: Path) -> None:
    log = partition(tmp_path, (0, [batch(0)]))
    lines = list(dump_log(OsFiles(), log, decode_offsets=False))
    assert lines[3] == (
        "| offset: 0 CreateTime: 1700000000000 keySize: 12 valueSize: 24 sequence: -1"
        " headerKeys: []"
    )


@pytest.mark.parametrize(
    ("segment", "segment_bytes", "expected"),
    [
        (0, 0, []),
        (0, len(batch(0)), ["batch 0", "record 0"]),
        (4, 0, ["batch 0", "record 0", "batch 1", "record 1"]),
        (4, len(batch(4)), ["batch 0", "record 0", "batch 1", "record 1", "batch 4", "record 4"]),
    ],
)
def test_beside_a_running_server_the_dump_stops_at_the_recovery_point(
    tmp_path: Path, segment: int, segment_bytes: int, expected: list[str]
) -> None:
    log = partition(tmp_path, (0, [batch(0), batch(1)]), (4, [batch(4), batch(5)[:-1]]))
    point = RecoveryPoint(
        topic_partition=log.topic_partition,
        offset=0,
        journal_offset_next=0,
        segment_base_offset=segment,
        segment_bytes=segment_bytes,
        leader_epoch=0,
    )
    lines = list(dump_log(OsFiles(), attrs.evolve(log, recovery_point=point)))
    headings = ("Dumping", "Log starting")
    assert [line for line in shown(lines) if not line.startswith(headings)] == expected


def test_batches_of_any_size_pass_through_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_batches, "READ_BYTES", 64)
    large = encode_batch([record(2, value=bytes(500))], base_offset=2)
    log = partition(tmp_path, (0, [batch(0), batch(1), large, batch(3)]))
    assert [line for line in shown(list(dump_log(OsFiles(), log))) if "batch" in line] == [
        "batch 0",
        "batch 1",
        "batch 2",
        "batch 3",
    ]


def test_an_empty_partition_has_only_headings(tmp_path: Path) -> None:
    log = partition(tmp_path, (5, []))
    assert list(dump_log(OsFiles(), log)) == [
        "Dumping __consumer_offsets-7/00000000000000000005.log",
        "Log starting offset: 5",
    ]
