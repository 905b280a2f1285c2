from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.batch.compression import Compression, compress
from offsetd_storage.batch.record_batch import (
    BATCH_HEADER,
    Record,
    TimestampType,
    batch_header,
    computed_crc,
    decode_batch,
    decode_batches,
    encode_batch,
)
from offsetd_storage.errors import CorruptBatch

pytestmark = pytest.mark.kernel

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-4.1.1"
LOGS = sorted((GOLDEN / "data").glob("*/*.log"))
NAMES = [log.parent.name for log in LOGS]

small = st.binary(max_size=40)
records_of_a_batch = st.lists(
    st.tuples(
        st.integers(1, 1000),
        st.integers(-(2**40), 2**40),
        st.none() | small,
        st.none() | small,
        st.lists(st.tuples(st.text(max_size=8), st.none() | small), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def build(drawn, *, base_offset=0) -> list[Record]:
    records = []
    offset = base_offset - 1
    for gap, timestamp_ms, key, value, headers in drawn:
        offset += gap
        records.append(
            Record(
                key=key,
                value=value,
                offset=offset,
                timestamp_ms=timestamp_ms,
                headers=tuple(headers),
            )
        )
    return records


def dumped(partition: str) -> list[tuple[dict[str, str], list[dict[str, str]]]]:
    """What Kafka's dump tool says of each batch of a partition, and of the batch's records."""
    batches: list[tuple[dict[str, str], list[dict[str, str]]]] = []
    current = ""
    for line in (GOLDEN / "dump.txt").read_text().splitlines():
        head = dict(re.findall(r"(\w+): (\S+)", line.partition(" headerKeys")[0]))
        if line.startswith("# "):
            current = line[2:]
        elif current == partition and line.startswith("baseOffset: "):
            batches.append((head, []))
        elif current == partition and line.startswith("| offset: "):
            batches[-1][1].append(head)
    return batches


def test_there_is_a_golden_log_for_each_partition_of_the_dump():
    assert len(LOGS) == 22
    assert sum(len(dumped(name)) for name in NAMES) == 179


@pytest.mark.parametrize("log", LOGS, ids=NAMES)
def test_a_brokers_batches_are_read_as_kafkas_dump_tool_reads_them(log):
    expected = dumped(log.parent.name)
    position = 0
    for batch, (line, records) in zip(decode_batches(log.read_bytes()), expected, strict=True):
        assert {
            "baseOffset": batch.base_offset,
            "lastOffset": batch.last_offset,
            "count": batch.count,
            "baseSequence": batch.base_sequence,
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "partitionLeaderEpoch": batch.partition_leader_epoch,
            "isTransactional": str(batch.is_transactional).lower(),
            "isControl": str(batch.is_control).lower(),
            "deleteHorizonMs": "OptionalLong.empty",
            "position": position,
            "CreateTime": batch.max_timestamp_ms,
            "size": batch.size_bytes,
            "compresscodec": batch.compression.name.lower(),
            "crc": batch.crc,
        }.items() <= {name: number(value) for name, value in line.items()}.items()
        assert [
            (each.offset, each.timestamp_ms, size_of(each.key), size_of(each.value))
            for each in batch.records
        ] == [
            tuple(int(each[name]) for name in ("offset", "CreateTime", "keySize", "valueSize"))
            for each in records
        ]
        assert batch.timestamp_type is TimestampType.CREATE_TIME
        assert batch.delete_horizon_ms is None
        position += batch.size_bytes


def number(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def size_of(content: bytes | None) -> int:
    return -1 if content is None else len(content)


@pytest.mark.parametrize("log", LOGS, ids=NAMES)
def test_a_brokers_batches_written_again_are_the_same_bytes(log):
    content = log.read_bytes()
    assert content == b"".join(
        encode_batch(
            batch.records,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            leader_epoch=batch.partition_leader_epoch,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
        )
        for batch in decode_batches(content)
    )


@pytest.mark.slow
@pytest.mark.parametrize("compression", Compression)
@given(drawn=records_of_a_batch, base_offset=st.integers(0, 2**60), data=st.data())
def test_a_batch_survives_encoding(compression, drawn, base_offset, data):
    records = build(drawn, base_offset=base_offset)
    flags = data.draw(st.tuples(st.booleans(), st.booleans()))
    last_offset = records[-1].offset + data.draw(st.integers(0, 5))
    encoded = encode_batch(
        records,
        base_offset=base_offset,
        last_offset=last_offset,
        leader_epoch=3,
        producer_id=4,
        producer_epoch=5,
        base_sequence=6,
        compression=compression,
        is_transactional=flags[0],
        is_control=flags[1],
    )
    batch = decode_batch(b"before" + encoded + b"behind", 6)
    assert list(batch.records) == records
    assert (batch.base_offset, batch.last_offset) == (base_offset, last_offset)
    assert (batch.partition_leader_epoch, batch.producer_id) == (3, 4)
    assert (batch.producer_epoch, batch.base_sequence) == (5, 6)
    assert (batch.is_transactional, batch.is_control) == flags
    assert (batch.compression, batch.size_bytes) == (compression, len(encoded))
    assert batch.base_timestamp_ms == records[0].timestamp_ms
    assert batch.max_timestamp_ms == max(each.timestamp_ms for each in records)
    assert list(decode_batches(encoded + encoded)) == [batch, batch]


def test_a_batch_may_be_empty_after_compaction():
    encoded = encode_batch([], base_offset=10, last_offset=14, producer_id=1, max_timestamp_ms=99)
    batch = decode_batch(encoded)
    assert (batch.base_offset, batch.last_offset, batch.records) == (10, 14, ())
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (-1, 99)
    assert len(encoded) == BATCH_HEADER.size


RECORD = Record(key=b"k", value=b"v", offset=5, timestamp_ms=1000)


def test_records_of_a_batch_with_append_time_have_its_max_timestamp():
    encoded = encode_batch(
        [RECORD],
        base_offset=5,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        max_timestamp_ms=7777,
    )
    batch = decode_batch(encoded)
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [each.timestamp_ms for each in batch.records] == [7777]


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp_and_moves_no_record():
    encoded = encode_batch([RECORD], base_offset=5, delete_horizon_ms=123_456)
    batch = decode_batch(encoded)
    assert (batch.delete_horizon_ms, batch.base_timestamp_ms) == (123_456, 123_456)
    assert batch.records == (RECORD,)


def test_a_header_name_that_is_not_utf_8_is_shown_with_replacement_characters():
    named = Record(key=None, value=None, offset=0, timestamp_ms=0, headers=(("ab", None),))
    encoded = encode_batch([named], base_offset=0)
    batch = decode_batch(resealed(encoded.replace(b"ab", b"a\xff")))
    assert batch.records[0].headers == (("a\ufffd", None),)


FIELDS = [
    *("base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta"),
    *("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count"),
]


def resealed(batch: bytes, **fields: int) -> bytes:
    """The batch with other values in its header, and a checksum that fits."""
    header = dict(zip(FIELDS, BATCH_HEADER.unpack_from(batch), strict=True)) | fields
    body = batch[BATCH_HEADER.size :]
    header["crc"] = computed_crc(BATCH_HEADER.pack(*header.values()) + body)
    return BATCH_HEADER.pack(*header.values()) + body


def with_body(body: bytes, *, count: int = 1, attributes: int = 0) -> bytes:
    empty = encode_batch([], base_offset=0, last_offset=2**31 - 2)
    return resealed(empty + body, length=49 + len(body), count=count, attributes=attributes)


ONE = encode_batch([RECORD], base_offset=5)


@pytest.mark.parametrize("size", [0, 1, 60])
def test_a_header_cut_short_is_refused(size):
    with pytest.raises(CorruptBatch, match="header is cut short"):
        batch_header(ONE[:size])


@pytest.mark.parametrize("size", [61, 62, len(ONE) - 1])
def test_a_batch_cut_short_has_a_header_and_is_refused(size):
    assert batch_header(ONE[:size]).size_bytes == len(ONE)
    with pytest.raises(CorruptBatch, match="batch is cut short"):
        decode_batch(ONE[:size])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"length": 48}, "less than a header"),
        ({"length": -1}, "less than a header"),
        ({"magic": 1}, "magic 1"),
        ({"magic": 3}, "magic 3"),
        ({"base_offset": -1}, "records in offsets"),
        ({"last_offset_delta": -1}, "records in offsets"),
        ({"count": -1}, "records in offsets"),
        ({"count": 2}, "records in offsets"),
        ({"count": 0}, "left behind"),
        ({"attributes": 5}, "5 is not a valid Compression"),
        ({"attributes": 4}, "frame"),
        ({"count": 2, "last_offset_delta": 1}, "no room for 2 records"),
    ],
)
def test_a_batch_with_a_bad_header_is_refused(fields, reason):
    with pytest.raises(CorruptBatch, match=reason) as raised:
        decode_batch(b"xx" + resealed(ONE, **fields), 2)
    assert raised.value.position == 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no room"),
        (b"\x0c\x00\x00\x00\x01\x01\x00", None),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", "left behind"),
        (b"\x0a\x00\x00\x00\x01\x01\x00", "record 0 is malformed"),
        (b"\x0e\x00\x00\x00\x01\x01\x00", "record 0 is malformed"),
        (b"\x01\x00\x00\x00\x01\x01\x00", "record 0 is malformed"),
        (b"\x0c\x00\x00\x00\x03\x01\x00", "record 0 is malformed"),  # key size -2
        (b"\x0c\x00\x00\x00\x06\x01\x00", "record 0 is malformed"),  # key beyond the end
        (b"\x0c\x00\x00\x00\x01\x03\x00", "record 0 is malformed"),  # value size -2
        (b"\x0c\x00\x00\x00\x01\x04\x00", "record 0 is malformed"),  # value beyond the end
        (b"\x0c\x00\x00\x00\x01\x01\x01", "record 0 is malformed"),  # -1 headers
        (b"\x0c\x00\x00\x00\x01\x01\x02", "record 0 is malformed"),  # a header beyond the end
        (b"\x0c\x00\x00\x01\x01\x01\x00", "offset -1 is outside"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", "has no name"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x00\x02", "header is malformed"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x03\x01", "header is malformed"),
        (b"\x12\x00\x00\x00\x01\x01\x02\x00\x01\x00", "behind a record's headers"),
        (b"\xff" * 10, "record 0 is malformed"),
    ],
)
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.SNAPPY])
def test_a_batch_with_bad_records_is_refused(compression, body, reason):
    batch = with_body(compress(compression, body), attributes=compression)
    if reason is None:
        [record] = decode_batch(batch).records
        assert record == Record(key=None, value=None, offset=0, timestamp_ms=-1)
        return
    with pytest.raises(CorruptBatch, match=reason):
        decode_batch(batch)


def test_a_count_that_cannot_be_makes_no_room():
    with pytest.raises(CorruptBatch, match="no room for 2000000000 records"):
        decode_batch(with_body(b"\x0c\x00\x00\x00\x01\x01\x00", count=2_000_000_000))


@pytest.mark.parametrize("compression", [each for each in Compression if each])
def test_a_batch_that_would_grow_beyond_the_bound_is_refused(compression):
    large = Record(key=None, value=bytes(1_000_000), offset=0, timestamp_ms=0)
    encoded = encode_batch([large], base_offset=0, compression=compression)
    assert decode_batch(encoded, decompressed_bytes_max=1_000_100).records == (large,)
    with pytest.raises(CorruptBatch):
        decode_batch(encoded, decompressed_bytes_max=1_000_000)


@given(st.integers(0, len(ONE) * 8 - 1))
def test_a_flipped_bit_is_noticed_wherever_the_checksum_covers_it(bit):
    flipped = bytearray(ONE)
    flipped[bit // 8] ^= 1 << bit % 8
    covered = bit // 8 >= 16  # Offset, length and leader epoch are the broker's to set.
    try:
        batch = decode_batch(flipped)
    except CorruptBatch:
        return
    assert not covered
    assert batch.crc == batch_header(ONE).crc


def test_without_the_check_a_wrong_checksum_is_read_over():
    (crc,) = struct.unpack_from(">I", ONE, 17)
    damaged = ONE[:17] + struct.pack(">I", crc ^ 1) + ONE[21:]
    with pytest.raises(CorruptBatch, match="checksum"):
        decode_batch(damaged)
    batch = decode_batch(damaged, check_crc=False)
    assert batch.records == (RECORD,)
    assert computed_crc(damaged) == crc == batch.crc ^ 1


def test_bytes_behind_the_last_batch_are_refused():
    batches = decode_batches(ONE + ONE[:30])
    assert next(batches) == decode_batch(ONE)
    with pytest.raises(CorruptBatch) as raised:
        next(batches)
    assert raised.value.position == len(ONE)


@given(body=st.binary(max_size=60), count=st.integers(0, 9))
def test_random_records_are_read_within_their_bounds_or_refused(body, count):
    try:
        batch = decode_batch(with_body(body, count=count))
    except CorruptBatch:
        return
    sizes = [len(part or b"") for each in batch.records for part in (each.key, each.value)]
    assert sum(sizes) <= len(body)
