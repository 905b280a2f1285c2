from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from offsetd_pipeline.folder_plan import (
    FolderWork,
    LogPlan,
    Piece,
    divide,
    known_partition_count,
    opened_piece,
    plan_folder,
)
from offsetd_pipeline.segments import Segment
from offsetd_pipeline.source import OffsetdSource
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import FolderChanged, FolderMismatch
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import read_folder
from offsetd_storage.views.live_folder import LogFigures
from offsets_logs import write_log

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.1.1" / "data"
FILES = OsFiles()
P0 = TopicPartition("__consumer_offsets", 0)


def plan(sizes: list[int], *, log_partition: int = 0, live: bool = False) -> LogPlan:
    return LogPlan(
        folder="f",
        log_partition=log_partition,
        log_start_offset=0,
        segments=tuple(
            Segment(path=f"{number}.log", base_offset=number, size_bytes=size)
            for number, size in enumerate(sizes)
        ),
        figures=LogFigures(segments=frozenset(), segment_base_offset=0 if live else None),
    )


def sizes_of(works: list[FolderWork]) -> list[list[list[int]]]:
    return [
        [[segment.size_bytes for segment in piece.segments] for piece in work.pieces]
        for work in works
    ]


@pytest.mark.parametrize(
    ("by_segment", "live", "expected"),
    [
        (True, False, [[[60, 30]], [[60], [20], [20]]]),
        (False, False, [[[60, 30, 60]], [[20], [20]]]),
        (True, True, [[[60, 30, 60]], [[20], [20]]]),
    ],
)
def test_work_is_about_so_many_bytes(
    by_segment: bool, live: bool, expected: list[list[list[int]]]
) -> None:
    logs = [plan([60, 30, 60], live=live), plan([]), plan([20]), plan([20])]
    assert sizes_of(divide(logs, range_bytes=100, by_segment=by_segment)) == expected


def test_how_many_partitions_a_brokers_topic_has_is_believed_only_where_groups_bear_it_out(
    tmp_path: Path,
) -> None:
    assert known_partition_count(FILES, read_folder(FILES, GOLDEN)) == 50
    # A broker that has only some of the partitions: the highest says nothing of how many there are.
    for number in (0, 1, 2, 3, 4, 5):
        name = f"__consumer_offsets-{number}"
        shutil.copytree(GOLDEN / name, tmp_path / name)
    view = read_folder(FILES, tmp_path)
    assert view.offsets_partitions == 6
    assert known_partition_count(FILES, view) is None


def test_a_count_is_not_believed_while_another_fits_the_groups_that_are_there(
    tmp_path: Path,
) -> None:
    # Of 50 partitions 0 to 39 are here. These groups are where they would be with 40, too.
    for number in range(40, 46):
        group = f"group-{number}"
        assert partition_of(group, 40) == partition_of(group, 50)
        put_commit(tmp_path, group, partition_of(group, 50))
    (tmp_path / "__consumer_offsets-39").mkdir()
    view = read_folder(FILES, tmp_path)
    assert view.offsets_partitions == 40
    assert known_partition_count(FILES, view) is None


def put_commit(folder: Path, group: str, partition: int) -> None:
    value = OffsetCommitValue(offset=1, leader_epoch=-1, metadata="", commit_timestamp_ms=1)
    record = Record(
        key=encode_key(OffsetKey(group=group, topic="t", partition=0)),
        value=value.encode(3),
        offset=0,
        timestamp_ms=1,
    )
    write_log(folder, [encode_batch([record], base_offset=0)], partition=partition)


def test_fewer_partitions_than_the_folder_has_are_refused() -> None:
    source = OffsetdSource({"path": str(GOLDEN), "groups": "g", "offsets_partitions": "49"})
    reader = source.reader(source.schema())
    with pytest.raises(ValueError, match=r"offsets_partitions is 49, but .* has 50"):
        reader.partitions()


def test_a_folder_without_an_offsets_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FolderMismatch, match="does not exist"):
        plan_folder(FILES, tmp_path / "x", is_wanted=lambda _: True)
    (tmp_path / "orders-0").mkdir()
    with pytest.raises(FolderMismatch, match="no partition of __consumer_offsets"):
        plan_folder(FILES, tmp_path, is_wanted=lambda _: True)


@pytest.fixture
def copied(tmp_path: Path) -> tuple[Path, Piece]:
    """A copy of a broker's log, and the plan to read it."""
    name = "__consumer_offsets-0"
    shutil.copytree(GOLDEN / name, tmp_path / name)
    _, [log] = plan_folder(FILES, tmp_path, is_wanted=lambda _: True)
    return tmp_path / name / f"{0:020d}.log", Piece(log, 0, 1)


def test_a_copy_that_is_written_to_while_it_is_read_is_an_error(copied: tuple[Path, Piece]) -> None:
    path, piece = copied
    with opened_piece(FILES, piece) as (same, _):
        assert same == piece
    path.chmod(0o644)
    with (
        pytest.raises(FolderChanged, match=r"partition 0 of .* changed while it was read"),
        opened_piece(FILES, piece),
    ):
        path.write_bytes(path.read_bytes() * 2)
    path.unlink()
    with (
        pytest.raises(FolderChanged, match="partition 0"),
        opened_piece(FILES, piece) as (_, opened),
        opened.opened(piece.segments[0]),
    ):
        pass


def test_what_a_server_cleans_while_it_is_read_stays_readable(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    config = LogStoreConfig(
        partitions=1, log=LogConfig(segment_bytes_max=400), journal_file_bytes=256 << 10
    )
    store = LogStore.open(FILES, folder, config, clock=ManualClock(), random=random.Random(1))
    for offset in range(14):
        record = Record(key=b"k", value=b"v" * 20, offset=offset, timestamp_ms=1)
        batch = encode_batch([record], base_offset=offset)
        store.append(P0, batch, last_offset=offset, max_timestamp_ms=1)
    store.flush()
    store.advance_recovery_points()
    _, [log] = plan_folder(FILES, folder, is_wanted=lambda _: True)
    assert log.is_live
    first = Path(log.segments[0].path)
    before = first.read_bytes()
    with opened_piece(FILES, Piece(log, 0, len(log.segments))) as (piece, opened):
        for path in first.parent.glob(f"{first.stem}.*"):
            path.unlink()
        with opened.opened(piece.segments[0]) as file:
            assert file.pread(len(before), 0) == before
    # What was planned before is no more: it is planned anew.
    with opened_piece(FILES, Piece(log, 0, len(log.segments))) as (piece, _):
        assert [each.base_offset for each in piece.segments] == [4, 8, 12]
    store.close()
