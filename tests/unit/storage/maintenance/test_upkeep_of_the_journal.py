"""When the upkeep makes the journal small, and large again."""

from __future__ import annotations

import errno

import attrs
import pytest
from kept_stores import CONFIG, P0, P1, UPKEEP, KeptStore
from log_stores import FOLDER
from offsetd_storage.configuration.server_config import DiskConfig
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.errors import StorageFull
from offsetd_storage.journal.journal_files import JOURNAL_NAMES, SPARE_NAME
from offsetd_storage.maintenance.upkeep import IDLE_LOGS, JOURNAL_GROWTH
from offsetd_storage.tasks.scheduler import RECOVERY_POINT_CHECKPOINT

JOURNAL_FILES = tuple(FOLDER / name for name in JOURNAL_NAMES)
MINUTE_MS = 60_000


def journal_sizes(kept: KeptStore) -> list[int]:
    return [kept.files.size(path) for path in JOURNAL_FILES]


def at_rest() -> KeptStore:
    kept = KeptStore()
    kept.overwrite(P0, times=2)
    assert kept.store.journal_size.rest()
    return kept


def test_a_journal_gets_small_when_nothing_was_appended_for_a_minute() -> None:
    full = CONFIG.journal_file_bytes
    with KeptStore() as kept:
        for topic_partition in (P0, P1):
            kept.put(topic_partition, "k", "v")
            kept.store.flush()
            kept.run(IDLE_LOGS)
            kept.advance(MINUTE_MS - 1)
            kept.run(IDLE_LOGS)
            assert journal_sizes(kept) == [full] * 2
        kept.advance(1)
        kept.run(IDLE_LOGS)
        assert max(journal_sizes(kept)) < full / 4
        operations = kept.files.operations
        for _ in range(3):
            kept.advance(MINUTE_MS)
            kept.run(IDLE_LOGS)
        assert kept.files.operations == operations, "what rests is left alone"
        assert kept.values(P1) == {b"k": b"v"}
        assert not kept.failures


@pytest.mark.parametrize(("pause_ms", "grows"), [(0, True), (MINUTE_MS + 1, False)])
def test_a_small_journal_grows_when_it_fills_twice_within_a_minute(
    pause_ms: int, grows: bool
) -> None:
    with at_rest() as kept:
        small = journal_sizes(kept)
        for end in (3, 4):
            kept.put(P0, "k", "v")
            kept.store.flush()
            kept.upkeep.move_points_soon()
            kept.until(lambda end=end: kept.store.recovery_point(P0).offset == end)
            kept.run(RECOVERY_POINT_CHECKPOINT)
            kept.run(JOURNAL_GROWTH)
            assert (journal_sizes(kept) == small) == (end == 3 or not grows)
            kept.advance(pause_ms)
        assert not kept.failures


def at_rest_with(disk: DiskConfig) -> KeptStore:
    """Nothing runs by itself."""
    kept = KeptStore(upkeep=attrs.evolve(UPKEEP, disk=disk))
    kept.overwrite(P0, times=2)
    assert kept.store.journal_size.rest()
    return kept


def fill_twice(kept: KeptStore) -> None:
    for _ in range(2):
        kept.upkeep.disk.check()
        kept.upkeep._points_asked = True
        kept.upkeep._move_points()
        kept.upkeep._grow_journal()


def test_a_small_journal_does_not_grow_where_the_disk_would_get_low_by_it() -> None:
    kept = at_rest_with(DiskConfig(reserve_bytes=0, free_bytes_min=2048))
    room, files = kept.store.journal_size, kept.files
    growth_bytes = room.growth_bytes
    for more_bytes, grows in ((0, False), (4095, False), (2 * 4096, True)):
        files.capacity_bytes = 1 << 20
        files.capacity_bytes -= files.free_bytes(FOLDER) - growth_bytes - more_bytes
        fill_twice(kept)
        assert (room.growth_bytes == 0) == grows, more_bytes
    kept.store.abandon()


@pytest.mark.parametrize("is_low", [False, True])
def test_a_journal_does_not_grow_into_the_reserve(is_low: bool) -> None:
    """Nor where it was given back: that is for cleaning and deletions, which fill it, too."""
    kept = at_rest_with(DiskConfig(reserve_bytes=1 << 16, free_bytes_min=8192))
    room, files, disk = kept.store.journal_size, kept.files, kept.upkeep.disk
    files.capacity_bytes = 2 << 20
    disk.check()
    assert disk.status.reserve_bytes_held == 1 << 16
    # As much as would do, were it not for what has to be free before the disk is left alone.
    left_bytes = 4096 if is_low else room.growth_bytes + 8192
    others = FOLDER / "others"
    files.put_durable(others, bytes(files.free_bytes(FOLDER) - left_bytes // 4096 * 4096))
    fill_twice(kept)
    assert disk.is_low == is_low
    assert room.growth_bytes > 0
    files.unlink(others)
    fill_twice(kept)
    assert room.growth_bytes == 0
    kept.store.abandon()


def with_larger_batches(kept: KeptStore) -> None:
    log = kept.store.logs[P1]
    log.config = attrs.evolve(log.config, segment_bytes_max=5000)


def test_a_small_journal_grows_where_a_topic_has_larger_batches_by_now() -> None:
    with at_rest() as kept:
        with_larger_batches(kept)
        kept.run(JOURNAL_GROWTH)
        assert kept.store.journal_size.growth_bytes == 0
        kept.advance(2 * MINUTE_MS)
        kept.run(IDLE_LOGS)
        assert kept.store.journal_size.batch_bytes_max >= 5000


def test_where_there_is_no_more_room_the_journal_takes_larger_batches_and_no_more() -> None:
    kept = at_rest_with(DiskConfig(reserve_bytes=0, free_bytes_min=2048))
    room, files = kept.store.journal_size, kept.files
    with_larger_batches(kept)
    files.capacity_bytes = 1 << 20
    files.capacity_bytes -= files.free_bytes(FOLDER) - 24_576
    kept.upkeep.disk.check()
    kept.upkeep._grow_journal()
    assert room.batch_bytes_max >= 5000
    assert room.growth_bytes > 0
    kept.store.abandon()


def test_growth_that_finds_no_room_is_not_tried_again_at_once() -> None:
    kept = at_rest_with(DiskConfig(reserve_bytes=0, free_bytes_min=0))
    with_larger_batches(kept)
    quota = Fault(errno=errno.EDQUOT, path=f"*{SPARE_NAME}", kind=OperationKind.WRITE)
    kept.files.faults.append(quota)  # Of which what is free says nothing.
    kept.upkeep._grow_journal()
    operations = kept.files.operations
    for _ in range(10):
        kept.advance(MINUTE_MS // 11)
        kept.upkeep._grow_journal()
    assert kept.files.operations == operations
    kept.files.faults.clear()
    kept.advance(MINUTE_MS)
    kept.upkeep._grow_journal()
    assert kept.store.journal_size.growth_bytes == 0
    kept.store.abandon()


def test_a_low_disk_gets_the_journals_room_too() -> None:
    with KeptStore() as kept:
        kept.put(P0, "k", "v")
        kept.store.flush()
        assert kept.store.journal_size.rest_gain_bytes > 0
        kept.upkeep.disk.note_full(StorageFull("no room"))
        kept.until(lambda: kept.store.journal_size.rest_gain_bytes == 0)
        assert kept.values(P0) == {b"k": b"v"}
        assert not kept.failures
