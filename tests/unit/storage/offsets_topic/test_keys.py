"""Keys: which record is about what."""

import pytest
from offsetd_storage.offsets_topic.schemas.keys import (
    CONSUMER_GROUP_RECORD_TYPES,
    ConsumerGroupKey,
    GroupKey,
    GroupSettingsKey,
    OffsetKey,
    RecordKey,
    UnknownKey,
    decode_key,
    encode_key,
)
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.offsets_topic.schemas.record_layouts import RecordType

KEYS: list[tuple[str, OffsetKey | GroupKey | ConsumerGroupKey | GroupSettingsKey]] = [
    ("0001 0001 67 0001 74 00000000", OffsetKey(group="g", topic="t", partition=0)),
    ("0000 0001 67 0001 74 00000007", OffsetKey(group="g", topic="t", partition=7, version=0)),
    ("0001 0000 0002 c3bc 7fffffff", OffsetKey(group="", topic="ü", partition=2**31 - 1)),
    ("0002 0001 67", GroupKey(group="g")),
    ("4f44 0001 67", GroupSettingsKey(group="g")),
    (
        "0003 0001 67",
        ConsumerGroupKey(record_type=RecordType.CONSUMER_GROUP_METADATA, group="g"),
    ),
    (
        "0004 0001 67",
        ConsumerGroupKey(record_type=RecordType.CONSUMER_GROUP_PARTITION_METADATA, group="g"),
    ),
    (
        "0005 0001 67 0001 6d",
        ConsumerGroupKey(
            record_type=RecordType.CONSUMER_GROUP_MEMBER_METADATA, group="g", member_id="m"
        ),
    ),
    (
        "0006 0001 67",
        ConsumerGroupKey(
            record_type=RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, group="g"
        ),
    ),
    (
        "0007 0001 67 0000",
        ConsumerGroupKey(
            record_type=RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, group="g", member_id=""
        ),
    ),
    (
        "0008 0001 67 0001 6d",
        ConsumerGroupKey(
            record_type=RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
            group="g",
            member_id="m",
        ),
    ),
    (
        "0010 0001 67 0003 742e2a",
        ConsumerGroupKey(
            record_type=RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION,
            group="g",
            regular_expression="t.*",
        ),
    ),
]


@pytest.mark.parametrize(("encoded", "key"), KEYS)
def test_a_key_reads_and_writes_back(
    encoded: str, key: OffsetKey | GroupKey | ConsumerGroupKey
) -> None:
    raw = bytes.fromhex(encoded)
    assert decode_key(raw) == key
    assert encode_key(key) == raw


def test_all_record_types_of_a_consumer_group_are_tried() -> None:
    tried = {key.record_type for _, key in KEYS if isinstance(key, ConsumerGroupKey)}
    assert tried == set(CONSUMER_GROUP_RECORD_TYPES)


@pytest.mark.parametrize("record_type", [-1, 9, 10, 15, 17, 18, 23, 20291, 20293, 32767])
def test_a_record_type_that_is_not_ours_is_unknown_whatever_follows(record_type: int) -> None:
    expected: RecordKey = UnknownKey(record_type=record_type)
    assert decode_key(record_type.to_bytes(2, "big", signed=True) + b"\xff\xff") == expected


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "00",
        "0001",
        "0001 ffff 0001 74 00000000",
        "0001 0001 67 ffff 00000000",
        "0001 0001 ff 0001 74 00000000",
        "0001 0001 67 0001 74 000000",
        "0002",
        "0002 0005 67",
        "0003 ffff",
        "0005 0001 67",
        "0010 0001 67 ffff",
        "4f44 ffff",
        "4f44 0002 67",
    ],
)
def test_a_known_type_with_bad_bytes_is_undecodable(encoded: str) -> None:
    with pytest.raises(UndecodableRecord):
        decode_key(bytes.fromhex(encoded))


def test_bytes_after_the_key_are_passed_over_as_kafka_does() -> None:
    assert decode_key(bytes.fromhex("0002 0001 67 00")) == GroupKey(group="g")
