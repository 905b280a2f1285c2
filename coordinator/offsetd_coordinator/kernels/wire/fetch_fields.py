"""Writes a group of `offsetd.v1.FetchOffsetsResponse` from the table, without protobuf.

First, its offsets are found and sorted. Then they are measured and written. The bytes are those
that protobuf writes for the same values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.offset_records import METADATA_SIZE_MAX, OffsetKey
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    COMMIT_LEADER_EPOCH,
    COMMIT_OFFSET,
    METADATA_SIZE,
    METADATA_SIZE_BITS,
    METADATA_START,
    NEVER,
    NO_TIME,
    PARTITION,
    PUT_COMMIT_TIMESTAMP,
    PUT_EXPIRE_TIMESTAMP,
    ROW_END_OFFSET,
    ROW_REVISION,
    TABLE,
    TOPIC_SIZE,
    TOPIC_START,
    UNDECODABLE,
    Table,
)
from offsetd_coordinator.kernels.table.blocks import (
    entry_count,
    list_group_entries,
    low_half,
    pack,
    partition_of,
    topic_of,
)
from offsetd_coordinator.kernels.table.entries import Entry, load_entry
from offsetd_coordinator.kernels.table.expired_offsets import expiry_time
from offsetd_coordinator.kernels.table.names import is_name_before, name_size, name_start
from offsetd_coordinator.kernels.table.stored_offsets import find_group, find_in_group
from offsetd_coordinator.kernels.wire.protobuf import (
    LENGTH,
    VARINT,
    begin_message,
    message_size,
    number_size,
    optional_size,
    put_number,
    put_optional,
    put_text,
    text_size,
)

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays

# An offset that was found.
FOUND_ENTRY: Final = 0
FOUND_KEY: Final = 1  # the name of its topic, and its partition; later its encoded size
FOUND_COLUMNS: Final = 2

TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, the maximum of a protobuf Timestamp. A record's int64 may
have a later time; it is sent as this one."""

_RESPONSE_GROUPS: Final = 1 << 3 | LENGTH
_GROUP_ID: Final = 1 << 3 | LENGTH
_GROUP_OFFSETS: Final = 2 << 3 | LENGTH
_GROUP_LOG_PARTITION: Final = 3 << 3 | VARINT
_OFFSET_TOPIC: Final = 1 << 3 | LENGTH
_OFFSET_PARTITION: Final = 2 << 3 | VARINT
_OFFSET_OFFSET: Final = 3 << 3 | VARINT
_OFFSET_LEADER_EPOCH: Final = 4 << 3 | VARINT
_OFFSET_METADATA: Final = 5 << 3 | LENGTH
_OFFSET_COMMIT_TIME: Final = 6 << 3 | LENGTH
_OFFSET_EXPIRE_TIME: Final = 7 << 3 | LENGTH
_OFFSET_REVISION: Final = 8 << 3 | VARINT
_OFFSET_END_OFFSET: Final = 9 << 3 | VARINT
_TIME_SECONDS: Final = 1 << 3 | VARINT
_TIME_NANOS: Final = 2 << 3 | VARINT


@kernel(f"int64({TABLE}, uint8[::1], int64, int64, int64[:, ::1], boolean, int64[:, ::1])")
def find_sorted(
    arrays: TableArrays,
    names: Bytes,
    group_start: int,
    group_size: int,
    partitions: Int64s,
    is_all: bool,
    found: Int64s,
) -> int:
    """Fill rows of `found` with a group's offsets, by topic and partition. Returns their number.

    Finds all, or those of `partitions`, which are distinct; each is a topic's span in `names` and a
    number. If `found` has fewer than twice the rows that may be needed, writes nothing and returns
    the number that may be needed.
    """
    table = Table(*arrays)
    group = find_group(table, names, group_start, group_size)
    if group < 0:
        return 0
    count = 0
    if is_all:
        count = entry_count(table, group)
        if 2 * count > found.shape[0]:
            return count
        list_group_entries(table, group, found[:count, FOUND_ENTRY])
    else:
        if 2 * partitions.shape[0] > found.shape[0]:
            return int(partitions.shape[0])
        for at in range(partitions.shape[0]):
            start, size = partitions[at, TOPIC_START], partitions[at, TOPIC_SIZE]
            key = OffsetKey(group_start, group_size, start, size, partitions[at, PARTITION])
            entry = find_in_group(table, group, names, key)
            if entry >= 0:
                found[count, FOUND_ENTRY] = entry
                count += 1
    for at in range(count):
        entry = found[at, FOUND_ENTRY]
        found[at, FOUND_KEY] = pack(topic_of(table, entry), partition_of(table, entry))
    _sort(table, found, count)
    return count


@inline_kernel
def _sort(table: Table, found: Int64s, count: int) -> None:
    """Merge sort that starts with the sorted runs. The second half of `found` is scratch."""
    while True:
        start = 0
        while start < count:
            middle = _run_end(table, found, start, count)
            if middle - start == count:
                return
            end = middle if middle == count else _run_end(table, found, middle, count)
            _merge(table, found, start, middle, end, count + start)
            start = end
        if count == 0:
            return
        for at in range(count):
            found[at, FOUND_ENTRY] = found[count + at, FOUND_ENTRY]
            found[at, FOUND_KEY] = found[count + at, FOUND_KEY]


@inline_kernel
def _run_end(table: Table, found: Int64s, start: int, count: int) -> int:
    """The end of the sorted run that begins at `start`."""
    at = start + 1
    while at < count and _is_in_order(table, found[at - 1, FOUND_KEY], found[at, FOUND_KEY]):
        at += 1
    return at


@inline_kernel
def _merge(table: Table, found: Int64s, start: int, middle: int, end: int, to: int) -> None:
    """Merge two adjacent runs into the rows starting at `to`. The first run is not empty."""
    second = middle
    for target in range(to, to + end - start):
        takes_first = start < middle and (
            second == end or _is_in_order(table, found[start, FOUND_KEY], found[second, FOUND_KEY])
        )
        source = start if takes_first else second
        found[target, FOUND_ENTRY] = found[source, FOUND_ENTRY]
        found[target, FOUND_KEY] = found[source, FOUND_KEY]
        start += takes_first
        second += not takes_first


@inline_kernel
def _is_in_order(table: Table, key: int, other: int) -> bool:
    """Returns whether the first of two partitions sorts before the second."""
    topic, other_topic = key >> 32, other >> 32
    if topic == other_topic:
        return bool(low_half(key) < low_half(other))
    return is_name_before(table, topic, other_topic)


@kernel(
    f"int64({TABLE}, uint8[::1], int64, int64, int64, boolean, int64, int64, int64, uint8[::1],"
    " int64[:, ::1], int64, uint8[::1])"
)
def put_group(
    arrays: TableArrays,
    names: Bytes,
    group_start: int,
    group_size: int,
    log_partition: int,
    expires: bool,
    retention: int,
    empty: int,
    base: int,
    is_read: Bytes,
    found: Int64s,
    count: int,
    out: Bytes,
) -> int:
    """Write a group with the first `count` offsets of `found`. Returns its size.

    Writes nothing if the size is more than that of `out`. Writes nothing and returns -1 minus the
    row in `found` if the record of an offset cannot be read. If the group `expires` by a rule,
    offsets whose topic a member reads do not: `is_read` is 1 for them, or empty if none is read.
    """
    table = Table(*arrays)
    content = text_size(group_size) + number_size(log_partition)
    for at in range(count):
        stored = load_entry(table, found[at, FOUND_ENTRY])
        if stored.metadata_span == UNDECODABLE:
            return -1 - at
        time = _expires(stored, expires and not _is_one(is_read, at), retention, empty, base)
        entry = found[at, FOUND_ENTRY]
        topic_size = name_size(table, topic_of(table, entry))
        size = _offset_size(stored, topic_size, partition_of(table, entry), time)
        found[at, FOUND_KEY] = size
        content += message_size(size)
    needed = int(message_size(content))
    if needed > out.size:
        return needed
    position = begin_message(out, 0, _RESPONSE_GROUPS, content)
    position = put_text(out, position, _GROUP_ID, names, group_start, group_size)
    for at in range(count):
        stored = load_entry(table, found[at, FOUND_ENTRY])
        time = _expires(stored, expires and not _is_one(is_read, at), retention, empty, base)
        position = begin_message(out, position, _GROUP_OFFSETS, found[at, FOUND_KEY])
        entry = found[at, FOUND_ENTRY]
        topic = topic_of(table, entry)
        position = _put_offset(
            stored,
            table.name_bytes,
            name_start(table, topic),
            name_size(table, topic),
            partition_of(table, entry),
            table.metadata,
            time,
            out,
            position,
        )
    put_number(out, position, _GROUP_LOG_PARTITION, log_partition)
    return needed


@kernel("int64(int64[:, ::1], boolean, int64, int64, int64, uint8[::1])")
def rows_size(
    rows: Int64s, expires: bool, retention: int, empty: int, base: int, is_read: Bytes
) -> int:
    """The number of bytes that `put_rows` writes for all `OffsetRows`, or -1 minus the first row
    whose record cannot be read. For the rule, see `put_group`.
    """
    total = 0
    for row in range(rows.shape[0]):
        if rows[row, METADATA_SIZE] == UNDECODABLE:
            return -1 - row
        stored = _entry_of(rows, row)
        time = _expires(stored, expires and not _is_one(is_read, row), retention, empty, base)
        size = _offset_size(stored, rows[row, TOPIC_SIZE], rows[row, PARTITION], time)
        total += message_size(size)
    return total


@kernel(
    "int64(uint8[::1], int64[:, ::1], int64, boolean, int64, int64, int64, uint8[::1], uint8[::1],"
    " int64[::1])"
)
def put_rows(
    texts: Bytes,
    rows: Int64s,
    first: int,
    expires: bool,
    retention: int,
    empty: int,
    base: int,
    is_read: Bytes,
    out: Bytes,
    written: Int64s,
) -> int:
    """Write the rows that fit, starting at `first`. Returns their size.

    Each is written as field 2, which holds the offsets in all messages that have any. `written[0]`
    gets the next row.
    """
    position = 0
    at = first
    while at < rows.shape[0]:
        stored = _entry_of(rows, at)
        time = _expires(stored, expires and not _is_one(is_read, at), retention, empty, base)
        topic_size, partition = rows[at, TOPIC_SIZE], rows[at, PARTITION]
        size = _offset_size(stored, topic_size, partition, time)
        if position + message_size(size) > out.size:
            break
        position = begin_message(out, position, _GROUP_OFFSETS, size)
        topic_start = rows[at, TOPIC_START]
        position = _put_offset(
            stored, texts, topic_start, topic_size, partition, texts, time, out, position
        )
        at += 1
    written[0] = at
    return position


@inline_kernel
def _entry_of(rows: Int64s, at: int) -> Entry:
    """The entry that a row describes. Its metadata is in the texts of the rows."""
    return Entry(
        rows[at, COMMIT_OFFSET],
        rows[at, ROW_REVISION],
        rows[at, PUT_COMMIT_TIMESTAMP],
        rows[at, PUT_EXPIRE_TIMESTAMP],
        rows[at, COMMIT_LEADER_EPOCH],
        (rows[at, METADATA_START] << METADATA_SIZE_BITS) | rows[at, METADATA_SIZE],
        rows[at, ROW_END_OFFSET],
    )


@inline_kernel
def _is_one(flags: Bytes, at: int) -> bool:
    return flags.size > 0 and bool(flags[at] == 1)


@inline_kernel
def _expires(stored: Entry, expires: bool, retention: int, empty: int, base: int) -> int:
    """The time at which an offset expires, or NO_TIME if it never does."""
    if not expires:
        return NO_TIME
    expire = stored.expire_timestamp
    time = expiry_time(stored.commit_timestamp, expire, retention, empty, base)
    # A commit may ask for the largest possible expiry time; then that time is sent.
    return NO_TIME if time == NEVER and expire != NEVER else time


@inline_kernel
def _offset_size(stored: Entry, topic_size: int, partition: int, expire_time: int) -> int:
    """Bytes of a CommittedOffset."""
    return int(
        text_size(topic_size)
        + number_size(partition)
        + number_size(stored.offset)
        + optional_size(stored.leader_epoch)
        + text_size(stored.metadata_span & METADATA_SIZE_MAX)
        + _time_field_size(stored.commit_timestamp)
        + _time_field_size(expire_time)
        + number_size(stored.revision)
        + optional_size(stored.end_offset)
    )


@inline_kernel
def _put_offset(
    stored: Entry,
    names: Bytes,
    topic_start: int,
    topic_size: int,
    partition: int,
    metadata: Bytes,
    expire_time: int,
    out: Bytes,
    position: int,
) -> int:
    """Write a CommittedOffset. Returns its end."""
    position = put_text(out, position, _OFFSET_TOPIC, names, topic_start, topic_size)
    position = put_number(out, position, _OFFSET_PARTITION, partition)
    position = put_number(out, position, _OFFSET_OFFSET, stored.offset)
    position = put_optional(out, position, _OFFSET_LEADER_EPOCH, stored.leader_epoch)
    span = stored.metadata_span
    start, size = span >> METADATA_SIZE_BITS, span & METADATA_SIZE_MAX
    position = put_text(out, position, _OFFSET_METADATA, metadata, start, size)
    position = _put_time(out, position, _OFFSET_COMMIT_TIME, stored.commit_timestamp)
    position = _put_time(out, position, _OFFSET_EXPIRE_TIME, expire_time)
    position = put_number(out, position, _OFFSET_REVISION, stored.revision)
    return int(put_optional(out, position, _OFFSET_END_OFFSET, stored.end_offset))


@inline_kernel
def _time_field_size(time: int) -> int:
    """Bytes of the field of a Timestamp. A time below 0 is omitted."""
    return 0 if time < 0 else message_size(_time_size(min(time, TIMESTAMP_MS_MAX)))


@inline_kernel
def _time_size(time: int) -> int:
    return number_size(time // 1000) + number_size(_nanos(time))


@inline_kernel
def _nanos(time: int) -> int:
    return time % 1000 * 1_000_000


@inline_kernel
def _put_time(out: Bytes, position: int, key: int, time: int) -> int:
    """Write the field of a Timestamp, see `_time_field_size`. Returns its end."""
    if time < 0:
        return position
    time = min(time, TIMESTAMP_MS_MAX)
    position = begin_message(out, position, key, _time_size(time))
    position = put_number(out, position, _TIME_SECONDS, time // 1000)
    return int(put_number(out, position, _TIME_NANOS, _nanos(time)))
