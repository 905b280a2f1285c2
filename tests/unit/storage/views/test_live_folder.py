"""Files that a server exchanges while they are looked at, step by step."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import attrs
import pytest
from offsetd_coordinator.offline.log_dump import dump_log
from offsetd_coordinator.offline.verification.log_check import LogVerifier
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.log.segment_list import ListedSegment, read_segment_list, write_segment_list
from offsetd_storage.log.segment_scan import scan_file
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.recovery.quarantine import DamageFound
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import FolderView, LogView, read_folder
from offsetd_storage.views.live_folder import SegmentWalk, seen_steadily

if TYPE_CHECKING:
    from pathlib import Path

P0 = TopicPartition("__consumer_offsets", 0)
CONFIG = LogStoreConfig(
    partitions=1, log=LogConfig(segment_bytes_max=400), journal_file_bytes=256 << 10
)
FILES = OsFiles()


def batch(offset: int) -> bytes:
    record = Record(key=b"k", value=b"v" * 20, offset=offset, timestamp_ms=1)
    return encode_batch([record], base_offset=offset)


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    """An open store whose log has four batches a segment, in three and an active one."""
    opened = LogStore.open(
        FILES, tmp_path / "offsets", CONFIG, clock=ManualClock(), random=random.Random(1)
    )
    for offset in range(14):
        opened.append(P0, batch(offset), last_offset=offset, max_timestamp_ms=1)
    opened.flush()
    opened.advance_recovery_points()
    assert [each.base_offset for each in opened.logs[P0].segments] == [0, 4, 8, 12]
    return opened


def seen(store: LogStore) -> tuple[FolderView, LogView]:
    view = read_folder(FILES, store.logs[P0].folder.parent)
    assert not view.is_settled
    return view, view.logs[0]


def join_first_two(folder: Path, *kept: int) -> None:
    """What a round leaves of the first two segments: some batches, in one file, without indexes."""
    for path in folder.iterdir():
        if path.name.startswith((f"{0:020d}.", f"{4:020d}.")):
            path.unlink()
    (folder / f"{0:020d}.log").write_bytes(b"".join(map(batch, kept)))


def test_what_looks_wrong_is_looked_at_again_while_files_change(store: LogStore) -> None:
    view, log = seen(store)
    looks = []

    def look(again: LogView) -> list[object]:
        looks.append(again)
        if len(looks) == 1:
            join_first_two(log.folder, 3, 6)
            raise FileNotFoundError
        if len(looks) == 2:
            join_first_two(log.folder, 6)
            return ["something seems wrong"]
        return []

    pauses: list[float] = []
    found = seen_steadily(FILES, view, log, look, is_doubtful=bool, sleep=pauses.append)
    assert (found, len(looks), len(pauses)) == ([], 3, 2)


def test_what_is_wrong_while_nothing_changes_is_told(store: LogStore) -> None:
    view, log = seen(store)
    assert seen_steadily(FILES, view, log, lambda _: ["wrong"], is_doubtful=bool) == ["wrong"]

    def raising(_: LogView) -> None:
        raise DamageFound("rot")

    with pytest.raises(DamageFound):
        seen_steadily(FILES, view, log, raising)


def test_a_log_that_never_stays_as_it_is_is_told_as_it_was_seen_last(store: LogStore) -> None:
    view, log = seen(store)
    looks = []

    def look(_: LogView) -> list[int]:
        looks.append(len(looks))
        join_first_two(log.folder, *([6] if len(looks) % 2 else [3, 6]))
        return looks

    found = seen_steadily(FILES, view, log, look, is_doubtful=bool, sleep=lambda _: None)
    assert len(found) == 40


def test_verify_finds_nothing_where_the_segment_of_its_recovery_point_was_cleaned_since(
    store: LogStore,
) -> None:
    view, stale = seen(store)
    for offset in range(14, 20):
        store.append(P0, batch(offset), last_offset=offset, max_timestamp_ms=1)
    store.flush()
    store.roll(P0)
    store.flush()
    store.advance_recovery_points()
    name = f"{12:020d}"
    for suffix in (".index", ".timeindex"):
        (stale.folder / f"{name}{suffix}").unlink()
    assert stale.recovery_point is not None
    assert (stale.recovery_point.segment_base_offset, stale.recovery_point.offset) == (12, 14)
    longer = encode_batch(
        [Record(key=b"k", value=b"v" * 300, offset=15, timestamp_ms=1)], base_offset=15
    )
    (stale.folder / f"{name}.log").write_bytes(longer)
    listed = read_segment_list(FILES, stale.folder)
    assert listed is not None
    scan = scan_file(FILES, stale.folder / f"{name}.log", base_offset=12)
    cleaned = ListedSegment.of_scan(12, scan)
    segments = [cleaned if each.base_offset == 12 else each for each in listed.segments]
    write_segment_list(FILES, stale.folder, attrs.evolve(listed, segments=tuple(segments)))

    def findings(log: LogView) -> list[object]:
        return list(LogVerifier(FILES, log, partitions=None).findings())

    assert findings(stale), "the test shows nothing"
    assert seen_steadily(FILES, view, stale, findings, is_doubtful=bool) == []


def dumped(lines: list[str]) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith("baseOffset: ")]


def test_a_dump_has_every_batch_once_that_stays_in_the_log(store: LogStore) -> None:
    _, log = seen(store)
    assert dumped(list(dump_log(FILES, log))) == list(range(14))
    lines = dump_log(FILES, log)
    first: list[str] = []
    while dumped(first) != [0, 1, 2, 3]:
        first.append(next(lines))
    join_first_two(log.folder, 3, 6)
    rest = list(lines)
    assert dumped(rest) == [6, *range(8, 14)]
    assert not any("invalid" in line for line in rest)


def test_segments_are_waited_for_while_they_are_exchanged(store: LogStore) -> None:
    _, log = seen(store)
    swapped = log.folder / f"{0:020d}.log"

    def finish(_: float) -> None:
        swapped.with_suffix(".log.swap").rename(swapped)

    swapped.rename(swapped.with_suffix(".log.swap"))
    walk = SegmentWalk(FILES, log, sleep=finish)
    found = walk.open_next(0)
    assert found is not None
    assert found[0] == 0
    found[1].close()
