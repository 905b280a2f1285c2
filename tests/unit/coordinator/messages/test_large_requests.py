"""No request holds up the others, however often its fields repeat: each that fits a message."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from listening_servers import listening
from offsetd.v1 import (
    acl_service_pb2,
    admin_service_pb2,
    backup_service_pb2,
    group_service_pb2,
    history_pb2,
    offset_service_pb2,
)
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import InvalidRequest
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.field_counts import COUNTS_MAX, NAMES_MAX
from offsetd_coordinator.services.membership_calls import MembershipService
from patience import PATIENCE_SECONDS as WAIT_SECONDS
from serving_nodes import serving_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor import Descriptor, MethodDescriptor
    from google.protobuf.message import Message
    from offsetd_coordinator.membership.member_requests import LeaveGroup, Left

FILES: Final = (
    acl_service_pb2,
    admin_service_pb2,
    backup_service_pb2,
    group_service_pb2,
    offset_service_pb2,
)
MESSAGE_BYTES: Final = 4_000_000
# A turn takes 20 ms at most; the time is that of the thread, and the machine may be busy.
TURN_SECONDS_MAX: Final = 0.3

IN_TURNS: Final = {
    "CommitOffsetsRequest.offsets",
    "DeleteOffsetsRequest.partitions",
    "ExplicitOffsets.offsets",
    "FetchBoundsRequest.partitions",
    "FetchOffsetsRequest.groups",
    "GroupOffsets.offsets",
    "GroupSelection.partitions",
    "ResetOffsetsRequest.bounds",
    "ResetOffsetsRequest.partitions",
    "StreamCommitsRequest.commits",
}
"""What is not counted, but dealt with in turns, or refused at once for what a batch can hold."""

DEFECTS: Final = (
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)
# What a request needs beside the field, so that all of it is looked at.
ALSO: Final[dict[str, dict[str, Any]]] = {
    "CloneGroupRequest": {"source_group_id": "kept", "target_group_id": "copy"},
    "ExportOffsetsRequest": {"format": admin_service_pb2.OFFSET_FORMAT_JSONL},
    "JoinGroupRequest": {"session_timeout": {"seconds": 10}, "protocol_type": "x"},
    "ResetOffsetsRequest": {"offset": 1},
    "SyncGroupRequest": {"member_id": "nobody", "generation_id": 1},
}


def methods() -> Iterator[MethodDescriptor]:
    for file in FILES:
        for service in file.DESCRIPTOR.services_by_name.values():
            yield from service.methods


def repeated(descriptor: Descriptor) -> Iterator[tuple[FieldDescriptor, ...]]:
    """The ways to all fields of a message, and of what is in it, that repeat."""
    for field in descriptor.fields:
        if field.is_repeated:
            yield (field,)
        inner = field.message_type
        if inner is not None and inner.file.package == "offsetd.v1":
            yield from ((field, *more) for more in repeated(inner))


CASES: Final = [(method, way) for method in methods() for way in repeated(method.input_type)]


def test_each_field_that_repeats_is_counted_or_dealt_with_in_turns() -> None:
    found = {
        f"{way[-1].containing_type.name}.{way[-1].name}"
        for method in methods()
        for way in repeated(method.input_type)
    }
    counted = {f"{name}.{field}" for name, fields in COUNTS_MAX.items() for field in fields}
    assert counted | IN_TURNS == found
    assert not counted & IN_TURNS


def filled(descriptor: Descriptor, number: int) -> Message:
    """A small message that differs from those with other numbers."""
    message = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if field.is_repeated or field.containing_oneof is not None:
            continue
        if field.type == FieldDescriptor.TYPE_STRING and field.name != "reason":
            setattr(message, field.name, f"{number:x}")
        elif field.name in ("partition", "sequence"):
            setattr(message, field.name, number)
        elif field.message_type is not None and field.message_type.file.package == "offsetd.v1":
            getattr(message, field.name).CopyFrom(filled(field.message_type, number))
    return message


def encoded(
    method: MethodDescriptor, way: tuple[FieldDescriptor, ...], *, is_allowed: bool
) -> bytes:
    """A request in which the last field repeats as often as a message has room for, or as it may
    if it `is_allowed`.
    """
    counts_max = COUNTS_MAX.get(method.input_type.name, {}) if is_allowed else {}
    count_max = counts_max.get(way[-1].name, MESSAGE_BYTES)
    also = ALSO.get(method.input_type.name, {})
    request = GetMessageClass(method.input_type)(**also)
    if "group_id" in method.input_type.fields_by_name:
        request.group_id = "kept"
    message: Any = request
    for field in way[:-1]:
        message = getattr(message, field.name)
        message = message.add() if field.is_repeated else message
        message.SetInParent()
        if "group_id" in message.DESCRIPTOR.fields_by_name:
            message.group_id = "kept"
    field, items = way[-1], getattr(message, way[-1].name)
    size = number = 0
    while size < MESSAGE_BYTES and number < count_max:
        number += 1
        if field.message_type is None:
            is_text = field.type == FieldDescriptor.TYPE_STRING
            items.append(f"{number:x}" if is_text else 1)
            size += 8 if is_text else 1
        elif field.message_type.GetOptions().map_entry:
            items[f"{number:x}"] = ""
            size += 12
        else:
            items.add().CopyFrom(filled(field.message_type, number))
            size += items[-1].ByteSize() + 2
    return request.SerializeToString()


class LongestTurn:
    """Of an event loop: how long its thread was busy between two looks of others."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def watch(self) -> None:
        while True:
            begun_seconds = time.thread_time()
            await asyncio.sleep(0)
            self.seconds = max(self.seconds, time.thread_time() - begun_seconds)


@pytest.mark.slow
@pytest.mark.parametrize("is_allowed", [False, True], ids=["as a message has room", "as allowed"])
async def test_the_largest_requests_leave_the_others_their_turns(*, is_allowed: bool) -> None:
    longest_seconds = {}
    async with listening() as each:
        await each.server.node.load_ended(None)
        for method, way in CASES:
            message = encoded(method, way, is_allowed=is_allowed)
            longest = LongestTurn()
            watching = asyncio.create_task(longest.watch())
            await ended(each.channel, method, message)
            watching.cancel()
            longest_seconds[f"{method.name}.{way[-1].name}"] = longest.seconds
    too_long = {name: each for name, each in longest_seconds.items() if each > TURN_SECONDS_MAX}
    assert not too_long


async def ended(channel: grpc.aio.Channel, method: MethodDescriptor, message: bytes) -> None:
    """Returns once a call has its first answer, or a refusal that tells of no defect."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    try:
        if method.client_streaming:
            call = channel.stream_stream(path)(iter([message]), timeout=WAIT_SECONDS)
            await call.read()
            call.cancel()
        elif method.server_streaming:
            streaming = channel.unary_stream(path)(message, timeout=WAIT_SECONDS)
            await streaming.read()
            streaming.cancel()
        else:
            await channel.unary_unary(path)(message, timeout=WAIT_SECONDS)
    except grpc.aio.AioRpcError as error:
        if error.code() in DEFECTS:
            raise


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS_MAX)
def test_what_repeats_too_often_is_told_with_the_bound(name: str) -> None:
    message_class = next(
        GetMessageClass(method.input_type) for method in methods() if method.input_type.name == name
    )
    for field, count_max in COUNTS_MAX[name].items():
        way = (message_class.DESCRIPTOR.fields_by_name[field],)
        method = next(method for method in methods() if method.input_type.name == name)
        for message in (
            encoded(method, way, is_allowed=False),  # Counted before it is parsed.
            small(message_class, field, count_max + 1),  # Or behind that.
        ):
            with pytest.raises(InvalidRequest, match=f"{field}: more than {count_max} entries"):
                validation.parse(message_class, message)
        validation.parse(message_class, small(message_class, field, count_max))


def small(message_class: type[Message], field: str, count: int) -> bytes:
    """As few bytes as a field can repeat in."""
    request = message_class()
    items = getattr(request, field)
    descriptor = message_class.DESCRIPTOR.fields_by_name[field]
    if descriptor.message_type is None:
        is_text = descriptor.type == FieldDescriptor.TYPE_STRING
        items.extend(["" if is_text else 1] * count)
    elif descriptor.message_type.GetOptions().map_entry:
        items.update({f"{number:x}": "" for number in range(count)})
    else:
        items.extend([GetMessageClass(descriptor.message_type)()] * count)
    return request.SerializeToString()


async def test_a_message_that_is_parsed_in_turns_is_what_protobuf_makes_of_it() -> None:
    request = offset_service_pb2.ResetOffsetsRequest(group_id="g", reason="why", shift_by=3)
    for number in range(40_000):
        request.partitions.add(topic=f"t{number % 7}", partition=number)
    message = request.SerializeToString()
    kind = offset_service_pb2.ResetOffsetsRequest
    assert await validation.parse_in_turns(kind, message, Turns()) == request
    for end in (b"\x0b", b"\xff" * 11, b"\x0a\x01\xff", b"\x0a\x05a"):
        with pytest.raises(InvalidRequest, match="request: not a valid ResetOffsetsRequest"):
            await validation.parse_in_turns(kind, message + end, Turns())


def test_thousands_of_unknown_fields_are_refused_without_being_read() -> None:
    message = b"\xf8\x07\x00" * 100_000
    with pytest.raises(InvalidRequest, match="request: not a valid WatchOffsetsRequest"):
        validation.parse(history_pb2.WatchOffsetsRequest, message)


async def test_members_leave_in_turns_and_each_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_node() as serving:
        service, calls = MembershipService(serving.node), serving.node.members
        members = [
            group_service_pb2.LeavingMember(member_id=f"m{number}") for number in range(NAMES_MAX)
        ]
        request = group_service_pb2.LeaveGroupRequest(group_id="g", members=members)
        leave = calls.leave
        left_count = largest_count = 0

        async def counted(request: LeaveGroup) -> Left:
            nonlocal left_count
            left_count += len(request.members)
            return await leave(request)

        async def watch() -> None:
            nonlocal largest_count
            seen_count = 0
            while True:
                largest_count = max(largest_count, left_count - seen_count)
                seen_count = left_count
                await asyncio.sleep(0)

        monkeypatch.setattr(calls, "leave", counted)
        watching = asyncio.create_task(watch())
        answer = await service.leave_group(request.SerializeToString())
        watching.cancel()
    left = group_service_pb2.LeaveGroupResponse.FromString(answer).members
    assert [member.member_id for member in left] == [member.member_id for member in members]
    assert (left_count, largest_count) == (NAMES_MAX, 100)
