"""Answers that leave once the state that they depend on is durable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from offsetd_coordinator.calls import answer_reservations, current_call
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.messages.audit_events import group_event
from offsetd_coordinator.offset_changes import OffsetsChangedReply, RestoredReply
from offsetd_coordinator.quotas.quota_table import Quota
from offsetd_coordinator.requests import DeleteGroupReply, DeleteOffsetsReply
from offsetd_coordinator.runtime.commit_log import until_durable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offsetd_coordinator.administration.audit import AuditEvent
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.requests import Reply, Request
    from offsetd_coordinator.runtime.runtime import Runtime

Outcome = TypeVar("Outcome")
SomeReply = TypeVar("SomeReply", bound="Reply")


class Received(Protocol):
    """The fields that all requests for an administrator's change have."""

    reason: str
    request_id: str

    @property
    def DESCRIPTOR(self) -> Any:  # noqa: N802  # protobuf's name
        """The message's type."""


async def once_durable(
    runtime: Runtime, ticket: int, outcome: Outcome | CoordinatorError
) -> Outcome:
    """Returns a call's outcome, or raises its refusal, once the ticket is durable.

    Raises the errors of `until_durable`.
    """
    await until_durable(runtime.log, ticket)
    if isinstance(outcome, CoordinatorError):
        raise outcome
    return outcome


async def changed_group(
    node: Node,
    received: Received,
    request: Request,
    reply_type: type[SomeReply],
    what_of: Callable[[SomeReply], Mapping[str, Any]],
) -> SomeReply:
    """The reply to an administrator's change of a group, once it is durable.

    The audit event of the call contains what `what_of` returns for the reply. Raises the refusal
    once it is durable, QuotaExceeded, and the errors of `Administration.change_group`.
    """
    quotas = current_call.quotas()
    if quotas is not None:
        quotas.take({Quota.OFFSET_RATE: 0})
    method = received.DESCRIPTOR.name.removesuffix("Request")
    ticket, outcome = await submitted_change(node, method, received, request, reply_type, what_of)
    if quotas is not None and not isinstance(outcome, CoordinatorError):
        quotas.spend({Quota.OFFSET_RATE: _offsets_changed(outcome)})
    return await once_durable(node.serving(), ticket, outcome)


def _offsets_changed(reply: Reply) -> int:
    match reply:
        case OffsetsChangedReply() | RestoredReply():
            return len(reply.changes)
        case DeleteOffsetsReply():
            return len(reply.deleted)
        case DeleteGroupReply():
            return reply.offset_count
    return 0


async def submitted_change(
    node: Node,
    method: str,
    received: Received,
    request: Request,
    reply_type: type[SomeReply],
    what_of: Callable[[SomeReply], Mapping[str, Any]],
) -> tuple[int, SomeReply | CoordinatorError]:
    """Submits a change like `changed_group`; returns the ticket, and the reply or the refusal.

    It does not wait: neither may be sent before the ticket is durable.
    """
    administration = node.administering()

    def event_of(reply: Reply) -> AuditEvent:
        assert isinstance(reply, reply_type)
        return group_event(
            method,
            request.group_id,
            what_of(reply),
            time_ms=administration.clock.now_ms(),
            reason=received.reason,
            request_id=received.request_id,
        )

    ticket, outcome = await administration.change_group(
        request, event_of, answer_reservations.room_for_change
    )
    assert isinstance(outcome, reply_type | CoordinatorError)
    return ticket, outcome
