"""The cleaner's threads: requests, rounds that end early, settings, previews."""

from __future__ import annotations

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
    P2,
    PATIENCE_SECONDS,
    UPKEEP,
    KeptStore,
    compacted,
    with_events,
)
from offsetd_storage.cleaner.cleaner_thread import CleanerThread
from offsetd_storage.configuration.log_config import DELETE
from offsetd_storage.errors import (
    CleaningAborted,
    PartitionQuarantined,
)
from offsetd_storage.retention.log_claims import CleaningState
from offsetd_storage.topic_partition import TopicPartition

CALM = attrs.evolve(CONFIG, log=attrs.evolve(LOG, dirty_ratio_min=1.0))  # Nothing by its ratio.
BOTH = attrs.evolve(LOG, cleanup_policy=LOG.cleanup_policy | DELETE, retention_ms=HOUR_MS)


# Requests


def test_an_operator_has_a_log_cleaned_whatever_its_ratio_is() -> None:
    with KeptStore(CALM) as kept:
        kept.overwrite(P0)
        before = kept.size(P0)
        report = compacted(kept, P0)
        assert report is not None
        assert report.offset_next == kept.bases(P0)[-1]
        assert kept.size(P0) < before
        assert kept.rounds[0].requested


def test_with_what_its_active_segment_holds_where_that_is_wanted() -> None:
    with KeptStore(CALM) as kept:
        for number in range(5):
            kept.put(P0, "k", f"{number}")
        assert compacted(kept, P0) is None
        report = compacted(kept, P0, rolls_active=True)
        assert report is not None
        assert (report.messages_read, report.messages_written) == (5, 1)
        assert kept.bases(P0)[-1] == 5
        assert kept.values(P0) == {b"k": b"4"}


def test_several_are_asked_for_at_once_and_twice() -> None:
    with KeptStore(CALM, attrs.evolve(UPKEEP, cleaner=attrs.evolve(CLEANER, threads=1))) as kept:
        for topic_partition in (P0, P1, P2):
            kept.overwrite(topic_partition)
        answers = [
            answer
            for _ in range(2)
            for answer in kept.upkeep.cleaner.compact([P0, P1, P2], rolls_active=True).values()
        ]
        assert all(each.result(PATIENCE_SECONDS) is not None for each in answers)


def test_what_cannot_be_cleaned_says_why() -> None:
    with KeptStore() as kept:
        with pytest.raises(PartitionQuarantined):
            compacted(kept, TopicPartition("nowhere", 0))
        with pytest.raises(PartitionQuarantined):
            kept.upkeep.cleaner.log_status(TopicPartition("nowhere", 0))
    with pytest.raises(CleaningAborted):
        compacted(kept, P0)


def test_a_request_that_nobody_waits_for_any_more_does_no_harm() -> None:
    kept = KeptStore(CALM)
    kept.overwrite(P0)
    with kept:
        kept.upkeep.cleaner.states.abort_and_pause(P0)
        answer = kept.upkeep.cleaner.compact([P0])[P0]
        assert answer.cancel()
        kept.upkeep.cleaner.states.resume(P0)
        kept.upkeep.wake()
        kept.until(lambda: kept.rounds)
        kept.look()
        assert kept.upkeep.cleaner.status.threads[0].run.failures == 0


# Rounds that end early


class Held:
    """A round that waits at its first chunk until it is let go."""

    def __init__(self, kept: KeptStore) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        tools = kept.upkeep.cleaner.steps._tools

        def held_tools(thread, log):  # type: ignore[no-untyped-def]
            made = tools(thread, log)

            def throttle(size_bytes: int) -> None:
                self.begun.set()
                while not (self.go_on.wait(0.005) or made.should_stop()):
                    pass

            return attrs.evolve(made, throttle=throttle)

        kept.upkeep.cleaner.steps._tools = held_tools  # type: ignore[method-assign]

    def wait(self) -> None:
        assert self.begun.wait(PATIENCE_SECONDS)


def held(kept: KeptStore) -> Held:
    found = Held(kept)  # First: a cleaner that looks by itself may be faster than this test.
    kept.overwrite(P0)
    kept.upkeep.wake()
    found.wait()
    return found


def test_an_abort_waits_for_the_round_to_end_and_a_pause_lets_none_begin() -> None:
    with KeptStore() as kept:
        round_held = held(kept)
        cleaner = kept.upkeep.cleaner
        assert cleaner.status.threads[0].cleans == P0
        with cleaner.states.paused(P0):
            assert cleaner.states.state(P0) is CleaningState.PAUSED
            round_held.go_on.set()
            kept.look()
            assert not kept.rounds
        kept.upkeep.wake()
        kept.until(lambda: kept.rounds)
        assert not kept.uncleanable


def test_a_log_that_is_not_to_be_compacted_any_more_is_let_go() -> None:
    with KeptStore() as kept:
        held(kept)
        log = kept.store.logs[P0]
        log.config = attrs.evolve(log.config, cleanup_policy=DELETE)
        kept.until(lambda: kept.upkeep.cleaner.states.state(P0) is CleaningState.IDLE)
        kept.look()
        assert not kept.rounds
        assert not kept.uncleanable


def test_records_are_deleted_though_a_round_is_under_way() -> None:
    kept = KeptStore(with_events(BOTH))
    kept.overwrite(EVENTS)
    round_held = Held(kept)
    with kept:
        round_held.wait()
        assert kept.upkeep.retention.delete_records(EVENTS, 30) == 30
        round_held.go_on.set()
        assert not kept.uncleanable


@pytest.mark.parametrize("threads", [1, 5])
def test_other_settings_exchange_the_threads_and_keep_what_was_asked_for(threads: int) -> None:
    with KeptStore() as kept:
        round_held = held(kept)
        cleaner = kept.upkeep.cleaner
        kept.overwrite(P1)
        answers = cleaner.compact([P0, P1], rolls_active=True)
        cleaner.configure(
            attrs.evolve(CLEANER, threads=threads, dedupe_buffer_bytes=threads * (2 << 20))
        )
        round_held.go_on.set()
        assert all(each.result(PATIENCE_SECONDS) is not None for each in answers.values())
        assert len(cleaner.status.threads) == threads
        assert cleaner.status.is_alive


def test_threads_that_are_exchanged_are_none_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    stop = CleanerThread.stop

    def stop_and_look(thread: CleanerThread) -> None:
        stop(thread)
        seen.append(cleaner.status.is_alive)

    two = attrs.evolve(CLEANER, threads=2, dedupe_buffer_bytes=4 << 20)
    with KeptStore(upkeep=attrs.evolve(UPKEEP, cleaner=two)) as kept:
        cleaner = kept.upkeep.cleaner
        with monkeypatch.context() as patched:
            patched.setattr(CleanerThread, "stop", stop_and_look)
            cleaner.configure(CLEANER)
        assert seen == [True, True]
        assert len(cleaner.status.threads) == 1


def test_another_rate_and_backoff_count_at_once_and_end_no_round() -> None:
    slow = attrs.evolve(CLEANER, io_bytes_per_second_max=1.0)
    kept = KeptStore(upkeep=attrs.evolve(UPKEEP, cleaner=slow))
    kept.overwrite(P0)
    cleaner, asleep = kept.upkeep.cleaner, threading.Event()

    def sleep(seconds: float) -> None:  # By a clock that stands.
        asleep.set()
        time.sleep(seconds / 100)

    cleaner._throttle._sleep = sleep
    with kept:
        assert asleep.wait(PATIENCE_SECONDS)
        threads = cleaner._threads
        cleaner.configure(attrs.evolve(CLEANER, backoff_ms=100))
        assert cleaner._threads is threads
        kept.until(lambda: kept.rounds)
        assert cleaner.steps.backoff_ms == 100


def test_a_cleaner_that_is_switched_off_says_so_and_can_be_switched_on() -> None:
    off = attrs.evolve(CLEANER, is_enabled=False)
    kept = KeptStore(upkeep=attrs.evolve(UPKEEP, cleaner=off))
    kept.overwrite(P0)
    with kept:
        assert kept.upkeep.cleaner.status.threads == ()
        with pytest.raises(CleaningAborted):
            compacted(kept, P0)
        kept.upkeep.cleaner.configure(CLEANER)
        kept.until(lambda: kept.rounds)


def test_two_threads_clean_two_logs_at_a_time() -> None:
    two = attrs.evolve(CLEANER, threads=2, dedupe_buffer_bytes=4 << 20)
    kept = KeptStore(upkeep=attrs.evolve(UPKEEP, cleaner=two))
    kept.overwrite(P0)
    kept.overwrite(P1)
    round_held = Held(kept)
    with kept:
        cleaner = kept.upkeep.cleaner
        kept.until(lambda: {each.cleans for each in cleaner.status.threads} == {P0, P1})
        round_held.go_on.set()
        kept.until(lambda: len(kept.rounds) == 2)
        assert {each.thread for each in kept.rounds} == {0, 1}


# What it says


def test_where_cleaning_stands_with_a_log() -> None:
    kept = KeptStore(CALM)
    kept.overwrite(P0)
    kept.clock.advance(5000)
    status = kept.upkeep.cleaner.log_status(P0)
    assert status.state is CleaningState.IDLE
    assert (status.first_dirty, status.first_uncleanable) == (0, kept.bases(P0)[-1])
    assert status.last_stable_offset == 30
    assert status.dirty_bytes == kept.size(P0)
    assert status.cleanable_bytes < status.dirty_bytes
    assert (status.dirty_ratio, status.oldest_dirty_age_ms) == (1.0, 5000)
    with kept:
        assert compacted(kept, P0, rolls_active=True) is not None
        status = kept.upkeep.cleaner.log_status(P0)
        assert (status.first_dirty, status.dirty_bytes) == (30, 0)
        assert status.oldest_dirty_age_ms is None
        assert status.last == kept.rounds[0]


# Previews


def test_a_preview_says_what_a_round_would_report_and_changes_nothing() -> None:
    kept = KeptStore(CALM)
    kept.overwrite(P0)
    operations = kept.files.operations
    closed = kept.upkeep.cleaner.preview(P0)
    everything = kept.upkeep.cleaner.preview(P0, rolls_active=True)
    assert kept.files.operations == operations
    assert closed is not None
    assert everything is not None
    assert closed.messages_read < everything.messages_read == 30
    with kept:
        assert compacted(kept, P0, rolls_active=True) == everything
        with pytest.raises(PartitionQuarantined):
            kept.upkeep.cleaner.preview(TopicPartition("nowhere", 0))


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_preview_ends_for_whoever_pauses_the_log_or_when_it_should(is_paused: bool) -> None:
    slow = attrs.evolve(CLEANER, io_bytes_per_second_max=1.0)
    kept = KeptStore(CALM, attrs.evolve(UPKEEP, cleaner=slow))
    kept.overwrite(P0)
    cleaner, told = kept.upkeep.cleaner, threading.Event()
    asleep, failures = threading.Event(), []

    def sleep(seconds: float) -> None:  # By a clock that stands.
        asleep.set()
        told.wait(seconds / 100)

    def preview() -> None:
        try:
            cleaner.preview(P0, should_stop=told.is_set)
        except CleaningAborted as error:
            failures.append(error)

    cleaner._throttle._sleep = sleep
    thread = threading.Thread(target=preview)
    thread.start()
    assert asleep.wait(PATIENCE_SECONDS)
    if is_paused:
        with cleaner.states.paused(P0):
            assert cleaner.states.state(P0) is CleaningState.PAUSED
    else:
        told.set()
    thread.join()
    assert len(failures) == 1
    assert cleaner.states.state(P0) is CleaningState.IDLE
    kept.store.abandon()


def test_a_preview_and_the_rounds_share_one_rate() -> None:
    def slept(taken_bytes: int) -> int:
        slow = attrs.evolve(CLEANER, io_bytes_per_second_max=1.0)
        kept = KeptStore(CALM, attrs.evolve(UPKEEP, cleaner=slow))
        kept.overwrite(P0)
        cleaner, naps = kept.upkeep.cleaner, []

        def sleep(seconds: float) -> None:
            naps.append(seconds)
            kept.clock.advance(10_000_000)

        cleaner._throttle._sleep = sleep
        cleaner._throttle(taken_bytes)  # By a round.
        assert cleaner.preview(P0) is not None
        kept.store.abandon()
        return len(naps)

    assert slept(1000) == slept(0) + 1
