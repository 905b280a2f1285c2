"""OffsetService: commits, fetches and deletions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd.v1 import offset_service_pb2, types_pb2

from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.fetch_answer import FetchAnswer, GroupEncoder
from offsetd_coordinator.requests import CommitReply, DeleteOffsetsReply
from offsetd_coordinator.service import validation
from offsetd_coordinator.service.change_events import listed_partitions
from offsetd_coordinator.service.durable import changed_group, until_durable
from offsetd_coordinator.service.fetch_parser import ITEMS_PER_GROUP, FetchParser
from offsetd_coordinator.service.revisions import set_revision
from offsetd_coordinator.service.turns import Turns

if TYPE_CHECKING:
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.service.commit_parser import CommitParser

_BYTES_PER_ITEM: Final = 1024
"""Of an answer, written by a kernel."""


class OffsetService:
    """The unary methods, from a request's bytes to those of its answer."""

    def __init__(self, node: Node, parser: CommitParser) -> None:
        self._node = node
        self._parser = parser
        self._fetches = FetchParser()
        self._encoder = GroupEncoder()

    async def commit_offsets(self, message: bytes) -> bytes:
        """Commits; the answer leaves once that is durable."""
        runtime = self._node.serving()
        request = self._parser.parse(message)
        ticket, outcome = runtime.submit(request)
        waiting = runtime.durable(ticket)
        if waiting is not None:
            await waiting
        if isinstance(outcome, CoordinatorError):
            raise outcome
        assert isinstance(outcome, CommitReply)
        return committed(runtime.partition_of(request.group_id), outcome).SerializeToString()

    async def fetch_offsets(self, message: bytes) -> bytes:
        """Reads offsets of many groups; the answer leaves once what was read is durable."""
        runtime = self._node.serving()
        turns = Turns()
        selections = await self._fetches.parse(message, turns)
        answer = FetchAnswer(self._encoder, self._node.expiry_rule)
        ticket = 0
        try:
            for selection in selections:
                size = answer.size
                group_ticket, refusal = runtime.fetch_into(answer, selection)
                ticket = max(ticket, group_ticket)
                if refusal is not None:
                    raise refusal
                await turns.spend(ITEMS_PER_GROUP + (answer.size - size) // _BYTES_PER_ITEM)
        except CoordinatorError:
            await until_durable(runtime, ticket)
            raise
        await until_durable(runtime, ticket)
        return answer.encoded()

    async def delete_offsets(self, message: bytes) -> bytes:
        """Deletes offsets; the answer leaves once that is durable."""
        runtime = self._node.serving()
        received = validation.parse(offset_service_pb2.DeleteOffsetsRequest, message)
        request = validation.delete_offsets(received)
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
        response = offset_service_pb2.DeleteOffsetsResponse(
            deleted=[
                types_pb2.TopicPartition(topic=topic.decode(), partition=partition)
                for topic, partition in outcome.deleted
            ]
        )
        set_revision(response.revision, runtime.partition_of(request.group_id), outcome.last_offset)
        return response.SerializeToString()


def committed(log_partition: int, reply: CommitReply) -> offset_service_pb2.CommitOffsetsResponse:
    """The answer to a commit."""
    return offset_service_pb2.CommitOffsetsResponse(
        revision=types_pb2.Revision(log_partition=log_partition, log_offset=reply.last_offset)
    )
