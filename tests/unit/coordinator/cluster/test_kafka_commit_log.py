"""The commit log of a node: who may be answered, and when, while partitions come and go."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from cluster_logs import LEASE_S, LogByHand, ended
from log_stores import P0, P1
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.errors import NotCoordinator, StorageUnavailable
from offsetd_coordinator.runtime.commit_log import NodeFenced, PartitionState
from offsetd_storage.errors import StorageFailed
from offsetd_storage.kernels import padded_copy
from partition_logs import batch_of
from patience import PATIENCE_SECONDS


def refuses(node: LogByHand, ticket: int) -> bool:
    return isinstance(node.log.lost((ticket,)), NotCoordinator)


async def test_an_answer_waits_for_the_transaction_of_its_ticket(by_hand: Any) -> None:
    node = by_hand(0, 1)
    first, second = node.append(0), node.append(1)
    waits = [node.log.durable(each) for each in (first, second)]
    assert not node.log.is_durable(first)
    assert node.log.batches_not_durable == 2
    assert node.copy(0) == 0, "what is not committed is not in the copy"
    frame = node.taken()
    third = node.append(0)
    later = node.log.durable(third)
    assert not any(each.done() for each in waits)
    node.note(frame)
    for each in waits:
        await ended(each)
    assert (node.copy(0), node.copy(1)) == (1, 1)
    assert node.copied == {0: 1002, 1: 1002}
    assert node.log.is_durable(second)
    assert node.log.durable(first) is None
    assert not later.done()
    assert not node.log.is_durable(third)
    node.commit()
    await ended(later)
    assert node.log.tickets == {0: third, 1: second, 2: 0}


async def test_a_read_within_the_lease_is_answered_and_after_it_waits_for_a_proof(
    by_hand: Any,
) -> None:
    node = by_hand(0)
    ticket = node.log.tickets[0]
    node.now_s += LEASE_S * 0.99
    assert node.log.durable(ticket) is None
    assert node.log.is_durable(ticket)
    node.now_s += LEASE_S * 0.01
    assert not node.log.is_durable(ticket)
    read = node.log.durable(ticket)
    assert not read.done()
    node.commit()
    await ended(read)
    assert node.log.durable(ticket) is None


async def test_it_knows_how_long_the_brokers_have_committed_nothing(by_hand: Any) -> None:
    node = by_hand(0)
    assert node.log.unproved_seconds() == 0
    node.now_s += LEASE_S + 7
    assert node.log.unproved_seconds() == pytest.approx(7)
    node.commit()
    assert node.log.unproved_seconds() == 0
    node.log.lose([0])
    node.now_s += 100
    assert node.log.unproved_seconds() == 0, "it has nothing to prove"


async def test_the_lease_counts_from_the_begin_of_the_transaction_not_from_its_end(
    by_hand: Any,
) -> None:
    node = by_hand(0)
    begun_s = node.now_s
    frame = node.taken()
    node.now_s += 0.9 * LEASE_S
    node.note(frame, begun_s=begun_s)
    node.now_s += 0.1 * LEASE_S
    assert not node.log.is_durable(node.log.tickets[0])


async def test_a_transaction_that_had_begun_before_a_read_is_no_proof_for_it(by_hand: Any) -> None:
    node = by_hand(0)
    node.now_s += 5 * LEASE_S
    running = node.taken()
    read = node.log.durable(node.log.tickets[0])
    node.note(running, begun_s=node.now_s - 4 * LEASE_S)
    assert not read.done()
    node.commit()
    await ended(read)


async def test_a_read_behind_a_write_waits_for_a_proof_if_the_lease_is_over(by_hand: Any) -> None:
    """The write's transaction had begun before: another node may have written since."""
    node = by_hand(0)
    ticket = node.append(0)
    running = node.taken()
    begun_s = node.now_s
    node.now_s += 2 * LEASE_S
    read = node.log.durable(ticket)
    node.note(running, begun_s=begun_s)
    await asyncio.sleep(0)
    assert not read.done()
    node.commit()
    await ended(read)


async def test_a_committed_write_that_waits_for_a_proof_is_not_refused_as_not_done(
    by_hand: Any,
) -> None:
    node = by_hand(0)
    write = node.log.durable(node.append(0))
    running = node.taken()
    begun_s = node.now_s
    node.now_s += 2 * LEASE_S
    node.note(running, begun_s=begun_s)
    node.log.lose([0])
    with pytest.raises(StorageUnavailable):
        await ended(write)


async def test_a_read_that_waits_asks_for_a_transaction(by_hand: Any) -> None:
    node = by_hand(0)
    await asyncio.sleep(0)  # What was kicked before.
    node.taken()
    node.now_s += 2 * LEASE_S
    read = node.log.durable(node.log.tickets[0])
    await asyncio.sleep(0)
    frame = await asyncio.to_thread(node.frames.take, idle_seconds=PATIENCE_SECONDS)
    assert frame.is_wanted
    node.note(frame)
    await ended(read)


async def test_what_was_not_committed_ends_with_its_partition_and_the_others_wait_on(
    by_hand: Any,
) -> None:
    node = by_hand(0, 1)
    gone, here = node.append(0), node.append(1)
    waits = [node.log.durable(each) for each in (gone, here)]
    node.owned.discard(0)
    node.log.lose([0])
    with pytest.raises(NotCoordinator):
        await ended(waits[0])
    assert refuses(node, gone)
    assert not waits[1].done()
    node.commit()
    await ended(waits[1])
    assert node.copy(0) == 0, "a partition that was given up is read from the topic"
    assert node.copy(1) == 1
    assert 0 not in node.copied
    with pytest.raises(NotCoordinator):
        await ended(node.log.durable(gone))
    assert node.log.is_durable(gone), "an answer may leave: a refusal"


async def test_what_may_have_been_sent_is_not_refused_as_if_it_had_not_happened(
    by_hand: Any,
) -> None:
    """Only the node thinks that its time is over: the brokers may commit the frame yet."""
    node = by_hand(0, 1)
    ticket, other = node.append(0), node.append(1)
    wait = node.log.durable(ticket)
    frame = node.taken()
    node.log.lose([0])
    with pytest.raises(StorageUnavailable, match="before it knew whether"):
        await ended(wait)
    node.note(frame)
    assert isinstance(node.log.lost((ticket,)), StorageUnavailable)
    assert node.log.durable(other) is None


async def test_what_was_not_sent_when_a_partition_is_lost_has_not_happened(by_hand: Any) -> None:
    node = by_hand(0, 1)
    node.append(0)
    node.taken()
    wait = node.log.durable(node.append(0))
    node.owned.discard(0)
    node.log.lose([0])
    with pytest.raises(NotCoordinator):
        await ended(wait)


async def test_what_waits_when_a_partition_is_lost_is_dropped(by_hand: Any) -> None:
    """So that it is not sent even if the node owns the partition again at once."""
    node = by_hand(0, 1)
    node.append(0)
    node.append(1)
    node.log.lose([0])
    node.serve(0)
    node.append(0)
    dropped = [node.frames.is_dropped(each) for each in node.taken().entries]
    assert dropped == [True, False, False]


async def test_what_was_committed_is_not_answered_either_once_its_partition_is_gone(
    by_hand: Any,
) -> None:
    node = by_hand(0, 1)
    ticket, other = node.append(0), node.append(1)
    node.commit()
    node.owned.discard(0)
    node.log.lose([0])
    with pytest.raises(NotCoordinator):
        await ended(node.log.durable(ticket))
    assert refuses(node, ticket)
    assert node.log.durable(other) is None
    with pytest.raises(NotCoordinator):
        node.append(0)


async def test_a_read_that_waits_for_a_proof_ends_with_its_partition(by_hand: Any) -> None:
    node = by_hand(0, 1)
    node.append(0)
    node.append(1)
    node.commit()
    node.now_s += 2 * LEASE_S
    gone, here = (node.log.durable(node.log.tickets[each]) for each in (0, 1))
    node.owned.discard(0)
    node.log.lose([0])
    with pytest.raises(NotCoordinator):
        await ended(gone)
    assert not here.done()
    node.commit()
    await ended(here)


async def test_a_read_of_a_partition_without_commits_is_refused_when_it_is_lost(
    by_hand: Any,
) -> None:
    node = by_hand(0, 1)
    ticket = node.log.tickets[0]
    assert ticket not in (0, node.log.tickets[1]), "each partition has a ticket of its own"
    node.now_s += 2 * LEASE_S
    read = node.log.durable(ticket)
    node.log.lose([0])
    with pytest.raises(NotCoordinator):
        await ended(read)


@pytest.mark.parametrize("has_served", [True, False])
async def test_a_frame_without_a_transaction_proves_nothing(
    by_hand: Any, *, has_served: bool
) -> None:
    """The node has lost everything, and the thread that commits knows it before the loop does."""
    node = by_hand(0)
    node.now_s += 2 * LEASE_S
    if has_served:
        read = node.log.durable(node.log.tickets[0])
    else:
        node.serve(1)
        read = node.log.durable(node.log.tickets[1])
    node.owned.clear()
    node.commit()
    with pytest.raises(NotCoordinator):
        await ended(read)
    assert node.log.state(0) is PartitionState.RELEASED
    node.log.lose([0, 1])


async def test_entries_that_the_node_no_longer_owned_are_refused(by_hand: Any) -> None:
    node = by_hand(0, 1)
    gone, here = node.append(0), node.append(1)
    waits = [node.log.durable(each) for each in (gone, here)]
    node.owned.discard(0)
    node.commit()
    with pytest.raises(NotCoordinator):
        await ended(waits[0])
    await ended(waits[1])
    assert (node.copy(0), node.copy(1)) == (0, 1)


async def test_a_partition_that_is_left_answers_what_is_committed_and_appends_nothing(
    by_hand: Any,
) -> None:
    node = by_hand(0)
    ticket = node.append(0)
    waits = node.log.durable(ticket)
    node.log.leave(0)
    assert node.log.state(0) is PartitionState.RELEASED
    with pytest.raises(NotCoordinator):
        node.append(0)
    node.commit()
    await ended(waits)
    node.log.lose([0])
    with pytest.raises(NotCoordinator):
        await ended(node.log.durable(ticket))


async def test_a_partition_that_came_back_serves_and_its_earlier_tickets_stay_lost(
    by_hand: Any,
) -> None:
    node = by_hand(0)
    before = node.append(0)
    node.owned.discard(0)
    node.log.lose([0])
    node.commit()
    assert not node.log.serves_all
    node.serve(0)
    with pytest.raises(NotCoordinator):
        await ended(node.log.durable(before))
    after = node.append(0)
    waits = node.log.durable(after)
    node.commit()
    await ended(waits)
    assert node.copy(0) == 1
    assert refuses(node, before)


async def test_states_go_from_released_to_loading_to_serving_and_back(by_hand: Any) -> None:
    node = by_hand()
    assert {node.log.state(each) for each in range(3)} == {PartitionState.RELEASED}
    node.log.begin_load([0])
    assert node.log.state(0) is PartitionState.LOADING
    with pytest.raises(NotCoordinator):
        node.log.append(0, batch_of(0), last_offset=0, max_timestamp_ms=0)
    node.serve(0, 1, 2)
    assert node.log.serves_all
    assert node.log.state(2) is PartitionState.SERVING
    node.log.lose([2])
    assert not node.log.serves_all


async def test_runs_are_appended_up_to_the_first_refusal(by_hand: Any) -> None:
    node = by_hand(0)
    run = batch_of(0) + batch_of(1)
    spans = np.array([[0, len(run)], [len(run), len(run) + len(batch_of(0))]])
    logged = node.log.append_runs([0, 1], padded_copy(run + batch_of(0)), spans)
    assert logged.batch_counts == [2, 0]
    node.commit()
    assert node.copy(0) == 2
    assert node.log.is_durable(logged.tickets[0])


async def test_an_internal_log_is_appended_and_answered_without_a_partition(by_hand: Any) -> None:
    node = by_hand()
    replayed: list[bytes] = []
    batch = batch_of(0)
    ticket = node.log.append_internal(AUDIT_PARTITION, batch, replay=replayed.append)
    waits = node.log.durable(ticket)
    assert replayed == [batch]
    node.commit()
    await ended(waits)
    assert node.store.log(AUDIT_PARTITION).offset_next == 1


async def test_a_failed_replay_of_an_internal_log_fails_the_log(by_hand: Any) -> None:
    node = by_hand(0)

    def broken(_: bytes) -> None:
        raise RuntimeError("no")

    with pytest.raises(StorageUnavailable):
        node.log.append_internal(AUDIT_PARTITION, batch_of(0), replay=broken)
    assert node.failures


async def test_a_failure_ends_every_wait_and_every_later_call(by_hand: Any) -> None:
    node = by_hand(0)
    told = []
    node.log.on_durable = lambda: told.append(node.log.failed)
    claimed = node.log.frame_committed(7)
    waits = [node.log.durable(node.append(0))]
    ticket = node.log.tickets[0]
    frame = node.taken()
    node.now_s += 2 * LEASE_S
    node.log.fail(NodeFenced("another"))
    node.log.fail(StorageFailed("again"))
    for each in (claimed, *waits, node.log.durable(ticket), node.log.frame_committed(1)):
        with pytest.raises(StorageUnavailable):
            await ended(each)
    node.note(frame)
    assert node.copy(0) == 0, "nothing is copied after a failure"
    assert not node.log.is_durable(ticket)
    for call in (
        lambda: node.append(0),
        lambda: node.log.append_internal(AUDIT_PARTITION, batch_of(0), replay=lambda _: None),
    ):
        with pytest.raises(StorageUnavailable):
            call()
    assert [type(each) for each in node.failures] == [NodeFenced], "told once"
    assert told == node.failures


async def test_a_failed_log_answers_no_read_within_the_lease_either(by_hand: Any) -> None:
    node = by_hand(0)
    node.log.fail(StorageFailed("gone"))
    with pytest.raises(StorageUnavailable):
        await ended(node.log.durable(node.log.tickets[0]))


async def test_a_reader_in_need_of_proof_gets_the_failure(by_hand: Any) -> None:
    node = by_hand(0)
    node.now_s += 2 * LEASE_S
    read = node.log.durable(node.log.tickets[0])
    threading.Thread(target=node.log.fail_soon, args=(OSError("disk"),)).start()
    with pytest.raises(StorageUnavailable):
        await ended(read)


async def test_a_copy_that_cannot_be_written_fails_the_log(
    by_hand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = by_hand(0)
    waits = node.log.durable(node.append(0))

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr(node.store, "append", full)
    node.commit()
    with pytest.raises(StorageUnavailable):
        await ended(waits)
    assert node.failures


async def test_a_call_that_was_cancelled_keeps_nobody_else(by_hand: Any) -> None:
    node = by_hand(0)
    cancelled, waits = (node.log.durable(node.append(0)) for _ in range(2))
    cancelled.cancel()
    node.commit()
    await ended(waits)


async def test_a_frame_is_waited_for_by_its_number(by_hand: Any) -> None:
    node = by_hand(0)
    frame = node.taken()
    futures = [node.log.frame_committed(frame.number + more) for more in (0, 1)]
    node.note(frame)
    await ended(futures[0])
    assert not futures[1].done()
    node.commit()
    await ended(futures[1])


async def test_the_copies_are_those_of_the_store(by_hand: Any) -> None:
    node = by_hand(0, 1)
    assert node.log.reader(0) is node.store.log(P0)
    assert node.log.reader(1) is node.store.log(P1)
    assert node.log.damage(P0) is None
    assert node.log.partitions == 3
