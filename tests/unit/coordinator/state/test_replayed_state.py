"""What a shard makes of records that others wrote: brokers, of any age, and damage."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from offsetd_coordinator.errors import RecordUndecodable
from offsetd_coordinator.state.replayed_state import ReplayedState
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels import padded_copy
from shards import (
    NOW_MS,
    batch_of,
    end_of_transaction,
    fetched,
    group_key,
    listed_groups,
    new_shard,
    offset_key,
    offset_value,
    offsets_of,
    replay,
    replayed,
    state_of,
)

pytestmark = pytest.mark.kernel

TRANSACTIONAL: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "is_transactional": True}
OTHER_TRANSACTION: dict[str, Any] = TRANSACTIONAL | {"producer_id": 6}
UNREADABLE = b"\0\x09"  # A value of version 9.


def offset(partition: int, value: int, **more: Any) -> tuple[bytes, bytes]:
    return offset_key("g", "t", partition), offset_value(value, **more)


def tombstone(partition: int) -> tuple[bytes, None]:
    return offset_key("g", "t", partition), None


GOLDEN_VALUES = {
    "version 0": "0000 0000000000000064 0001 6d 0000018bcfe56800",
    "version 1": "0001 0000000000000064 0001 6d 0000018bcfe56800 0000018bcfe56be8",
    "version 1 without expiry": "0001 0000000000000064 0001 6d 0000018bcfe56800 ffffffffffffffff",
    "version 2": "0002 0000000000000064 0001 6d 0000018bcfe56800",
    "version 3": "0003 0000000000000064 00000004 0001 6d 0000018bcfe56800",
    "version 4": "0004 0000000000000064 00000004 02 6d 0000018bcfe56800 00",
    "version 4 with a topic id": (
        "0004 0000000000000064 00000004 02 6d 0000018bcfe56800 01 00 10" + "11" * 16
    ),
    "version 4 with two unknown tags": (
        "0004 0000000000000064 00000004 02 6d 0000018bcfe56800 02 07 01 ff 808001 00"
    ),
    "version 4 with our expiry": (
        "0004 0000000000000064 00000004 02 6d 0000018bcfe56800 01 c49e01 08 0000018bcfe56be8"
    ),
    "version 4 with our expiry between others": (
        "0004 0000000000000064 00000004 02 6d 0000018bcfe56800"
        " 03 07 01 ff c49e01 08 0000018bcfe56be8 d49e01 00"
    ),
}


@pytest.mark.parametrize("record_type", [0, 1])
@pytest.mark.parametrize("version", GOLDEN_VALUES)
def test_every_version_of_a_committed_offset_is_read(version: str, record_type: int) -> None:
    value = bytes.fromhex(GOLDEN_VALUES[version])
    shard = replayed(batch_of(7, (offset_key("g", "t", 3, version=record_type), value)))
    [stored] = shard.fetch(b"g")
    assert (stored.topic, stored.partition, stored.offset, stored.revision) == (b"t", 3, 100, 7)
    assert (stored.metadata, stored.commit_timestamp_ms) == (b"m", NOW_MS)
    assert stored.leader_epoch == (4 if value[1] >= 3 else -1)
    expires = version == "version 1" or "our expiry" in version
    assert stored.expire_timestamp_ms == (NOW_MS + 1000 if expires else -1)
    assert shard.counters().undecodable_records == 0


def damaged_values() -> list[bytes]:
    whole = [bytes.fromhex(value) for value in GOLDEN_VALUES.values()]
    cut = [value[:size] for value in whole for size in range(len(value))]
    return [
        *cut,
        bytes.fromhex("0005 0000000000000064 00000004 02 6d 0000018bcfe56800 00"),
        bytes.fromhex("ffff 0000000000000064 00000004 02 6d 0000018bcfe56800 00"),
        bytes.fromhex("0004 0000000000000064 00000004 00 0000018bcfe56800 00"),  # null metadata
        bytes.fromhex("0003 0000000000000064 00000004 ffff 0000018bcfe56800"),
        bytes.fromhex("0004 0000000000000064 00000004 02 ff 0000018bcfe56800 00"),  # not UTF-8
        bytes.fromhex("0004 0000000000000064 00000004 ffffffff0f 6d 0000018bcfe56800 00"),
        bytes.fromhex("0004 0000000000000064 00000004 02 6d 0000018bcfe56800 01 00 7f 00"),
        bytes.fromhex("0004 0000000000000064 00000004 02 6d 0000018bcfe56800 ffffffff0f"),
    ]


def test_partitions_of_a_batch_may_be_far_apart_and_in_any_order() -> None:
    partitions = [1, 70, 2, 64, 63, 2**31 - 1, 0, 128, 65]
    records = [(offset_key("g", "t", each), offset_value(each)) for each in partitions]
    shard = replayed(batch_of(0, *records))
    stored = {each.partition: (each.offset, each.revision) for each in shard.fetch(b"g")}
    assert stored == {each: (each, place) for place, each in enumerate(partitions)}


@pytest.mark.parametrize("version", [0, 1])
def test_what_a_batch_takes_away_it_may_bring_again(version: int) -> None:
    """Of version 0, a tombstone is no plain record."""
    key, tombstone = offset_key("g"), (offset_key("g", version=version), None)
    others = [(offset_key("h"), offset_value(2)), tombstone]
    for between in ([tombstone], [tombstone, *others]):
        shard = replayed(batch_of(0, (key, offset_value(1)), *between, (key, offset_value(3))))
        assert [each.offset for each in shard.fetch(b"g")] == [3]


@pytest.mark.parametrize("value", damaged_values(), ids=lambda value: value.hex() or "empty")
def test_a_value_that_does_not_decode_makes_its_offset_unreadable_until_it_is_written_again(
    value: bytes,
) -> None:
    batches = [
        batch_of(0, offset(0, 1), offset(1, 5)),
        batch_of(2, (offset_key("g", "t", 0), value)),
    ]
    shard = replayed(*batches)
    assert shard.counters().undecodable_records == 1
    with pytest.raises(RecordUndecodable, match="t:0"):
        shard.fetch(b"g")
    assert [each.offset for each in fetched(shard, b"g", [(b"t", 1)])] == [5]
    replay(shard, batch_of(3, offset(0, 2)))
    assert offsets_of(shard, "g") == {("t", 0): 2, ("t", 1): 5}


def test_an_unreadable_offset_can_be_deleted() -> None:
    shard = replayed(batch_of(0, (offset_key("g", "t", 0), UNREADABLE), tombstone(0)))
    assert shard.fetch(b"g") == []
    assert shard.counters().group_count == 0


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"\0",
        b"\0\1",
        b"\0\1\0\5g",
        offset_key("g")[:-1],
        offset_key("grüppe").replace("ü".encode(), b"\xff\xff"),
        offset_key("g", "tö").replace("ö".encode(), b"\xc3\x28"),
        b"\0\1\xff\xff\0\1t\0\0\0\0",
        b"\0\1\0\1g\xff\xff\0\0\0\0",
        b"\0\2\0\5g",
        b"\0\5\0\1g",
    ],
    ids=repr,
)
def test_a_key_that_does_not_decode_is_counted_and_stops_nothing(key: bytes | None) -> None:
    shard = replayed(batch_of(0, offset(0, 1), (key, offset_value(9)), offset(1, 2)))
    assert shard.counters().undecodable_records == 1
    assert offsets_of(shard, "g") == {("t", 0): 1, ("t", 1): 2}
    assert shard.offset_next == 3


def test_a_key_with_bytes_behind_it_is_read_as_kafka_reads_it() -> None:
    shard = replayed(batch_of(0, (offset_key("g") + b"more", offset_value(9))))
    assert offsets_of(shard, "g") == {("t", 0): 9}


def test_records_of_unknown_types_are_counted_and_left_alone() -> None:
    shard = replayed(batch_of(0, (b"\x00\x0a\0\0", b"x"), (b"\x4f\x45\0\1g", None), offset(0, 1)))
    assert shard.counters().unknown_records == 2
    assert shard.counters().undecodable_records == 0
    assert offsets_of(shard, "g") == {("t", 0): 1}


def with_records(batch: bytes, records: bytes, count: int) -> bytes:
    """The batch with other bytes for its records, as if its checksum fitted."""
    header = bytearray(batch[:61])
    struct.pack_into(">i", header, 8, 49 + len(records))
    struct.pack_into(">i", header, 57, count)
    return bytes(header) + records


@pytest.mark.parametrize("damage", ["cut short", "a length beyond the end", "a negative length"])
def test_records_that_cannot_be_told_apart_are_counted_and_the_next_batch_goes_on(
    damage: str,
) -> None:
    batch = batch_of(0, offset(0, 1), offset(1, 2), offset(2, 3))
    first_end = 62 + batch[61] // 2  # A one-byte varint, and what it counts.
    records = {
        "cut short": batch[61:-20],
        "a length beyond the end": batch[61:first_end] + b"\xfe\x01" + batch[first_end + 1 :],
        "a negative length": batch[61:first_end] + b"\x01" + batch[first_end + 1 :],
    }[damage]
    shard = replayed(with_records(batch, records, 3), batch_of(3, offset(3, 4)))
    kept = offsets_of(shard, "g")
    assert kept[("t", 0)] == 1
    assert kept[("t", 3)] == 4
    assert shard.counters().undecodable_records == 4 - len(kept)


@pytest.mark.parametrize("attributes", [0, 0x10])
def test_a_record_whose_offset_is_outside_of_its_batch_is_counted_as_damage(
    attributes: int,
) -> None:
    records = [
        Record(key=key, value=value, offset=at, timestamp_ms=NOW_MS)
        for at, (key, value) in [(5, offset(0, 1)), (8, offset(1, 2))]
    ]
    batch = bytearray(encode_batch(records, base_offset=5, last_offset=6))
    struct.pack_into(">h", batch, 21, attributes)
    shard = replayed(bytes(batch), batch_of(9, offset(3, 4)))
    assert shard.counters().undecodable_records == (2 if attributes else 1)
    assert offsets_of(shard, "g")["t", 3] == 4
    assert ("t", 1) not in offsets_of(shard, "g")


@pytest.mark.parametrize("size", [1, 60, 61, 100])
def test_what_is_no_whole_batch_is_an_error_of_the_caller(size: int) -> None:
    batch = batch_of(0, offset(0, 1))
    with pytest.raises(CorruptBatch):
        new_shard().replay(padded_copy(batch), 0, min(size, len(batch) - 1))
    with pytest.raises(CorruptBatch):
        new_shard().replay(padded_copy(bytes(size)), 0, size)


@pytest.mark.parametrize("codec", [each for each in Compression if each is not Compression.NONE])
def test_compressed_batches_are_replayed_like_others(codec: Compression) -> None:
    records = [offset(0, 1), offset(1, 2), (group_key("h"), UNREADABLE), tombstone(0)]
    shard = replayed(batch_of(3, *records, compression=codec), batch_of(7, offset(5, 6)))
    assert state_of(shard) == state_of(replayed(batch_of(3, *records), batch_of(7, offset(5, 6))))
    assert shard.offset_next == 8
    assert offsets_of(shard, "g") == {("t", 1): 2, ("t", 5): 6}
    assert [each.revision for each in shard.fetch(b"g")] == [4, 7]


@pytest.mark.parametrize("codec", range(1, 8))
def test_a_compressed_batch_that_does_not_decompress_is_counted(codec: int) -> None:
    batch = bytearray(batch_of(0, offset(0, 1), offset(1, 2)))
    batch[22] |= codec
    shard = replayed(bytes(batch), batch_of(2, offset(5, 6)))
    assert shard.counters().undecodable_records == 2
    assert offsets_of(shard, "g") == {("t", 5): 6}


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize(("commits", "expected"), [(True, 2), (False, 1)])
def test_an_offset_of_a_transaction_waits_for_its_end(
    commits: bool, expected: int, codec: Compression
) -> None:
    shard = replayed(
        batch_of(0, offset(0, 1)), batch_of(1, offset(0, 2), compression=codec, **TRANSACTIONAL)
    )
    assert offsets_of(shard, "g") == {("t", 0): 1}
    assert shard.counters().pending_offset_count == 1
    replay(shard, end_of_transaction(2, 5, commit=commits))
    assert offsets_of(shard, "g") == {("t", 0): expected}
    assert shard.counters().pending_offset_count == 0
    replay(shard, end_of_transaction(3, 5, commit=True))
    assert offsets_of(shard, "g") == {("t", 0): expected}


def test_a_marker_ends_the_transaction_of_its_own_producer_only() -> None:
    shard = replayed(
        batch_of(0, offset(0, 1), **TRANSACTIONAL),
        batch_of(1, offset(1, 2), **OTHER_TRANSACTION),
        end_of_transaction(2, 6, commit=True),
    )
    assert offsets_of(shard, "g") == {("t", 1): 2}


def test_a_committed_transaction_does_not_go_back_behind_what_was_written_after_it() -> None:
    shard = replayed(
        batch_of(0, offset(0, 1), offset(1, 1), **TRANSACTIONAL),
        batch_of(2, offset(0, 9)),
        end_of_transaction(3, 5, commit=True),
    )
    assert offsets_of(shard, "g") == {("t", 0): 9, ("t", 1): 1}
    assert [each.revision for each in shard.fetch(b"g")] == [2, 1]


@pytest.mark.parametrize("codecs", ["none gzip", "gzip none", "none none"])
def test_the_newest_record_of_a_transaction_counts_whatever_its_batches_are_like(
    codecs: str,
) -> None:
    first, second = (Compression[codec.upper()] for codec in codecs.split())
    shard = replayed(
        batch_of(0, offset(0, 1), offset(1, 1), compression=first, **TRANSACTIONAL),
        batch_of(2, offset(1, 2), offset(2, 2), compression=second, **TRANSACTIONAL),
        end_of_transaction(4, 5, commit=True),
    )
    assert offsets_of(shard, "g") == {("t", 0): 1, ("t", 1): 2, ("t", 2): 2}
    assert [each.revision for each in shard.fetch(b"g")] == [0, 2, 3]


def test_an_emptied_batch_of_a_transaction_opens_none() -> None:
    shard = replayed(encode_batch([], base_offset=0, last_offset=3, **TRANSACTIONAL))
    replay(shard, batch_of(4, tombstone(0)))
    assert shard._state.pending.producer_count == 0
    assert shard.offset_next == 5


def test_a_tombstone_takes_pending_offsets_with_it_and_later_ones_stay() -> None:
    shard = replayed(
        batch_of(0, offset(0, 1), offset(1, 1), **TRANSACTIONAL),
        batch_of(2, tombstone(0)),
        batch_of(3, offset(0, 2), **OTHER_TRANSACTION),
        end_of_transaction(4, 5, commit=True),
        end_of_transaction(5, 6, commit=True),
    )
    assert offsets_of(shard, "g") == {("t", 0): 2, ("t", 1): 1}


def test_an_unreadable_value_in_a_committed_transaction_makes_its_offset_unreadable() -> None:
    shard = replayed(
        batch_of(0, offset(0, 1)),
        batch_of(1, (offset_key("g", "t", 0), UNREADABLE), **TRANSACTIONAL),
    )
    assert offsets_of(shard, "g") == {("t", 0): 1}
    replay(shard, end_of_transaction(2, 5, commit=True))
    with pytest.raises(RecordUndecodable):
        shard.fetch(b"g")


def test_a_group_with_nothing_but_pending_offsets_exists() -> None:
    shard = replayed(batch_of(0, offset(0, 1), **TRANSACTIONAL))
    assert [listing.group_id for listing in listed_groups(shard)] == [b"g"]
    assert shard.get_group(b"g").offset_count == 0
    replay(shard, end_of_transaction(1, 5, commit=False))
    assert listed_groups(shard) == []


@pytest.mark.parametrize("key", [b"", b"\0\0\0\3", b"\0\0\0\0\0\0"])
def test_other_control_records_end_no_transaction(key: bytes) -> None:
    control = {**TRANSACTIONAL, "is_control": True}
    shard = replayed(
        batch_of(0, offset(0, 1), **TRANSACTIONAL), batch_of(1, (key, None), **control)
    )
    assert shard.counters().pending_offset_count == 1


def test_a_batch_that_compaction_emptied_moves_the_offset_and_no_more() -> None:
    emptied = encode_batch([], base_offset=5, last_offset=9, leader_epoch=3)
    shard = replayed(batch_of(0, offset(0, 1)), emptied)
    assert (shard.offset_next, shard.leader_epoch) == (10, 3)
    assert offsets_of(shard, "g") == {("t", 0): 1}


def test_record_headers_of_others_mean_nothing() -> None:
    record = Record(
        key=offset_key("g"),
        value=offset_value(1),
        offset=0,
        timestamp_ms=NOW_MS,
        headers=(("trace", b"x"), ("offsetd-request-ix", b"1"), ("offsetd-request-id", None)),
    )
    deletion = Record(
        key=offset_key("g", "t", 1),
        value=None,
        offset=1,
        timestamp_ms=NOW_MS,
        headers=(("a", b""),),
    )
    shard = replayed(encode_batch([record, deletion], base_offset=0))
    assert offsets_of(shard, "g") == {("t", 0): 1}


def test_a_log_replays_the_same_whatever_the_chunks() -> None:
    batches = [
        batch_of(index * 2, offset(index % 50, index, metadata="m" * (index % 90)),
                 (offset_key(f"group-{index % 700}", "topic", index), offset_value(index)))
        for index in range(3000)
    ]  # fmt: skip
    at_once = replayed(*batches)
    one_by_one = new_shard()
    for batch in batches:
        replay(one_by_one, batch)
    assert state_of(at_once) == state_of(one_by_one)
    assert at_once.offset_next == one_by_one.offset_next == 6000


def test_a_tombstone_drops_what_is_pending_also_if_the_group_had_nothing_pending_before() -> None:
    shard = replayed(
        batch_of(0, (offset_key("other"), offset_value(1)), **OTHER_TRANSACTION),
        batch_of(1, offset(0, 1), tombstone(0), tombstone(1)),
        batch_of(4, offset(2, 1), **TRANSACTIONAL),
        batch_of(5, tombstone(0), tombstone(2)),
        end_of_transaction(7, 5, commit=True),
    )
    assert not shard._state.has_group(b"g")


def test_an_open_transaction_slows_only_the_tombstones_of_its_own_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    replay_offset = ReplayedState._replay_offset

    def note(state: ReplayedState, offset_id: Any, *value: Any) -> None:
        seen.append(offset_id)
        replay_offset(state, offset_id, *value)

    monkeypatch.setattr(ReplayedState, "_replay_offset", note)
    keys = [offset_key(group, "t", number) for group in ("g", "h") for number in range(3)]
    shard = replayed(
        batch_of(0, *((key, offset_value(1)) for key in keys)),
        batch_of(6, (offset_key("h", "t", 1), offset_value(2)), **TRANSACTIONAL),
        batch_of(7, *((key, None) for key in keys)),
    )
    assert shard.counters().offset_count == 0
    # With the tombstone of its last pending offset, the group has nothing pending any more.
    assert seen == [(b"g", b"t", 0), (b"h", b"t", 0), (b"h", b"t", 1)]
