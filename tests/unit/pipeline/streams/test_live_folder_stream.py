"""Beside a store that has the folder open a stream reads up to the recovery points, and only what
is new."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_pipeline.streams.folder_stream import FolderStream
from offsetd_pipeline.streams.limits import Limit
from offsetd_pipeline.streams.options import StreamOptions
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.files import OsFile, OsFiles
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from offsetd_pipeline.streams.positions import Positions

LOGS = 50
ALL = Limit()


class WatchedFiles(OsFiles):
    """Knows which segments were opened."""

    def __init__(self) -> None:
        self.segments: list[str] = []

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> OsFile:
        if path.suffix == ".log":
            self.segments.append(f"{path.parent.name}/{path.name}")
        return super().open(path, create=create, read_only=read_only)


class Store:
    def __init__(self, folder: Path) -> None:
        config = LogStoreConfig(
            partitions=LOGS,
            log=LogConfig(segment_bytes_max=1000),
            journal_file_bytes=1 << 20,
        )
        self.ends = [0] * LOGS
        self.store = LogStore.open(
            OsFiles(), folder, config, clock=ManualClock(), random=random.Random(1)
        )

    def append(self, partition: int, count: int = 1) -> None:
        for _ in range(count):
            offset = self.ends[partition]
            record = Record(key=b"k", value=b"v" * 20, offset=offset, timestamp_ms=1)
            encoded = encode_batch([record], base_offset=offset)
            where = TopicPartition("__consumer_offsets", partition)
            self.store.append(where, encoded, last_offset=offset, max_timestamp_ms=1)
            self.ends[partition] += 1
        self.store.flush()

    def settle(self) -> None:
        self.store.advance_recovery_points()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path / "offsets")
    yield found
    found.store.close()


@pytest.fixture
def files() -> WatchedFiles:
    return WatchedFiles()


@pytest.fixture
def stream(tmp_path: Path, files: WatchedFiles, store: Store) -> FolderStream:
    options = {"path": str(tmp_path / "offsets"), "mode": "history"}
    return FolderStream(files, StreamOptions.of(options))


def moved(stream: FolderStream, start: Positions) -> tuple[Positions, dict[int, int]]:
    end = stream.bounded(start, ALL, None)
    return end, {
        each: offset - start.offsets[each]
        for each, offset in end.offsets.items()
        if offset != start.offsets[each]
    }


def test_a_look_reads_what_is_new_and_nothing_else(
    stream: FolderStream, files: WatchedFiles, store: Store
) -> None:
    for partition in range(LOGS):
        store.append(partition, 3)
    store.settle()
    begun = stream.begin()
    position, found = moved(stream, begun)
    assert found == dict.fromkeys(range(LOGS), 3)
    stream.ranges(begun, position)
    stream.commit(position)
    files.segments.clear()

    assert moved(stream, position) == (position, {})
    assert stream.ends() == position
    assert files.segments == []
    store.append(7, 2)
    assert moved(stream, position) == (position, {}), "it is not durable in the segment yet"
    store.settle()
    end, found = moved(stream, position)
    assert found == {7: 2}
    assert len(stream.ranges(position, end)) == 1
    assert set(files.segments) == {"__consumer_offsets-7/" + f"{0:020d}.log"}


def test_only_segments_are_planned_that_the_range_is_in(stream: FolderStream, store: Store) -> None:
    position = stream.begin()
    for _ in range(4):
        store.append(0, 30)
        store.settle()
        end, found = moved(stream, position)
        assert found == {0: 30}
        [planned] = stream.ranges(position, end)
        bases = [each.base_offset for each in planned.segments]
        assert len(bases) > 1
        assert bases[0] <= position.offsets[0] < bases[1]
        assert bases[-1] < end.offsets[0]
        assert planned.record_count == 30
        position = end
    stream.commit(position)
    assert stream.ranges(position, position) == []


def test_what_rolls_and_stops_between_looks_is_followed(
    stream: FolderStream, store: Store, tmp_path: Path
) -> None:
    chance = random.Random(3)
    begun = position = stream.begin()
    for _ in range(40):
        store.append(chance.randrange(3), chance.randrange(40))
        if chance.random() < 0.7:
            store.settle()
        position, _ = moved(stream, position)
    store.store.close()
    position, _ = moved(stream, position)
    assert [position.offsets[each] for each in range(LOGS)] == store.ends
    assert sum(each.record_count for each in stream.ranges(begun, position)) == sum(store.ends)
    again: Any = Store(tmp_path / "offsets")
    store.store = again.store
    assert moved(stream, position)[1] == {}
