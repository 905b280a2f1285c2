"""What the cleaner's threads do: which log they choose, and what becomes of one that fails."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import attrs
import pytest
from kept_stores import (
    CONFIG,
    EVENTS,
    HOUR_MS,
    LOG,
    P0,
    P1,
    P2,
    PATIENCE_SECONDS,
    KeptStore,
    compacted,
    with_events,
)
from log_stores import FOLDER
from offsetd_storage.configuration.log_config import DELETE
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.errors import (
    CorruptBatch,
    StorageFailed,
    StorageFull,
)
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.retention.log_claims import CleaningState

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.cleaner.cleaner_status import FinishedRound
    from offsetd_storage.topic_partition import TopicPartition

CALM = attrs.evolve(CONFIG, log=attrs.evolve(LOG, dirty_ratio_min=1.0))  # Nothing by its ratio.
BOTH = attrs.evolve(LOG, cleanup_policy=LOG.cleanup_policy | DELETE, retention_ms=HOUR_MS)


def log_path(topic_partition: TopicPartition, base_offset: int = 0) -> Path:
    return segment_path(FOLDER / topic_partition.folder_name, base_offset)


def damage(kept: KeptStore, topic_partition: TopicPartition) -> bytes:
    """Turns a byte of the first segment over; returns what the file was."""
    path = log_path(topic_partition)
    content = kept.files.read_bytes(path)
    write(kept, path, content[:70] + bytes([content[70] ^ 0xFF]) + content[71:])
    return content


def write(kept: KeptStore, path: Path, content: bytes) -> None:
    file = kept.files.open(path)
    file.pwrite([content], 0)
    file.close()


# What is cleaned


def test_the_dirtiest_log_above_its_ratio_is_cleaned_first_and_then_the_others() -> None:
    kept = KeptStore()
    for topic_partition, times in ((P0, 30), (P1, 90), (P2, 5)):
        kept.overwrite(topic_partition, times)
    values = {each: kept.values(each) for each in (P0, P1, P2)}
    with kept:
        kept.until(lambda: len(kept.rounds) == 2)
        kept.look()
    assert {each.report.topic_partition for each in kept.rounds} == {P0, P1}  # P2 has one segment.
    assert all(each.dirty_ratio == 1.0 and not each.requested for each in kept.rounds)
    assert {each: kept.values(each) for each in (P0, P1, P2)} == values
    assert kept.size(P1) < 1500


def test_where_somebody_else_has_taken_the_dirtiest_log_the_next_is_cleaned() -> None:
    kept = KeptStore()
    kept.overwrite(P0, 90)
    kept.overwrite(P1, 30)
    cleaner, refused = kept.upkeep.cleaner, []
    for each in kept.store.logs.values():
        cleaner.steps.candidates.survey(each, lambda _: None)
    begin = cleaner.states.begin

    def begin_late(topic_partition: TopicPartition) -> bool:
        if topic_partition == P0:
            refused.append(topic_partition)
            return False
        return begin(topic_partition)

    cleaner.states.begin = begin_late  # type: ignore[method-assign, assignment]
    with kept:
        kept.until(lambda: kept.rounds)
        kept.look()
    assert [each.report.topic_partition for each in kept.rounds] == [P1]
    assert refused


def test_what_was_cleaned_is_cleaned_again_only_when_it_is_dirty_enough() -> None:
    with KeptStore() as kept:
        kept.overwrite(P0)
        kept.upkeep.wake()
        kept.until(lambda: len(kept.rounds) == 1)
        status = kept.upkeep.cleaner.log_status(P0)
        assert (status.first_dirty, status.cleanable_bytes) == (status.first_uncleanable, 0)
        kept.look()
        assert len(kept.rounds) == 1
        kept.overwrite(P0)
        kept.look()
        kept.until(lambda: len(kept.rounds) == 2)
        assert kept.rounds[1].report.first_dirty == kept.rounds[0].report.offset_next


def test_nothing_above_the_recovery_point_is_cleaned() -> None:
    with KeptStore() as kept:
        for number in range(60):
            kept.put(P0, "k", f"{number}")
        kept.store.flush()
        kept.look()
        assert not kept.rounds
        assert compacted(kept, P0) is None
        kept.store.advance_recovery_points()
        kept.upkeep.wake()
        kept.until(lambda: kept.rounds)


def test_a_log_that_waited_too_long_is_cleaned_when_the_clock_says_so() -> None:
    lag = attrs.evolve(CALM, log=attrs.evolve(CALM.log, compaction_lag_ms_max=5000))
    with KeptStore(lag) as kept:
        kept.overwrite(P0)
        kept.look()
        assert not kept.rounds
        kept.advance(5000)
        kept.look()
        assert not kept.rounds
        kept.advance(1)
        kept.until(lambda: kept.rounds)
        assert kept.rounds[0].overdue_ms == 1


def test_a_thread_that_finds_nothing_rests_as_long_as_it_is_told_or_until_something_is_due() -> (
    None
):
    lag = attrs.evolve(CALM, log=attrs.evolve(CALM.log, compaction_lag_ms_max=5000))
    kept = KeptStore(lag)
    kept.overwrite(P0)
    steps = kept.upkeep.cleaner.steps
    assert steps._rest_ms() == 5001
    kept.clock.advance(2000)
    assert steps._rest_ms() == 3001
    steps.backoff_ms = 200
    assert steps._rest_ms() == 200
    steps.requests.add(P0, rolls_active=False)  # Somebody has the log, or it would be gone.
    assert steps._rest_ms() == 100
    kept.store.abandon()


def test_an_idle_look_does_not_touch_the_disk() -> None:
    with KeptStore() as kept:
        for topic_partition in (P0, P1, P2):
            kept.overwrite(topic_partition)
        kept.upkeep.wake()
        kept.until(lambda: len(kept.rounds) == 3)
        kept.look()
        before = kept.files.operations
        kept.look()
        assert kept.files.operations == before


# Failures


def test_a_damaged_log_rests_and_the_others_go_on() -> None:
    kept = KeptStore()
    kept.overwrite(P0)
    kept.overwrite(P1)
    content = damage(kept, P0)
    with kept:
        kept.until(lambda: kept.uncleanable and kept.rounds)
        assert [each.report.topic_partition for each in kept.rounds] == [P1]
        (failure,) = kept.upkeep.cleaner.status.uncleanable
        assert (failure.topic_partition, failure.is_damaged) == (P0, True)
        assert "CorruptBatch" in failure.reason
        assert (failure.failures_in_row, failure.retry_in_ms) == (1, 1000)
        kept.look()
        assert len(kept.uncleanable) == 1
        kept.advance(1000)
        kept.until(lambda: len(kept.uncleanable) == 2)
        assert kept.uncleanable[1].retry_in_ms == 2000
        write(kept, log_path(P0), content)
        assert kept.upkeep.cleaner.retry(P0)  # At once, by an operator.
        kept.until(lambda: len(kept.rounds) == 2)
        assert kept.upkeep.cleaner.log_status(P0).uncleanable is None
        assert kept.upkeep.cleaner.status.uncleanable == ()
        assert not kept.upkeep.cleaner.retry(P0)
        assert kept.upkeep.cleaner.status.is_alive


def test_a_request_for_a_damaged_log_raises_what_is_wrong() -> None:
    kept = KeptStore(CALM)
    kept.overwrite(P0)
    damage(kept, P0)
    with kept, pytest.raises(CorruptBatch):
        compacted(kept, P0)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_log_that_cannot_be_cleaned_still_deletes_unless_it_is_damaged(
    is_damaged: bool,
) -> None:
    kept = KeptStore(with_events(BOTH))
    kept.overwrite(EVENTS)
    if is_damaged:
        damage(kept, EVENTS)
    else:
        old_format = kept.files.read_bytes(log_path(EVENTS))
        write(kept, log_path(EVENTS), old_format[:16] + b"\x01" + old_format[17:])
    with kept:
        kept.until(lambda: kept.uncleanable)
        assert kept.uncleanable[0].is_damaged is is_damaged
        kept.advance(HOUR_MS + 300_001)
        if is_damaged:
            kept.look()
            kept.look()
        else:
            kept.until(lambda: kept.store.logs[EVENTS].log_start_offset == 30)
        assert (kept.store.logs[EVENTS].log_start_offset == 0) is is_damaged


def test_a_log_that_is_not_compacted_any_more_is_not_told_as_one_that_failed() -> None:
    kept = KeptStore()
    kept.overwrite(P0)
    damage(kept, P0)
    with kept:
        kept.until(lambda: kept.upkeep.cleaner.status.uncleanable)
        log = kept.store.logs[P0]
        log.config = attrs.evolve(log.config, cleanup_policy=DELETE)
        kept.look()
        assert kept.upkeep.cleaner.status.uncleanable == ()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.ENFILE])
def test_what_may_pass_is_not_the_logs_fault_and_is_tried_again(code: int) -> None:
    kept = KeptStore()
    kept.overwrite(P0)
    kept.files.faults += [Fault(errno=code, kind=OperationKind.CREATE, nth=nth) for nth in (1, 2)]
    with kept:
        answer = kept.upkeep.cleaner.compact([P0])[P0]
        with pytest.raises(StorageFull):
            answer.result(PATIENCE_SECONDS)
        assert not kept.uncleanable
        kept.files.faults.clear()
        kept.advance(2000)
        kept.until(lambda: kept.rounds)


def test_a_log_that_cannot_be_read_for_want_of_descriptors_waits() -> None:
    kept = KeptStore()
    kept.overwrite(P0)
    with kept:
        kept.files.faults.append(Fault(errno=errno.EMFILE, kind=OperationKind.READ, path="*.log"))
        answer = kept.upkeep.cleaner.compact([P0], rolls_active=True)[P0]
        with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
            answer.result(PATIENCE_SECONDS)
        assert not kept.uncleanable
        assert kept.store.failed is None
        kept.files.faults.clear()
        kept.advance(2000)
        kept.until(lambda: kept.rounds)


def test_a_broken_disk_ends_it_all() -> None:
    kept = KeptStore()
    kept.overwrite(P0)
    kept.files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.RENAME, nth=1))
    with kept:
        kept.until(lambda: kept.failures)
        assert kept.failures[0] is kept.store.failed
        with pytest.raises(StorageFailed):
            kept.put(P1, "k", "v")
        kept.advance(100_000)
        kept.until(lambda: len(kept.failures) > 1)
        assert not kept.rounds


class Dying(BaseException):
    """What a thread dies of."""


def test_a_thread_that_dies_is_replaced_and_the_request_is_not_lost() -> None:
    kept = KeptStore(CALM)
    kept.overwrite(P0)
    clean = kept.upkeep.cleaner.steps._clean
    dying = [True]

    def clean_or_die(thread, work):  # type: ignore[no-untyped-def]
        if dying and work.request is not None:  # Not where it only reads the log's headers.
            dying.clear()
            raise Dying
        return clean(thread, work)

    kept.upkeep.cleaner.steps._clean = clean_or_die  # type: ignore[method-assign]
    with kept:
        answer = kept.upkeep.cleaner.compact([P0])[P0]
        kept.until(lambda: kept.upkeep.cleaner.status.replaced_threads == 1)
        kept.advance(1000)
        assert answer.result(PATIENCE_SECONDS) is not None
        kept.until(lambda: kept.upkeep.cleaner.status.is_alive)
        assert kept.upkeep.cleaner.states.state(P0) is CleaningState.IDLE
        assert not kept.uncleanable


def test_without_memory_for_the_map_a_thread_is_dead_until_there_is_some() -> None:
    kept = KeptStore()
    kept.overwrite(P0)
    with kept:
        (thread,) = kept.upkeep.cleaner._threads
        thread._map = None
        offset_map = thread.offset_map

        def no_memory():  # type: ignore[no-untyped-def]
            raise MemoryError

        thread.offset_map = no_memory  # type: ignore[method-assign]
        kept.upkeep.wake()
        kept.until(lambda: kept.upkeep.cleaner.status.dead_threads == 1)
        assert not kept.uncleanable
        thread.offset_map = offset_map  # type: ignore[method-assign]
        kept.advance(1000)
        kept.until(lambda: kept.rounds and kept.upkeep.cleaner.status.is_alive)


def test_rounds_without_end_do_not_keep_the_cleaner_from_deleting() -> None:
    kept = KeptStore(with_events(attrs.evolve(BOTH, dirty_ratio_min=1.0)))
    kept.overwrite(EVENTS)
    kept.overwrite(P0)
    cleaner = kept.upkeep.cleaner
    note = kept.rounds.append

    def note_and_ask_for_the_next(finished: FinishedRound) -> None:
        note(finished)
        if kept.store.logs[EVENTS].log_start_offset == 0 and len(kept.rounds) < 1000:
            cleaner.compact([P0])

    cleaner.steps._on_round = note_and_ask_for_the_next
    kept.clock.advance(HOUR_MS + 1)
    with kept:
        cleaner.compact([P0])
        kept.until(lambda: kept.rounds and not cleaner.status.threads[0].run.is_running)
        assert kept.store.logs[EVENTS].log_start_offset == 30
        assert len(kept.rounds) < 1000
