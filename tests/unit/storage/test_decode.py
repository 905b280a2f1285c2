from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.kernels import decode, padded_copy
from offsetd_storage.kernels.registry import kernel


@kernel("void(uint8[::1], int64, int64, int64[::1])")
def load_header(buffer, position, end, row):
    row[0], row[1], row[2], row[3], row[4] = decode.load_header(buffer, position, end)


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
