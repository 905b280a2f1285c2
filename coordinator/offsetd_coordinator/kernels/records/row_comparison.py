"""Steps of changes to large groups: compares rows, writes tombstone keys, copies log changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import (
    copy_bytes,
    equal_bytes,
    store_i16,
    store_i32,
)
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    COMMIT_LEADER_EPOCH,
    COMMIT_OFFSET,
    METADATA_SIZE,
    METADATA_START,
    PARTITION,
    PUT_COMMIT_TIMESTAMP,
    PUT_EXPIRE_TIMESTAMP,
    PUT_IS_TOMBSTONE,
    ROW_END_OFFSET,
    ROW_REVISION,
    TOPIC_SIZE,
    TOPIC_START,
    UNDECODABLE,
)
from offsetd_coordinator.kernels.records import change_records

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

_COMMITTED: Final = change_records.COMMITTED
_DELETED: Final = change_records.DELETED
_LOG_OFFSET: Final = change_records.LOG_OFFSET
_KIND: Final = change_records.KIND
_TOPIC_START: Final = change_records.TOPIC_START
_TOPIC_SIZE: Final = change_records.TOPIC_SIZE
_PARTITION: Final = change_records.PARTITION
_OFFSET: Final = change_records.OFFSET
_LEADER_EPOCH: Final = change_records.LEADER_EPOCH
_METADATA_START: Final = change_records.METADATA_START
_METADATA_SIZE: Final = change_records.METADATA_SIZE
_COMMIT_TIME: Final = change_records.COMMIT_TIME
_EXPIRE_TIME: Final = change_records.EXPIRE_TIME


@kernel("void(uint8[::1], int64[:, ::1], uint8[::1], int64, int64[::1], uint8[::1])")
def put_row_keys(
    texts: Bytes, rows: Int64s, group: Bytes, group_size: int, ends: Int64s, out: Bytes
) -> None:
    """Write the key of each row's offset, in the form of commits, and its end to `ends`."""
    position = 0
    for row in range(rows.shape[0]):
        topic_size = rows[row, TOPIC_SIZE]
        store_i16(out, position, 1)
        store_i16(out, position + 2, group_size)
        copy_bytes(out, position + 4, group, 0, group_size)
        position += 4 + group_size
        store_i16(out, position, topic_size)
        copy_bytes(out, position + 2, texts, rows[row, TOPIC_START], topic_size)
        position += 2 + topic_size
        store_i32(out, position, rows[row, PARTITION])
        position += 4
        ends[row] = position


@kernel("void(uint8[::1], int64[:, ::1], uint8[::1], int64[:, ::1], int64[::1], uint8[::1])")
def find_differing(
    texts: Bytes,
    rows: Int64s,
    other_texts: Bytes,
    others: Int64s,
    places: Int64s,
    differs: Bytes,
) -> None:
    """Write 1 for each row that differs from the other row at its place, or has no place."""
    for row in range(rows.shape[0]):
        place = places[row]
        differs[row] = 1
        if place < 0:
            continue
        size = rows[row, METADATA_SIZE]
        if (
            size != UNDECODABLE
            and size == others[place, METADATA_SIZE]
            and rows[row, COMMIT_OFFSET] == others[place, COMMIT_OFFSET]
            and rows[row, COMMIT_LEADER_EPOCH] == others[place, COMMIT_LEADER_EPOCH]
            and equal_bytes(
                texts, rows[row, METADATA_START], other_texts, others[place, METADATA_START], size
            )
        ):
            differs[row] = 0


@kernel("int64(uint8[::1], int64[:, ::1], int64, int64[:, ::1], uint8[::1])")
def copy_changes(buffer: Bytes, found: Int64s, count: int, rows: Int64s, texts: Bytes) -> int:
    """Make rows from changes of a log, and copy their texts. Returns the end of the texts.

    ROW_END_OFFSET is 1 if the change is a deletion, else 0. `rows` and `texts` have enough room.
    """
    end = 0
    last = -1
    for at in range(count):
        topic_size = found[at, _TOPIC_SIZE]
        topic_at = _same_topic(buffer, found, last, at, rows)
        if topic_at < 0:
            topic_at = end
            copy_bytes(texts, end, buffer, found[at, _TOPIC_START], topic_size)
            end += topic_size
        last = at
        kind = found[at, _KIND]
        rows[at, TOPIC_START] = topic_at
        rows[at, TOPIC_SIZE] = topic_size
        rows[at, PARTITION] = found[at, _PARTITION]
        rows[at, METADATA_START] = end
        rows[at, METADATA_SIZE] = 0 if kind == _DELETED else UNDECODABLE
        rows[at, COMMIT_OFFSET] = -1
        rows[at, COMMIT_LEADER_EPOCH] = -1
        rows[at, PUT_EXPIRE_TIMESTAMP] = -1
        rows[at, PUT_COMMIT_TIMESTAMP] = -1
        if kind == _COMMITTED:
            size = found[at, _METADATA_SIZE]
            copy_bytes(texts, end, buffer, found[at, _METADATA_START], size)
            end += size
            rows[at, METADATA_SIZE] = size
            rows[at, COMMIT_OFFSET] = found[at, _OFFSET]
            rows[at, COMMIT_LEADER_EPOCH] = found[at, _LEADER_EPOCH]
            rows[at, PUT_EXPIRE_TIMESTAMP] = found[at, _EXPIRE_TIME]
            rows[at, PUT_COMMIT_TIMESTAMP] = found[at, _COMMIT_TIME]
        rows[at, PUT_IS_TOMBSTONE] = 0
        rows[at, ROW_REVISION] = found[at, _LOG_OFFSET]
        rows[at, ROW_END_OFFSET] = 1 if kind == _DELETED else 0
    return end


@inline_kernel
def _same_topic(buffer: Bytes, found: Int64s, last: int, at: int, rows: Int64s) -> int:
    """The copied topic's start if the previous change has the same topic, else -1."""
    size = found[at, _TOPIC_SIZE]
    if last < 0 or found[last, _TOPIC_SIZE] != size:
        return -1
    if not equal_bytes(buffer, found[last, _TOPIC_START], buffer, found[at, _TOPIC_START], size):
        return -1
    return int(rows[last, TOPIC_START])


@kernel("int64(uint8[::1], int64[:, ::1], uint8[::1])")
def move_texts(texts: Bytes, rows: Int64s, out: Bytes) -> int:
    """Copy the texts of rows to `out`, and set the rows' spans to the copy. Returns its end."""
    end = 0
    last_start = last_size = topic_at = -1
    for row in range(rows.shape[0]):
        start, size = rows[row, TOPIC_START], rows[row, TOPIC_SIZE]
        if start != last_start or size != last_size:
            copy_bytes(out, end, texts, start, size)
            topic_at, last_start, last_size = end, start, size
            end += size
        rows[row, TOPIC_START] = topic_at
        metadata_size = rows[row, METADATA_SIZE]
        if metadata_size > 0:
            copy_bytes(out, end, texts, rows[row, METADATA_START], metadata_size)
        rows[row, METADATA_START] = end
        end += max(metadata_size, 0)
    return end
