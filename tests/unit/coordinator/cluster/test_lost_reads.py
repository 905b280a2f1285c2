"""Reads of a log partition that is lost before a proof comes that the node still had it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cluster_logs import LEASE_S, LogByHand, ended
from offsetd_coordinator.errors import NotCoordinator, StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_a_read_behind_which_a_write_came_ends_with_its_partition(
    by_hand: Callable[..., LogByHand],
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


async def test_a_read_of_another_partition_is_answered(by_hand: Callable[..., LogByHand]) -> None:
    node = by_hand(0, 1)
    other = node.append(1)
    node.commit()
    node.now_s += 2 * LEASE_S
    read = node.log.durable(other)
    node.append(1)
    node.owned.discard(0)
    node.log.lose([0])
    node.commit()
    await ended(read)


async def test_a_read_that_asks_for_a_proof_after_the_loss_is_refused(
    by_hand: Callable[..., LogByHand],
) -> None:
    """A read of several groups takes several turns, and waits for its proof at the end."""
    node = by_hand(0, 1)
    before = node.append(0)
    node.append(0)
    node.commit()
    node.owned.discard(0)
    node.log.lose([0])
    node.now_s += 2 * LEASE_S
    with pytest.raises(NotCoordinator):
        await ended(node.log.durable(before))


async def test_a_frame_that_comes_too_late_proves_nothing_about_a_lost_partition(
    by_hand: Callable[..., LogByHand],
) -> None:
    node = by_hand(0, 1)
    older = node.append(0)
    read = node.log.durable(older)
    node.append(0)
    frame, begun_s = node.taken(), node.now_s
    node.log.lose([0])
    node.now_s += 2 * LEASE_S
    node.note(frame, begun_s=begun_s)
    node.commit()
    with pytest.raises(StorageUnavailable):
        await ended(read)


async def test_a_partition_that_is_taken_again_is_read_as_before(
    by_hand: Callable[..., LogByHand],
) -> None:
    node = by_hand(0, 1)
    node.append(0)
    node.commit()
    node.log.lose([0])
    node.serve(0)
    again = node.append(0)
    node.append(0)
    node.commit()
    node.now_s += 2 * LEASE_S
    newest = node.append(0)
    node.commit()
    node.now_s += 2 * LEASE_S
    read_old, read_new = node.log.durable(again), node.log.durable(newest)
    node.commit()
    await ended(read_old)
    await ended(read_new)


async def test_a_refusal_that_rests_on_no_partition_is_answered_after_a_loss(
    by_hand: Callable[..., LogByHand],
) -> None:
    node = by_hand(0, 1)
    node.owned.discard(0)
    node.log.lose([0])
    node.now_s += 2 * LEASE_S
    refusal = node.log.durable(0)
    node.commit()
    await ended(refusal)
