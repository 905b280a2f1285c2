"""What is wrong with a batch's records, in words."""

import pytest
from offsetd_coordinator.offline.verification.record_check import RecordVerifier
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings
from offsetd_storage.offsets_topic.schemas.keys import (
    ConsumerGroupKey,
    GroupKey,
    GroupSettingsKey,
    OffsetKey,
    encode_key,
)
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.offsets_topic.schemas.record_layouts import RecordType

NOW_MS = 1_700_000_000_000
HERE = partition_of("g", 50)
KEY = encode_key(OffsetKey(group="g", topic="t", partition=3))
VALUE = OffsetCommitValue(offset=7, commit_timestamp_ms=NOW_MS).encode(4)
GROUP = GroupMetadataValue(protocol_type="", generation=0).encode()
MEMBER = ConsumerGroupKey(
    record_type=RecordType.CONSUMER_GROUP_MEMBER_METADATA, group="g", member_id="m"
)
EPOCH = ConsumerGroupKey(record_type=RecordType.CONSUMER_GROUP_METADATA, group="g")

OFFSET_VALUE = "the value of group 'g', topic 't', partition 3"
SETTINGS_VALUE = "the value of group 'g' (settings)"
MEMBER_VALUE = "the value of group 'g' (consumer_group_member_metadata)"


def batch(key: bytes | None, value: bytes | None, **options: object) -> bytes:
    record = Record(key=key, value=value, offset=9, timestamp_ms=NOW_MS)
    return encode_batch([record], base_offset=9, **options)  # type: ignore[arg-type]


def reasons(encoded: bytes, partition: int = HERE) -> list[str]:
    return list(RecordVerifier(partition, 50).reasons(encoded))


@pytest.mark.parametrize(
    "encoded",
    [
        batch(KEY, VALUE),
        batch(KEY, VALUE, compression=Compression.ZSTD),
        batch(KEY, VALUE, is_transactional=True, producer_id=1),
        batch(KEY, None),
        batch(encode_key(GroupKey(group="g")), GROUP),
        batch(encode_key(GroupKey(group="g")), None),
        batch(encode_key(EPOCH), b"\x00\x00\x00\x00\x00\x01\x00"),
        batch(encode_key(GroupSettingsKey(group="g")), GroupSettings(never_expires=True).encode()),
        batch(encode_key(GroupSettingsKey(group="g")), None),
        batch(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x07", is_control=True),
        batch(b"\x00\x00\x00\x07", None, is_control=True),
        encode_batch([], base_offset=9, last_offset=12),
    ],
)
def test_right_records_have_nothing_wrong_with_them(encoded: bytes) -> None:
    assert reasons(encoded) == []


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        (batch(None, VALUE), "offset 9: the record has no key"),
        (batch(b"\x00", VALUE), "offset 9: its key does not decode: 2 bytes needed, 1 left"),
        (
            batch(KEY, VALUE[:-1]),
            f"offset 9: {OFFSET_VALUE} does not decode: 1 bytes needed, 0 left",
        ),
        (
            batch(KEY, b"\x00\x09"),
            f"offset 9: {OFFSET_VALUE} does not decode: OffsetCommitValue has no version 9",
        ),
        (
            batch(encode_key(GroupKey(group="g")), b"\x00\x03"),
            "offset 9: the value of group 'g' does not decode: 2 bytes needed, 0 left",
        ),
        (
            batch(encode_key(GroupSettingsKey(group="g")), b"\x00\x01"),
            f"offset 9: {SETTINGS_VALUE} does not decode: GroupSettings has no version 1",
        ),
        (
            batch(encode_key(MEMBER), b"\x00\x00\x00\x00\x00"),
            f"offset 9: {MEMBER_VALUE} does not decode: clientId is null",
        ),
        (
            batch(b"\x00\x00\x00\x01", b"\x00", is_control=True),
            "offset 9: 2 bytes needed, 1 left",
        ),
        (
            batch(KEY, VALUE)[:61] + b"\x7f" + batch(KEY, VALUE)[62:],
            "the batch does not divide into records: record 0 is malformed",
        ),
    ],
)
def test_each_kind_of_wrong_record_is_named(encoded: bytes, reason: str) -> None:
    assert reasons(encoded) == [reason]


def test_a_group_in_a_wrong_partition_is_told_once() -> None:
    verifier = RecordVerifier(HERE + 1, 50)
    found = [*verifier.reasons(batch(KEY, VALUE)), *verifier.reasons(batch(KEY, None))]
    places = f"partition {HERE}, not {HERE + 1}"
    assert found == [f"offset 9: group 'g' belongs in {places}, and is not served from here"]
    other = batch(encode_key(GroupKey(group="x")), GROUP)
    assert len(list(verifier.reasons(other))) == 1


def test_records_of_other_types_are_counted_and_not_judged() -> None:
    verifier = RecordVerifier(HERE, 50)
    assert list(verifier.reasons(batch(b"\x4f\x45", b"what it likes"))) == []
    assert list(verifier.reasons(batch(b"\x00\x11", None))) == []
    assert verifier.unknown_records == 2
