"""OffsetService: commits, fetches and deletions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd.v1 import offset_service_pb2, types_pb2

from offsetd_coordinator.errors import CoordinatorError, InvalidGroupId
from offsetd_coordinator.requests import CommitReply, DeleteOffsetsReply
from offsetd_coordinator.service import validation
from offsetd_coordinator.service.change_events import listed_partitions
from offsetd_coordinator.service.durable import changed_group, until_durable
from offsetd_coordinator.service.fetch_answer import FetchAnswer
from offsetd_coordinator.service.revisions import set_revision
from offsetd_coordinator.service.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsetd_coordinator.node import Node
    from offsetd_coordinator.service.commit_parser import CommitParser

_ITEMS_PER_GROUP: Final = 10
"""What a group costs beside its offsets, in their terms."""


class OffsetService:
    """The unary methods, from a request's bytes to those of its answer."""

    def __init__(self, node: Node, parser: CommitParser) -> None:
        self._node = node
        self._parser = parser

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
        request = validation.parse(offset_service_pb2.FetchOffsetsRequest, message)
        turns = Turns()
        answer = FetchAnswer(turns)
        ticket = 0
        try:
            for group_id, partitions in await _selections(request.groups, turns):
                group_ticket, outcome = runtime.fetch(
                    group_id, partitions, require_stable=request.require_stable
                )
                ticket = max(ticket, group_ticket)
                if isinstance(outcome, CoordinatorError):
                    raise outcome
                await answer.add(
                    group_id,
                    runtime.partition_of(group_id),
                    outcome,
                    self._node.expiry_rule(group_id),
                )
                await turns.spend(_ITEMS_PER_GROUP)
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


async def _selections(
    groups: Iterable[offset_service_pb2.GroupSelection], turns: Turns
) -> list[tuple[bytes, list[tuple[bytes, int]] | None]]:
    """The groups to fetch, each with its partitions, or None for all of them."""
    selections: dict[bytes, list[tuple[bytes, int]] | None] = {}
    for index, selection in enumerate(groups):
        field = f"groups[{index}]"
        group_id = validation.read_group_id(selection.group_id, f"{field}.group_id")
        if group_id in selections:
            raise InvalidGroupId(f"{field}.group_id", "{group!r} is named twice", group=group_id)
        named = validation.topic_partitions(selection.partitions, f"{field}.partitions")
        selections[group_id] = [partition async for partition in turns.each(named)] or None
        await turns.spend(_ITEMS_PER_GROUP)
    return list(selections.items())
