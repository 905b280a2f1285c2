"""Who has a log: one round at a time, none while it is paused, and pauses are counted."""

from __future__ import annotations

import threading

from offsetd_storage.retention.log_claims import CleaningState, LogClaims
from offsetd_storage.topic_partition import TopicPartition

P0, P1 = (TopicPartition("t", partition) for partition in range(2))


def test_one_round_at_a_time_takes_a_log() -> None:
    states = LogClaims()
    assert states.begin(P0)
    assert not states.begin(P0)
    assert states.begin(P1)
    assert states.state(P0) is CleaningState.IN_PROGRESS
    states.end(P0)
    assert states.state(P0) is CleaningState.IDLE
    assert states.begin(P0)


def test_pauses_are_counted() -> None:
    states = LogClaims()
    with states.paused(P0), states.paused(P0):
        assert states.state(P0) is CleaningState.PAUSED
    states.abort_and_pause(P0)
    states.abort_and_pause(P0)
    states.resume(P0)
    assert not states.begin(P0)
    assert states.begin(P1)
    states.resume(P0)
    assert states.begin(P0)


def test_whoever_pauses_waits_until_the_round_has_ended() -> None:
    states = LogClaims()
    states.begin(P0)
    ended: list[bool] = []

    def round_() -> None:
        while not states.should_abort(P0):
            pass
        ended.append(states.state(P0) is CleaningState.ABORTED)
        states.end(P0)

    thread = threading.Thread(target=round_)
    thread.start()
    with states.paused(P0):
        assert ended == [True]
        assert states.state(P0) is CleaningState.PAUSED
    thread.join()
    assert not states.should_abort(P0)
    assert states.state(P0) is CleaningState.IDLE


def test_who_has_patience_gets_a_log_when_it_is_given_back() -> None:
    states = LogClaims()
    states.begin(P0)
    assert not states.begin(P0, patience_seconds=0.001)
    taken: list[bool] = []
    waiting = threading.Thread(target=lambda: taken.append(states.begin(P0, patience_seconds=60)))
    waiting.start()
    states.end(P0)
    waiting.join()
    assert taken == [True]
    assert states.state(P0) is CleaningState.IN_PROGRESS
