"""What there is to clean is known without the disk, and looked up again when it has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from cleaned_logs import record_batch
from cleaning import batch, rec
from kept_stores import CONFIG, LOG, P0, KeptStore
from offsetd_storage.batch.record_batch import NO_TIMESTAMP
from offsetd_storage.cleaner.candidates import Candidates
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.cleaner.cleaning_round import CleanReport

LAGGING = attrs.evolve(CONFIG, log=attrs.evolve(LOG, compaction_lag_ms_max=5000))


def candidates_of(kept: KeptStore) -> Candidates:
    return Candidates(kept.store, kept.files, kept.upkeep.cleaner.checkpoint)


def no_throttle(_: int) -> None:
    pass


def put_with_producer(kept: KeptStore) -> None:
    offset = kept.store.logs[P0].offset_next
    one = batch(rec(offset, "a"), producer_id=7, producer_epoch=0, base_sequence=0)
    now_ms = kept.clock.now_ms()
    kept.store.append(P0, one, last_offset=offset, max_timestamp_ms=now_ms)


def test_a_log_without_producers_is_read_once() -> None:
    kept = KeptStore()
    kept.overwrite(P0)
    candidates, log = candidates_of(kept), kept.store.logs[P0]
    assert candidates.needs_survey(log)
    candidates.survey(log, no_throttle)
    assert not candidates.history(P0).has_producers
    kept.overwrite(P0)  # Segments have come.
    assert not candidates.needs_survey(log)
    kept.store.abandon()


def test_a_log_with_producers_is_read_again_when_its_segments_have_changed() -> None:
    kept = KeptStore()
    put_with_producer(kept)
    kept.overwrite(P0)
    candidates, log = candidates_of(kept), kept.store.logs[P0]
    candidates.survey(log, no_throttle)
    assert list(candidates.history(P0).last_records) == [7]
    assert not candidates.needs_survey(log)
    kept.store.roll(P0)
    assert candidates.needs_survey(log)
    kept.store.abandon()


def test_what_is_known_follows_segments_points_and_checkpoint() -> None:
    kept = KeptStore()
    kept.overwrite(P0)
    candidates, log = candidates_of(kept), kept.store.logs[P0]
    checkpoint = kept.upkeep.cleaner.checkpoint

    def found() -> tuple[int, int]:
        one = candidates.find(log, now_ms=kept.clock.now_ms())
        return one.first_dirty, one.first_uncleanable

    active = kept.bases(P0)[-1]
    assert found() == (0, active)
    kept.store.roll(P0)
    assert found() == (0, active)
    kept.store.advance_recovery_points()
    assert found() == (0, 30)
    checkpoint.advance(P0, active)
    assert found() == (active, 30)
    kept.store.raise_log_start_offset(P0, 30)
    assert found() == (30, 30)  # The checkpoint is below the start now.
    kept.store.abandon()


def test_a_segment_may_leave_while_it_is_asked_for_its_time() -> None:
    kept = KeptStore()
    for offset in range(30):
        timeless = record_batch(offset, "k", f"{offset}", timestamp_ms=NO_TIMESTAMP)
        kept.store.append(P0, timeless, last_offset=offset, max_timestamp_ms=NO_TIMESTAMP)
    kept.store.settle_points()
    candidates, log = candidates_of(kept), kept.store.logs[P0]
    first, *others = kept.bases(P0)
    modified_ms, deleted = kept.files.modified_ms, []

    def modified_too_late(path: Path) -> int:
        if not deleted and path == log.segments[0].path:
            deleted.append(first)
            kept.store.raise_log_start_offset(P0, others[0])
            kept.store.delete_oldest(P0, 1)
        return modified_ms(path)

    kept.files.modified_ms = modified_too_late  # type: ignore[method-assign]
    assert candidates.find(log, now_ms=kept.clock.now_ms()).first_dirty == others[0]
    assert deleted
    kept.files.unlink(log.segments[0].path)  # By hand: it is still in the log.
    with pytest.raises(FileNotFoundError):
        candidates_of(kept).find(log, now_ms=kept.clock.now_ms())
    kept.store.abandon()


def test_when_a_log_comes_due_by_the_clock_alone() -> None:
    kept = KeptStore(LAGGING)
    candidates, log = candidates_of(kept), kept.store.logs[P0]
    now_ms = kept.clock.now_ms()
    assert candidates.next_due_ms(log, candidates.find(log, now_ms=now_ms)) is None
    kept.overwrite(P0)
    assert candidates.next_due_ms(log, candidates.find(log, now_ms=now_ms)) == now_ms + 5001
    late_ms = now_ms + 5001
    assert candidates.next_due_ms(log, candidates.find(log, now_ms=late_ms)) is None  # It is.
    kept.store.abandon()


def report_with_a_tombstone(kept: KeptStore) -> CleanReport:
    kept.put(P0, "gone", "v")
    kept.put(P0, "gone", None)
    with kept:
        answer = kept.upkeep.cleaner.compact([P0], rolls_active=True)[P0]
        report = answer.result(PATIENCE_SECONDS)
    assert report is not None
    return report


def test_a_round_says_when_the_next_is_due_for_its_tombstones() -> None:
    kept = KeptStore()
    candidates, log = candidates_of(kept), kept.store.logs[P0]
    candidates.survey(log, no_throttle)
    report = report_with_a_tombstone(kept)
    candidates.note(report)
    assert candidates.delete_horizon_ms(P0) == report.delete_horizon_ms
    assert report.delete_horizon_ms == report.started_ms + LOG.delete_retention_ms


def test_a_horizon_that_stays_though_it_is_due_is_not_asked_for_again_and_again() -> None:
    kept = KeptStore()
    candidates, log = candidates_of(kept), kept.store.logs[P0]
    candidates.survey(log, no_throttle)
    report = report_with_a_tombstone(kept)
    due = attrs.evolve(report, delete_horizon_ms=report.started_ms)
    candidates.note(due)
    assert candidates.delete_horizon_ms(P0) == report.started_ms  # It has come further, at least.
    candidates.note(attrs.evolve(due, offset_next=due.first_dirty))
    assert candidates.delete_horizon_ms(P0) is None
