"""OffsetCommitValue in every version Kafka wrote."""

import attrs
import pytest
from offsetd_storage.offsets_topic.schemas.offset_commit import WRITE_VERSIONS, OffsetCommitValue
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord, UnknownValueVersion

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
VALUE = OffsetCommitValue(offset=100, metadata="m", commit_timestamp_ms=NOW_MS)
# Bytes as Kafka 4.1.1 writes them.
KAFKA_BYTES = [
    (4, "0004 0000000000000064 ffffffff 02 6d 0000018bcfe56800 00", VALUE),
    (
        4,
        "0004 0000000000000064 00000004 02 6d 0000018bcfe56800 01 00 10" + TOPIC_ID.hex(),
        attrs.evolve(VALUE, leader_epoch=4, topic_id=TOPIC_ID),
    ),
    (3, "0003 0000000000000064 ffffffff 0001 6d 0000018bcfe56800", VALUE),
    (
        1,
        "0001 0000000000000064 0001 6d 0000018bcfe56800 0000018bcfe56be8",
        attrs.evolve(VALUE, expire_timestamp_ms=NOW_MS + 1000),
    ),
    (1, "0001 0000000000000064 0001 6d 0000018bcfe56800 ffffffffffffffff", VALUE),
]


@pytest.mark.parametrize(("version", "encoded", "value"), KAFKA_BYTES)
def test_a_value_reads_and_writes_back(
    version: int, encoded: str, value: OffsetCommitValue
) -> None:
    assert OffsetCommitValue.decode(bytes.fromhex(encoded)) == value
    assert value.encode(version) == bytes.fromhex(encoded)


@pytest.mark.parametrize("version", [0, 2])
def test_versions_that_nobody_writes_any_more_are_read(version: int) -> None:
    encoded = version.to_bytes(2, "big") + bytes.fromhex(
        "0000000000000064 0001 6d 0000018bcfe56800"
    )
    assert OffsetCommitValue.decode(encoded) == VALUE


@pytest.mark.parametrize("version", WRITE_VERSIONS)
def test_a_version_keeps_what_it_has_a_field_for(version: int) -> None:
    full = OffsetCommitValue(
        offset=2**63 - 1,
        leader_epoch=7,
        metadata="größe 🚀",
        commit_timestamp_ms=NOW_MS,
        expire_timestamp_ms=NOW_MS + 1,
        topic_id=TOPIC_ID,
    )
    kept = attrs.evolve(
        full,
        leader_epoch=7 if version >= 3 else -1,
        expire_timestamp_ms=-1 if version == 3 else NOW_MS + 1,
        topic_id=TOPIC_ID if version == 4 else None,
    )
    assert OffsetCommitValue.decode(full.encode(version)) == kept


def test_version_4_has_the_expiry_in_a_tag_of_ours_that_is_nothing_more() -> None:
    value = attrs.evolve(VALUE, expire_timestamp_ms=NOW_MS + 1000)
    encoded = value.encode(4)
    assert encoded == VALUE.encode(4)[:-1] + bytes.fromhex("01 c49e01 08 0000018bcfe56be8")
    assert OffsetCommitValue.decode(encoded) == value
    with pytest.raises(UndecodableRecord):
        OffsetCommitValue.decode(VALUE.encode(4)[:-1] + bytes.fromhex("01 c49e01 04 00000000"))


def test_a_tag_of_the_future_is_passed_over() -> None:
    encoded = bytes.fromhex("0004 0000000000000064 ffffffff 02 6d 0000018bcfe56800 01 05 02 beef")
    assert OffsetCommitValue.decode(encoded) == VALUE


@pytest.mark.parametrize(
    ("encoded", "error"),
    [
        ("", UndecodableRecord),
        ("0005 0000000000000064", UnknownValueVersion),
        ("ffff 0000000000000064", UnknownValueVersion),
        ("0004 0000000000000064 ffffffff 00 0000018bcfe56800 00", UndecodableRecord),
        ("0003 0000000000000064 ffffffff ffff 0000018bcfe56800", UndecodableRecord),
        ("0003 0000000000000064 ffffffff 0001 ff 0000018bcfe56800", UndecodableRecord),
        ("0004 0000000000000064 ffffffff 01 0000018bcfe56800 01 00 02 beef", UndecodableRecord),
    ],
)
def test_bad_bytes_and_newer_versions_raise(encoded: str, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        OffsetCommitValue.decode(bytes.fromhex(encoded))
    assert raised.type is error
