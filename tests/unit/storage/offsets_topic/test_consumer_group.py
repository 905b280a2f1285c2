"""The records of KIP-848 groups as typed values; the bytes are Kafka's own."""

from pathlib import Path

import pytest
from offsetd_storage.offsets_topic.schemas.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupValue,
    TopicIdPartitions,
    TopicMetadata,
    decode_consumer_group_value,
)
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord, UnknownValueVersion
from offsetd_storage.offsets_topic.schemas.record_layouts import RecordType

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-4.1.1-records.tsv"
TOPIC_ID = bytes.fromhex("b55faf07da7d4a898d738b800f344286")

EXPECTED: dict[RecordType, list[ConsumerGroupValue]] = {
    RecordType.CONSUMER_GROUP_METADATA: [
        ConsumerGroupMetadataValue(epoch=4, metadata_hash=-5675806128910287517),
        ConsumerGroupMetadataValue(epoch=4, metadata_hash=0),
    ],
    RecordType.CONSUMER_GROUP_PARTITION_METADATA: [
        ConsumerGroupPartitionMetadataValue(
            topics=(
                TopicMetadata(
                    topic_id=TOPIC_ID, topic="t", partitions=2, racks={0: ("r1", "r2"), 1: ()}
                ),
            )
        )
    ],
    RecordType.CONSUMER_GROUP_MEMBER_METADATA: [
        ConsumerGroupMemberMetadataValue(
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="/h",
            subscribed_topics=("t", "u"),
            subscribed_regex="t.*",
            rebalance_timeout_ms=300_000,
            server_assignor="uniform",
            classic=None,
        ),
        ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id="c",
            client_host="/h",
            subscribed_topics=(),
            subscribed_regex=None,
            rebalance_timeout_ms=-1,
            server_assignor=None,
            classic=ClassicMemberMetadata(
                session_timeout_ms=45_000,
                supported_protocols=(ClassicProtocol(name="range", metadata=b"\x00\x01\x02"),),
            ),
        ),
        ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id="c",
            client_host="/h",
            subscribed_topics=(),
            subscribed_regex="",
            rebalance_timeout_ms=-1,
            server_assignor=None,
            classic=None,
        ),
    ],
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: [
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4)
    ],
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: [
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=(TopicIdPartitions(topic_id=TOPIC_ID, partitions=(0, 1, 2)),)
        )
    ],
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: [
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=4,
            previous_member_epoch=3,
            state=1,
            assigned=(TopicIdPartitions(topic_id=TOPIC_ID, partitions=(0,)),),
            pending_revocation=(TopicIdPartitions(topic_id=TOPIC_ID, partitions=(1,)),),
        )
    ],
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: [
        ConsumerGroupRegularExpressionValue(
            topics=("t", "tt"), version=9, timestamp_ms=1_700_000_000_000
        )
    ],
}


def golden_values(record_type: RecordType) -> list[bytes]:
    rows = [line.split("\t") for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    return [bytes.fromhex(row[3]) for row in rows if row[0] == str(record_type.value)]


@pytest.mark.parametrize(("record_type", "values"), EXPECTED.items())
def test_a_value_is_read_completely(
    record_type: RecordType, values: list[ConsumerGroupValue]
) -> None:
    encoded = golden_values(record_type)
    assert [decode_consumer_group_value(record_type, value) for value in encoded] == values


@pytest.mark.parametrize("record_type", EXPECTED)
def test_damage_and_newer_versions_are_told_apart(record_type: RecordType) -> None:
    with pytest.raises(UnknownValueVersion):
        decode_consumer_group_value(record_type, b"\x00\x01")
    with pytest.raises(UndecodableRecord) as raised:
        decode_consumer_group_value(record_type, golden_values(record_type)[0][:-1])
    assert raised.type is UndecodableRecord
