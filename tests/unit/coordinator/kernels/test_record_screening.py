"""The kernel that passes over what is plainly right, against the slow way."""

import random

import pytest
from offsetd_coordinator.kernels.records.record_screening import skip_plain_batches
from offsetd_coordinator.offline.verification.record_check import RecordVerifier
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.kernels import padded_copy
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.offsets_topic.schemas.keys import GroupKey, OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue

pytestmark = pytest.mark.kernel

NOW_MS = 1_700_000_000_000
PARTITIONS = 50
GROUPS = ("billing", "", "grüppe", "🚀", "polygenelubricants", "x" * 300)


def key(group: str = "billing", topic: str = "orders") -> bytes:
    return encode_key(OffsetKey(group=group, topic=topic, partition=3))


def value(version: int = 4, metadata: str = "") -> bytes:
    commit = OffsetCommitValue(offset=7, metadata=metadata, commit_timestamp_ms=NOW_MS)
    return commit.encode(version)


def record(offset: int, raw_key: bytes | None, raw_value: bytes | None) -> Record:
    return Record(
        key=raw_key,
        value=raw_value,
        offset=offset,
        timestamp_ms=NOW_MS,
        headers=(("offsetd-request-id", b"1234"), ("none", None)) if offset % 3 == 1 else (),
    )


def batch(*records: tuple[bytes | None, bytes | None], **options: object) -> bytes:
    kept = [record(offset, *each) for offset, each in enumerate(records)]
    return encode_batch(kept, base_offset=0, **options)  # type: ignore[arg-type]


def plain_bytes(encoded: bytes, group: str = "billing") -> int:
    partition = partition_of(group, PARTITIONS)
    return skip_plain_batches(padded_copy(encoded), 0, len(encoded), partition, PARTITIONS)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("version", [1, 3, 4])
def test_committed_offsets_and_their_tombstones_are_plain(group: str, version: int) -> None:
    encoded = batch(
        (key(group), value(version, "größe 🚀")),
        (key(group, "t" * 249), value(version)),
        (key(group), None),
    )
    assert plain_bytes(encoded * 3, group) == 3 * len(encoded)


@pytest.mark.parametrize(
    "encoded",
    [
        batch((key("billing-2"), value())),
        batch((encode_key(GroupKey(group="billing")), None)),
        batch((None, value())),
        batch((b"\x4f\x45", None)),
        batch((key() + b"\x00", value())),
        batch((key().replace(b"orders", b"order\xff"), value())),
        batch((key().replace(b"billing", b"billin\xff"), value())),
        batch((key(), value()[:-1])),
        batch((key(), b"\x00\x05" + value()[2:])),
        batch((key(), value(4, "m").replace(b"m", b"\xff"))),
        batch((key(), value()), compression=Compression.LZ4),
        batch((b"\x00\x00\x00\x01", b"\x00" * 6), is_control=True),
        encode_batch([record(5, key(), value())], base_offset=0, last_offset=4),
    ],
    ids=[
        "placement",
        "group",
        "no key",
        "unknown type",
        "key too long",
        "topic not UTF-8",
        "group not UTF-8",
        "value cut",
        "newer value",
        "metadata not UTF-8",
        "compressed",
        "marker",
        "offset outside",
    ],
)
def test_everything_else_is_left_to_the_slow_way(encoded: bytes) -> None:
    plain = batch((key(), value()))
    assert plain_bytes(plain + encoded + plain) == len(plain)


def test_a_batch_that_the_buffer_cuts_is_not_looked_into() -> None:
    plain = batch((key(), value()))
    for size in range(len(plain), 2 * len(plain)):
        buffer = padded_copy((plain * 2)[:size])
        partition = partition_of("billing", PARTITIONS)
        assert skip_plain_batches(buffer, 0, size, partition, PARTITIONS) == len(plain)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_plain_has_nothing_wrong_with_it(seed: int) -> None:
    chance = random.Random(seed)
    found_plain = found_flawed = 0
    for _ in range(300):
        group = chance.choice(GROUPS)
        encoded = bytearray(
            batch((key(group), value(chance.choice([1, 3, 4]), "mü")), (key(group), value()))
        )
        for _ in range(chance.randint(0, 2)):
            encoded[chance.randrange(61, len(encoded))] = chance.randrange(256)
        partition = partition_of(group, PARTITIONS)
        reasons = list(RecordVerifier(partition, PARTITIONS).reasons(bytes(encoded)))
        if plain_bytes(bytes(encoded), group) == len(encoded):
            found_plain += 1
            assert not reasons, encoded.hex()
        found_flawed += bool(reasons)
    assert found_plain > 50
    assert found_flawed > 50
