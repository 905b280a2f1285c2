from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.batch.record_batch import BATCH_HEADER, Record, computed_crc, encode_batch
from offsetd_storage.kernels import padded_copy, scan

pytestmark = pytest.mark.kernel


def batch(base_offset: int, *, last_offset: int | None = None, **fields) -> bytes:
    record = Record(key=b"key", value=b"value", offset=base_offset, timestamp_ms=1000)
    return encode_batch([record], base_offset=base_offset, last_offset=last_offset, **fields)


FIELDS = [
    *("base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta"),
    *("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count"),
]


def resealed(content: bytes, **fields: int) -> bytes:
    """The batch with other values in its header, and a checksum that fits."""
    header = dict(zip(FIELDS, BATCH_HEADER.unpack_from(content), strict=True)) | fields
    body = content[BATCH_HEADER.size :]
    header["crc"] = computed_crc(BATCH_HEADER.pack(*header.values()) + body)
    return BATCH_HEADER.pack(*header.values()) + body


def new_state(*, base_offset: int = 0, interval: int = 4096) -> np.ndarray:
    state = np.zeros(scan.STATE_SLOTS, dtype=np.int64)
    state[scan.SEGMENT_BASE_OFFSET] = state[scan.OFFSET_NEXT] = base_offset
    state[scan.INDEX_INTERVAL_BYTES] = interval
    state[scan.LEADER_EPOCH_LAST] = state[scan.LARGEST_TIMESTAMP] = -1
    return state


def scanned(content: bytes, state: np.ndarray, *, rows: int = 100) -> tuple[int, np.ndarray]:
    index = np.zeros((rows, scan.INDEX_COLUMNS), dtype=np.int64)
    end = scan.scan_batches(padded_copy(content), 0, len(content), state, index)
    return end, index[: state[scan.INDEX_ROWS]]


GOOD = batch(10, leader_epoch=3) + batch(11, last_offset=15, leader_epoch=3)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"", scan.END),
        (batch(16, leader_epoch=3), scan.END),
        (batch(500, leader_epoch=9), scan.END),
        (batch(16, leader_epoch=-1), scan.END),
        (resealed(batch(16, leader_epoch=3), count=0, last_offset_delta=4), scan.END),
        (batch(16, leader_epoch=3)[:60], scan.INCOMPLETE),
        (batch(16, leader_epoch=3)[:-1], scan.INCOMPLETE),
        (b"\0" * 10, scan.INCOMPLETE),
        (b"\0" * 100, scan.BAD_LENGTH),
        (resealed(batch(16), length=48), scan.BAD_LENGTH),
        (resealed(batch(16), length=-1), scan.BAD_LENGTH),
        (resealed(batch(16, leader_epoch=3), length=2**31 - 1), scan.INCOMPLETE),
        (resealed(batch(16), magic=1), scan.BAD_MAGIC),
        (resealed(batch(16), magic=-2), scan.BAD_MAGIC),
        (resealed(batch(16), count=-1), scan.BAD_COUNT),
        (resealed(batch(16), count=2), scan.BAD_COUNT),
        (resealed(batch(16), last_offset_delta=-1, count=0), scan.BAD_COUNT),
        (resealed(batch(16), base_offset=-1), scan.BAD_OFFSET),
        (resealed(batch(16), base_offset=2**63 - 1), scan.BAD_OFFSET),
        (resealed(batch(16), base_offset=2**63 - 1, last_offset_delta=9), scan.BAD_OFFSET),
        (batch(15, leader_epoch=3), scan.BAD_OFFSET),
        (batch(16, last_offset=2**31 + 10, leader_epoch=3), scan.BAD_OFFSET),
        (batch(16, last_offset=2**31 + 9, leader_epoch=3), scan.END),
        (batch(16, leader_epoch=2), scan.BAD_LEADER_EPOCH),
        (batch(16, leader_epoch=-2), scan.BAD_LEADER_EPOCH),
        (batch(16, leader_epoch=3)[:-1] + b"!", scan.BAD_CHECKSUM),
    ],
)
def test_a_scan_stops_at_the_first_batch_that_is_not_whole_and_valid(bad, reason):
    state = new_state(base_offset=10)
    end, _ = scanned(GOOD + bad, state)
    assert state[scan.REASON] == reason
    assert end == len(GOOD) + (len(bad) if reason == scan.END else 0)
    if reason != scan.END:
        assert state[scan.OFFSET_NEXT] == 16
        assert state[scan.BATCHES] == state[scan.RECORDS] == 2
        assert state[scan.LEADER_EPOCH_LAST] == 3


def test_a_batch_without_a_leader_epoch_does_not_allow_the_next_one_to_fall():
    state = new_state()
    epochs = enumerate([3, -1, 3, 2])
    batches = [batch(offset, leader_epoch=epoch) for offset, epoch in epochs]
    end, _ = scanned(b"".join(batches), state)
    assert (end, state[scan.REASON]) == (3 * len(batches[0]), scan.BAD_LEADER_EPOCH)


@given(st.integers(0, len(GOOD) * 8 - 1))
def test_a_flipped_bit_ends_the_scan_or_is_in_a_field_that_the_checksum_does_not_cover(bit):
    flipped = bytearray(GOOD)
    flipped[bit // 8] ^= 1 << bit % 8
    state = new_state(base_offset=10)
    end, _ = scanned(bytes(flipped), state)
    start = 0 if bit // 8 < len(GOOD) // 2 else len(GOOD) // 2
    if bit // 8 - start >= 16 or 8 <= bit // 8 - start < 12:
        assert (end, state[scan.REASON] != scan.END) == (start, True)


@given(st.binary(max_size=300))
def test_random_bytes_are_not_taken_for_batches(content):
    state = new_state()
    end, _ = scanned(content, state)
    assert end == 0
    assert state[scan.REASON] != scan.END or content == b""


def test_an_index_row_is_due_when_more_than_the_interval_lies_between():
    batches = [batch(offset, max_timestamp_ms=ms) for offset, ms in enumerate([5, 9, 9, 7, 12])]
    size = len(batches[0])
    for interval, indexed in [(0, [1, 2, 3, 4]), (size - 1, [1, 2, 3, 4]), (size, [2, 4])]:
        _, index = scanned(b"".join(batches), new_state(interval=interval))
        largest = {1: (9, 1), 2: (9, 1), 3: (9, 1), 4: (12, 4)}
        assert index.tolist() == [[slot, slot * size, *largest[slot]] for slot in indexed]


def test_a_full_index_pauses_the_scan_and_nothing_is_lost():
    batches = [batch(offset) for offset in range(10)]
    content = padded_copy(b"".join(batches))
    state, end, offsets = new_state(interval=0), 0, []
    index = np.zeros((2, scan.INDEX_COLUMNS), dtype=np.int64)
    state[scan.REASON] = scan.INDEX_FULL
    while state[scan.REASON] == scan.INDEX_FULL:
        state[scan.INDEX_ROWS] = 0
        end = scan.scan_batches(content, end, len(batches[0]) * 10, state, index)
        offsets += index[: state[scan.INDEX_ROWS], 0].tolist()
    assert state[scan.REASON] == scan.END
    assert offsets == list(range(1, 10))
    assert state[scan.BATCHES] == 10


def find(content: bytes, *, start=0, end=None, file_end=None, offset_min=0) -> int:
    end = len(content) if end is None else end
    file_end = end if file_end is None else file_end
    return scan.find_batch_header(padded_copy(content), start, end, file_end, offset_min)


def old_message(offset: int, *, magic=1, attributes=0, size=40) -> bytes:
    """The start of a message of an older format."""
    head = struct.pack(">qiIBB", offset, size - 12, 0, magic, attributes)
    return head + bytes(size - len(head))


@given(junk=st.binary(max_size=200), behind=st.binary(max_size=50))
def test_a_header_is_found_at_any_byte(junk, behind):
    assert find(junk + batch(7) + behind) == len(junk)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(1000),
        batch(4),
        batch(5 + 2**31),
        resealed(batch(7), magic=3),
        resealed(batch(7), attributes=0x80),
        resealed(batch(7), count=2),
        old_message(4),
        old_message(7, attributes=0x10),
        old_message(7, size=25),
        old_message(7, magic=-1 & 0xFF),
    ],
)
def test_what_cannot_be_a_header_from_the_least_offset_on_is_not_found(content):
    assert find(content, offset_min=5) == -1
    assert find(content + batch(5) + bytes(100), offset_min=5) == len(content)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [26, 40, 1000])
def test_messages_of_older_formats_are_found_too(magic, size):
    content = b"junk" + old_message(7, magic=magic, size=size)
    assert find(content, offset_min=5) == 4


def test_a_batch_that_goes_on_behind_the_buffer_is_shown_if_the_file_has_room_for_it():
    content = b"junk" + batch(7)
    cut = len(content) - 1
    assert find(content, end=cut, file_end=cut) == -1
    assert find(content, end=cut, file_end=cut + 1) == 4
    assert find(content, end=4 + 61, file_end=cut + 1) == 4
    assert find(content, end=4 + 60, file_end=cut + 1) == -1
    assert find(content, start=5, end=cut, file_end=cut + 1) == -1


def test_constants_are_those_of_the_header():
    content = resealed(batch(0x0102030405060708), leader_epoch=0x11121314)
    at = scan.BATCH_LENGTH_AT
    assert struct.unpack_from(">i", content, at)[0] == len(content) - scan.LENGTH_EXCLUDES_BYTES
    assert struct.unpack_from(">i", content, scan.LEADER_EPOCH_AT)[0] == 0x11121314
