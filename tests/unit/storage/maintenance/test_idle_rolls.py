"""Active segments that take no appends any more are closed where the cleaner can take them."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from kept_stores import CLEANER, CONFIG, HOUR_MS, LOG, P0, P1, UPKEEP, KeptStore, compacted
from offsetd_storage.configuration.log_config import DELETE, LogConfig
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.maintenance.upkeep import IDLE_LOGS

if TYPE_CHECKING:
    from offsetd_storage.log.partition_log import PartitionLog

IDLE_MS = 30_000
ROLLING = attrs.evolve(LOG, segment_bytes_max=20_000, segment_idle_ms=IDLE_MS)


def kept_with(log: LogConfig = ROLLING, **upkeep: Any) -> KeptStore:
    return KeptStore(attrs.evolve(CONFIG, log=log), attrs.evolve(UPKEEP, **upkeep))


def surveyed(kept: KeptStore) -> None:
    """The cleaner has read the logs' headers, and idle logs have been looked at."""
    kept.look()
    kept.until(lambda: not any(needs_survey(kept, each) for each in kept.store.logs.values()))
    kept.run(IDLE_LOGS)


def needs_survey(kept: KeptStore, log: PartitionLog) -> bool:
    return log.config.is_compacted and kept.upkeep.cleaner.steps.candidates.needs_survey(log)


def test_an_idle_dirty_log_is_rolled_cleaned_and_then_at_rest() -> None:
    with kept_with() as kept:
        kept.overwrite(P0)
        before = kept.size(P0)
        surveyed(kept)
        kept.advance(IDLE_MS - 1)
        kept.run(IDLE_LOGS)
        assert kept.bases(P0) == [0]
        kept.advance(1)
        kept.run(IDLE_LOGS)
        kept.until(lambda: kept.rounds)
        assert kept.bases(P0)[-1] == 30
        assert kept.size(P0) < before / 5
        assert kept.values(P0) == {b"a": b"value 28", b"b": b"value 29"}
        operations = kept.files.operations
        for _ in range(5):
            kept.advance(10 * IDLE_MS)
            kept.run(IDLE_LOGS)
            kept.look()
        assert kept.bases(P0)[-1] == 30
        assert len(kept.rounds) == 1
        assert kept.files.operations == operations, "an idle log is left alone"
        assert not kept.failures


@pytest.mark.parametrize(
    "log",
    [
        attrs.evolve(ROLLING, segment_idle_ms=-1),
        attrs.evolve(ROLLING, cleanup_policy=DELETE),
        attrs.evolve(ROLLING, compaction_lag_ms_min=HOUR_MS),
        attrs.evolve(ROLLING, preallocate_step_bytes=10_000),  # It would gain less than that.
    ],
    ids=["switched off", "not compacted", "too young", "small"],
)
def test_a_log_that_would_not_be_cleaned_is_not_rolled(log: LogConfig) -> None:
    with kept_with(log) as kept:
        kept.overwrite(P0)
        surveyed(kept)
        for _ in range(3):
            kept.advance(IDLE_MS)
            kept.run(IDLE_LOGS)
        assert kept.bases(P0) == [0]


def test_without_a_cleaner_nothing_is_rolled_for_it() -> None:
    with kept_with(cleaner=attrs.evolve(CLEANER, is_enabled=False)) as kept:
        kept.overwrite(P0)
        kept.upkeep.cleaner.steps.candidates.survey(kept.store.logs[P0], lambda _: None)
        kept.run(IDLE_LOGS)
        kept.advance(IDLE_MS)
        kept.run(IDLE_LOGS)
        assert kept.bases(P0) == [0]


def test_a_log_waits_until_all_of_it_is_old_enough_to_be_cleaned() -> None:
    with kept_with(attrs.evolve(ROLLING, compaction_lag_ms_min=2 * IDLE_MS + 1)) as kept:
        kept.overwrite(P0)
        surveyed(kept)
        for _ in range(3):  # Bursts that are younger leave no small segments.
            kept.advance(IDLE_MS)
            kept.overwrite(P0, times=10)
            kept.run(IDLE_LOGS)
            kept.advance(IDLE_MS)
            kept.run(IDLE_LOGS)
            assert kept.bases(P0) == [0]
        kept.advance(IDLE_MS + 1)
        kept.run(IDLE_LOGS)
        kept.until(lambda: kept.rounds)
        assert kept.bases(P0)[-1] == 60


@pytest.mark.parametrize(
    ("ratio", "new", "is_rolled"),
    [(0.5, 15, False), (0.5, 18, True), (0.2, 4, False), (0.2, 7, True), (1.0, 50, False)],
)
def test_an_idle_log_is_cleaned_at_half_the_ratio(ratio: float, new: int, is_rolled: bool) -> None:
    with kept_with(attrs.evolve(ROLLING, dirty_ratio_min=ratio, preallocate_step_bytes=1)) as kept:
        for number in range(50):
            kept.put(P0, f"k{number:02}", "v")
        kept.store.settle_points()
        compacted(kept, P0, rolls_active=True)
        surveyed(kept)
        assert kept.bases(P0)[-1] == 50
        for number in range(new):
            kept.put(P0, f"k{number:02}", "w")
        clean_bytes = kept.size(P0) * 50 // (50 + new)
        kept.run(IDLE_LOGS)
        kept.advance(IDLE_MS)
        kept.run(IDLE_LOGS)
        assert kept.bases(P0)[-1] == (50 + new if is_rolled else 50)
        if is_rolled:
            kept.until(lambda: kept.size(P0) <= clean_bytes)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_idle_log_is_cleaned_though_its_round_did_not_come_when_it_was_rolled(
    is_restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = kept_with(attrs.evolve(ROLLING, preallocate_step_bytes=1))
    with kept:
        for number in range(50):
            kept.put(P0, f"k{number:02}", "v")
        kept.store.settle_points()
        compacted(kept, P0, rolls_active=True)
        surveyed(kept)
        clean_bytes = kept.size(P0)
        for number in range(25):
            kept.put(P0, f"k{number:02}", "w")
        kept.run(IDLE_LOGS)
        kept.advance(IDLE_MS)
        monkeypatch.setattr(kept.upkeep.cleaner, "compact", lambda _: {})  # Before it stops.
        kept.run(IDLE_LOGS)
        monkeypatch.undo()
        assert kept.bases(P0)[-1] == 75
        assert kept.size(P0) > clean_bytes
        if is_restarted:
            kept.upkeep.stop()
            kept.store.close()
            kept = KeptStore(kept.config, UPKEEP, files=kept.files, clock=kept.clock)
            kept.upkeep.start()
        surveyed(kept)
        kept.advance(IDLE_MS)
        kept.run(IDLE_LOGS)
        kept.until(lambda: kept.size(P0) <= clean_bytes)
        rounds = len(kept.rounds)
        for _ in range(3):
            kept.advance(IDLE_MS)
            kept.run(IDLE_LOGS)
            kept.look()
        assert len(kept.rounds) == rounds
        kept.upkeep.stop()
        kept.store.abandon()


def test_one_logs_failure_keeps_neither_others_nor_the_journal_from_their_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with kept_with() as kept:
        kept.overwrite(P0)
        kept.overwrite(P1)
        surveyed(kept)
        cleaner = kept.upkeep.cleaner
        gains = cleaner.gains_if_idle

        def gains_but_for_one(log: PartitionLog, *, is_rolled: bool) -> bool:
            if log.topic_partition == P0:
                raise OSError(errno.EIO, "a segment's time")
            return gains(log, is_rolled=is_rolled)

        monkeypatch.setattr(cleaner, "gains_if_idle", gains_but_for_one)
        kept.advance(2 * IDLE_MS)
        kept.run(IDLE_LOGS)
        kept.until(lambda: kept.rounds)
        assert (kept.bases(P0)[-1], kept.bases(P1)[-1]) == (0, 30)
        assert kept.store.journal_size.rest_gain_bytes == 0


def test_restarts_leave_no_small_segments_behind() -> None:
    kept = kept_with()
    for start in range(6):
        with kept:
            kept.put(P0, "k", f"{start}")
            kept.store.flush()
            surveyed(kept)
            kept.advance(2 * IDLE_MS)
            kept.run(IDLE_LOGS)
            assert kept.bases(P0) == [0]
            kept.upkeep.stop()
            kept.store.close()
        kept = KeptStore(kept.config, UPKEEP, files=kept.files, clock=kept.clock)
    kept.store.abandon()


def test_where_there_is_no_room_for_a_roll_nothing_has_happened() -> None:
    with kept_with() as kept:
        kept.overwrite(P0)
        surveyed(kept)
        kept.advance(IDLE_MS)
        full = Fault(errno=errno.ENOSPC, kind=OperationKind.CREATE, path="*30.*", nth=1)
        kept.files.faults.append(full)
        kept.run(IDLE_LOGS)
        assert kept.bases(P0) == [0]
        assert not kept.failures
        kept.files.faults.clear()
        kept.run(IDLE_LOGS)
        kept.until(lambda: kept.rounds)
        assert kept.bases(P0)[-1] == 30
