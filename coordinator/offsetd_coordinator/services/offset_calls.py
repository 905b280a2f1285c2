"""OffsetService's methods that commit, fetch and delete offsets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from offsetd.v1 import offset_service_pb2

from offsetd_coordinator.calls import answer_reservations, current_call
from offsetd_coordinator.calls.connections import COPIES
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.large_groups.group_reading import add_large
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.audit_events import listed_partitions
from offsetd_coordinator.messages.commit_access import admit_commit
from offsetd_coordinator.messages.fetch_parser import ITEMS_PER_GROUP, FetchParser
from offsetd_coordinator.messages.list_encoding import encoded_with
from offsetd_coordinator.messages.revisions import committed_response, set_revision
from offsetd_coordinator.requests import CommitReply, DeleteOffsetsReply
from offsetd_coordinator.runtime.commit_log import until_all_durable
from offsetd_coordinator.runtime.runtime import LargeFetch
from offsetd_coordinator.security.acl import Operation, ResourceType
from offsetd_coordinator.services.durable_answers import changed_group
from offsetd_coordinator.wire.fetch_encoder import FetchAnswer, GroupEncoder

if TYPE_CHECKING:
    from offsetd_coordinator.messages.commit_parser import CommitParser
    from offsetd_coordinator.node import Node

_BYTES_PER_ITEM: Final = 1024
"""A kernel writes the answer. This many of its bytes count as one item of `Turns`."""
_BYTES_AT_ONCE: Final = 1 << 20
"""A larger answer is joined on a thread instead of on the event loop."""
_BYTES_RESERVED_AT_ONCE: Final = 1 << 16
"""Memory is reserved each time that an answer to many small groups has grown by this much."""


class OffsetService:
    """The unary methods: each takes a request's bytes and returns the answer's bytes."""

    def __init__(self, node: Node, parser: CommitParser) -> None:
        self._node = node
        self._parser = parser
        self._fetches = FetchParser()
        self._encoder = GroupEncoder()

    async def commit_offsets(self, message: bytes) -> bytes:
        """Commits offsets; answers once the commit is durable."""
        runtime = self._node.serving()
        request = self._parser.parse(message)
        if (access := current_call.access()) is not None:
            admit_commit(access, request)
        ticket, outcome = runtime.submit(request)
        waiting = runtime.durable(ticket)  # `until_durable`, inlined: each commit does this.
        if waiting is not None:
            await waiting
        if isinstance(outcome, CoordinatorError):
            raise outcome
        assert isinstance(outcome, CommitReply)
        return committed_response(runtime.partition_of(request.group_id), outcome.last_offset)

    async def fetch_offsets(self, message: bytes) -> bytes:
        """Reads offsets of one or more groups; answers once the offsets read are durable."""
        runtime = self._node.serving()
        turns = Turns()
        selections = await self._fetches.parse(message, turns)
        if (access := current_call.access()) is not None:
            async for each in turns.each(selections):
                access.require(Operation.DESCRIBE, ResourceType.GROUP, each.group_id.decode())
        answer = FetchAnswer(self._encoder)
        tickets: set[int] = set()
        reserved = 0
        try:
            for selection in selections:
                size = answer.size
                if size - reserved > _BYTES_RESERVED_AT_ONCE:
                    await answer_reservations.reserve(COPIES * (size - reserved))
                    reserved = size
                outcome = runtime.fetch_into(answer, selection)
                if isinstance(outcome, LargeFetch):
                    count = outcome.offsets_max
                    await answer_reservations.reserve(answer_reservations.BYTES_PER_OFFSET * count)
                    await add_large(runtime, answer, selection, outcome.rule)
                    continue
                ticket, refusal = outcome
                tickets.add(ticket)
                if refusal is not None:
                    raise refusal
                await turns.spend(ITEMS_PER_GROUP + (answer.size - size) // _BYTES_PER_ITEM)
        except CoordinatorError:
            await until_all_durable(runtime.log, tickets)
            raise
        await until_all_durable(runtime.log, tickets)
        if answer.size > _BYTES_AT_ONCE:
            return await asyncio.to_thread(answer.encoded)
        return answer.encoded()

    async def delete_offsets(self, message: bytes) -> bytes:
        """Deletes offsets; answers once the change is durable."""
        runtime = self._node.serving()
        turns = Turns()
        received = await validation.parse_in_turns(
            offset_service_pb2.DeleteOffsetsRequest, message, turns
        )
        request = await validation.delete_offsets(received, turns)
        outcome = await changed_group(
            self._node,
            received,
            request,
            DeleteOffsetsReply,
            lambda reply: {
                "offset_count": len(reply.deleted),
                "deleted": listed_partitions(reply.deleted),
            },
        )
        response = offset_service_pb2.DeleteOffsetsResponse()
        set_revision(response.revision, runtime.partition_of(request.group_id), outcome.last_offset)
        return await encoded_with(response, outcome.deleted, _add_deleted)


def _add_deleted(
    message: offset_service_pb2.DeleteOffsetsResponse, named: tuple[bytes, int]
) -> None:
    topic, partition = named
    message.deleted.add(topic=topic.decode(), partition=partition)
