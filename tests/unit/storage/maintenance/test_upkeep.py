"""What runs beside the appends: rolls, recovery points, retention, and what idle logs lose."""

from __future__ import annotations

import errno
import threading
import time

import attrs
import pytest
from kept_stores import (
    CLEANER,
    CONFIG,
    EVENTS,
    HOUR_MS,
    LOG,
    P0,
    P1,
    UPKEEP,
    KeptStore,
    compacted,
    with_events,
)
from log_stores import FOLDER
from offsetd_storage.configuration.log_config import COMPACT, DELETE, LogConfig
from offsetd_storage.configuration.server_config import BackgroundConfig, DiskConfig
from offsetd_storage.disk.disk_space import reserve_bytes_for
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.errors import (
    CleaningAborted,
    OffsetOutOfRange,
    PolicyViolation,
    StorageFailed,
)
from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
from offsetd_storage.maintenance.upkeep import (
    DISK_SPACE,
    FOLDER_IN_PLACE,
    IDLE_LOGS,
    JOURNAL_GROWTH,
    Upkeep,
)
from offsetd_storage.tasks.scheduler import (
    DELETE_LOGS,
    LOG_FLUSHER,
    LOG_RETENTION,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from offsetd_storage.topic_partition import TopicPartition
from patience import PATIENCE_SECONDS

DAY_MS = 24 * HOUR_MS
# Recovery points are moved by their own task once, and then only by others that need it.
IDLE_POINTS = attrs.evolve(
    UPKEEP, background=BackgroundConfig(recovery_point_interval_ms=20 * DAY_MS)
)
DELETED = attrs.evolve(LOG, cleanup_policy=DELETE, retention_ms=DAY_MS)


def test_the_tasks_have_kafkas_names() -> None:
    with KeptStore() as kept:
        assert {each.name for each in kept.upkeep.tasks} == {
            LOG_RETENTION,
            LOG_FLUSHER,
            RECOVERY_POINT_CHECKPOINT,
            LOG_START_OFFSET_CHECKPOINT,
            DELETE_LOGS,
            IDLE_LOGS,
            JOURNAL_GROWTH,
            DISK_SPACE,
            FOLDER_IN_PLACE,
        }


def test_an_idle_log_loses_its_deleted_keys_without_another_append(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Upkeep, "_rest", lambda _: None)  # It moves the recovery points, too.
    with KeptStore(upkeep=IDLE_POINTS) as kept:
        kept.put(P0, "kept", "v")
        kept.put(P0, "gone", "v")
        kept.put(P0, "gone", None)
        kept.store.flush()
        before = kept.size(P0)
        kept.advance(IDLE_POINTS.background.initial_delay_ms)
        kept.until(lambda: kept.store.recovery_point(P0).offset == 3)  # That task is done for long.
        kept.advance(HOUR_MS + 300_000)  # The clock rolls what nobody appends to, and R moves.
        kept.until(lambda: len(kept.bases(P0)) == 2)
        kept.until(lambda: kept.rounds)
        assert kept.rounds[0].report.delete_horizon_ms == kept.clock.now_ms() + DAY_MS
        assert kept.size(P0) < before  # The value is gone, the tombstone is not.
        between = kept.size(P0)
        kept.advance(DAY_MS)
        kept.until(lambda: len(kept.rounds) == 2)
        assert kept.size(P0) < between
        assert kept.values(P0) == {b"kept": b"v"}
        assert kept.upkeep.cleaner.log_status(P0).delete_horizon_ms is None
        assert not kept.failures


def test_a_horizon_that_an_earlier_process_left_is_known_after_a_restart() -> None:
    with KeptStore() as kept:
        kept.put(P0, "gone", "v")
        kept.put(P0, "gone", None)
        kept.store.flush()
        kept.advance(HOUR_MS + 300_000)
        kept.until(lambda: kept.rounds)
        horizon_ms = kept.rounds[0].report.delete_horizon_ms
        kept.upkeep.stop()
        kept.store.close()
    after = KeptStore(files=kept.files, clock=kept.clock)
    with after:
        after.until(lambda: after.upkeep.cleaner.log_status(P0).delete_horizon_ms == horizon_ms)
        assert not after.rounds
        after.advance(DAY_MS)
        after.until(lambda: after.rounds)
        assert after.values(P0) == {}


def test_points_move_in_their_time_and_at_once_where_the_journal_fills() -> None:
    with KeptStore() as kept:
        kept.put(P0, "a", "v")
        kept.store.flush()
        assert kept.store.recovery_point(P0).offset == 0
        kept.upkeep.move_points_soon()
        kept.until(lambda: kept.store.recovery_point(P0).offset == 1)
        kept.put(P0, "a", "v")
        kept.store.flush()
        kept.advance(UPKEEP.background.recovery_point_interval_ms)
        kept.until(lambda: kept.store.recovery_point(P0).offset == 2)


def test_retention_deletes_below_the_recovery_point_and_the_rest_when_it_is_due() -> None:
    with KeptStore(with_events(DELETED)) as kept:
        for number in range(30):
            kept.put(EVENTS, "k", f"{number}")
        kept.store.flush()  # No point has moved: all that is due lies above it.
        kept.advance(DAY_MS + 1)
        kept.until(lambda: kept.store.logs[EVENTS].log_start_offset == 30)
        kept.until(lambda: kept.bases(EVENTS) == [30])
        assert kept.store.recovery_point(EVENTS).log_start_offset == 30
        assert kept.values(EVENTS) == {}
        assert not kept.failures


def test_a_record_that_comes_while_its_log_is_deleted_stays() -> None:
    kept = KeptStore(with_events(attrs.evolve(DELETED, segment_ms=10 * DAY_MS)))
    kept.put(EVENTS, "old", "v")
    kept.store.flush()
    kept.clock.advance(DAY_MS + 1)
    roll = kept.store.roll

    def roll_late(topic_partition: TopicPartition, *, only_if_due: bool = False) -> bool:
        if topic_partition == EVENTS and not only_if_due:
            kept.put(EVENTS, "new", "v")  # Between the plan and the roll.
        return roll(topic_partition, only_if_due=only_if_due)

    kept.store.roll = roll_late  # type: ignore[method-assign]
    kept.upkeep.retention.check(EVENTS)
    assert kept.values(EVENTS) == {b"old": b"v", b"new": b"v"}
    kept.store.abandon()


def test_nothing_is_deleted_of_a_log_that_another_has_taken() -> None:
    kept = KeptStore(with_events(DELETED))
    kept.overwrite(EVENTS)
    kept.clock.advance(DAY_MS + 1)
    kept.upkeep.cleaner.states.begin(EVENTS)
    assert kept.upkeep.retention.check(EVENTS) is None
    assert kept.bases(EVENTS)[0] == 0
    kept.upkeep.cleaner.states.end(EVENTS)
    plan = kept.upkeep.retention.check(EVENTS)
    assert plan is not None
    assert kept.bases(EVENTS) == [30]
    kept.store.abandon()


def test_a_compacted_log_with_delete_is_seen_to_by_the_cleaner() -> None:
    both = attrs.evolve(
        LOG, cleanup_policy=LOG.cleanup_policy | DELETE, retention_ms=DAY_MS, dirty_ratio_min=1.0
    )
    with KeptStore(with_events(both)) as kept:
        kept.overwrite(EVENTS)
        kept.advance(DAY_MS + 1)
        kept.until(lambda: kept.store.logs[EVENTS].log_start_offset == 30)
        assert not kept.rounds


def test_without_a_cleaner_the_task_sees_to_compacted_logs_too() -> None:
    both = attrs.evolve(LOG, cleanup_policy=LOG.cleanup_policy | DELETE, retention_ms=DAY_MS)
    upkeep = attrs.evolve(UPKEEP, cleaner=attrs.evolve(CLEANER, is_enabled=False))
    with KeptStore(with_events(both), upkeep) as kept:
        kept.overwrite(EVENTS)
        kept.advance(DAY_MS + 1)
        kept.until(lambda: kept.store.logs[EVENTS].log_start_offset == 30)
        answer = kept.upkeep.cleaner.compact([P0])[P0]
        with pytest.raises(Exception, match=r"log\.cleaner\.enable"):
            answer.result(timeout=60)


def test_a_timestamp_ahead_is_told_once_and_that_it_is_gone() -> None:
    ahead = attrs.evolve(DELETED, timestamp_after_ms_max=2**62, retention_age_from_roll=False)
    with KeptStore(with_events(ahead)) as kept:
        offset_ms = 30 * DAY_MS
        kept.clock.advance(offset_ms)
        kept.put(EVENTS, "k", "from the future")
        kept.clock.advance(-offset_ms)
        kept.store.flush()
        for _ in range(4):
            kept.clock.advance(DAY_MS + 1)
            kept.run(LOG_RETENTION)
        assert kept.upkeep.blocked[EVENTS].held_segments == 1
        assert len(kept.blocked) == 1
        kept.clock.advance(offset_ms)
        kept.run(LOG_RETENTION)
        assert not kept.upkeep.blocked
        assert kept.blocked[1:] == [None]


def test_a_log_that_does_not_delete_any_more_is_not_told_as_blocked() -> None:
    ahead = attrs.evolve(DELETED, timestamp_after_ms_max=2**62, retention_age_from_roll=False)
    with KeptStore(with_events(ahead)) as kept:
        kept.clock.advance(30 * DAY_MS)
        kept.put(EVENTS, "k", "from the future")
        kept.clock.advance(-30 * DAY_MS)
        kept.store.flush()
        for _ in range(2):
            kept.clock.advance(DAY_MS + 1)
            kept.run(LOG_RETENTION)
        assert kept.upkeep.blocked
        log = kept.store.logs[EVENTS]
        log.config = attrs.evolve(log.config, cleanup_policy=COMPACT)
        kept.advance(CLEANER.backoff_ms)
        kept.until(lambda: not kept.upkeep.blocked)
        kept.until(lambda: kept.blocked[1:] == [None])


@pytest.mark.parametrize(("offset", "starts_at", "segments"), [(0, 0, 3), (12, 12, 2), (20, 20, 2)])
def test_records_below_an_offset_are_deleted_by_whole_segments(
    offset: int, starts_at: int, segments: int
) -> None:
    with KeptStore(with_events(DELETED)) as kept:
        for number in range(30):
            kept.put(EVENTS, "k", f"{number}")
        assert kept.bases(EVENTS) == [0, 12, 24]
        assert kept.upkeep.retention.delete_records(EVENTS, offset) == starts_at
        assert len(kept.bases(EVENTS)) == segments
        assert kept.store.recovery_point(EVENTS).log_start_offset == starts_at


@pytest.mark.parametrize("offset", [30, -1])
def test_all_records_are_deleted_with_the_active_segment(offset: int) -> None:
    with KeptStore(with_events(DELETED)) as kept:
        for number in range(30):
            kept.put(EVENTS, "k", f"{number}")
        assert kept.upkeep.retention.delete_records(EVENTS, offset) == 30
        assert kept.bases(EVENTS) == [30]
        kept.put(EVENTS, "k", "next")
        assert kept.values(EVENTS) == {b"k": b"next"}


def test_records_are_deleted_where_the_log_has_them_and_its_policy_lets_them_go() -> None:
    with KeptStore(with_events(DELETED)) as kept:
        for offset in (1, -2):
            with pytest.raises(OffsetOutOfRange):
                kept.upkeep.retention.delete_records(EVENTS, offset)
        with pytest.raises(PolicyViolation):
            kept.upkeep.retention.delete_records(P0, 0)
        kept.put(EVENTS, "k", "v")
        assert kept.upkeep.retention.delete_records(EVENTS, 1) == 1
        assert kept.upkeep.retention.delete_records(EVENTS, 0) == 1  # It never goes down.


def test_what_is_held_is_neither_cleaned_nor_deleted_until_it_is_not_held() -> None:
    upkeep = attrs.evolve(UPKEEP, held="settings are lost")
    with KeptStore(with_events(DELETED), upkeep=upkeep) as kept:
        for number in range(30):
            kept.put(EVENTS, "k", f"{number}")
            kept.put(P0, "k", f"{number}")
        kept.store.flush()
        kept.advance(DAY_MS + 1)
        runs = task_runs(kept, LOG_RETENTION)
        kept.upkeep.run_soon(LOG_RETENTION)
        kept.until(lambda: task_runs(kept, LOG_RETENTION) > runs)
        for asked in kept.upkeep.cleaner.compact([P0], rolls_active=True).values():
            with pytest.raises(CleaningAborted, match="settings are lost"):
                asked.result(PATIENCE_SECONDS)
        assert kept.store.logs[EVENTS].log_start_offset == 0
        assert not kept.rounds
        assert kept.upkeep.cleaner.status.held == "settings are lost"
        kept.upkeep.configure(UPKEEP)
        kept.upkeep.run_soon(LOG_RETENTION)
        kept.until(lambda: kept.store.logs[EVENTS].log_start_offset == 30)
        kept.upkeep.cleaner.compact([P0], rolls_active=True)
        kept.until(lambda: kept.rounds)


def task_runs(kept: KeptStore, name: str) -> int:
    """How often a task has run."""
    return next(each.runs for each in kept.upkeep.tasks if each.name == name)


def test_files_wait_for_their_deletion_as_long_as_the_log_says() -> None:
    with KeptStore(with_events(attrs.evolve(DELETED, file_delete_delay_ms=60_000))) as kept:
        for number in range(30):
            kept.put(EVENTS, "k", f"{number}")
        kept.upkeep.retention.delete_records(EVENTS, 20)
        folder = FOLDER / EVENTS.folder_name
        assert kept.upkeep.deleter.waiting_files > 0
        assert any(name.endswith(".deleted") for name in kept.files.list_folder(folder))
        kept.advance(60_000)
        kept.until(lambda: kept.upkeep.deleter.waiting_files == 0)
        assert not any(name.endswith(".deleted") for name in kept.files.list_folder(folder))


def test_a_failed_store_is_told_and_nothing_more_is_done_to_it() -> None:
    with KeptStore() as kept:
        kept.put(P0, "k", "v")
        kept.store.flush()
        kept.files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC, nth=1))
        kept.upkeep.move_points_soon()
        kept.until(lambda: kept.failures)
        assert kept.failures[0] is kept.store.failed
        kept.advance(DAY_MS)
        kept.until(lambda: all(each.runs for each in kept.upkeep.tasks if each.name != LOG_FLUSHER))
        assert {id(each) for each in kept.failures} == {id(kept.store.failed)}


def test_a_failed_task_is_done_again_and_the_store_lives() -> None:
    with KeptStore(with_events(DELETED)) as kept:
        for number in range(30):
            kept.put(EVENTS, "k", f"{number}")
        kept.store.settle_points()
        size = kept.files.modified_ms
        failing = [OSError(errno.EMFILE, "too many open files")]

        def modified_ms(path: object) -> int:
            if failing and "events" in str(path):
                raise failing[0]
            return size(path)  # type: ignore[arg-type]

        kept.files.modified_ms = modified_ms  # type: ignore[method-assign]
        kept.upkeep.run_soon(LOG_RETENTION)
        kept.until(lambda: any(each.failures for each in kept.upkeep.tasks))
        assert kept.store.failed is None
        failing.clear()
        kept.advance(DAY_MS + 1)
        kept.until(lambda: kept.store.logs[EVENTS].log_start_offset == 30)


def test_settings_are_exchanged_while_it_runs() -> None:
    with KeptStore() as kept:
        retention = attrs.evolve(UPKEEP.retention, check_interval_ms=1000)
        background = attrs.evolve(UPKEEP.background, initial_delay_ms=0)
        cleaner = attrs.evolve(CLEANER, threads=1, backoff_ms=100)
        kept.upkeep.configure(
            attrs.evolve(UPKEEP, retention=retention, background=background, cleaner=cleaner)
        )
        kept.put(P0, "k", "v")
        kept.store.flush()
        kept.advance(HOUR_MS + 1000)
        kept.until(lambda: len(kept.bases(P0)) == 2)


def reserve_for(segment_bytes: int) -> int:
    return reserve_bytes_for(segment_bytes_most=segment_bytes, logs=CONFIG.partitions or 0)


def test_the_reserve_stays_large_while_a_segment_is_there_that_needs_it() -> None:
    disk = DiskConfig(free_bytes_min=0)
    most, less = 40_000, 500
    big = attrs.evolve(CONFIG, log=attrs.evolve(LOG, segment_bytes_max=most))
    with KeptStore(big, attrs.evolve(UPKEEP, disk=disk)) as kept:
        kept.run(DISK_SPACE)
        assert kept.upkeep.disk.status.reserve_bytes_held == reserve_for(most)
        kept.overwrite(P0, times=200)
        large = kept.store.logs[P0].segments[0].size_bytes
        assert large in range(10_000, most)
        for log in kept.store.logs.values():
            log.config = attrs.evolve(log.config, segment_bytes_max=less)
        kept.run(DISK_SPACE)
        assert kept.upkeep.disk.status.reserve_bytes_held == reserve_for(large)
        assert compacted(kept, P0, rolls_active=True) is not None
        kept.run(DISK_SPACE)
        assert kept.upkeep.disk.status.reserve_bytes_held == reserve_for(less)


def test_only_what_is_copied_counts_for_the_reserve() -> None:
    disk = DiskConfig(free_bytes_min=0)
    config = with_events(attrs.evolve(LOG, cleanup_policy=DELETE, segment_bytes_max=1 << 30))
    with KeptStore(config, attrs.evolve(UPKEEP, disk=disk)) as kept:
        kept.overwrite(EVENTS, times=200)
        kept.run(DISK_SPACE)
        assert kept.upkeep.disk.status.reserve_bytes_held == reserve_for(900)


def test_settings_that_change_again_and_again_keep_no_task_from_its_run() -> None:
    with KeptStore() as kept:
        initial_delay_ms = UPKEEP.background.initial_delay_ms
        kept.put(P0, "k", "v")
        kept.store.flush()
        for interval_ms in range(1000, 1010):
            disk = attrs.evolve(UPKEEP.disk, check_interval_ms=interval_ms)
            kept.upkeep.configure(attrs.evolve(UPKEEP, disk=disk))
            kept.advance(initial_delay_ms // 10)
        kept.until(lambda: kept.store.recovery_point(P0).offset == 1)
        (status,) = (each for each in kept.upkeep.tasks if each.name == DISK_SPACE)
        assert status.runs > 1  # All of them are counted.


def test_a_stop_does_not_wait_for_a_throttled_round() -> None:
    slow = attrs.evolve(CLEANER, io_bytes_per_second_max=1.0)
    kept = KeptStore(upkeep=attrs.evolve(UPKEEP, cleaner=slow))
    asleep = threading.Event()

    def sleep(seconds: float) -> None:
        asleep.set()
        time.sleep(seconds)

    kept.upkeep.cleaner._throttle._sleep = sleep
    with kept:
        kept.overwrite(P0)
        kept.upkeep.wake()
        assert asleep.wait(60)
        kept.upkeep.stop()  # At that rate the round takes half an hour, by a clock that stands.
    assert not kept.rounds


def test_a_log_that_is_gone_leaves_the_cleaners_checkpoint_and_those_of_others_stay() -> None:
    kept = KeptStore()
    gone, foreign = TopicPartition("gone", 0), TopicPartition("orders", 1)
    kept.files.make_folder(FOLDER / foreign.folder_name)
    for each in (gone, foreign, P1):
        kept.upkeep.cleaner.checkpoint.advance(each, 7)
    with kept:
        assert set(CleanerCheckpoint(kept.files, FOLDER).topic_partitions) == {foreign, P1}


def test_a_start_on_a_failed_disk_says_so() -> None:
    kept = KeptStore()
    kept.upkeep.cleaner.checkpoint.advance(TopicPartition("gone", 0), 7)
    kept.files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC, nth=1))
    with pytest.raises(StorageFailed):
        kept.upkeep.start()
    kept.upkeep.stop()
    assert kept.store.failed is not None


def test_who_asks_for_a_compaction_does_not_wait_for_the_cleaner_to_begin() -> None:
    with KeptStore(cleaner_delay_ms=DAY_MS) as kept:
        kept.put(P0, "a", "v")
        kept.put(P0, "a", "w")
        kept.store.flush()
        report = kept.upkeep.cleaner.compact([P0], rolls_active=True)[P0].result(timeout=60)
        assert report is not None
        assert kept.values(P0) == {b"a": b"w"}


def test_a_log_without_a_policy_to_clean_is_left_alone() -> None:
    with KeptStore(with_events(LogConfig(cleanup_policy=DELETE))) as kept:
        assert CONFIG.log.is_compacted
        answer = kept.upkeep.cleaner.compact([EVENTS])[EVENTS]
        with pytest.raises(PolicyViolation):
            answer.result(timeout=60)
