"""Checks batches, and writes the fields of each of their records into rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import load_i16, load_i32, load_i64, store_i64
from offsetd_storage.kernels.decode import RECORD_BYTES_MIN, load_record
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    COUNT_AT,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_EXCLUDES_BYTES,
    MAX_TIMESTAMP_AT,
    PRODUCER_ID_AT,
)
from offsetd_storage.kernels.offset_records import load_any_offset_key, load_offset_value
from offsetd_storage.kernels.registry import inline_kernel, kernel
from offsetd_storage.kernels.scan import END, HORIZON_BIT, I32_MAX, batch_flaw, batch_size
from offsetd_storage.kernels.utf8 import utf16_length

from offsetd_pipeline.kernels.fields import (
    ATTRIBUTES,
    BAD_KEY,
    COMMIT_TIMESTAMP,
    COMMITTED,
    CONTROL,
    DELETE_HORIZON,
    DELETED,
    DISK_BYTES,
    EXPIRE_TIMESTAMP,
    GROUP_SIZE,
    GROUP_START,
    KEY_SIZE,
    KEY_START,
    KIND,
    LEADER_EPOCH,
    LOG_OFFSET,
    METADATA_SIZE,
    METADATA_START,
    OFFSET,
    OTHER,
    PARTITION,
    PARTITION_LEADER_EPOCH,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_BYTES,
    RECORD_TYPE,
    SEQUENCE,
    TIMESTAMP,
    TOPIC_SIZE,
    TOPIC_START,
    UNREADABLE,
    VALUE_SIZE,
    VALUE_START,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

# The reasons why a call ended, in addition to those of `scan`.
# No room for the records of the next batch: take the records that were read, and call again.
FULL: Final = 20
COMPRESSED: Final = 21
BAD_RECORD: Final = 22

# Slots of `state`. The caller sets these before the first call:
SEGMENT_BASE_OFFSET: Final = 0
TIMESTAMP_MIN: Final = 1  # If all timestamps of a batch are lower, it is checked and skipped.
# The caller sets this before each call:
FILE_POSITION: Final = 2  # The file position of the buffer's first byte.
# Each call updates these:
OFFSET_NEXT: Final = 3  # The least offset that the next batch may have.
LEADER_EPOCH_LAST: Final = 4
# Each call sets these for the caller:
REASON: Final = 5
RECORDS: Final = 6
MARKED: Final = 7  # The number of records that are control records or belong to transactions.
ROOM_NEEDED: Final = 8  # The number of rows that the next batch needs, if they did not fit.
STATE_SLOTS: Final = 9

CODEC_BITS: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

_PRODUCER_EPOCH_AT: Final = PRODUCER_ID_AT + 8
_BASE_SEQUENCE_AT: Final = PRODUCER_ID_AT + 10
_GROUP_SETTINGS: Final = 20_292
_RECORD_TYPE_LAST: Final = 21


@kernel("int64(uint8[::1], int64, int64, int64[::1], int64[:, ::1])")
def read_batches(buffer: Bytes, start: int, end: int, state: Numbers, fields: Numbers) -> int:
    """Checks the batches from `start` to `end`, and fills `fields`, starting at row 0.

    Returns the position of the first batch that was not finished, or `end`. `state[REASON]` says
    why it stopped there. A compressed batch is checked, and left to the caller.
    """
    position = start
    row = 0
    reason = END
    state[MARKED] = 0
    while position < end:
        reason = batch_flaw(
            buffer,
            position,
            end,
            state[OFFSET_NEXT],
            state[SEGMENT_BASE_OFFSET] + I32_MAX,
            state[LEADER_EPOCH_LAST],
        )
        if reason != END:
            break
        size = batch_size(buffer, position)
        count = load_i32(buffer, position + COUNT_AT)
        is_late = load_i64(buffer, position + MAX_TIMESTAMP_AT) >= state[TIMESTAMP_MIN]
        if is_late and load_i16(buffer, position + ATTRIBUTES_AT) & CODEC_BITS != 0:
            reason = COMPRESSED
            break
        if is_late:
            if count > fields.shape[0] - row:
                reason = FULL
                state[ROOM_NEEDED] = count
                break
            if not _read_batch(buffer, position, position, size, state, fields, row):
                reason = BAD_RECORD
                break
            row += count
        _pass_over(buffer, position, state)
        position += size
    state[RECORDS] = row
    state[REASON] = reason
    return position


@kernel("boolean(uint8[::1], int64, int64[::1], int64[:, ::1])")
def read_decompressed(buffer: Bytes, end: int, state: Numbers, fields: Numbers) -> bool:
    """Fills `fields` from one decompressed batch: its stored header, then its records, up to `end`.

    There is a row for each of its records. Returns False if the records are not what the header
    says.
    """
    state[MARKED] = 0
    if not _read_batch(buffer, 0, 0, end, state, fields, 0):
        return False
    state[RECORDS] = load_i32(buffer, COUNT_AT)
    _pass_over(buffer, 0, state)
    return True


@inline_kernel
def _pass_over(buffer: Bytes, position: int, state: Numbers) -> None:
    last_offset = load_i64(buffer, position + BASE_OFFSET_AT)
    last_offset += load_i32(buffer, position + LAST_OFFSET_DELTA_AT)
    state[OFFSET_NEXT] = last_offset + 1
    epoch = load_i32(buffer, position + LEADER_EPOCH_AT)
    state[LEADER_EPOCH_LAST] = max(state[LEADER_EPOCH_LAST], epoch)


@inline_kernel
def _read_batch(
    buffer: Bytes,
    batch_at: int,
    position_at: int,
    size: int,
    state: Numbers,
    fields: Numbers,
    row: int,
) -> bool:
    """Fills a row for each record. Returns whether the records fill the batch, as its header says.

    The batch's bytes in the file, with its header, are divided among its records in proportion to
    their sizes. The shares add up to exactly these bytes.
    """
    base_offset = load_i64(buffer, batch_at + BASE_OFFSET_AT)
    last_offset_delta = load_i32(buffer, batch_at + LAST_OFFSET_DELTA_AT)
    count = load_i32(buffer, batch_at + COUNT_AT)
    attributes = load_i16(buffer, batch_at + ATTRIBUTES_AT)
    base_timestamp = load_i64(buffer, batch_at + BASE_TIMESTAMP_AT)
    base_sequence = load_i32(buffer, batch_at + _BASE_SEQUENCE_AT)
    file_bytes = load_i32(buffer, batch_at + BATCH_LENGTH_AT) + LENGTH_EXCLUDES_BYTES
    end = batch_at + size
    position = begin = batch_at + BATCH_HEADER_BYTES
    shared_before = 0
    if count > (size - BATCH_HEADER_BYTES) // RECORD_BYTES_MIN:
        return False
    delta_before = -1
    for each in range(row, row + count):
        record = load_record(buffer, position, end)
        fields[each, RECORD_BYTES] = record[0] - position
        position = record[0]
        delta = record[2]
        if position < 0 or delta <= delta_before or delta > last_offset_delta:
            return False
        delta_before = delta
        fields[each, LOG_OFFSET] = base_offset + delta
        timestamp = base_timestamp + record[1]
        if attributes & LOG_APPEND_TIME_BIT != 0:
            timestamp = load_i64(buffer, batch_at + MAX_TIMESTAMP_AT)
        fields[each, TIMESTAMP] = timestamp
        fields[each, POSITION] = state[FILE_POSITION] + position_at
        fields[each, ATTRIBUTES] = attributes
        fields[each, PARTITION_LEADER_EPOCH] = load_i32(buffer, batch_at + LEADER_EPOCH_AT)
        fields[each, PRODUCER_ID] = load_i64(buffer, batch_at + PRODUCER_ID_AT)
        fields[each, PRODUCER_EPOCH] = load_i16(buffer, batch_at + _PRODUCER_EPOCH_AT)
        # Sequence numbers start again at 0 after the largest int32.
        sequence = -1 if base_sequence < 0 else (base_sequence + delta) & I32_MAX
        fields[each, SEQUENCE] = sequence
        fields[each, DELETE_HORIZON] = base_timestamp if attributes & HORIZON_BIT != 0 else -1
        fields[each, KEY_START] = record[3]
        fields[each, KEY_SIZE] = record[4]
        fields[each, VALUE_START] = record[5]
        fields[each, VALUE_SIZE] = record[6]
        shared = file_bytes * (position - begin) // (end - begin)
        fields[each, DISK_BYTES] = shared - shared_before
        shared_before = shared
        _read_content(buffer, attributes & CONTROL_BIT != 0, fields, each)
    if attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) != 0:
        state[MARKED] += count
    return position == end


@inline_kernel
def _read_content(buffer: Bytes, is_control: bool, fields: Numbers, row: int) -> None:
    """Fills the fields that come from the record's key and value."""
    key_start = fields[row, KEY_START]
    key_size = fields[row, KEY_SIZE]
    record_type = load_i16(buffer, key_start) if key_size >= 2 else -1
    fields[row, RECORD_TYPE] = record_type
    fields[row, GROUP_SIZE] = -1
    fields[row, TOPIC_SIZE] = -1
    fields[row, METADATA_SIZE] = -1
    if is_control:
        fields[row, KIND] = CONTROL
    elif record_type == 0 or record_type == 1:
        _read_offset(buffer, key_start, key_size, fields, row)
    elif record_type < 0:
        fields[row, KIND] = BAD_KEY
    else:
        fields[row, KIND] = OTHER
        if _names_group(record_type):
            _read_group(buffer, key_start, key_size, fields, row)


@inline_kernel
def _names_group(record_type: int) -> bool:
    """Whether keys of this type begin with a group: Kafka's up to 4.1.1, and ours."""
    is_known = record_type <= _RECORD_TYPE_LAST and record_type != 9 and record_type != 18
    return is_known or record_type == _GROUP_SETTINGS


@inline_kernel
def _read_group(buffer: Bytes, key_start: int, key_size: int, fields: Numbers, row: int) -> None:
    size = load_i16(buffer, key_start + 2)
    if (
        key_size < 4
        or size < 0
        or size > key_size - 4
        or utf16_length(buffer, key_start + 4, size) < 0
    ):
        fields[row, KIND] = BAD_KEY
    else:
        fields[row, GROUP_START] = key_start + 4
        fields[row, GROUP_SIZE] = size


@inline_kernel
def _read_offset(buffer: Bytes, key_start: int, key_size: int, fields: Numbers, row: int) -> None:
    decodes, key = load_any_offset_key(buffer, key_start, key_size)
    if (
        not decodes
        or utf16_length(buffer, key.group_start, key.group_size) < 0
        or utf16_length(buffer, key.topic_start, key.topic_size) < 0
    ):
        fields[row, KIND] = BAD_KEY
        return
    fields[row, GROUP_START] = key.group_start
    fields[row, GROUP_SIZE] = key.group_size
    fields[row, TOPIC_START] = key.topic_start
    fields[row, TOPIC_SIZE] = key.topic_size
    fields[row, PARTITION] = key.partition
    value_size = fields[row, VALUE_SIZE]
    if value_size < 0:
        fields[row, KIND] = DELETED
        return
    decodes, value = load_offset_value(buffer, fields[row, VALUE_START], value_size)
    fields[row, KIND] = COMMITTED if decodes else UNREADABLE
    if decodes:
        fields[row, OFFSET] = value.offset
        fields[row, LEADER_EPOCH] = value.leader_epoch
        fields[row, METADATA_START] = value.metadata_start
        fields[row, METADATA_SIZE] = value.metadata_size
        fields[row, COMMIT_TIMESTAMP] = value.commit_timestamp
        fields[row, EXPIRE_TIMESTAMP] = value.expire_timestamp


@kernel("int64(uint8[::1], int64[:, ::1], int64, int64[::1], int32[::1], uint8[::1])")
def gather(
    buffer: Bytes,
    fields: Numbers,
    start_field: int,
    chosen: Numbers,
    ends: npt.NDArray[np.int32],
    out: Bytes,
) -> int:
    """Copies a span of each chosen record to `out`, one after the other. Null becomes empty.

    `start_field` holds the start of a span, and the next field holds its size. `ends` receives
    Arrow's offsets: 0, then the end of each span. Returns the last end. Up to 7 bytes after it are
    overwritten.
    """
    at = 0
    ends[0] = 0
    for each in range(chosen.shape[0]):
        row = chosen[each]
        size = fields[row, start_field + 1]
        if size > 0:
            start = fields[row, start_field]
            for done in range(0, size, 8):
                store_i64(out, at + done, load_i64(buffer, start + done))
            at += size
        ends[each + 1] = at
    return at
