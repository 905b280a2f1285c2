"""Fetches read by the kernel against protobuf and the validation, which have the last word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from damaged_messages import damaged
from hypothesis import example, given
from hypothesis import strategies as st
from offsetd.v1 import offset_service_pb2, types_pb2
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.fetch_parser import FetchParser, checked_selections
from offsetd_coordinator.wire.group_selections import GROUPS_MAX, PARTITIONS_MAX, SelectionReader

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from offsetd_coordinator.wire.group_selections import GroupSelection

pytestmark = pytest.mark.kernel

FetchOffsetsRequest = offset_service_pb2.FetchOffsetsRequest
TopicPartition = types_pb2.TopicPartition

Comparable = list[tuple[bytes, bool, list[tuple[bytes, int]] | None]]


def comparable(selections: list[GroupSelection]) -> Comparable:
    """What is asked for, wherever its names lie."""
    return [(each.group_id, each.require_stable, named(each)) for each in selections]


def named(selection: GroupSelection) -> list[tuple[bytes, int]] | None:
    names = selection.names.tobytes()
    start = selection.group_start
    assert names[start : start + len(selection.group_id)] == selection.group_id
    if selection.partitions is None:
        return None
    rows = selection.partitions.tolist()
    return [(names[start : start + size], partition) for start, size, partition in rows]


class OneTurn(Turns):
    """Everything in one turn, so that no event loop is needed."""

    async def spend(self, items: int) -> None:
        pass


def by_kernel(message: bytes) -> Comparable | None:
    selections = SelectionReader().read(message)
    return None if selections is None else comparable(selections)


def by_protobuf(message: bytes) -> Comparable | None:
    """The same as the slow road has it; None if that refuses."""
    try:
        request = validation.parse(FetchOffsetsRequest, message)
        return comparable(ended(checked_selections(request, OneTurn())))
    except CoordinatorError:
        return None


def ended(coroutine: Coroutine[Any, Any, list[GroupSelection]]) -> list[GroupSelection]:
    """What a coroutine returns that waits for nothing but its turn."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as end:
            selections: list[GroupSelection] = end.value
            return selections


def assert_no_contradiction(message: bytes) -> None:
    """What the kernel reads, protobuf reads the same; what protobuf refuses, it does not read."""
    read = by_kernel(message)
    if read is not None:
        assert read == by_protobuf(message)


def group(group_id: str = "g", *partitions: tuple[str, int]) -> offset_service_pb2.GroupSelection:
    return offset_service_pb2.GroupSelection(
        group_id=group_id,
        partitions=[TopicPartition(topic=topic, partition=number) for topic, number in partitions],
    )


def request(*groups: offset_service_pb2.GroupSelection, require_stable: bool = False) -> bytes:
    return FetchOffsetsRequest(groups=groups, require_stable=require_stable).SerializeToString()


PLAIN = {
    "nothing": b"",
    "one group": request(group()),
    "stable offsets": request(group(), require_stable=True),
    "a group without a name": request(group("")),
    "many groups": request(*(group(f"g{number}") for number in range(GROUPS_MAX))),
    "some partitions": request(group("g", ("orders", 3), ("größe 🚀", 2**31 - 1), ("orders", 0))),
    "the same partition of two groups": request(group("g", ("t", 0)), group("h", ("t", 0))),
    "many partitions": request(group("g", *(("t", each) for each in range(PARTITIONS_MAX)))),
    "the longest names": request(group("g" * 32_767, ("🚀" * 124 + "é", 0))),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_clients_send_is_plain_and_read_as_protobuf_reads_it(name: str) -> None:
    read = by_kernel(PLAIN[name])
    assert read is not None
    assert read == by_protobuf(PLAIN[name])


INVALID = {
    "a group twice": request(group("g"), group("h"), group("g")),
    "a group too long": request(group("g" * 32_768)),
    "a group that is not UTF-8": request(group("g")).replace(b"\x01g", b"\x01\xff"),
    "no topic": request(group("g", ("", 0))),
    "a topic too long": request(group("g", ("t" * 250, 0))),
    "a topic too long in UTF-16": request(group("g", ("🚀" * 125, 0))),
    "a topic that is not UTF-8": request(group("g", ("orders", 0))).replace(
        b"orders", b"order\xff"
    ),
    "a negative partition": request(group("g", ("t", -1))),
    "a partition twice": request(group("g", ("t", 0), ("u", 0), ("t", 0))),
    "a partition twice among many": request(
        group("g", *(("t", each) for each in range(300)), ("t", 17))
    ),
    "cut short": request(group("g", ("t", 300)))[:-1],
}


@pytest.mark.parametrize("name", INVALID)
def test_kernel_leaves_invalid_fetches_to_protobuf(name: str) -> None:
    assert by_protobuf(INVALID[name]) is None
    assert by_kernel(INVALID[name]) is None


ODD = {
    "an unknown field": request(group()) + b"\x18\x01",
    "an unknown field of a group": b"\x0a\x05\x0a\x01g\x18\x01",
    "a group id twice": b"\x0a\x06\x0a\x01g\x0a\x01h",
    "a bool that is 2": request(group()) + b"\x10\x02",
    "a partition beyond int32": b"\x0a\x0e\x0a\x01g\x12\x09\x0a\x01t\x10\x85\x80\x80\x80\x10",
    "too many groups": request(*(group(f"g{number}") for number in range(GROUPS_MAX + 1))),
    "too many partitions": request(
        group("g", *(("t", each) for each in range(PARTITIONS_MAX))), group("h", ("t", 0))
    ),
}


@pytest.mark.parametrize("name", ODD)
async def test_what_is_odd_or_large_but_valid_is_left_to_protobuf(name: str) -> None:
    slow = by_protobuf(ODD[name])
    assert slow is not None
    assert by_kernel(ODD[name]) is None
    assert comparable(await FetchParser().parse(ODD[name], Turns())) == slow


texts = st.text(max_size=4) | st.sampled_from(["orders", "t" * 249, "t" * 250, "🚀" * 125])
partitions = st.builds(
    TopicPartition, topic=texts, partition=st.sampled_from([-(2**31), -1, 0, 1, 300, 2**31 - 1])
)
selections = st.builds(
    offset_service_pb2.GroupSelection,
    group_id=st.text(max_size=2),
    partitions=st.lists(partitions, max_size=4),
)
requests = st.builds(
    FetchOffsetsRequest, groups=st.lists(selections, max_size=4), require_stable=st.booleans()
)


@given(requests)
def test_the_kernel_reads_a_message_exactly_if_the_validation_takes_it(
    message: offset_service_pb2.FetchOffsetsRequest,
) -> None:
    encoded = message.SerializeToString()
    assert by_kernel(encoded) == by_protobuf(encoded)


@given(damaged(requests))
def test_the_kernel_never_contradicts_protobuf_on_damaged_messages(encoded: bytes) -> None:
    assert_no_contradiction(encoded)


@given(st.binary(max_size=60))
@example(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
@example(b"\x0a\x00")
@example(b"\x0a")
def test_the_kernel_never_contradicts_protobuf_on_any_bytes(message: bytes) -> None:
    assert_no_contradiction(message)


def test_what_was_read_stays_as_it_is_when_the_next_request_is_read() -> None:
    reader = SelectionReader()
    first = reader.read(PLAIN["some partitions"])
    assert first is not None
    before = comparable(first)
    reader.read(PLAIN["many partitions"])
    assert comparable(first) == before
