"""offsetd_clients.consumer_protocol, against the bytes of Kafka's own classes."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_clients import JoinedGroup, JoinedMember, Membership, TopicPartition
from offsetd_clients.assignors import Subscription
from offsetd_clients.consumer_protocol import (
    MalformedProtocol,
    assignments_by,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.1.1-consumer-protocol.tsv"
LINES = [
    line.split("\t")
    for line in GOLDEN.read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
VERSION_WRITTEN = 3

partitions = st.builds(TopicPartition, st.text(max_size=9), st.integers(0, 2**31 - 1))
subscriptions = st.builds(
    Subscription,
    topics=st.lists(st.text(max_size=9), unique=True).map(sorted),
    owned=st.lists(partitions, unique=True).map(sorted),
    generation_id=st.integers(-1, 2**31 - 1),
)


def golden(kind: str) -> list[tuple[int, bytes, Any]]:
    return [
        (int(version), bytes.fromhex(encoded), json.loads(what))
        for line_kind, version, encoded, what in LINES
        if line_kind == kind
    ]


def pairs(listed: list[list[Any]]) -> list[TopicPartition]:
    return [TopicPartition(*each) for each in listed]


@pytest.mark.parametrize(("version", "encoded", "what"), golden("subscription"))
def test_subscriptions_are_kafkas(version: int, encoded: bytes, what: dict[str, Any]) -> None:
    owned = pairs(what.get("owned", []))
    read = decode_subscription(encoded, "instance-1")
    assert sorted(read.topics) == sorted(what["topics"])
    assert sorted(read.owned) == (sorted(owned) if version >= 1 else [])
    assert read.generation_id == (what.get("generation_id", -1) if version >= 2 else -1)
    assert read.instance_id == "instance-1"
    if version == VERSION_WRITTEN and "user_data" not in what:
        subscription = Subscription(
            topics=what["topics"], owned=owned, generation_id=what.get("generation_id", -1)
        )
        assert encode_subscription(subscription) == encoded


@pytest.mark.parametrize(("version", "encoded", "what"), golden("assignment"))
def test_assignments_are_kafkas(version: int, encoded: bytes, what: list[list[Any]]) -> None:
    assert decode_assignment(encoded) == pairs(what)
    if version == VERSION_WRITTEN:
        assert encode_assignment(pairs(what)) == encoded


@given(subscriptions)
def test_a_subscription_comes_back(subscription: Subscription) -> None:
    assert decode_subscription(encode_subscription(subscription)) == subscription


@given(st.lists(partitions, unique=True))
def test_an_assignment_comes_back_sorted(assigned: list[TopicPartition]) -> None:
    assert decode_assignment(encode_assignment(assigned)) == sorted(assigned)


def test_a_member_that_the_leader_left_out_reads_nothing() -> None:
    assert decode_assignment(b"") == []


def test_what_newer_versions_add_is_passed_over() -> None:
    subscription = Subscription(topics=["t"], generation_id=4)
    newer = b"\0\x09" + encode_subscription(subscription)[2:] + b"more"
    assert decode_subscription(newer).generation_id == 4
    assert decode_assignment(b"\0\x09" + encode_assignment([])[2:] + b"more") == []


@given(st.binary(max_size=40))
def test_other_bytes_raise_nothing_else(encoded: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        with suppress(MalformedProtocol):
            decode(encoded)


@pytest.mark.parametrize(
    ("encoded", "problem"),
    [
        ("00", "bytes are missing"),
        ("ffff 00000000", "no version -1"),
        ("0000 7fffffff", "no list of 2147483647"),
        ("0000 ffffffff", "no list of -1"),
        ("0000 00000001 0005 74", "5 bytes are missing"),
        ("0000 00000001 ffff", "-1 bytes are missing"),
        ("0000 00000001 0001 ff", "no UTF-8"),
    ],
)
def test_malformed_bytes_raise_and_say_where(encoded: str, problem: str) -> None:
    for decode in (decode_subscription, decode_assignment):
        with pytest.raises(MalformedProtocol, match=problem):
            decode(bytes.fromhex(encoded))


def joined(*members: JoinedMember, leader_id: str = "m-1", **more: Any) -> JoinedGroup:
    fields: dict[str, Any] = {
        "membership": Membership(group_id="g", member_id="m-1", generation_id=1),
        "protocol_type": "consumer",
        "protocol": "range",
        "skip_assignment": False,
    }
    return JoinedGroup(leader_id=leader_id, members=members, **fields | more)


def member(member_id: str, *topics: str, instance_id: str | None = None) -> JoinedMember:
    metadata = encode_subscription(Subscription(topics=topics))
    return JoinedMember(member_id=member_id, instance_id=instance_id, metadata=metadata)


def test_the_leader_assigns_by_the_groups_assignor() -> None:
    group = joined(member("m-1", "a", "b"), member("m-2", "a"), member("m-3"))
    made = assignments_by(group, {"a": 3, "b": 1})
    assert {member_id: decode_assignment(each) for member_id, each in made.items()} == {
        "m-1": pairs([["a", 0], ["a", 1], ["b", 0]]),
        "m-2": pairs([["a", 2]]),
        "m-3": [],
    }
    # A static member keeps its place, whatever its id.
    group = joined(member("m-1", "a"), member("m-2", "a", instance_id="first"))
    made = assignments_by(group, {"a": 1})
    assert decode_assignment(made["m-2"]) == pairs([["a", 0]])


def test_who_does_not_assign_syncs_with_nothing() -> None:
    assert assignments_by(joined(leader_id="m-2"), {"a": 3}) == {}
    assert assignments_by(joined(member("m-1", "a"), skip_assignment=True), {"a": 3}) == {}


def test_a_protocol_that_is_not_an_assignor_is_an_error() -> None:
    with pytest.raises(KeyError, match="mine"):
        assignments_by(joined(member("m-1", "a"), protocol="mine"), {"a": 3})
