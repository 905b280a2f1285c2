"""What a node's commit log says of answers once their log partition is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from cluster_logs import LEASE_S, LogByHand
from offsetd_coordinator.errors import NotCoordinator, StorageUnavailable
from offsetd_coordinator.runtime import lost_tickets
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def made(*partitions: int) -> LogByHand:
        node = LogByHand(monkeypatch)
        node.serve(*partitions)
        node.commit()
        return node

    return made


async def ended(future: asyncio.Future[None] | None) -> None:
    assert future is not None, "it was to wait"
    await asyncio.wait_for(future, PATIENCE_SECONDS)


def refuses(node: LogByHand, ticket: int) -> bool:
    return isinstance(node.log.lost((ticket,)), NotCoordinator)


async def test_a_read_that_waits_for_a_proof_ends_with_its_partition_though_writes_came_behind(
    by_hand: Any,
) -> None:
    """As after a pause: the node reads, then writes, and hears only then that it lost all."""
    node = by_hand(0, 1)
    before = node.append(0)
    node.commit()
    node.now_s += 2 * LEASE_S
    read = node.log.durable(before)
    node.append(0)
    node.owned.discard(0)
    node.log.lose([0])
    node.commit()  # It still owns the other partition, which proves nothing about this one.
    with pytest.raises(NotCoordinator):
        await ended(read)


async def test_what_was_durable_and_proved_when_a_partition_was_lost_may_be_told(
    by_hand: Any,
) -> None:
    """Of answers that were made before the loss, as those of streams, which wait to be sent."""
    node = by_hand(0, 1)
    older, newest = node.append(0), node.append(0)
    node.commit()
    node.owned.discard(0)
    node.log.lose([0])
    node.now_s += 2 * LEASE_S
    for ticket in (older, newest):
        assert node.log.is_durable(ticket)
        assert node.log.lost((ticket,), are_decided=True) is None
        assert refuses(node, ticket), "an answer that is made now is refused"


async def test_what_was_durable_and_not_proved_when_a_partition_was_lost_has_an_unknown_outcome(
    by_hand: Any,
) -> None:
    """A commit among it is in the log; a refusal may be wrong, as another node may have written."""
    node = by_hand(0, 1)
    older, newest = node.append(0), node.append(0)
    node.commit()
    node.now_s += 2 * LEASE_S
    node.owned.discard(0)
    node.log.lose([0])
    node.commit()
    for ticket in (older, newest):
        assert node.log.is_durable(ticket), "a refusal may leave"
        assert isinstance(node.log.lost((ticket,), are_decided=True), StorageUnavailable)


async def test_a_frame_that_comes_too_late_to_prove_anything_about_a_lost_partition_answers_nothing(
    by_hand: Any,
) -> None:
    node = by_hand(0, 1)
    older = node.append(0)
    node.append(0)
    read = node.log.durable(older)
    frame, begun_s = node.taken(), node.now_s
    node.log.lose([0])
    node.now_s += 2 * LEASE_S
    node.note(frame, begun_s=begun_s)
    node.commit()
    with pytest.raises(StorageUnavailable):
        await ended(read)
    assert isinstance(node.log.lost((older,), are_decided=True), StorageUnavailable)


async def test_each_loss_of_a_partition_counts_for_the_tickets_before_it(by_hand: Any) -> None:
    node = by_hand(0, 1)
    first = node.append(0)
    node.commit()
    node.now_s += 2 * LEASE_S
    node.log.lose([0])  # Not proved.
    node.serve(0)
    second = node.append(0)
    node.commit()
    node.log.lose([0])  # Proved.
    node.serve(0)
    third = node.append(0)
    node.commit()
    assert isinstance(node.log.lost((first,), are_decided=True), StorageUnavailable)
    assert node.log.lost((second,), are_decided=True) is None
    assert node.log.lost((third,)) is None
    assert node.log.losses == 2


async def test_tickets_of_long_ago_are_forgotten(
    by_hand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_tickets, "KEPT_TICKETS", 4)
    node = by_hand(0, 1)
    old = node.append(0)
    node.commit()
    node.log.lose([0])
    assert refuses(node, old)
    for _ in range(4):
        node.append(1)
    assert node.log.lost((old,)) is None
