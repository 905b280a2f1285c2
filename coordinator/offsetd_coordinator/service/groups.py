"""GroupService: groups listed, described and deleted."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import heapq
from typing import TYPE_CHECKING, Final

import structlog
from offsetd.v1 import group_service_pb2, types_pb2

from offsetd_coordinator.errors import (
    CoordinatorError,
    InvalidPageToken,
    InvalidRequest,
    LogPartitionQuarantined,
)
from offsetd_coordinator.requests import DeleteGroupReply
from offsetd_coordinator.service import validation
from offsetd_coordinator.service.group_settings import lease_message, set_retention
from offsetd_coordinator.service.offsets import until_durable
from offsetd_coordinator.service.times import set_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_coordinator.groups import Group, GroupListing
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.runtime import Runtime

_log = structlog.get_logger(__name__)

PAGE_SIZE_DEFAULT: Final = 1000
PAGE_SIZE_MAX: Final = 10_000
_QUESTION_DIGEST_BYTES: Final = 8
_PARTITION_BYTES: Final = 4
_NOT_OURS: Final = "not one that this server made"


class GroupService:
    """The methods, from a request's bytes to those of its answer."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def list_groups(self, message: bytes) -> bytes:
        """One page of groups, by log partition and id: of one partition read in each turn."""
        runtime = self._node.serving()
        request = validation.parse(group_service_pb2.ListGroupsRequest, message)
        if request.page_size < 0:
            raise InvalidRequest("page_size", "{value} is below 0", value=request.page_size)
        page_size = min(request.page_size or PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX)
        prefix = validation.read_group_id(request.group_id_prefix, "group_id_prefix")
        first_partition, after = _read_page_token(request, runtime.partitions)
        found: list[tuple[int, GroupListing]] = []
        ticket = 0
        for partition in range(first_partition, runtime.partitions):
            with contextlib.suppress(LogPartitionQuarantined):
                partition_ticket, listings = runtime.list_groups(
                    partition, prefix=prefix, after=after
                )
                ticket = max(ticket, partition_ticket)
                # One more than the page tells whether another page follows.
                listed = heapq.nsmallest(
                    page_size + 1 - len(found),
                    _matching(listings, request),
                    key=lambda listing: listing.group_id,
                )
                found += [(partition, listing) for listing in listed]
            if len(found) > page_size:
                break
            after = None
            await asyncio.sleep(0)
        await until_durable(runtime, ticket)
        response = group_service_pb2.ListGroupsResponse(
            groups=[_listing(listing) for _, listing in found[:page_size]],
            unreachable_log_partitions=[
                partition
                for partition in range(runtime.partitions)
                if runtime.damage(partition) is not None
            ],
        )
        if len(found) > page_size:
            last_partition, last = found[page_size - 1]
            response.next_page_token = _page_token(request, last_partition, last.group_id)
        return response.SerializeToString()

    async def get_group(self, message: bytes) -> bytes:
        """One group."""
        runtime = self._node.serving()
        request = validation.parse(group_service_pb2.GetGroupRequest, message)
        group_id = validation.read_group_id(request.group_id, "group_id")
        ticket, outcome = runtime.get_group(group_id)
        await until_durable(runtime, ticket)
        if isinstance(outcome, CoordinatorError):
            raise outcome
        return group_service_pb2.GetGroupResponse(
            group=_group(outcome, runtime)
        ).SerializeToString()

    async def delete_group(self, message: bytes) -> bytes:
        """Deletes a group; the answer leaves once that is durable."""
        runtime = self._node.serving()
        received = validation.parse(group_service_pb2.DeleteGroupRequest, message)
        request = validation.delete_group(received)
        ticket, outcome = runtime.submit(request)
        await until_durable(runtime, ticket)
        if isinstance(outcome, CoordinatorError):
            raise outcome
        assert isinstance(outcome, DeleteGroupReply)
        response = group_service_pb2.DeleteGroupResponse(offset_count=outcome.offset_count)
        if outcome.last_offset is not None:
            response.revision.log_partition = runtime.partition_of(request.group_id)
            response.revision.log_offset = outcome.last_offset
            _log.info(
                "group deleted",
                group=received.group_id,
                count=outcome.offset_count,
                reason=received.reason,
            )
        return response.SerializeToString()


def _matching(
    listings: Iterator[GroupListing], request: group_service_pb2.ListGroupsRequest
) -> Iterator[GroupListing]:
    states: set[int] = set(request.states)
    types: set[int] = set(request.types)
    for listing in listings:
        if (not states or listing.state in states) and (not types or listing.type in types):
            yield listing


def _question_digest(request: group_service_pb2.ListGroupsRequest) -> bytes:
    """A digest of all but the page: a token is good for the question it was made for."""
    question = group_service_pb2.ListGroupsRequest(
        states=request.states, types=request.types, group_id_prefix=request.group_id_prefix
    )
    encoded = question.SerializeToString(deterministic=True)
    return hashlib.sha256(encoded).digest()[:_QUESTION_DIGEST_BYTES]


def _page_token(
    request: group_service_pb2.ListGroupsRequest, last_partition: int, last_group_id: bytes
) -> str:
    partition = last_partition.to_bytes(_PARTITION_BYTES, "big")
    return base64.urlsafe_b64encode(_question_digest(request) + partition + last_group_id).decode()


def _read_page_token(
    request: group_service_pb2.ListGroupsRequest, partitions: int
) -> tuple[int, bytes | None]:
    """The last group of the page before: its log partition and id. (0, None): the first page."""
    if not request.page_token:
        return 0, None
    try:
        token = base64.b64decode(request.page_token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidPageToken("page_token", _NOT_OURS) from error
    digest, position = token[:_QUESTION_DIGEST_BYTES], token[_QUESTION_DIGEST_BYTES:]
    if digest != _question_digest(request):
        raise InvalidPageToken("page_token", "made for a request with other fields")
    partition = int.from_bytes(position[:_PARTITION_BYTES], "big")
    if len(position) < _PARTITION_BYTES or partition >= partitions:
        raise InvalidPageToken("page_token", _NOT_OURS)
    return partition, position[_PARTITION_BYTES:]


def _listing(listing: GroupListing) -> group_service_pb2.GroupListing:
    message = group_service_pb2.GroupListing(
        group_id=listing.group_id.decode(),
        type=int(listing.type),  # type: ignore[arg-type]
        state=int(listing.state),  # type: ignore[arg-type]
        protocol_type=listing.protocol_type,
    )
    set_retention(message, listing.settings)
    return message


def _group(group: Group, runtime: Runtime) -> group_service_pb2.Group:
    message = group_service_pb2.Group(
        group_id=group.group_id.decode(),
        type=int(group.type),  # type: ignore[arg-type]
        state=int(group.state),  # type: ignore[arg-type]
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        generation=group.generation,
        leader_id=group.leader_id,
        log_partition=runtime.partition_of(group.group_id),
        offset_count=group.offset_count,
        members=[
            group_service_pb2.GroupMember(
                member_id=member.member_id,
                instance_id=member.instance_id or "",
                client_id=member.client_id,
                client_host=member.client_host,
                topics=member.topics,
                assignment=[
                    types_pb2.TopicPartition(topic=topic, partition=partition)
                    for topic, partition in member.assignment
                ],
            )
            for member in group.members
        ],
    )
    set_time(message.state_time, group.state_timestamp_ms)
    set_retention(message, group.settings)
    if group.lease is not None:
        message.lease.CopyFrom(lease_message(group.lease.lease, group.lease.expire_ms))
    return message
