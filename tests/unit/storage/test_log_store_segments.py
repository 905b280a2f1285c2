"""The store's segments: the clock rolls them, log starts rise, the oldest go, up to R."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import attrs
import pytest
from log_stores import P0, P1, SMALL, append, commit, log_bytes, opened
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import (
    OffsetOutOfRange,
    PartitionQuarantined,
    StorageFailed,
    StorageFull,
)
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import NOW_MS, bases, batch_of

if TYPE_CHECKING:
    from offsetd_storage.log_store import LogStore

HOUR_MS = 3_600_000
HOURLY = attrs.evolve(SMALL, log=attrs.evolve(SMALL.log, segment_ms=HOUR_MS))


def test_a_log_that_rolled_right_at_its_recovery_point_frees_the_old_segment() -> None:
    files = SimulatedFiles()
    store = opened(files)
    commit(store, P0)
    store.advance_recovery_points()
    assert store.recovery_point(P0).segment_base_offset == 0
    assert store.roll(P0)
    assert store.recovery_point(P0).segment_base_offset == 0  # Not before it is durable.
    store.advance_recovery_points()
    point = store.recovery_point(P0)
    assert (point.offset, point.segment_base_offset, point.segment_bytes) == (1, 1, 0)
    after = opened(files.power_cut())
    assert (bases(after.logs[P0]), after.recovery_point(P0).segment_base_offset) == ([0, 1], 1)


def test_a_log_that_rolled_before_its_flush_keeps_the_point_in_its_segment() -> None:
    files = SimulatedFiles()
    store = opened(files)
    commit(store, P0)
    append(store, P0)
    store.roll(P0)
    store.advance_recovery_points()
    point = store.recovery_point(P0)
    assert (point.offset, point.segment_base_offset) == (1, 0)
    store.flush()
    store.advance_recovery_points()
    point = store.recovery_point(P0)
    assert (point.offset, point.segment_base_offset, point.segment_bytes) == (2, 2, 0)
    batch = commit(store, P0)
    store.advance_recovery_points()
    point = store.recovery_point(P0)
    assert (point.offset, point.segment_base_offset, point.segment_bytes) == (3, 2, len(batch))


def test_points_that_do_not_move_are_not_written_again() -> None:
    files = SimulatedFiles()
    store = opened(files)
    commit(store, P0)
    store.roll(P0)
    store.advance_recovery_points()
    before = files.operations
    store.advance_recovery_points()
    assert files.operations == before


def test_an_empty_active_segment_does_not_roll() -> None:
    store = opened(SimulatedFiles())
    assert not store.roll(P0)
    commit(store, P0)
    assert store.roll(P0)
    assert not store.roll(P0)


def test_an_idle_segment_rolls_by_the_clock_alone() -> None:
    files = SimulatedFiles(clock=(clock := ManualClock(NOW_MS)))
    store = opened(files, HOURLY)
    store._clock = clock
    log = store.logs[P0]
    log.config = attrs.evolve(log.config, timestamp_after_ms_max=100 * HOUR_MS)
    assert not store.roll(P0, only_if_due=True)
    batch = batch_of(0, timestamp_ms=NOW_MS + 100 * HOUR_MS)  # From the future.
    store.append(P0, batch, last_offset=0, max_timestamp_ms=NOW_MS + 100 * HOUR_MS)
    store.flush()
    clock.advance(HOUR_MS)
    assert not store.roll(P0, only_if_due=True)
    clock.advance(1)
    assert store.roll(P0, only_if_due=True)
    assert bases(store.logs[P0]) == [0, 1]


def test_records_of_long_ago_do_not_make_a_segment_roll() -> None:
    files = SimulatedFiles(clock=(clock := ManualClock(NOW_MS)))
    store = opened(files, HOURLY)
    store._clock = clock
    batch = batch_of(0, timestamp_ms=5)
    store.append(P0, batch, last_offset=0, max_timestamp_ms=5)
    store.flush()
    assert not store.roll(P0, only_if_due=True)


def test_how_long_a_segment_waits_outlives_a_restart() -> None:
    files = SimulatedFiles(clock=(clock := ManualClock(NOW_MS)))
    store = opened(files, HOURLY)
    commit(store, P0)
    store.close()
    clock.advance(HOUR_MS + 1)
    store = opened(files, HOURLY)
    store._clock = clock
    assert store.roll(P0, only_if_due=True)


@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOSPC, StorageFull), (errno.EIO, StorageFailed)]
)
def test_a_roll_without_a_file_changes_nothing(number: int, error: type[Exception]) -> None:
    files = SimulatedFiles()
    store = opened(files)
    commit(store, P0)
    files.faults.append(Fault(errno=number, kind=OperationKind.CREATE, nth=1))
    with pytest.raises(error):
        store.roll(P0)
    assert bases(store.logs[P0]) == [0]
    assert (store.failed is not None) == (error is StorageFailed)


# Log starts


def rolled(files: SimulatedFiles) -> LogStore:
    """Three segments of two batches, the last of them active; durable up to 5."""
    store = opened(files)
    for _ in range(2):
        commit(store, P0)
        commit(store, P0)
        store.roll(P0)
    commit(store, P0)
    store.advance_recovery_points()
    commit(store, P0)
    assert bases(store.logs[P0]) == [0, 2, 4]
    return store


@pytest.mark.parametrize("offset", [0, 1, 2, 5])
def test_a_log_start_is_durable_when_it_was_raised(offset: int) -> None:
    files = SimulatedFiles()
    store = rolled(files)
    store.raise_log_start_offset(P0, offset)
    assert store.logs[P0].log_start_offset == offset
    after = opened(files.power_cut())
    assert after.logs[P0].log_start_offset == offset
    assert after.logs[P0].offset_next == 6


def test_a_log_start_is_never_lowered() -> None:
    store = rolled(SimulatedFiles())
    store.raise_log_start_offset(P0, 3)
    store.raise_log_start_offset(P0, 2)
    assert store.logs[P0].log_start_offset == 3


def test_a_log_start_above_the_recovery_point_is_refused() -> None:
    store = rolled(SimulatedFiles())
    with pytest.raises(OffsetOutOfRange):
        store.raise_log_start_offset(P0, 6)
    assert store.logs[P0].log_start_offset == 0


def test_what_is_deleted_lies_below_the_durable_start() -> None:
    files = SimulatedFiles()
    store = rolled(files)
    with pytest.raises(OffsetOutOfRange):
        store.delete_oldest(P0, 1)
    store.raise_log_start_offset(P0, 3)
    with pytest.raises(OffsetOutOfRange):
        store.delete_oldest(P0, 2)
    store.delete_oldest(P0, 1)
    assert bases(store.logs[P0]) == [2, 4]
    after = opened(files.power_cut())
    assert bases(after.logs[P0]) == [2, 4]
    assert log_bytes(after.logs[P0]) == log_bytes(store.logs[P0])


@pytest.mark.parametrize("count", [3, 4])
def test_the_active_segment_is_not_deleted(count: int) -> None:
    store = rolled(SimulatedFiles())
    store.raise_log_start_offset(P0, 5)
    with pytest.raises(OffsetOutOfRange):
        store.delete_oldest(P0, count)
    store.delete_oldest(P0, 2)
    assert bases(store.logs[P0]) == [4]


def test_a_whole_log_goes_once_it_has_rolled() -> None:
    files = SimulatedFiles()
    store = rolled(files)
    store.roll(P0)
    store.advance_recovery_points()
    store.raise_log_start_offset(P0, 6)
    store.delete_oldest(P0, 3)
    assert bases(store.logs[P0]) == [6]
    after = opened(files.power_cut())
    log = after.logs[P0]
    assert (bases(log), log.log_start_offset, log.offset_next) == ([6], 6, 6)
    commit(after, P0)
    assert log.offset_next == 7


def test_the_segment_that_the_recovery_point_names_stays() -> None:
    store = opened(SimulatedFiles())
    commit(store, P0)
    store.advance_recovery_points()
    store.raise_log_start_offset(P0, 1)
    store.roll(P0)
    assert store.recovery_point(P0).segment_base_offset == 0
    with pytest.raises(OffsetOutOfRange):
        store.delete_oldest(P0, 1)
    store.advance_recovery_points()
    store.delete_oldest(P0, 1)
    assert bases(store.logs[P0]) == [1]


def test_a_failure_while_segments_go_is_one_of_the_store() -> None:
    files = SimulatedFiles()
    store = rolled(files)
    store.raise_log_start_offset(P0, 2)
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.RENAME, nth=1))
    with pytest.raises(StorageFailed):
        store.delete_oldest(P0, 1)
    with pytest.raises(StorageFailed):
        append(store, P1)


def test_what_fails_beside_the_store_counts_only_if_the_disk_did() -> None:
    store = opened(SimulatedFiles())
    with pytest.raises(StorageFull), store.latching():
        raise StorageFull("no room")
    assert store.failed is None
    with pytest.raises(StorageFailed), store.latching():
        raise StorageFailed("broken")
    assert store.failed is not None
    with pytest.raises(StorageFailed), store.latching():
        pass


def test_a_partition_that_is_not_there_is_refused() -> None:
    store = opened(SimulatedFiles())
    nowhere = TopicPartition("nowhere", 0)
    for act in (
        lambda: store.roll(nowhere),
        lambda: store.raise_log_start_offset(nowhere, 1),
        lambda: store.delete_oldest(nowhere, 1),
    ):
        with pytest.raises(PartitionQuarantined):
            act()
