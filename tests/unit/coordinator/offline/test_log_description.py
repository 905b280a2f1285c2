"""A log in numbers."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from offsetd_coordinator.offline.log_description import LogDescription, describe_log
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import LogView


def batch(*offsets: int) -> bytes:
    records = [Record(key=b"k", value=None, offset=each, timestamp_ms=1) for each in offsets]
    return encode_batch(records, base_offset=offsets[0])


def described(
    folder: Path, segments: Sequence[tuple[int, bytes]], start_offset: int = 0
) -> LogDescription:
    for base_offset, content in segments:
        (folder / f"{base_offset:020d}.log").write_bytes(content)
    log = LogView(topic_partition=TopicPartition("t", 0), folder=folder, recovery_point=None)
    return describe_log(OsFiles(), log, start_offset=start_offset)


def test_segments_are_added_up(tmp_path: Path) -> None:
    segments = [(5, batch(5) + batch(7, 8)), (9, batch(9)), (10, b"")]
    assert described(tmp_path, segments) == LogDescription(
        start_offset=5,
        end_offset=10,
        segments=3,
        size_bytes=len(batch(5) + batch(7, 8) + batch(9)),
        batches=3,
        records=4,
        problem=None,
    )


def test_a_log_may_begin_inside_a_segment(tmp_path: Path) -> None:
    assert described(tmp_path, [(5, batch(5, 6))], start_offset=6).start_offset == 6


def test_a_folder_without_segments_is_empty(tmp_path: Path) -> None:
    description = described(tmp_path, [])
    assert (description.segments, description.start_offset, description.end_offset) == (0, 0, 0)
    assert description.problem == "there is no segment"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (batch(1)[:-1], "incomplete"),
        (batch(1)[:30] + b"\xff" + batch(1)[31:], "bad_checksum"),
        (batch(0), "bad_offset"),
    ],
)
def test_the_first_bad_batch_is_the_problem(tmp_path: Path, content: bytes, problem: str) -> None:
    description = described(tmp_path, [(0, batch(0) + content), (2, batch(2))])
    assert description.problem == f"{problem} at byte {len(batch(0))} of {0:020d}.log"
    assert description.records == 2
    assert description.end_offset == 3
