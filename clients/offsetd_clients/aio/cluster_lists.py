"""Exports and audit logs of all nodes, as one sequence."""

from collections.abc import AsyncIterator
from typing import Any

from offsetd.v1.admin_service_pb2 import ExportOffsetsRequest, ListAuditEventsRequest
from offsetd.v1.group_service_pb2 import GetGroupRequest

from offsetd_clients.aio.concurrency import in_parallel
from offsetd_clients.aio.servers import Servers
from offsetd_clients.aio.transport import Answers, Channel
from offsetd_clients.calling.group_owners import SeveralOwners
from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.change_values import AuditEvent
from offsetd_clients.cluster_parts import Part, parts_elsewhere
from offsetd_clients.errors import OffsetdError
from offsetd_clients.messages.change_messages import audit_events


async def exported_pieces(
    servers: Servers, policy: RetryPolicy, request: ExportOffsetsRequest
) -> AsyncIterator[bytes]:
    """The pieces of an export.

    A node of a cluster says when a log partition is complete. Only then its pieces are yielded. So
    a log partition that leaves its node meanwhile is exported again from its new owner.
    """
    parts = [Part()]
    progress_s = policy.monotonic_s()
    while parts:
        part = parts.pop(0)
        request.log_partitions[:] = part.log_partitions
        try:
            first, answers = await _begun(servers, policy, request)
        except SeveralOwners:
            if not request.group_ids:
                parts[:0] = part.split()
                continue
            async for piece in _exported_apart(servers, policy, request):
                yield piece
            return
        if first is None:
            continue
        if not first.HasField("cluster"):
            async for piece in _contents(first, answers):
                yield piece
            continue
        servers.note_owners(first.cluster)
        parts[:0] = parts_elsewhere(first.cluster)
        missing, pieces = list(first.cluster.log_partitions), list[bytes]()
        try:
            async for response in answers:
                pieces.append(response.content)
                if response.HasField("completed_log_partition"):
                    missing.remove(response.completed_log_partition)
                    yield b"".join(pieces)
                    pieces, progress_s = [], policy.monotonic_s()
        except OffsetdError as error:
            if not error.retriable or policy.monotonic_s() - progress_s > policy.timeout_s:
                raise
        finally:
            answers.cancel()
        parts[:0] = Part(tuple(missing)).split()


async def _begun(
    servers: Servers, policy: RetryPolicy, request: ExportOffsetsRequest
) -> tuple[Any, Answers]:
    """The first answer, or None, and the stream of the rest."""

    async def ask(channel: Channel, timeout_s: float) -> tuple[Any, Answers]:
        del timeout_s  # The whole stream may take the timeout of the policy, not of one attempt.
        answers = await channel.stream("ExportOffsets", request, policy.timeout_s)
        return await anext(answers, None), answers

    begun: tuple[Any, Answers] = await servers.asked(request, ask, policy)
    return begun


async def _contents(first: Any, answers: Answers) -> AsyncIterator[bytes]:
    try:
        yield first.content
        async for response in answers:
            yield response.content
    finally:
        answers.cancel()


async def _exported_apart(
    servers: Servers, policy: RetryPolicy, request: ExportOffsetsRequest
) -> AsyncIterator[bytes]:
    """The pieces of an export of named groups that belong to several servers.

    All groups must exist before the first piece.
    """
    group_ids = list(request.group_ids)

    async def check(group_id: str) -> None:
        await servers.call("GetGroup", GetGroupRequest(group_id=group_id), policy)

    await in_parallel(check, group_ids)
    request.names_group = True
    for group_id in group_ids:
        request.group_ids[:] = [group_id]
        first, answers = await _begun(servers, policy, request)
        if first is not None:
            async for piece in _contents(first, answers):
                yield piece


async def all_audit_events(
    servers: Servers, policy: RetryPolicy, request: ListAuditEventsRequest
) -> AsyncIterator[AuditEvent]:
    """The audit events of all nodes, the newest first."""
    first = await servers.call("ListAuditEvents", request, policy)
    logs = [
        _audit_log(servers, policy, request, first, servers.home.address),
        *(_audit_log(servers, policy, request, None, each) for each in first.other_addresses),
    ]
    heads = [(await anext(each, None), each) for each in logs]
    while True:
        held = [(event.time, place) for place, (event, _) in enumerate(heads) if event is not None]
        if not held:
            return
        _, newest = max(held, key=lambda each: each[0])
        event, log = heads[newest]
        assert event is not None
        yield event
        heads[newest] = (await anext(log, None), log)


async def _audit_log(
    servers: Servers,
    policy: RetryPolicy,
    question: ListAuditEventsRequest,
    first: Any,
    address: str,
) -> AsyncIterator[AuditEvent]:
    """The events of one node, page after page; `first` is its first page, if that is known."""
    request = ListAuditEventsRequest()
    request.CopyFrom(question)
    response = first
    while True:
        if response is None:
            response = await servers.call_at(address, "ListAuditEvents", request, policy)
        for event in audit_events(response):
            yield event
        if not response.next_page_token:
            return
        request.page_token = response.next_page_token
        response = None
