"""The thread that commits frames, on producers that fail as they are told."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import TYPE_CHECKING

import attrs
import pytest
from committed_frames import (
    ABORTABLE,
    AUDIT,
    CLAIM,
    FATAL,
    TIMED_OUT,
    Committing,
    offsets_of,
)
from log_stores import P0, P1
from offsetd_coordinator.cluster import transactions
from offsetd_coordinator.cluster.claims import CLAIM_KEY, Claim
from offsetd_coordinator.cluster.topic_records import PLACE_HEADER
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.runtime.commit_log import NodeFenced
from partition_logs import NOW_MS
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def committing() -> Iterator[Committing]:
    made = Committing(0, 1)
    yield made
    made.frames.close()


def test_a_frame_is_one_transaction_with_the_generation_of_the_node(committing: Committing) -> None:
    committing.add(P0, 3)
    committing.add(P1)
    committing.add(AUDIT_PARTITION)
    committing.frames.claim({1: CLAIM})
    committing.run()
    [transaction] = committing.kafka.committed
    assert (offsets_of(transaction), offsets_of(transaction, 1)) == ([0, 1, 2], [0])
    assert transaction.generation == "generation 7"
    assert transaction.offsets == {0: 1, 1: 1}
    [claim] = [each for each in transaction.records if each.key == CLAIM_KEY]
    assert (claim.partition, Claim.decode(claim.value or b"")) == (1, CLAIM)
    [audit] = [each for each in transaction.records if each.topic == AUDIT]
    assert (audit.headers[0], audit.headers[-1][0]) == (("offsetd.node", b"n1"), PLACE_HEADER)
    assert {each.timestamp_ms for each in transaction.records if each is not claim} == {NOW_MS}
    [done] = committing.done
    assert done.kafka_ends == {0: 3, 1: 1}
    assert not done.lost
    assert 0 < done.begun_s <= time.monotonic()


def test_an_answer_is_given_only_after_the_commit(committing: Committing) -> None:
    committing.add(P0)
    told: list[int] = []
    committing.kafka.before["commit_transaction"] = lambda: told.append(len(committing.done))
    committing.run()
    assert told == [0]
    assert committing.committed_when_told == [1]


def test_an_empty_frame_has_the_generation_too(committing: Committing) -> None:
    committing.frames.want()
    committing.run()
    [transaction] = committing.kafka.committed
    assert (transaction.records, transaction.generation) == ([], "generation 7")
    assert len(transaction.offsets) == 1
    assert committing.done[0].begun_s > 0


@pytest.mark.parametrize(
    "call", ["produce", "flush", "send_offsets_to_transaction", "commit_transaction"]
)
def test_an_aborted_frame_is_sent_again_with_the_same_log_offsets(
    committing: Committing, call: str
) -> None:
    committing.add(P0, 2)
    committing.add(P0)
    committing.kafka.fail(call, ABORTABLE, ABORTABLE)

    def rejoin() -> None:
        committing.member.epoch += 1

    committing.kafka.before["abort_transaction"] = rejoin
    committing.run()
    [transaction] = committing.kafka.committed
    assert offsets_of(transaction) == [0, 1, 2]
    assert transaction.generation == "generation 9"
    attempts = [each for each in committing.kafka.transactions if offsets_of(each)]
    assert all(offsets_of(each) == [0, 1, 2][: len(offsets_of(each))] for each in attempts)
    [done] = committing.done
    assert done.kafka_ends == {0: transaction.records[-1].offset + 1}
    assert len(committing.kafka.transactions) == 3


def test_entries_of_a_partition_that_went_meanwhile_are_dropped(committing: Committing) -> None:
    gone = committing.add(P0)
    committing.add(P1)
    committing.frames.claim({0: CLAIM, 1: CLAIM})
    committing.kafka.fail("send_offsets_to_transaction", ABORTABLE)

    def lose() -> None:
        committing.member.owned = frozenset((1,))

    committing.kafka.before["abort_transaction"] = lose
    committing.run()
    [transaction] = committing.kafka.committed
    assert {each.partition for each in transaction.records} == {1}
    assert transaction.offsets == {1: 1}
    assert [each.ticket for each in committing.done[0].lost] == [gone]
    assert committing.done[0].kafka_ends.keys() == {1}


def test_entries_from_before_a_partition_was_lost_are_not_sent_when_it_came_back(
    committing: Committing,
) -> None:
    """Their callers were refused, and the new term has read the partition without them."""
    gone = committing.add(P0)
    committing.kafka.fail("send_offsets_to_transaction", ABORTABLE)
    after: list[int] = []

    def lose_and_own_again() -> None:
        committing.frames.drop([0])
        after.append(committing.add(P0))
        del committing.kafka.before["abort_transaction"]

    committing.kafka.before["abort_transaction"] = lose_and_own_again
    committing.run()
    assert [offsets_of(each) for each in committing.kafka.committed] == [[], [1]]
    assert [[each.ticket for each in done.lost] for done in committing.done] == [[gone], []]


def test_the_generation_is_that_from_before_the_records_were_chosen(committing: Committing) -> None:
    """Else a node that was lost and has joined again would commit what another node owns."""
    committing.add(P0)
    committing.kafka.fail("commit_transaction", ABORTABLE)

    def lose_and_join_again() -> None:
        committing.member.epoch = 8
        committing.member.owned = frozenset((1,))

    committing.kafka.before["produce"] = lose_and_join_again
    committing.run()
    refused, committed = committing.kafka.transactions
    assert refused.generation == "generation 7", "the brokers refuse that"
    assert (committed.generation, committed.records) == ("generation 8", [])


def test_a_node_without_partitions_sends_nothing_and_proves_nothing() -> None:
    committing = Committing()
    ticket = committing.add(P0)
    committing.frames.claim({0: CLAIM})
    committing.run()
    assert committing.kafka.calls == []
    [done] = committing.done
    assert [each.ticket for each in done.lost] == [ticket]
    assert done.begun_s == 0


def test_audit_events_of_a_node_without_partitions_are_committed_and_prove_nothing() -> None:
    committing = Committing()
    committing.add(AUDIT_PARTITION)
    committing.run()
    [transaction] = committing.kafka.committed
    assert (len(transaction.records), transaction.generation) == (1, None)
    assert committing.done[0].begun_s == 0


def test_the_proof_is_as_old_as_the_transaction_that_was_committed(committing: Committing) -> None:
    committing.add(P0)
    committing.kafka.fail("commit_transaction", ABORTABLE)
    aborted: list[float] = []
    committing.kafka.before["abort_transaction"] = lambda: aborted.append(time.monotonic())
    committed: list[float] = []
    committing.kafka.before["produce"] = lambda: committed.append(time.monotonic())
    committing.run()
    assert aborted[0] <= committing.done[0].begun_s <= committed[-1]


def test_a_commit_whose_outcome_is_not_known_is_asked_again(committing: Committing) -> None:
    committing.add(P0)
    committing.kafka.fail("commit_transaction", TIMED_OUT, TIMED_OUT)
    committing.run()
    assert committing.kafka.calls.count("commit_transaction") == 3
    assert committing.kafka.calls.count("begin_transaction") == 1, "nothing is sent twice"
    assert "abort_transaction" not in committing.kafka.calls
    assert committing.committed_when_told == [1]


def test_an_abort_whose_outcome_is_not_known_is_asked_again(committing: Committing) -> None:
    committing.add(P0)
    committing.kafka.fail("produce", ABORTABLE)
    committing.kafka.fail("abort_transaction", TIMED_OUT)
    committing.run()
    assert committing.kafka.calls.count("abort_transaction") == 2
    assert len(committing.kafka.committed) == 1


@pytest.mark.parametrize(
    "call", ["begin_transaction", "produce", "send_offsets_to_transaction", "commit_transaction"]
)
def test_a_fatal_error_ends_the_node_and_nothing_is_answered(
    committing: Committing, call: str
) -> None:
    committing.add(P0)
    committing.kafka.fail(call, FATAL)
    committing.run()
    assert [type(each) for each in committing.errors] == [NodeFenced]
    assert "_FENCED" in str(committing.errors[0])
    assert committing.done == []
    after = committing.kafka.calls[committing.kafka.calls.index(call) + 1 :]
    # What was queued goes beside the offsets, and is not committed.
    assert set(after) <= {"flush"}


def test_an_abort_that_fails_ends_the_node(committing: Committing) -> None:
    committing.add(P0)
    committing.kafka.fail("produce", ABORTABLE)
    committing.kafka.fail("abort_transaction", FATAL)
    committing.run()
    assert [type(each) for each in committing.errors] == [NodeFenced]
    assert committing.done == []


def test_a_defect_ends_the_node_too(committing: Committing) -> None:
    committing.add(P0)
    committing.kafka.before["flush"] = lambda: 1 / 0  # type: ignore[assignment,return-value]
    committing.run()
    assert [type(each) for each in committing.errors] == [ZeroDivisionError]
    assert committing.done == []


def test_a_full_queue_of_the_producer_is_waited_for(committing: Committing) -> None:
    committing.add(P0, 2)
    committing.kafka.fail("produce", None, BufferError(), BufferError())
    committing.run()
    assert committing.kafka.calls.count("poll") == 2
    assert offsets_of(committing.kafka.committed[0]) == [0, 1]


def test_producers_take_turns_and_all_are_fenced_at_the_start() -> None:
    committing = Committing(0, producers=3)
    committing.transactions.fence()
    assert committing.kafka.calls.count("init_transactions") == 3
    committing.transactions.start()
    for number in range(4):
        number_wanted = committing.frames.want()
        assert number_wanted == number + 1
        committing.frames.kick()
        deadline_s = time.monotonic() + PATIENCE_SECONDS
        while len(committing.done) <= number:
            assert time.monotonic() < deadline_s
            time.sleep(0.001)
    committing.transactions.stop()
    assert [each.producer for each in committing.kafka.committed[:4]] == [0, 1, 2, 0]


def test_a_partition_is_not_given_up_while_a_frame_is_being_sent(committing: Committing) -> None:
    committing.add(P0)
    held: list[bool] = []
    for call in ("begin_transaction", "commit_transaction"):
        committing.kafka.before[call] = lambda: held.append(committing.member.turn.locked())
    committing.run()
    assert held == [True, True]
    assert not committing.member.turn.locked()


def test_claims_alone_are_committed(committing: Committing) -> None:
    released = attrs.evolve(CLAIM, is_released=True)
    committing.frames.claim({0: released})
    committing.run()
    [transaction] = committing.kafka.committed
    assert [Claim.decode(each.value or b"") for each in transaction.records] == [released]
    assert transaction.offsets == {0: 1}


def test_a_flush_ends_when_the_offsets_are_refused() -> None:
    """The producer keeps what is queued until the abort, so a flush would wait in vain."""

    class Full:
        flushes = 0

        def flush(self, _: float) -> int:
            self.flushes += 1
            assert self.flushes < 100
            return 3

    refused: Future[None] = Future()
    refused.set_exception(ABORTABLE)
    transactions.flush(Full(), refused)
