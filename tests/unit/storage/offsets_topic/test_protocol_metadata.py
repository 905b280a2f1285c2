"""Subscriptions and assignments of consumers; the bytes are Kafka's own, versions 0 to 3."""

import pytest
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.offsets_topic.schemas.protocol_metadata import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
)

OWNED = (TopicPartitions(topic="t", partitions=(0, 1)),)
TOPICS = "00000002 0001 74 0001 75 00000001 01"
OWNED_BYTES = "00000001 0001 74 00000002 00000000 00000001"


@pytest.mark.parametrize(
    ("encoded", "owned", "generation_id", "rack_id"),
    [
        (f"0000 {TOPICS}", (), -1, None),
        (f"0001 {TOPICS} {OWNED_BYTES}", OWNED, -1, None),
        (f"0002 {TOPICS} {OWNED_BYTES} 00000005", OWNED, 5, None),
        (f"0003 {TOPICS} {OWNED_BYTES} 00000005 0001 72", OWNED, 5, "r"),
        (f"0003 {TOPICS} {OWNED_BYTES} 00000005 0000", OWNED, 5, None),
        (f"0009 {TOPICS} {OWNED_BYTES} 00000005 0001 72 beef", OWNED, 5, "r"),
    ],
)
def test_a_subscription_is_read_in_every_version(
    encoded: str, owned: tuple[TopicPartitions, ...], generation_id: int, rack_id: str | None
) -> None:
    assert decode_subscription(bytes.fromhex(encoded)) == Subscription(
        topics=("t", "u"),
        user_data=b"\x01",
        owned_partitions=owned,
        generation_id=generation_id,
        rack_id=rack_id,
    )


@pytest.mark.parametrize("version", ["0000", "0003", "0007"])
def test_an_assignment_is_read_in_every_version(version: str) -> None:
    encoded = bytes.fromhex(f"{version} {OWNED_BYTES} ffffffff")
    assert decode_assignment(encoded) == Assignment(assigned_partitions=OWNED, user_data=None)


@pytest.mark.parametrize("encoded", ["", "00", "ffff 00000000 ffffffff", "0000 00000001 0001"])
def test_bad_bytes_raise(encoded: str) -> None:
    with pytest.raises(UndecodableRecord):
        decode_subscription(bytes.fromhex(encoded))
    with pytest.raises(UndecodableRecord):
        decode_assignment(bytes.fromhex(encoded))
