"""Tickets whose log partition was lost: which answers may still leave, and what the others say.

A ticket is the number of an append. An answer rests on the newest append of its log partition, so
many answers may rest on one ticket, and older answers on older tickets.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_coordinator.errors import NotCoordinator, StorageUnavailable

if TYPE_CHECKING:
    from offsetd_coordinator.errors import CoordinatorError

KEPT_TICKETS: Final = 1_000_000
"""Of so many of the newest tickets, the log partition and the refusal are known."""
_LOSSES_KEPT: Final = 1000


class _Loss(NamedTuple):
    """One time at which a log partition was lost."""

    ticket: int
    """The newest ticket of the log partition."""
    durable: int
    """The newest ticket of the node that was durable."""
    is_proved: bool
    """Whether the node could prove until then that the log partition was its own."""


class LostTickets:
    """What a node knows of them. For the event loop's thread."""

    def __init__(self) -> None:
        self.count = 0
        """The number of losses; it only grows."""
        self._newest = 0
        self._partitions = array("i", bytes(4 * KEPT_TICKETS))
        self._refusals: dict[int, CoordinatorError] = {}
        self._losses: dict[int, list[_Loss]] = {}

    def note_ticket(self, ticket: int, partition: int) -> None:
        """Notes the log partition of a new ticket; -1 for another log."""
        self._newest = ticket
        self._partitions[ticket % KEPT_TICKETS] = partition

    def note_loss(self, partition: int, ticket: int, *, durable: int, is_proved: bool) -> None:
        """Notes that a log partition is lost, whose newest ticket this is."""
        self.count += 1
        losses = self._losses.setdefault(partition, [])
        losses.append(_Loss(ticket, durable, is_proved))
        del losses[:-_LOSSES_KEPT]

    def refuse(self, ticket: int, partition: int, *, may_be_committed: bool) -> None:
        """Notes the refusal of all answers that rest on a ticket."""
        self.count += 1
        self._refusals[ticket] = (
            _outcome_unknown(partition) if may_be_committed else _not_here(partition)
        )
        while len(self._refusals) > KEPT_TICKETS:
            del self._refusals[next(iter(self._refusals))]

    def is_lost(self, ticket: int) -> bool:
        """Whether the ticket's log partition was lost after it."""
        return self._loss_of(ticket) is not None

    def refusal(self, ticket: int) -> CoordinatorError | None:
        """The refusal of an answer that may have been made after the loss. None: it may leave."""
        found = self._refusals.get(ticket)
        if found is None and (loss := self._loss_of(ticket)) is not None and ticket <= loss.durable:
            return _not_here(self._partition_of(ticket))
        return found

    def refusal_of_decided(self, ticket: int) -> CoordinatorError | None:
        """The refusal of an answer that was made when the ticket was the newest.

        If its appends were durable, and the log partition was provably this node's, until it was
        lost, then the answer was right when it was made, and stays so.
        """
        found = self._refusals.get(ticket)
        if found is None and (loss := self._loss_of(ticket)) is not None:
            is_unproved = ticket <= loss.durable and not loss.is_proved
            return _outcome_unknown(self._partition_of(ticket)) if is_unproved else None
        return found

    def _partition_of(self, ticket: int) -> int:
        return self._partitions[ticket % KEPT_TICKETS]

    def _loss_of(self, ticket: int) -> _Loss | None:
        """The first loss of the ticket's log partition after the ticket."""
        if not self._losses or ticket <= self._newest - KEPT_TICKETS:
            return None
        losses = self._losses.get(self._partition_of(ticket), [])
        place = bisect_left(losses, ticket, key=lambda loss: loss.ticket)
        return losses[place] if place < len(losses) else None


def _outcome_unknown(partition: int) -> CoordinatorError:
    return StorageUnavailable(
        "this server lost log partition {log_partition} before it knew whether the brokers have"
        " committed the write",
        log_partition=partition,
    )


def _not_here(partition: int) -> CoordinatorError:
    return NotCoordinator(
        "this server lost log partition {log_partition} before it could answer",
        log_partition=partition,
    )


def unknown_if_written(refusal: CoordinatorError) -> CoordinatorError:
    """The refusal of an answer that may be for a write that is committed."""
    if isinstance(refusal, NotCoordinator):
        return _outcome_unknown(int(refusal.variables["log_partition"]))
    return refusal
