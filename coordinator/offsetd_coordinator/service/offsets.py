"""OffsetService: commits, fetches and deletions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from offsetd.v1 import offset_service_pb2, types_pb2

from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.requests import CommitReply, DeleteOffsetsReply
from offsetd_coordinator.service import validation
from offsetd_coordinator.service.times import set_time

if TYPE_CHECKING:
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.requests import CommittedOffset
    from offsetd_coordinator.runtime import Runtime
    from offsetd_coordinator.service.commit_parser import CommitParser

_log = structlog.get_logger(__name__)


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
        selections = [
            (
                validation.read_group_id(selection.group_id, f"groups[{index}].group_id"),
                validation.selected_partitions(selection.partitions, f"groups[{index}].partitions"),
            )
            for index, selection in enumerate(request.groups)
        ]
        response = offset_service_pb2.FetchOffsetsResponse()
        ticket = 0
        for group_id, partitions in selections:
            group_ticket, outcome = runtime.fetch(
                group_id, partitions, require_stable=request.require_stable
            )
            ticket = max(ticket, group_ticket)
            if isinstance(outcome, CoordinatorError):
                await until_durable(runtime, ticket)
                raise outcome
            response.groups.append(
                offset_service_pb2.GroupOffsets(
                    group_id=group_id.decode(),
                    offsets=map(_committed_offset, outcome),
                    log_partition=runtime.partition_of(group_id),
                )
            )
        await until_durable(runtime, ticket)
        return response.SerializeToString()

    async def delete_offsets(self, message: bytes) -> bytes:
        """Deletes offsets; the answer leaves once that is durable."""
        runtime = self._node.serving()
        message_in = validation.parse(offset_service_pb2.DeleteOffsetsRequest, message)
        request = validation.delete_offsets(message_in)
        ticket, outcome = runtime.submit(request)
        await until_durable(runtime, ticket)
        if isinstance(outcome, CoordinatorError):
            raise outcome
        assert isinstance(outcome, DeleteOffsetsReply)
        response = offset_service_pb2.DeleteOffsetsResponse(
            deleted=[
                types_pb2.TopicPartition(topic=topic.decode(), partition=partition)
                for topic, partition in outcome.deleted
            ]
        )
        if outcome.last_offset is not None:
            response.revision.log_partition = runtime.partition_of(request.group_id)
            response.revision.log_offset = outcome.last_offset
            _log.info(
                "offsets deleted",
                group=message_in.group_id,
                count=len(outcome.deleted),
                reason=message_in.reason,
            )
        return response.SerializeToString()


async def until_durable(runtime: Runtime, ticket: int) -> None:
    """Returns once the ticket is durable. Raises StorageUnavailable if it cannot be."""
    waiting = runtime.durable(ticket)
    if waiting is not None:
        await waiting


def committed(log_partition: int, reply: CommitReply) -> offset_service_pb2.CommitOffsetsResponse:
    """The answer to a commit."""
    return offset_service_pb2.CommitOffsetsResponse(
        revision=types_pb2.Revision(log_partition=log_partition, log_offset=reply.last_offset)
    )


def _committed_offset(stored: CommittedOffset) -> offset_service_pb2.CommittedOffset:
    message = offset_service_pb2.CommittedOffset(
        topic=stored.topic.decode(),
        partition=stored.partition,
        offset=stored.offset,
        leader_epoch=stored.leader_epoch if stored.leader_epoch >= 0 else None,
        metadata=stored.metadata.decode(),
        revision=stored.revision,
        end_offset=stored.end_offset if stored.end_offset >= 0 else None,
    )
    set_time(message.commit_time, stored.commit_timestamp_ms)
    set_time(message.expire_time, stored.expire_timestamp_ms)
    return message
