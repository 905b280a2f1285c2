"""Walks the batches of a segment, checks each, and collects the data for its indexes and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import load_i16, load_i32, load_i64, load_u8, load_u32
from offsetd_storage.kernels.crc32c import checksum, continued_checksum
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    COUNT_AT,
    CRC_AT,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_EXCLUDES_BYTES,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_ID_AT,
)
from offsetd_storage.kernels.registry import inline_kernel, kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

# The reasons why a walk ended.
END: Final = 0  # Every byte belongs to a whole, valid batch.
INCOMPLETE: Final = 1  # The bytes end inside a batch; its header, as far as it exists, is good.
BAD_LENGTH: Final = 2
BAD_MAGIC: Final = 3
BAD_COUNT: Final = 4  # The count of records, or the delta of the last offset.
BAD_OFFSET: Final = 5  # Not above the batch before, or out of the segment's range.
BAD_LEADER_EPOCH: Final = 6  # Lower than that of a batch before.
BAD_CHECKSUM: Final = 7
INDEX_FULL: Final = 8  # Nothing is wrong: take the rows away and continue.
TOO_LARGE: Final = 9  # Perhaps whole, but larger than one read.

# Slots of `state`. The caller sets these before the first call:
SEGMENT_BASE_OFFSET: Final = 0
INDEX_INTERVAL_BYTES: Final = 1
# The caller sets these before each call:
FILE_POSITION: Final = 2  # of the buffer's first byte
INDEX_ROWS: Final = 3  # in use
# Each call updates these:
OFFSET_NEXT: Final = 4  # the least offset that the next batch may have
LEADER_EPOCH_LAST: Final = 5
BATCHES: Final = 6
RECORDS: Final = 7
LARGEST_TIMESTAMP: Final = 8
LARGEST_TIMESTAMP_OFFSET: Final = 9
FIRST_TIMESTAMP: Final = 10  # the max timestamp of the first batch
INDEXED_POSITION: Final = 11  # of the last batch that has an index row
MARKED_BATCHES: Final = 12  # of a producer, or with a delete horizon
GAPLESS_FROM: Final = 13  # after the last offset without a record, or in a transaction
HEADERS_DIGEST: Final = 14  # of the batches so far, see `headers_digest_after`
# Each call sets this for the caller:
REASON: Final = 15
STATE_SLOTS: Final = 16

# Columns of `index`.
INDEX_COLUMNS: Final = 4  # last offset, file position, largest timestamp so far and its offset

# A message of format v0 or v1 begins with its offset and length, as a batch does. After them come
# the CRC-32, the magic (at the same place as in a batch), attributes, v1's timestamp, key, value.
OLD_CRC_AT: Final = 12
OLD_ATTRIBUTES_AT: Final = 17
OLD_MESSAGE_BYTES_MIN: Final = 26

HORIZON_BIT: Final = 0x40  # The base timestamp is the batch's delete horizon.
_TRANSACTION_BITS: Final = 0x30  # Part of a transaction, or its end.

I32_MAX: Final = (1 << 31) - 1
_OFFSET_MAX: Final = (1 << 62) - 1  # Far beyond any log, and no sum can overflow.


@inline_kernel
def header_flaw(buffer: Bytes, position: int, end: int) -> int:
    """The flaw of the header at `position`, judged by the header alone; END if it has none.

    Returns INCOMPLETE if fewer than 61 bytes are left before `end`.
    """
    if end - position < BATCH_HEADER_BYTES:
        return INCOMPLETE
    if load_i32(buffer, position + BATCH_LENGTH_AT) < BATCH_HEADER_BYTES - LENGTH_EXCLUDES_BYTES:
        return BAD_LENGTH
    if load_u8(buffer, position + MAGIC_AT) != MAGIC:
        return BAD_MAGIC
    last_offset_delta = load_i32(buffer, position + LAST_OFFSET_DELTA_AT)
    count = load_i32(buffer, position + COUNT_AT)
    # Compaction leaves fewer records than offsets, or none; never more.
    if last_offset_delta < 0 or count < 0 or count > last_offset_delta + 1:
        return BAD_COUNT
    base_offset = load_i64(buffer, position + BASE_OFFSET_AT)
    if base_offset < 0 or base_offset > _OFFSET_MAX:
        return BAD_OFFSET
    return END


@inline_kernel
def batch_size(buffer: Bytes, position: int) -> int:
    """Bytes of the whole batch whose header is at `position`."""
    return load_i32(buffer, position + BATCH_LENGTH_AT) + LENGTH_EXCLUDES_BYTES


@inline_kernel
def headers_digest_after(digest: int, buffer: Bytes, position: int) -> int:
    """`digest`, continued with the batch at `position`.

    The digest is the CRC32C of the start of each batch: the bytes that its own CRC does not cover,
    and that CRC.
    """
    return continued_checksum(digest, buffer, position, position + ATTRIBUTES_AT)


@inline_kernel
def has_valid_checksum(buffer: Bytes, position: int, size: int) -> bool:
    """Whether the checksum of the batch fits its bytes."""
    computed = checksum(buffer, position + ATTRIBUTES_AT, position + size)
    return computed == load_u32(buffer, position + CRC_AT)


@inline_kernel
def batch_flaw(
    buffer: Bytes,
    position: int,
    end: int,
    offset_next: int,
    offset_last_max: int,
    leader_epoch_last: int,
) -> int:
    """The flaw of the batch at `position`, of bytes up to `end`; END if it has none."""
    flaw = header_flaw(buffer, position, end)
    if flaw != END:
        return flaw
    base_offset = load_i64(buffer, position + BASE_OFFSET_AT)
    last_offset = base_offset + load_i32(buffer, position + LAST_OFFSET_DELTA_AT)
    if base_offset < offset_next or last_offset > offset_last_max:
        return BAD_OFFSET
    leader_epoch = load_i32(buffer, position + LEADER_EPOCH_AT)
    # Batches from before leader epochs have -1.
    if leader_epoch < leader_epoch_last and leader_epoch != -1:
        return BAD_LEADER_EPOCH
    size = batch_size(buffer, position)
    if size > end - position:
        return INCOMPLETE
    if not has_valid_checksum(buffer, position, size):
        return BAD_CHECKSUM
    return END


@inline_kernel
def _is_marked(buffer: Bytes, position: int) -> bool:
    has_horizon = load_i16(buffer, position + ATTRIBUTES_AT) & HORIZON_BIT != 0
    return bool(has_horizon or load_i64(buffer, position + PRODUCER_ID_AT) >= 0)


@inline_kernel
def _is_unused(buffer: Bytes, position: int) -> bool:
    """Whether no record ever had the offsets of the batch.

    A batch of the cleaner without records keeps the time of its records. This one has no time.
    """
    return bool(
        load_i32(buffer, position + COUNT_AT) == 0
        and load_i64(buffer, position + MAX_TIMESTAMP_AT) == -1
        and load_i64(buffer, position + PRODUCER_ID_AT) == -1
    )


@inline_kernel
def _gapless_from(buffer: Bytes, position: int, offset_next: int, gapless_from: int) -> int:
    """`gapless_from` after one more batch; the offsets before that batch end at `offset_next`."""
    base_offset = load_i64(buffer, position + BASE_OFFSET_AT)
    offsets = load_i32(buffer, position + LAST_OFFSET_DELTA_AT) + 1
    if load_i32(buffer, position + COUNT_AT) != offsets:
        return gapless_from if _is_unused(buffer, position) else base_offset + offsets
    if load_i16(buffer, position + ATTRIBUTES_AT) & _TRANSACTION_BITS != 0:
        return base_offset + offsets
    return base_offset if base_offset > offset_next else gapless_from


@kernel("int64(uint8[::1], int64, int64, int64[::1], int64[:, ::1])")
def scan_batches(buffer: Bytes, start: int, end: int, state: Numbers, index: Numbers) -> int:
    """Check the batches from `start` to `end`.

    Returns the start of the first batch that is not whole or not valid, or `end`; `state[REASON]`
    is the reason.

    The checks are of the header, of offsets that grow and stay within the segment, of leader epochs
    that do not fall, and of the checksum, in this order; records are not checked. An index row is
    due for each batch that begins more than the interval after the last one that has a row, as in
    Kafka's `LogSegment.recover`.
    """
    offset_last_max = state[SEGMENT_BASE_OFFSET] + I32_MAX
    position = start
    reason = END
    while position < end:
        if state[INDEX_ROWS] == index.shape[0]:
            reason = INDEX_FULL
            break
        reason = batch_flaw(
            buffer, position, end, state[OFFSET_NEXT], offset_last_max, state[LEADER_EPOCH_LAST]
        )
        if reason != END:
            break
        if state[BATCHES] == 0:
            state[FIRST_TIMESTAMP] = load_i64(buffer, position + MAX_TIMESTAMP_AT)
        state[GAPLESS_FROM] = _gapless_from(
            buffer, position, state[OFFSET_NEXT], state[GAPLESS_FROM]
        )
        leader_epoch = load_i32(buffer, position + LEADER_EPOCH_AT)
        state[LEADER_EPOCH_LAST] = max(state[LEADER_EPOCH_LAST], leader_epoch)
        state[HEADERS_DIGEST] = headers_digest_after(state[HEADERS_DIGEST], buffer, position)
        state[BATCHES] += 1
        state[RECORDS] += load_i32(buffer, position + COUNT_AT)
        state[MARKED_BATCHES] += 1 if _is_marked(buffer, position) else 0
        _index_batch(buffer, position, state, index)
        position += batch_size(buffer, position)
    state[REASON] = reason
    return position


@kernel("int64(uint8[::1], int64, int64, int64[::1])")
def digest_headers(buffer: Bytes, start: int, end: int, state: Numbers) -> int:
    """Continue `state[HEADERS_DIGEST]` with batches at `start` that were checked before.

    Returns the start of the first one whose header does not end by `end`. It may be after `end`.
    """
    position = start
    while position + BATCH_HEADER_BYTES <= end:
        state[HEADERS_DIGEST] = headers_digest_after(state[HEADERS_DIGEST], buffer, position)
        position += max(batch_size(buffer, position), BATCH_HEADER_BYTES)
    return position


@kernel("void(uint8[::1], int64, int64, int64[::1], int64[:, ::1])")
def index_batches(buffer: Bytes, start: int, end: int, state: Numbers, index: Numbers) -> None:
    """Write the index rows of batches that were checked before; `index` has room for them."""
    position = start
    while position < end:
        _index_batch(buffer, position, state, index)
        position += batch_size(buffer, position)


@inline_kernel
def _index_batch(buffer: Bytes, position: int, state: Numbers, index: Numbers) -> None:
    """Take note of a batch, and give it a row of the index if one is due."""
    last_offset = load_i64(buffer, position + BASE_OFFSET_AT)
    last_offset += load_i32(buffer, position + LAST_OFFSET_DELTA_AT)
    max_timestamp = load_i64(buffer, position + MAX_TIMESTAMP_AT)
    if max_timestamp > state[LARGEST_TIMESTAMP]:
        state[LARGEST_TIMESTAMP] = max_timestamp
        state[LARGEST_TIMESTAMP_OFFSET] = last_offset
    file_position = state[FILE_POSITION] + position
    if file_position - state[INDEXED_POSITION] > state[INDEX_INTERVAL_BYTES]:
        row = state[INDEX_ROWS]
        index[row, 0], index[row, 1] = last_offset, file_position
        index[row, 2] = state[LARGEST_TIMESTAMP]
        index[row, 3] = state[LARGEST_TIMESTAMP_OFFSET]
        state[INDEX_ROWS] = row + 1
        state[INDEXED_POSITION] = file_position
    state[OFFSET_NEXT] = last_offset + 1


@kernel("int64(uint8[::1], int64, int64, int64, int64)")
def find_batch_header(buffer: Bytes, start: int, end: int, file_end: int, offset_min: int) -> int:
    """The first position at or after `start` of bytes that could be a batch's header; -1 if none.

    The header may also be that of a message of the older formats. Its offset is at least
    `offset_min`, and less than a segment's span above it. It must end by `end`, and its batch by
    `file_end`; these are positions in the buffer.
    """
    offset_max = offset_min + I32_MAX
    for position in range(start, end - OLD_MESSAGE_BYTES_MIN + 1):
        magic = load_u8(buffer, position + MAGIC_AT)
        if magic > MAGIC:  # First: it rules out most bytes.
            continue
        size = batch_size(buffer, position)
        if size < OLD_MESSAGE_BYTES_MIN or size > file_end - position:
            continue
        base_offset = load_i64(buffer, position + BASE_OFFSET_AT)
        if base_offset < offset_min or base_offset > offset_max:
            continue
        if magic < MAGIC:
            if load_u8(buffer, position + OLD_ATTRIBUTES_AT) & ~0x0F == 0:
                return position
            continue
        if header_flaw(buffer, position, end) != END:
            continue
        if load_i16(buffer, position + ATTRIBUTES_AT) & ~0x7F == 0:
            return position
    return -1
