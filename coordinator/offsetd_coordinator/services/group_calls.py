"""GroupService's methods that list, describe and delete groups."""

from __future__ import annotations

import contextlib
import heapq
from typing import TYPE_CHECKING, Final

from offsetd.v1 import group_service_pb2, types_pb2

from offsetd_coordinator.calls import answer_reservations, current_call
from offsetd_coordinator.cooperative_scheduling import Turns, first_turn
from offsetd_coordinator.errors import (
    CoordinatorError,
    InvalidRequest,
    LogPartitionQuarantined,
    PolicyViolation,
)
from offsetd_coordinator.large_groups.group_details import details_of
from offsetd_coordinator.large_groups.group_reading import read_page
from offsetd_coordinator.large_groups.lag_reading import lag_of, lags_of
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.list_encoding import encoded_with
from offsetd_coordinator.messages.page_tokens import (
    not_ours,
    page_token,
    read_page_size,
    read_page_token,
)
from offsetd_coordinator.messages.revisions import set_revision
from offsetd_coordinator.messages.timestamps import set_time
from offsetd_coordinator.requests import DeleteGroupReply
from offsetd_coordinator.runtime.commit_log import PartitionState, until_all_durable
from offsetd_coordinator.security.acl import Operation, ResourceType
from offsetd_coordinator.services.cluster_calls import node_share
from offsetd_coordinator.services.durable_answers import (
    changed_group,
    once_durable,
)
from offsetd_coordinator.services.group_settings_calls import lease_message, set_retention
from offsetd_coordinator.state.group_search import ITEMS_PER_PART, GroupSearch
from offsetd_coordinator.state.lag_judge import JudgedLag, LagVerdict
from offsetd_coordinator.wire.fetch_encoder import RowsEncoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from offsetd_storage.offsets_topic.group_listing import Group, GroupListing

    from offsetd_coordinator.calls.access_control import Access
    from offsetd_coordinator.large_groups.group_details import GroupDetails
    from offsetd_coordinator.large_groups.group_reading import GroupPage
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.offset_changes import Partition
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.state.lag_judge import PartitionLag

PAGE_SIZE_DEFAULT: Final = 1000
PAGE_SIZE_MAX: Final = 10_000
_PARTITION_BYTES: Final = 4


class GroupService:
    """The methods: each takes a request's bytes and returns the answer's bytes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def list_groups(self, message: bytes) -> bytes:
        """One page of groups, by log partition and id."""
        runtime = self._node.serving()
        request = validation.parse(group_service_pb2.ListGroupsRequest, message)
        _check_verdicts(request, runtime)
        page_size = _page_size(request)
        search = await _search(request)
        first_partition, after = _last_of_page_before(request, runtime.partitions)
        share = node_share(
            runtime,
            range(runtime.partitions),
            named=request.log_partitions,
            this_node_only=request.this_node_only,
        )
        await first_turn()
        found: list[tuple[int, GroupListing]] = []
        tickets, turns, lags = set[int](), Turns(), _Lags(runtime, request)
        for partition in share.partitions:
            if partition < first_partition:
                continue
            with contextlib.suppress(LogPartitionQuarantined):
                search.after = after if partition == first_partition else None
                search.below = None
                # It reads one group more than the page holds. If there is one, a page follows.
                count = page_size + 1 - len(found)
                least = await _least(
                    runtime.list_groups(partition, search), search, request, count, turns, lags
                )
                tickets.add(runtime.ticket_in(partition))
                found += [(partition, listing) for listing in least]
            if len(found) > page_size:
                break
        shown = found[:page_size]
        if request.include_lag_verdicts:
            await lags.note(listing for _, listing in shown)
        detailed = []
        if request.include_details:
            detailed = [
                (each, await details_of(runtime, each[1].group_id, turns)) for each in shown
            ]
        # What was read in later turns may rest on later appends.
        tickets.update(runtime.ticket_in(partition) for partition, _ in shown)
        await until_all_durable(runtime.log, tickets)
        response = group_service_pb2.ListGroupsResponse(
            unreachable_log_partitions=[
                partition
                for partition in range(runtime.partitions)
                if runtime.log.state(partition) is PartitionState.FAILED
            ],
            cluster=share.message,
        )
        if len(found) > page_size:
            last_partition, last = found[page_size - 1]
            position = last_partition.to_bytes(_PARTITION_BYTES) + last.group_id
            response.next_page_token = page_token(_question(request), position)
            if share.message is not None:
                response.next_log_partition = last_partition
        if request.include_details:
            return await encoded_with(response, detailed, lags.add_detailed)
        return await encoded_with(response, shown, lags.add_listing)

    async def get_group(self, message: bytes) -> bytes:
        """Describes one group; with `include_offsets`, adds a page of its offsets."""
        runtime = self._node.serving()
        request = validation.parse(group_service_pb2.GetGroupRequest, message)
        page_size = _page_size(request)
        question = group_service_pb2.GetGroupRequest(group_id=request.group_id)
        after = read_page_token(question, request.page_token)
        group_id = validation.read_group_id(request.group_id, "group_id")
        last = None if after is None else _position(after)
        ticket, outcome = runtime.get_group(group_id)
        page, pieces, lags = None, [], []
        verdict = LagVerdict.UNKNOWN
        if not isinstance(outcome, CoordinatorError):
            verdict = (await lag_of(runtime, group_id)).verdict
            if _wants_page(request):
                _, shard = runtime.shard_of(group_id)
                offsets = min(page_size, shard.offsets.count(group_id))
                await answer_reservations.reserve(answer_reservations.BYTES_PER_OFFSET * offsets)
                page = await _read_visible_page(runtime, group_id, last, page_size)
                if request.include_lags:
                    lags = [_lag(each) async for each in lags_of(runtime, group_id, page.rows)]
                if request.include_offsets:
                    encoder = RowsEncoder(group_id, page.rows, runtime.expiry_rule(group_id))
                    encoder.size()  # Raises RecordUndecodable if an offset cannot be read.
                    pieces = encoder.pieces()
            # What was read in later turns may rest on later appends.
            ticket = runtime.ticket_in(runtime.partition_of(group_id))
        group = await once_durable(runtime, ticket, outcome)
        response = group_service_pb2.GetGroupResponse(
            group=_group(group, runtime, verdict), lags=lags
        )
        if page is not None and page.last is not None:
            topic, partition = page.last
            position = partition.to_bytes(_PARTITION_BYTES) + topic
            response.next_page_token = page_token(question, position)
        # Protobuf allows the fields of a message in any order.
        return b"".join((response.SerializeToString(), *pieces))

    async def delete_group(self, message: bytes) -> bytes:
        """Deletes a group; answers once the change is durable."""
        runtime = self._node.serving()
        received = validation.parse(group_service_pb2.DeleteGroupRequest, message)
        request = validation.delete_group(received)
        reply = await changed_group(
            self._node,
            received,
            request,
            DeleteGroupReply,
            lambda reply: {"offset_count": reply.offset_count},
        )
        response = group_service_pb2.DeleteGroupResponse(offset_count=reply.offset_count)
        set_revision(response.revision, runtime.partition_of(request.group_id), reply.last_offset)
        return response.SerializeToString()


async def _search(request: group_service_pb2.ListGroupsRequest) -> GroupSearch:
    return GroupSearch(
        prefix=validation.read_group_id(request.group_id_prefix, "group_id_prefix"),
        topics=await validation.read_topics(request.topics, Turns()),
        lease_holder=request.lease_holder,
    )


class _Lags:
    """The lags of the groups of one list: each is found once, for the filter or the answer."""

    def __init__(self, runtime: Runtime, request: group_service_pb2.ListGroupsRequest) -> None:
        self._runtime = runtime
        self._wanted = set[int](request.lag_verdicts)
        self._found: dict[bytes, JudgedLag] = {}
        self._turns = Turns()

    async def wanted(self, listings: list[GroupListing]) -> list[GroupListing]:
        """Those with a verdict that the request asks for; all if it asks for none."""
        if not self._wanted:
            return listings
        wanted = []
        for each in listings:
            lag = await lag_of(self._runtime, each.group_id)
            if lag.verdict in self._wanted:
                self._found[each.group_id] = lag
                wanted.append(each)
        return wanted

    async def note(self, listings: Iterable[GroupListing]) -> None:
        """Finds the lags that the filter has not found."""
        async for each in self._turns.each(listings):
            if each.group_id not in self._found:
                self._found[each.group_id] = await lag_of(self._runtime, each.group_id)

    def add_listing(
        self, response: group_service_pb2.ListGroupsResponse, found: tuple[int, GroupListing]
    ) -> None:
        """Adds a group to an answer."""
        self._add(response, found[1])

    def add_detailed(
        self,
        response: group_service_pb2.ListGroupsResponse,
        found: tuple[tuple[int, GroupListing], GroupDetails],
    ) -> None:
        """Adds a group with its details to an answer."""
        (_, listing), details = found
        self._add(response, listing).details.CopyFrom(
            group_service_pb2.ListedDetails(
                offset_count=details.offset_count,
                member_count=details.member_count,
                lease_holder=details.lease_holder,
            )
        )

    def _add(
        self, response: group_service_pb2.ListGroupsResponse, listing: GroupListing
    ) -> group_service_pb2.GroupListing:
        found = self._found.get(listing.group_id, JudgedLag())
        message = response.groups.add(
            group_id=listing.group_id.decode(),
            type=int(listing.type),
            state=int(listing.state),
            protocol_type=listing.protocol_type,
            lag_verdict=int(found.verdict),
            lag=found.lag,
        )
        set_retention(message, listing.settings)
        return message


async def _least(
    found: Iterator[list[GroupListing]],
    search: GroupSearch,
    request: group_service_pb2.ListGroupsRequest,
    count: int,
    turns: Turns,
    lags: _Lags,
) -> list[GroupListing]:
    """The first `count` groups that match the request, by id. It filters them in turns."""
    least: list[GroupListing] = []
    for part in found:
        least += await lags.wanted(list(_matching(iter(part), request)))
        if len(least) >= 2 * count:
            least = _first(least, count)
            search.below = least[-1].group_id
        await turns.spend(len(part) + ITEMS_PER_PART)
    return _first(least, count)


def _first(listings: list[GroupListing], count: int) -> list[GroupListing]:
    return heapq.nsmallest(count, listings, key=lambda listing: listing.group_id)


def _matching(
    listings: Iterator[GroupListing], request: group_service_pb2.ListGroupsRequest
) -> Iterator[GroupListing]:
    """Those in a wanted state and type, without what the caller may not see.

    What is hidden is left out here, because the token of a page names its last group.
    """
    states: set[int] = set(request.states)
    types: set[int] = set(request.types)
    access = _limited_access(ResourceType.GROUP)
    for listing in listings:
        is_wanted = (not states or listing.state in states) and (not types or listing.type in types)
        if is_wanted and (
            access is None
            or access.allows(Operation.DESCRIBE, ResourceType.GROUP, listing.group_id.decode())
        ):
            yield listing


def _limited_access(resource_type: ResourceType) -> Access | None:
    """The caller's rights; None if nothing of this type is hidden from them."""
    access = current_call.access()
    if access is None or access.allows_all(Operation.DESCRIBE, resource_type):
        return None
    return access


async def _read_visible_page(
    runtime: Runtime, group_id: bytes, after: Partition | None, size: int
) -> GroupPage:
    """As `read_page`. A page that others follow ends with an offset that the caller may see.

    So its token names no topic that is hidden from them.
    """
    access = _limited_access(ResourceType.TOPIC)
    while True:
        page = await read_page(runtime, group_id, after, size)
        if page.last is None or access is None:
            return page
        for place in reversed(range(len(page.rows))):
            topic, partition = page.rows.partition(place)
            if access.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.decode()):
                return page._replace(last=(topic, partition))
        after = page.last


def _check_verdicts(request: group_service_pb2.ListGroupsRequest, runtime: Runtime) -> None:
    for number in request.lag_verdicts:
        if not LagVerdict.UNKNOWN <= number <= LagVerdict.ERR:
            raise InvalidRequest("lag_verdicts", "a group is OK, WARN or ERR, or has no verdict")
    if request.lag_verdicts and not (runtime.lag_config.window_ms or 0 in request.lag_verdicts):
        raise PolicyViolation("no group has a verdict on its lag, by lag.window.ms=0")


def _page_size(
    request: group_service_pb2.ListGroupsRequest | group_service_pb2.GetGroupRequest,
) -> int:
    return read_page_size(request.page_size, default=PAGE_SIZE_DEFAULT, most=PAGE_SIZE_MAX)


def _question(
    request: group_service_pb2.ListGroupsRequest,
) -> group_service_pb2.ListGroupsRequest:
    return group_service_pb2.ListGroupsRequest(
        states=request.states,
        types=request.types,
        lag_verdicts=request.lag_verdicts,
        group_id_prefix=request.group_id_prefix,
        topics=request.topics,
        lease_holder=request.lease_holder,
    )


def _last_of_page_before(
    request: group_service_pb2.ListGroupsRequest, partitions: int
) -> tuple[int, bytes | None]:
    """The previous page's last group: its log partition and id; (0, None) for the first page."""
    position = read_page_token(_question(request), request.page_token)
    if position is None:
        return 0, None
    group_id, partition = _position(position)
    if partition >= partitions:
        raise not_ours()
    return partition, group_id


def _position(position: bytes) -> tuple[bytes, int]:
    """The name and the partition in a page token. Raises InvalidPageToken."""
    if len(position) < _PARTITION_BYTES:
        raise not_ours()
    return position[_PARTITION_BYTES:], int.from_bytes(position[:_PARTITION_BYTES])


def _wants_page(request: group_service_pb2.GetGroupRequest) -> bool:
    return request.include_offsets or request.include_lags


def _lag(lag: PartitionLag) -> group_service_pb2.PartitionLag:
    return group_service_pb2.PartitionLag(
        topic=lag.topic.decode(),
        partition=lag.partition,
        offset=lag.offset,
        end_offset=lag.end_offset,
        lag=lag.lag,
        verdict=int(lag.verdict),  # type: ignore[arg-type]
    )


def _group(group: Group, runtime: Runtime, verdict: LagVerdict) -> group_service_pb2.Group:
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
        lag_verdict=int(verdict),  # type: ignore[arg-type]
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
