"""The bytes behind the first bad batch: a torn tail, or a log that is damaged in its middle."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.log.segment_scan import BUFFER_BYTES
from offsetd_storage.recovery.tail_search import is_valid_batch_at, valid_batch_after


class MemoryFile:
    """A file that counts the bytes that are read of it, and the largest piece."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.bytes_read = 0
        self.piece_bytes_max = 0

    def pread_into(self, buffer, size, position):
        part = self.content[position : position + size]
        buffer[: len(part)] = np.frombuffer(part, dtype=np.uint8)
        self.bytes_read += len(part)
        self.piece_bytes_max = max(self.piece_bytes_max, size)
        return len(part)


def batch(base_offset: int, *, size=5) -> bytes:
    record = Record(key=b"k", value=b"v" * size, offset=base_offset, timestamp_ms=1000)
    return encode_batch([record], base_offset=base_offset)


def old_message(offset: int, *, magic: int, size: int = 5) -> bytes:
    """A message as Kafka wrote them before batches."""
    timestamp = struct.pack(">q", 1000) if magic else b""
    key_and_value = struct.pack(">i", 1) + b"k" + struct.pack(">i", size) + b"v" * size
    covered = struct.pack(">BB", magic, 0) + timestamp + key_and_value
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered


@pytest.mark.parametrize(
    "distance", [0, 1, 60, BUFFER_BYTES - 100, BUFFER_BYTES - 60, BUFFER_BYTES, BUFFER_BYTES + 1]
)
@pytest.mark.parametrize("size", [5, 3 * BUFFER_BYTES])
def test_the_next_valid_batch_is_found_however_far_it_is_and_however_large(distance, size):
    content = b"x" * (1 + distance) + batch(9, size=size) + b"tail"
    found = valid_batch_after(MemoryFile(content), 0, size=len(content), offset_min=9)
    assert found == 1 + distance


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        bytes(5000),
        batch(9)[:-1],
        batch(8),
        batch(9, size=2 * BUFFER_BYTES)[:-1],
        batch(9, size=2 * BUFFER_BYTES)[:-1] + b"!",
    ],
    ids=["nothing", "zeros", "torn", "old offset", "torn and large", "damaged and large"],
)
def test_a_torn_tail_has_no_valid_batch_behind_it(tail):
    content = batch(0)[:-3] + tail
    assert valid_batch_after(MemoryFile(content), 0, size=len(content), offset_min=9) is None


def test_the_batch_at_the_position_itself_does_not_count():
    content = batch(9) + batch(10)
    file = MemoryFile(content)
    assert valid_batch_after(file, 0, size=len(content), offset_min=9) == len(batch(9))
    assert valid_batch_after(file, len(batch(9)), size=len(content), offset_min=9) is None


def test_bytes_behind_the_given_size_do_not_count():
    content = b"damage" + batch(9)
    file = MemoryFile(content)
    assert valid_batch_after(file, 0, size=len(content) - 1, offset_min=9) is None
    assert valid_batch_after(file, 0, size=len(content), offset_min=9) == 6


def test_a_header_that_only_looks_right_does_not_hide_the_batch_behind_it():
    # It claims to be large; the real one lies where its records would be.
    lure = bytearray(batch(9, size=2 * BUFFER_BYTES))
    lure[500:500] = batch(10)
    content = b"x" + bytes(lure)
    found = valid_batch_after(MemoryFile(content), 0, size=len(content), offset_min=9)
    assert found == 501


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [0, 5, 2 * BUFFER_BYTES])
@pytest.mark.parametrize("distance", [1, 60, BUFFER_BYTES - 20])
def test_messages_of_older_formats_are_no_torn_tail(magic, size, distance):
    content = b"x" * distance + old_message(9, magic=magic, size=size)
    assert valid_batch_after(MemoryFile(content), 0, size=len(content), offset_min=9) == distance
    torn = content[:-1]
    assert valid_batch_after(MemoryFile(torn), 0, size=len(torn), offset_min=9) is None
    damaged = torn + b"!"
    assert valid_batch_after(MemoryFile(damaged), 0, size=len(damaged), offset_min=9) is None


def test_large_batches_are_read_in_pieces():
    content = b"x" + batch(9, size=5 * BUFFER_BYTES)
    file = MemoryFile(content)
    assert valid_batch_after(file, 0, size=len(content), offset_min=9) == 1
    assert is_valid_batch_at(file, 1, size=len(content))
    assert file.piece_bytes_max == BUFFER_BYTES


def full_of_headers(size: int) -> bytes:
    """Every 32 bytes something that looks like a batch up to the end."""
    content = bytearray(size)
    for at in range(0, size - 200, 32):
        content[at + 8 : at + 12] = (size - at - 100).to_bytes(4, "big")
        content[at + 16] = 2
    return bytes(content)


def test_bytes_full_of_headers_are_given_up_before_long():
    content = b"x" + full_of_headers(4 * BUFFER_BYTES)
    file = MemoryFile(content)
    with pytest.raises(CorruptBatch, match="too many bytes"):
        valid_batch_after(file, 0, size=len(content), offset_min=0)
    assert file.bytes_read < 1200 << 20


def test_a_few_false_headers_are_not_too_much():
    content = b"x" + full_of_headers(4096) * 20 + batch(9)
    found = valid_batch_after(MemoryFile(content), 0, size=len(content), offset_min=0)
    assert found == len(content) - len(batch(9))


@pytest.mark.parametrize(
    ("content", "valid"),
    [
        (batch(9), True),
        (batch(9, size=3 * BUFFER_BYTES), True),
        (batch(9) + b"more", True),
        (b"", False),
        (batch(9)[:-1], False),
        (batch(9)[:50], False),
        (batch(9)[:-1] + b"!", False),
        (bytes(1000), False),
        (old_message(9, magic=1, size=100), False),
    ],
    ids=lambda value: value if isinstance(value, bool) else len(value),
)
def test_a_batch_with_its_checksum_is_valid_whatever_its_offset_is(content, valid):
    content = b"x" + content
    assert is_valid_batch_at(MemoryFile(content), 1, size=len(content)) is valid
    elsewhere = content[:1] + (2**60).to_bytes(8, "big") + content[9:]
    assert is_valid_batch_at(MemoryFile(elsewhere), 1, size=len(elsewhere)) is valid
