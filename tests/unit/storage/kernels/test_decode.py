from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.kernels import decode, padded_copy
from offsetd_storage.kernels.registry import kernel

pytestmark = pytest.mark.kernel


@kernel("void(uint8[::1], int64, int64, int64[::1])")
def load_header(buffer, position, end, row):
    row[0], row[1], row[2], row[3], row[4] = decode.load_header(buffer, position, end)


@kernel("void(uint8[::1], int64, int64[:, ::1])")
def load_both_ways(buffer, end, rows):
    for column, number in enumerate(decode.load_usual_record(buffer, 0, end)):
        rows[0, column] = number
    for column, number in enumerate(decode.load_any_record(buffer, 0, end)):
        rows[1, column] = number


def both_ways(content: bytes) -> list[list[int]]:
    rows = np.zeros((2, decode.RECORD_COLUMNS), dtype=np.int64)
    # What is behind the records looks like more of them.
    load_both_ways(padded_copy(content + bytes(8)), len(content), rows)
    return rows.tolist()


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (b"\x00\x00", [2, 1, 0, 2, 0]),
        (b"\x00\x01", [2, 1, 0, 2, -1]),
        (b"\x02n\x04vw", [5, 1, 1, 3, 2]),
    ],
)
def test_a_header_is_read_and_where_it_ends(header, row):
    read = np.zeros(5, dtype=np.int64)
    load_header(padded_copy(b"before" + header + b"behind"), 6, 6 + len(header), read)
    assert (read - [6, 6, 0, 6, 0]).tolist() == row


@pytest.mark.parametrize(
    "header",
    [b"", b"\x01", b"\x02", b"\x02n", b"\x02n\x03", b"\x02n\x04x", b"\x7f", b"\x00\xff\xff"],
)
def test_a_header_that_does_not_fit_is_not_read(header):
    row = np.zeros(5, dtype=np.int64)
    load_header(padded_copy(header), 0, len(header), row)
    assert row.tolist() == [-1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("content", "count", "read"),
    [
        (b"", 0, 0),
        (b"\x0c\x00\x00\x00\x01\x01\x00" * 2, 2, 2),
        (b"\x0c\x00\x00\x00\x01\x01\x00" * 2, 1, -1),
        (b"\x0c\x00\x00\x00\x01\x01\x00" * 2, 3, 2),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x0e\x00\x00\x00\x01\x01\x00\x00", 2, 1),
        (b"\x0e\x00\x00\x00\x08\x01\x00\x00" + bytes(20), 1, 0),
        (b"\x0e\x00\x00\x00\x01\x08\x00\x00" + bytes(20), 1, 0),
        (b"\x0e\x00\x00\x00\xfe\xff\xff\xff\x0f" + bytes(20), 1, 0),
    ],
    ids=[
        *("nothing", "two records", "bytes left", "too few", "bytes left within a record"),
        *("key beyond the record", "value beyond the record", "key of 2 GiB"),
    ],
)
def test_records_have_to_fill_their_range_exactly(content, count, read):
    rows = np.zeros((count, decode.RECORD_COLUMNS), dtype=np.int64)
    assert decode.index_records(padded_copy(content), 0, len(content), rows) == read


@given(body=st.lists(st.sampled_from([0, 1, 2, 12, 14, 16, 127, 128, 255]), max_size=40))
def test_rows_of_random_bytes_point_into_them(body):
    rows = np.zeros((6, decode.RECORD_COLUMNS), dtype=np.int64)
    content = bytes(body)
    read = decode.index_records(padded_copy(content), 0, len(content), rows)
    previous_end = 0
    for row in rows[: read if read >= 0 else len(rows)].tolist():
        record_end, _, _, key_at, key_size, value_at, value_size, headers_at, headers = row
        assert previous_end < key_at <= value_at <= headers_at <= record_end <= len(content)
        assert min(key_size, value_size) >= -1
        assert headers <= record_end - headers_at
        previous_end = record_end
    assert read <= len(rows)


@given(
    content=st.lists(
        st.sampled_from([0, 1, 2, 3, 10, 12, 14, 16, 62, 126, 127, 128, 129, 255]), max_size=40
    )
)
def test_the_quick_way_to_read_a_record_finds_nothing_that_the_long_one_does_not(content):
    quick, long = both_ways(bytes(content))
    assert quick == (long if quick[0] >= 0 else [-1] + [0] * 8)


def one_byte(number: int) -> bytes:
    return bytes([2 * number if number >= 0 else -2 * number - 1])


@given(
    times=st.tuples(st.integers(-64, 63), st.integers(0, 63)),
    key_size=st.integers(-1, 63),
    value_size=st.integers(-1, 63),
    cut=st.integers(0, 3),
)
def test_usual_records_are_read_the_quick_way(times, key_size, value_size, cut):
    body = b"\x00" + b"".join(map(one_byte, times))
    for size in (key_size, value_size):
        body += one_byte(size) + b"x" * max(size, 0)
    body += b"\x00"
    raw = 2 * len(body)
    length = bytes([raw]) if raw < 128 else bytes([raw & 127 | 128, raw >> 7])
    content = length + body
    quick, long = both_ways(content[: len(content) - cut])
    assert quick == long
    assert (quick[0] == len(content)) == (cut == 0)
