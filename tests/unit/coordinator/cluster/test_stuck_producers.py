"""Producers that hang or are refused, and frames whose outcome is not known."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from committed_frames import (
    ABORTABLE,
    FATAL,
    TIMED_OUT,
    Committing,
    offsets_of,
)
from confluent_kafka import KafkaError
from fake_producers import FakeKafka, failed
from log_stores import P0
from offsetd_coordinator.cluster import transactional_producers, transactions
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.runtime.commit_log import NodeFenced, OutcomeUnknown
from patience import PATIENCE_SECONDS
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def committing() -> Iterator[Committing]:
    made = Committing(0, 1)
    yield made
    made.frames.close()


def test_producers_that_hang_are_replaced_and_the_frame_is_sent_once(
    committing: Committing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka may ignore the timeout, so the call is left to itself."""
    monkeypatch.setattr(transactions, "_OFFSETS_SECONDS_MAX", 0.05)
    released = threading.Event()
    kafka = committing.kafka

    def hang_once() -> None:
        if kafka.calls.count("send_offsets_to_transaction") == 1:
            released.wait(PATIENCE_SECONDS)

    kafka.before["send_offsets_to_transaction"] = hang_once
    committing.add(P0, 3)
    committing.run()
    released.set()
    hung, committed = kafka.transactions
    assert (hung.is_committed, committed.is_committed) == (False, True)
    assert offsets_of(committed) == [0, 1, 2]
    # Both were made anew: the other one knows the same coordinator.
    assert kafka.calls.count("init_transactions") == 2
    assert committing.errors == []


def leave_an_abort_unknown(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next commit has to be aborted, and the brokers do not say whether it was."""
    monkeypatch.setattr(transactions, "_ABORT_SECONDS_MAX", 0.0)
    kafka.fail("commit_transaction", ABORTABLE)
    kafka.fail("abort_transaction", TIMED_OUT, TIMED_OUT)


def test_an_abort_whose_outcome_stays_unknown_replaces_the_producers(
    committing: Committing, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_an_abort_unknown(committing.kafka, monkeypatch)
    committing.add(P0)
    committing.run()
    assert [each.is_committed for each in committing.kafka.transactions] == [False, True]
    assert committing.kafka.calls.count("init_transactions") == 2
    assert committing.errors == []


def test_a_node_ends_if_its_new_producers_are_refused(
    committing: Committing, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_an_abort_unknown(committing.kafka, monkeypatch)
    committing.kafka.fail("init_transactions", FATAL)
    committing.add(P0)
    committing.run()
    [error] = committing.errors
    assert isinstance(error, NodeFenced)
    assert not committing.kafka.committed


def never_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a call that times out has done is not asked again."""
    monkeypatch.setattr(transactional_producers, "_REPLACE_SECONDS_MAX", 0.0)
    monkeypatch.setattr(transactions, "until_known", _asked_once)


def _asked_once(call: Any, *, seconds_max: float = 0.0) -> None:
    transactional_producers.until_known(call, seconds_max=0.0)


def test_a_commit_that_happened_without_an_answer_is_found_and_not_sent_again(
    committing: Committing, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_known(monkeypatch)
    kafka = committing.kafka
    kafka.fail("commit_answered", TIMED_OUT)
    kafka.fail("committed", TIMED_OUT)  # The brokers are asked again.
    committing.add(P0, 2)
    committing.run()
    [transaction] = kafka.transactions
    assert transaction.is_committed
    assert [each.frame.number for each in committing.done] == [1]
    assert committing.done[0].kafka_ends == {0: 2}
    assert kafka.calls.count("init_transactions") == 2, "which decides the transaction"
    assert committing.errors == []


def test_a_commit_that_did_not_happen_is_sent_again(
    committing: Committing, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_known(monkeypatch)
    kafka = committing.kafka
    committing.add(P0)
    committing.transactions.start()
    committing.frames.kick()
    poll(lambda: committing.done, PATIENCE_SECONDS)
    kafka.fail("commit_transaction", TIMED_OUT)
    # The brokers are away for some time.
    kafka.fail("init_transactions", TIMED_OUT, TIMED_OUT, TIMED_OUT, None, TIMED_OUT)
    committing.add(P0, 2)
    committing.transactions.stop()
    first, unknown, again = kafka.transactions
    assert [each.is_committed for each in (first, unknown, again)] == [True, False, True]
    assert offsets_of(again) == offsets_of(unknown) == [1, 2], "the same log offsets"
    assert [each.frame.number for each in committing.done] == [1, 2]
    assert committing.errors == []


@pytest.mark.parametrize(
    "call", ["begin_transaction", "produce", "send_offsets_to_transaction", "commit_transaction"]
)
def test_a_fatal_error_that_is_no_fencing_replaces_the_producers(
    committing: Committing, call: str
) -> None:
    committing.add(P0, 2)
    committing.kafka.fail(call, failed(KafkaError.INVALID_TXN_STATE, fatal=True))
    committing.run()
    [committed] = committing.kafka.committed
    assert offsets_of(committed) == [0, 1]
    assert committing.kafka.calls.count("init_transactions") == 2
    assert committing.committed_when_told == [1]
    assert committing.errors == []


def test_a_commit_that_happened_is_not_sent_again_when_its_abort_is_refused(
    committing: Committing,
) -> None:
    """A new coordinator refuses to abort what the one before it has committed."""
    kafka = committing.kafka
    kafka.fail("commit_answered", ABORTABLE)
    kafka.fail("abort_transaction", failed(KafkaError.INVALID_TXN_STATE))
    committing.add(P0)
    committing.run()
    [transaction] = kafka.transactions
    assert transaction.is_committed
    assert committing.committed_when_told == [1]
    assert committing.errors == []


def test_new_producers_that_are_refused_for_a_time_are_tried_again(
    committing: Committing, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_an_abort_unknown(committing.kafka, monkeypatch)
    refused = failed(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    committing.kafka.fail("init_transactions", refused, None, refused)
    committing.add(P0)
    committing.run()
    assert len(committing.kafka.committed) == 1
    assert committing.errors == []


def test_audit_events_alone_are_sent_again_when_their_outcome_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    never_known(monkeypatch)
    committing = Committing()
    committing.add(AUDIT_PARTITION)
    committing.kafka.fail("commit_transaction", TIMED_OUT)
    committing.run()
    assert [each.is_committed for each in committing.kafka.transactions] == [False, True]
    assert committing.errors == []


def test_frames_of_two_processes_of_a_node_have_different_marks() -> None:
    marks = set()
    for _ in range(2):
        committing = Committing(0)
        committing.add(P0)
        committing.run()
        [transaction] = committing.kafka.committed
        marks.add(transaction.marks[0])
    assert len(marks) == 2


def test_a_node_that_stops_gives_up_when_the_brokers_do_not_answer(
    committing: Committing, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_known(monkeypatch)
    monkeypatch.setattr(transactions, "_STOP_SECONDS_MAX", 0.05)
    committing.kafka.fail("commit_transaction", TIMED_OUT)
    committing.kafka.fail("init_transactions", *[TIMED_OUT] * 10_000)
    committing.add(P0)
    committing.run()
    [error] = committing.errors
    assert isinstance(error, OutcomeUnknown)
    assert committing.done == []
