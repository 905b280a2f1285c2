from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.batch.record_batch import Record, decode_batch, encode_batch
from offsetd_storage.kernels import encode, padded_copy
from offsetd_storage.kernels.registry import kernel

pytestmark = pytest.mark.kernel

int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
offsets = st.integers(0, 2**62)
timestamps = st.integers(-(2**62), 2**62 - 1)  # Two of them differ by an int64.
names = st.none() | st.binary(max_size=200)


@kernel("int64(uint8[::1], int64, int64, int64, uint8[::1], int64, uint8[::1], int64, int64[::1])")
def put_one(out, position, timestamp_delta, offset_delta, key, key_size, value, value_size, sizes):
    sizes[0] = encode.record_size(
        timestamp_delta, offset_delta, key_size, value_size, encode.NO_HEADERS_BYTES
    )
    return encode.put_record(
        out, position, timestamp_delta, offset_delta, key, 0, key_size, value, 0, value_size
    )


@kernel("int64(uint8[::1], int64, uint8[::1], int64, uint8[::1], int64, int64, int64[::1])")
def put_one_with_headers(out, position, name, name_size, value, value_size, count, sizes):
    """A record without key or value, and `count` times the same header."""
    one = encode.header_size(name_size, value_size)
    headers_size = encode.NO_HEADERS_BYTES + one * count  # The count takes one byte up to 63.
    sizes[0] = encode.record_size(0, 0, -1, -1, headers_size)
    position = encode.put_record_start(out, position, 0, 0, -1, -1, headers_size)
    position = encode.put_varint(out, position, -1)
    position = encode.put_varint(out, position, count)
    for _ in range(count):
        position = encode.put_header(out, position, name, 0, name_size, value, 0, value_size)
    return position


@kernel("void(uint8[::1], int64, int64, int64[::1])")
def seal(out, start, records_end, numbers):
    encode.seal_batch(
        out,
        start,
        records_end,
        numbers[0],
        numbers[1],
        numbers[2],
        numbers[3],
        numbers[4],
        numbers[5],
        numbers[6],
        numbers[7],
        numbers[8],
        numbers[9],
    )


def size_of(content: bytes | None) -> int:
    return -1 if content is None else len(content)


@given(
    keys_and_values=st.lists(st.tuples(names, names), max_size=5),
    base_offset=offsets,
    gaps=st.lists(st.integers(1, 2**28), min_size=5, max_size=5),
    times=st.lists(timestamps, min_size=5, max_size=5),
    leader_epoch=int32s,
    producer=st.tuples(st.integers(-(2**63), 2**63 - 1), int16s, int32s),
    start=st.integers(0, 5),
)
def test_a_batch_that_kernels_write_is_the_one_that_python_writes(
    keys_and_values, base_offset, gaps, times, leader_epoch, producer, start
):
    steps = np.cumsum([0, *gaps]).tolist()
    records = [
        Record(key=key, value=value, offset=base_offset + step, timestamp_ms=time)
        for (key, value), step, time in zip(keys_and_values, steps, times, strict=False)
    ]
    base_timestamp = records[0].timestamp_ms if records else -1
    out = np.full(start + 3000, 0x99, dtype=np.uint8)
    position = start + encode.BATCH_HEADER_BYTES
    sizes = np.zeros(1, dtype=np.int64)
    for each in records:
        before = position
        position = put_one(
            out,
            position,
            each.timestamp_ms - base_timestamp,
            each.offset - base_offset,
            padded_copy(each.key or b""),
            size_of(each.key),
            padded_copy(each.value or b""),
            size_of(each.value),
            sizes,
        )
        assert position == before + sizes[0]
    max_timestamp = max((each.timestamp_ms for each in records), default=-1)
    last_delta = records[-1].offset - base_offset if records else 0
    numbers = [base_offset, last_delta, len(records), base_timestamp, max_timestamp, 0, *producer]
    seal(out, start, position, np.array([*numbers, leader_epoch], dtype=np.int64))
    assert bytes(out[start:position]) == encode_batch(
        records,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    )
    assert bytes(out[:start]) == b"\x99" * start
    assert bytes(out[position:]) == b"\x99" * (len(out) - position)


@pytest.mark.parametrize("value", [None, b"", b"x" * 100])
@pytest.mark.parametrize("name", ["", "request_id"])
@pytest.mark.parametrize("count", [1, 2, 63])
def test_headers_that_kernels_write_are_read(name, value, count):
    out = np.zeros(16_000, dtype=np.uint8)
    sizes = np.zeros(1, dtype=np.int64)
    buffers = padded_copy(name.encode()), padded_copy(value or b"")
    end = put_one_with_headers(
        out, 61, buffers[0], len(name), buffers[1], size_of(value), count, sizes
    )
    assert end == 61 + sizes[0]
    seal(out, 0, end, np.array([7, 0, 1, 0, 0, 0, -1, -1, -1, 0], dtype=np.int64))
    [record] = decode_batch(bytes(out[:end])).records
    assert record.headers == ((name, value),) * count
