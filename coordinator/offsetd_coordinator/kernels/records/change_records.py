"""Reads the changes of offsets, of one group or of all groups, from a log's batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import equal_bytes, load_i16, load_i32, load_i64
from offsetd_storage.kernels.decode import load_record
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    BATCH_HEADER_BYTES,
    COUNT_AT,
    LAST_OFFSET_DELTA_AT,
    MAX_TIMESTAMP_AT,
)
from offsetd_storage.kernels.offset_records import load_offset_key, load_offset_value
from offsetd_storage.kernels.registry import inline_kernel, kernel
from offsetd_storage.kernels.scan import batch_size

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

# Columns of a row: one change.
LOG_OFFSET: Final = 0
TIME: Final = 1
KIND: Final = 2
GROUP_START: Final = 3
GROUP_SIZE: Final = 4
TOPIC_START: Final = 5
TOPIC_SIZE: Final = 6
PARTITION: Final = 7
OFFSET: Final = 8
LEADER_EPOCH: Final = 9
METADATA_START: Final = 10
METADATA_SIZE: Final = 11
COMMIT_TIME: Final = 12
EXPIRE_TIME: Final = 13
CHANGE_COLUMNS: Final = 14

# Kinds.
COMMITTED: Final = 0
DELETED: Final = 1
UNREADABLE: Final = 2  # The value cannot be read.
OTHER_KEY: Final = 3  # A key in another form. GROUP columns span the key, TOPIC columns the value.
OTHER_BATCH: Final = 4  # A compressed or malformed batch. GROUP columns span the batch.

# Slots of `cursor`, the position at which the next call continues.
BATCH_AT: Final = 0
RECORD_AT: Final = 1  # 0: at the batch's first record.
RECORDS_LEFT: Final = 2
OFFSET_NEXT: Final = 3  # The log offset after the batches that are finished.
CURSOR_SLOTS: Final = 4

_CODEC_BITS: Final = 0x07
_LOG_APPEND_TIME_BIT: Final = 0x08
_TRANSACTION_BITS: Final = 0x30


@kernel("int64(uint8[::1], int64, uint8[::1], int64, int64[::1], int64[:, ::1])")
def read_changes(
    buffer: Bytes, end: int, group: Bytes, group_size: int, cursor: Numbers, rows: Numbers
) -> int:
    """Fills `rows` with changes of a group (its id is padded; size -1 means all groups), in order.

    The batches of `buffer[:end]` are whole and checked. Returns the number of rows written. If
    `rows` is full, call again. Skips transactional and control batches.
    """
    count = 0
    while cursor[BATCH_AT] < end:
        position = cursor[BATCH_AT]
        batch_end = position + batch_size(buffer, position)
        attributes = load_i16(buffer, position + ATTRIBUTES_AT)
        if attributes & _TRANSACTION_BITS == 0:
            if attributes & _CODEC_BITS != 0:
                if count == rows.shape[0]:
                    return count
                _put_batch(rows, count, position, batch_end)
                count += 1
            else:
                count = _read_batch(
                    buffer, position, batch_end, group, group_size, cursor, rows, count
                )
                if cursor[RECORDS_LEFT] > 0:
                    return count
        cursor[BATCH_AT] = batch_end
        cursor[OFFSET_NEXT] = load_i64(buffer, position + BASE_OFFSET_AT) + 1
        cursor[OFFSET_NEXT] += load_i32(buffer, position + LAST_OFFSET_DELTA_AT)
        cursor[RECORD_AT] = 0
    return count


@inline_kernel
def _read_batch(
    buffer: Bytes,
    start: int,
    end: int,
    group: Bytes,
    group_size: int,
    cursor: Numbers,
    rows: Numbers,
    count: int,
) -> int:
    """Reads records of a batch until `rows` is full. Returns the number of rows written so far."""
    if cursor[RECORD_AT] == 0:
        cursor[RECORD_AT] = start + BATCH_HEADER_BYTES
        cursor[RECORDS_LEFT] = load_i32(buffer, start + COUNT_AT)
    base_offset = load_i64(buffer, start + BASE_OFFSET_AT)
    base_time = load_i64(buffer, start + BASE_TIMESTAMP_AT)
    is_append_time = load_i16(buffer, start + ATTRIBUTES_AT) & _LOG_APPEND_TIME_BIT != 0
    while cursor[RECORDS_LEFT] > 0 and count < rows.shape[0]:
        record = load_record(buffer, cursor[RECORD_AT], end)
        if record[0] < 0:
            _put_batch(rows, count, start, end)
            cursor[RECORDS_LEFT] = 0
            return count + 1
        rows[count, LOG_OFFSET] = base_offset + record[2]
        rows[count, TIME] = base_time + record[1]
        if is_append_time:
            rows[count, TIME] = load_i64(buffer, start + MAX_TIMESTAMP_AT)
        key = record[3], record[4]
        value = record[5], record[6]
        if _put_change(buffer, *key, *value, group, group_size, rows, count):
            count += 1
        cursor[RECORD_AT] = record[0]
        cursor[RECORDS_LEFT] -= 1
    return count


@inline_kernel
def _put_batch(rows: Numbers, row: int, start: int, end: int) -> None:
    rows[row, KIND] = OTHER_BATCH
    rows[row, GROUP_START] = start
    rows[row, GROUP_SIZE] = end - start


@inline_kernel
def _put_change(
    buffer: Bytes,
    key_start: int,
    key_size: int,
    value_start: int,
    value_size: int,
    group: Bytes,
    group_size: int,
    rows: Numbers,
    row: int,
) -> bool:
    """Writes a row if the record is a change of the requested group. Returns whether it is."""
    if key_size < 2 or load_i16(buffer, key_start) < 0 or load_i16(buffer, key_start) > 1:
        return False
    is_usual, key = load_offset_key(buffer, key_start, key_size)
    if not is_usual:
        rows[row, KIND] = OTHER_KEY
        rows[row, GROUP_START] = key_start
        rows[row, GROUP_SIZE] = key_size
        rows[row, TOPIC_START] = value_start
        rows[row, TOPIC_SIZE] = value_size
        return True
    if group_size >= 0:
        if key.group_size != group_size:
            return False
        if not equal_bytes(buffer, key.group_start, group, 0, group_size):
            return False
    rows[row, GROUP_START] = key.group_start
    rows[row, GROUP_SIZE] = key.group_size
    rows[row, TOPIC_START] = key.topic_start
    rows[row, TOPIC_SIZE] = key.topic_size
    rows[row, PARTITION] = key.partition
    rows[row, KIND] = DELETED
    if value_size >= 0:
        decodes, value = load_offset_value(buffer, value_start, value_size)
        rows[row, KIND] = COMMITTED if decodes else UNREADABLE
        rows[row, OFFSET] = value.offset
        rows[row, LEADER_EPOCH] = value.leader_epoch
        rows[row, METADATA_START] = value.metadata_start
        rows[row, METADATA_SIZE] = value.metadata_size
        rows[row, COMMIT_TIME] = value.commit_timestamp
        rows[row, EXPIRE_TIME] = value.expire_timestamp
    return True
