"""A group's partition is the one Kafka would choose."""

import pytest
from offsetd_storage.offsets_topic.placement import java_hash, partition_of

# Executed on Kafka 4.1.1 with 50 partitions.
KAFKA_PLACEMENTS = [
    ("", 0),
    ("a", 47),
    ("group", 47),
    ("my-group", 12),
    ("polygenelubricants", 0),
    ("grüppe", 12),
    ("🚀", 27),
]


@pytest.mark.parametrize(("group_id", "partition"), KAFKA_PLACEMENTS)
def test_a_group_is_placed_where_kafka_places_it(group_id: str, partition: int) -> None:
    assert partition_of(group_id, 50) == partition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("ab", 97 * 31 + 98),
        ("polygenelubricants", -(1 << 31)),
        ("🚀", 0xD83D * 31 + 0xDE80),
        ("\ud800", 0xD800),
    ],
)
def test_the_hash_is_javas_over_utf_16_units(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@pytest.mark.parametrize("partitions", [1, 2, 3, 50, 1000])
def test_every_group_has_a_partition_of_the_topic(partitions: int) -> None:
    placed = {partition_of(f"group-{number}", partitions) for number in range(20 * partitions)}
    assert placed <= set(range(partitions))
    assert len(placed) > partitions // 2


@pytest.mark.parametrize("units", [255, 256, 257, 258, 32_767])
def test_long_ids_are_hashed_as_short_ones_are(units: int) -> None:
    text = "日é\uffffa🚀"[: units % 7 + 1] * units
    encoded = text.encode("utf-16-be")
    expected = 0
    for at in range(0, len(encoded), 2):
        expected = (31 * expected + int.from_bytes(encoded[at : at + 2])) % 2**32
    assert java_hash(text) % 2**32 == expected
