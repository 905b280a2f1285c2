"""What the records of a group say, classic and KIP-848."""

from __future__ import annotations

import itertools
import uuid
from typing import TYPE_CHECKING

import pytest
from offsetd_storage.offsets_topic import group_records
from offsetd_storage.offsets_topic.group_listing import GroupState, GroupType
from offsetd_storage.offsets_topic.group_records import GroupRecords
from offsetd_storage.offsets_topic.schemas.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicIdPartitions,
    TopicMetadata,
)
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMember, GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.keys import ConsumerGroupKey, GroupKey
from offsetd_storage.offsets_topic.schemas.record_layouts import RecordType

if TYPE_CHECKING:
    from offsetd_storage.offsets_topic.group_records import GroupRecordKey, GroupRecordValue
    from offsetd_storage.offsets_topic.schemas.protocol_metadata import Subscription

Records = dict["GroupRecordKey", "GroupRecordValue | None"]

CLASSIC = GroupKey(group="g")
TOPIC_ID = uuid.UUID(int=1).bytes
SUBSCRIBED_TO_ORDERS = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")
ASSIGNED_ORDERS_1 = (
    bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("00000001 00000001 ffffffff")
)


def key(record_type: RecordType, **more: str) -> ConsumerGroupKey:
    return ConsumerGroupKey(record_type=record_type, group="g", **more)


EPOCH = key(RecordType.CONSUMER_GROUP_METADATA)
TARGET_EPOCH = key(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA)
PARTITIONS = key(RecordType.CONSUMER_GROUP_PARTITION_METADATA)
MEMBER = key(RecordType.CONSUMER_GROUP_MEMBER_METADATA, member_id="m")
TARGET = key(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, member_id="m")
CURRENT = key(RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, member_id="m")
REGEX = key(RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION, regular_expression="or.*")


def classic(
    *members: GroupMember, protocol_type: str = "consumer", generation: int = 3
) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol="range",
        leader="m",
        current_state_timestamp_ms=17,
        members=members,
    )


def classic_member(subscription: bytes = SUBSCRIBED_TO_ORDERS) -> GroupMember:
    return GroupMember(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        session_timeout_ms=1,
        subscription=subscription,
        assignment=ASSIGNED_ORDERS_1,
    )


def member(*topics: str, regex: str | None = None) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id="i",
        rack_id=None,
        client_id="c",
        client_host="/h",
        subscribed_topics=topics,
        subscribed_regex=regex,
        rebalance_timeout_ms=1,
        server_assignor=None,
        classic=None,
    )


def current(epoch: int, state: int = 0) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=epoch,
        state=state,
        assigned=(TopicIdPartitions(topic_id=TOPIC_ID, partitions=(2, 0)),),
        pending_revocation=(),
    )


def epoch(number: int) -> ConsumerGroupMetadataValue:
    return ConsumerGroupMetadataValue(epoch=number, metadata_hash=0)


def target_epoch(number: int) -> ConsumerGroupTargetAssignmentMetadataValue:
    return ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=number)


def resolved(*topics: str) -> ConsumerGroupRegularExpressionValue:
    return ConsumerGroupRegularExpressionValue(topics=topics, version=1, timestamp_ms=1)


def group(records: Records) -> GroupRecords:
    replayed = GroupRecords(b"g")
    for each, value in records.items():
        replayed.put(each, value)
    return replayed


STABLE = {EPOCH: epoch(4), TARGET_EPOCH: target_epoch(4), MEMBER: member(), CURRENT: current(4)}


@pytest.mark.parametrize(
    ("records", "group_type", "state"),
    [
        ({}, None, GroupState.EMPTY),
        ({CLASSIC: classic()}, GroupType.CLASSIC, GroupState.EMPTY),
        ({CLASSIC: classic(classic_member())}, GroupType.CLASSIC, GroupState.STABLE),
        ({CLASSIC: None}, GroupType.CLASSIC, GroupState.UNSPECIFIED),
        ({EPOCH: epoch(1)}, GroupType.CONSUMER, GroupState.EMPTY),
        ({EPOCH: epoch(1), CLASSIC: classic()}, GroupType.CONSUMER, GroupState.EMPTY),
        ({EPOCH: epoch(5), TARGET_EPOCH: target_epoch(5)}, GroupType.CONSUMER, GroupState.EMPTY),
        ({EPOCH: epoch(1), MEMBER: member()}, GroupType.CONSUMER, GroupState.ASSIGNING),
        (STABLE, GroupType.CONSUMER, GroupState.STABLE),
        (STABLE | {EPOCH: epoch(5)}, GroupType.CONSUMER, GroupState.ASSIGNING),
        (STABLE | {CURRENT: current(3)}, GroupType.CONSUMER, GroupState.RECONCILING),
        (STABLE | {CURRENT: current(4, 1)}, GroupType.CONSUMER, GroupState.RECONCILING),
        (STABLE | {CURRENT: None}, GroupType.CONSUMER, GroupState.UNSPECIFIED),
        ({MEMBER: None}, GroupType.CONSUMER, GroupState.UNSPECIFIED),
        ({TARGET_EPOCH: target_epoch(4), CURRENT: current(4)}, None, GroupState.EMPTY),
        ({REGEX: resolved("orders")}, None, GroupState.EMPTY),
    ],
)
def test_type_and_state_follow_from_the_records(
    records: Records, group_type: GroupType | None, state: GroupState
) -> None:
    assert group(records).group_type is group_type
    assert group(records).state is state


def test_a_group_is_the_same_in_whatever_order_its_records_come() -> None:
    records: Records = {**STABLE, CLASSIC: classic(), REGEX: resolved("orders")}
    described = {
        (group(dict(order)).listing(), group(dict(order)).describe(0))
        for order in itertools.permutations(records.items())
    }
    assert len(described) == 1


def test_a_record_replaces_the_one_before_and_a_tombstone_takes_it_away() -> None:
    replayed = group(STABLE)
    replayed.put(EPOCH, epoch(9))
    assert replayed.describe(0).generation == 9
    for each in (MEMBER, CURRENT, MEMBER):
        replayed.remove(each)
    assert replayed.state is GroupState.EMPTY
    replayed.remove(EPOCH)
    replayed.remove(TARGET_EPOCH)
    assert not replayed


def test_a_classic_group_is_described_with_what_its_members_say() -> None:
    described = group({CLASSIC: classic(classic_member())}).describe(6)
    assert (described.protocol_type, described.protocol, described.leader_id) == (
        "consumer",
        "range",
        "m",
    )
    assert (described.generation, described.offset_count) == (3, 6)
    assert described.state_timestamp_ms == 17
    [only] = described.members
    assert (only.member_id, only.instance_id, only.client_id, only.client_host) == (
        "m",
        "i",
        "c",
        "/h",
    )
    assert only.topics == ("orders",)
    assert only.assignment == (("orders", 1),)


def test_what_members_of_other_protocols_say_is_not_read() -> None:
    records: Records = {CLASSIC: classic(classic_member(), protocol_type="connect")}
    [only] = group(records).describe(0).members
    assert (only.topics, only.assignment) == ((), ())
    records = {CLASSIC: classic(classic_member(b"\0"))}
    assert group(records).describe(0).members[0].topics == ()


@pytest.mark.parametrize(
    ("names", "topic"),
    [
        ({}, "AAAAAAAAAAAAAAAAAAAAAQ"),
        (
            {
                PARTITIONS: ConsumerGroupPartitionMetadataValue(
                    topics=(
                        TopicMetadata(topic_id=TOPIC_ID, topic="orders", partitions=3, racks={}),
                    )
                )
            },
            "orders",
        ),
    ],
)
def test_a_kip_848_group_is_described_with_topic_names_where_the_log_has_them(
    names: Records, topic: str
) -> None:
    records: Records = {**STABLE, MEMBER: member("b", "a", regex="or.*"), REGEX: resolved("orders")}
    described = group({**records, **names}).describe(0)
    assert (described.protocol_type, described.generation) == ("consumer", 4)
    [only] = described.members
    assert only.topics == ("a", "b", "orders")
    assert only.assignment == ((topic, 2), (topic, 0))


@pytest.mark.parametrize(
    ("records", "subscribed"),
    [
        ({}, False),
        ({CLASSIC: classic()}, False),
        ({CLASSIC: classic(classic_member())}, True),
        ({CLASSIC: classic(classic_member(), protocol_type="connect")}, False),
        ({CLASSIC: classic(classic_member(b"\0"))}, True),
        ({EPOCH: epoch(1), MEMBER: member("orders")}, True),
        ({EPOCH: epoch(1), MEMBER: member("payments")}, False),
        ({EPOCH: epoch(1), MEMBER: member(regex="or.*")}, False),
        ({EPOCH: epoch(1), MEMBER: member(regex="or.*"), REGEX: resolved("orders")}, True),
        ({EPOCH: epoch(1), MEMBER: member(), REGEX: resolved("orders")}, False),
    ],
)
def test_a_group_is_subscribed_to_what_its_members_read(records: Records, subscribed: bool) -> None:
    assert group(records).is_subscribed("orders") is subscribed


def test_what_members_read_is_looked_at_once_for_all_topics_until_a_record_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decode = group_records.decode_subscription
    decoded: list[bytes] = []

    def counted(subscription: bytes) -> Subscription:
        decoded.append(subscription)
        return decode(subscription)

    monkeypatch.setattr(group_records, "decode_subscription", counted)
    records = group({CLASSIC: classic(classic_member(), classic_member())})
    assert [records.is_subscribed(topic) for topic in ("orders", "a", "b")] == [True, False, False]
    assert len(decoded) == 1
    records.put(CLASSIC, classic())
    assert not records.is_subscribed("orders")
    records.put(CLASSIC, classic(classic_member()))
    assert records.is_subscribed("orders")
    records.remove(CLASSIC)
    assert not records.is_subscribed("orders")


@pytest.mark.parametrize(
    ("records", "keys"),
    [
        ({}, [CLASSIC]),
        ({CLASSIC: classic()}, [CLASSIC]),
        ({EPOCH: epoch(1)}, [TARGET_EPOCH, EPOCH]),
        ({EPOCH: epoch(1), CLASSIC: classic()}, [TARGET_EPOCH, EPOCH, CLASSIC]),
        (
            {
                EPOCH: epoch(1),
                PARTITIONS: None,
                REGEX: resolved(),
                MEMBER: member(),
                TARGET_EPOCH: target_epoch(1),
                TARGET: None,
                CURRENT: current(1),
            },
            [CURRENT, TARGET, TARGET_EPOCH, MEMBER, REGEX, PARTITIONS, EPOCH],
        ),
        ({TARGET_EPOCH: target_epoch(1)}, [TARGET_EPOCH, CLASSIC]),
    ],
)
def test_tombstones_cover_every_record_in_the_order_that_kafka_loads(
    records: Records, keys: list[GroupRecordKey]
) -> None:
    assert group(records).tombstone_keys() == keys


def test_members_of_kip_848_go_with_the_records_that_a_broker_writes() -> None:
    other = key(RecordType.CONSUMER_GROUP_MEMBER_METADATA, member_id="other")
    records = group(
        STABLE
        | {
            MEMBER: member(regex="or.*"),
            other: member("t"),
            REGEX: resolved("orders"),
            PARTITIONS: ConsumerGroupPartitionMetadataValue(topics=()),
            EPOCH: ConsumerGroupMetadataValue(epoch=4, metadata_hash=7),
        }
    )
    assert records.consumer_member_ids() == ["m", "other"]
    assert records.end_of_consumer_members(["nobody"]) == []
    first = records.end_of_consumer_members(["m", "nobody"])
    gone = [CURRENT, TARGET, MEMBER, REGEX]
    next_epoch = ConsumerGroupMetadataValue(epoch=5, metadata_hash=7)
    assert first == [*((each, None) for each in gone), (EPOCH, next_epoch)]
    for each, value in first:
        if value is None:
            records.remove(each)
        else:
            records.put(each, value)
    [*tombstones, (last, value)] = records.end_of_consumer_members(["other"])
    assert [each for each, _ in tombstones][-2:] == [other, PARTITIONS]
    assert (last, value) == (EPOCH, epoch(6))
    assert ConsumerGroupMetadataValue.decode(epoch(6).encode()) == epoch(6)
    assert ConsumerGroupMetadataValue.decode(next_epoch.encode()) == next_epoch
