"""Judges a commit against the table and writes its record batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_storage.kernels.byte_order import (
    copy_bytes,
    store_i8,
    store_i16,
    store_i32,
    store_i64,
    store_unsigned_varint,
    store_varint,
    unsigned_varint_size,
)
from offsetd_storage.kernels.encode import (
    BATCH_HEADER_BYTES,
    NO_HEADERS_BYTES,
    header_size,
    put_record_start,
    record_size,
    seal_batch,
)
from offsetd_storage.kernels.offset_records import (
    EXPIRE_TAG,
    EXPIRE_TAG_BYTES,
    METADATA_SIZE_MAX,
    OffsetKey,
)
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    COMMIT,
    COMMIT_LEADER_EPOCH,
    COMMIT_OFFSET,
    CONFLICT_OFFSET,
    CONFLICT_REVISION,
    CONFLICT_ROW,
    CONFLICTING,
    CONFLICTS_MAX,
    DUPLICATE,
    END_OFFSET,
    EXPECTED,
    EXPECTED_OFFSET,
    EXPECTED_REVISION,
    METADATA_SIZE,
    METADATA_SIZE_BITS,
    METADATA_START,
    MONOTONIC,
    MUST_NOT_EXIST,
    NO_PRECONDITION,
    NOT_MONOTONIC,
    OPEN_TRANSACTIONS,
    PARTITION,
    PRECONDITION,
    REQUEST_LAST_OFFSET,
    REQUEST_TIMESTAMP,
    REQUEST_WINDOW_MS,
    TABLE,
    TOO_LARGE,
    TOPIC_SIZE,
    TOPIC_START,
    UNCHANGED,
    UNDECODABLE,
    UNREADABLE,
    VERDICT_CONFLICTS,
    VERDICT_LAST_OFFSET,
    VERDICT_ROW,
    Commit,
    Table,
)
from offsetd_coordinator.kernels.table.blocks import row_of
from offsetd_coordinator.kernels.table.entries import (
    Entry,
    has_extra_room,
    has_window_room,
    load_entry,
    note_end_offset,
)
from offsetd_coordinator.kernels.table.request_ids import (
    HEADER_NAME_SIZE,
    find_request,
    hash_request,
    store_header_name,
)
from offsetd_coordinator.kernels.table.stored_offsets import find_group, find_in_group

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays

_NOT_LOOKED_FOR: Final = -2


class CommitTimes(NamedTuple):
    """The times of a commit and of its expiry, in ms. Expiry -1 means no expiry of its own."""

    now_ms: int
    expire_timestamp: int


@kernel(
    f"int64({TABLE}, {COMMIT}, int64, int64, int64, int64, int64, int64, int64, "
    "uint8[::1], int64[::1], int64[:, ::1])"
)
def decide_commit(
    arrays: TableArrays,
    commit_names: Bytes,
    columns: Int64s,
    group_start: int,
    group_size: int,
    request_id_start: int,
    request_id_size: int,
    now_ms: int,
    expire_timestamp: int,
    unchanged_ms: int,
    base_offset: int,
    leader_epoch: int,
    value_version: int,
    bytes_max: int,
    out: Bytes,
    verdict: Int64s,
    conflicts: Int64s,
) -> int:
    """Write the commit's batch to `out`; returns its size, or the outcome if there is none.

    `out` has room for `bytes_max` and some padding. `expire_timestamp` is -1 for none. A commit
    that changes nothing is not written if the stored offsets are newer than `unchanged_ms`; with
    0, it is always written. The details of the outcome are in `verdict` and `conflicts`.
    """
    commit = Commit(
        commit_names, columns, group_start, group_size, request_id_start, request_id_size
    )
    times = CommitTimes(now_ms, expire_timestamp)
    stop = judge_commit(Table(*arrays), commit, times, unchanged_ms, verdict, conflicts)
    if stop != 0:
        return stop
    end = put_commit(commit, times, base_offset, leader_epoch, value_version, out, 0, bytes_max)
    return TOO_LARGE if end < 0 else end


@inline_kernel
def judge_commit(
    table: Table,
    commit: Commit,
    times: CommitTimes,
    unchanged_ms: int,
    verdict: Int64s,
    conflicts: Int64s,
) -> int:
    """Returns 0 if a commit must be written, else the outcome, such as DUPLICATE."""
    if commit.request_id_size > 0 and _is_duplicate(table, commit, times.now_ms, verdict):
        return DUPLICATE
    refusal = _judge(table, commit, verdict, conflicts)
    if refusal != 0:
        return refusal
    if unchanged_ms > 0 and _is_unchanged(table, commit, times, unchanged_ms, verdict):
        return UNCHANGED
    return 0


@inline_kernel
def _is_duplicate(table: Table, commit: Commit, now_ms: int, verdict: Int64s) -> bool:
    """Returns whether the id was seen within the window. If so, `verdict` gets that answer."""
    hashed, hashed_2 = hash_request(
        table,
        commit.names,
        commit.group_start,
        commit.group_size,
        commit.request_id_start,
        commit.request_id_size,
    )
    row = find_request(table, hashed, hashed_2)
    if row < 0:
        return False
    if table.requests[row, REQUEST_TIMESTAMP] < now_ms - table.counters[REQUEST_WINDOW_MS]:
        return False
    verdict[VERDICT_LAST_OFFSET] = table.requests[row, REQUEST_LAST_OFFSET]
    return True


@inline_kernel
def _is_unchanged(
    table: Table, commit: Commit, times: CommitTimes, unchanged_ms: int, verdict: Int64s
) -> bool:
    """Returns whether a commit would change nothing. Writes the newest revision to `verdict`.

    Returns False while any transaction is open: its offsets may be stored later, and replace
    these, unless the commit is written after them.
    """
    if times.expire_timestamp >= 0 or table.counters[OPEN_TRANSACTIONS] > 0:
        return False
    group = find_group(table, commit.names, commit.group_start, commit.group_size)
    newest = -1
    for row in range(commit.columns.shape[0]):
        if commit.columns[row, PRECONDITION] != NO_PRECONDITION:
            return False
        entry = _stored_entry(table, commit, group, row)
        if entry < 0:
            return False
        stored = load_entry(table, entry)
        age_ms = times.now_ms - stored.commit_timestamp
        if age_ms < 0 or age_ms >= unchanged_ms or not _is_same(table, commit, row, stored):
            return False
        newest = max(newest, stored.revision)
    verdict[VERDICT_LAST_OFFSET] = newest
    return newest >= 0


@inline_kernel
def _is_same(table: Table, commit: Commit, row: int, stored: Entry) -> bool:
    """Returns whether `stored` equals a partition of the commit, apart from the time."""
    columns = commit.columns
    span = stored.metadata_span
    if span == UNDECODABLE or stored.expire_timestamp >= 0:
        return False
    if stored.offset != columns[row, COMMIT_OFFSET]:
        return False
    if stored.leader_epoch != columns[row, COMMIT_LEADER_EPOCH]:
        return False
    size = columns[row, METADATA_SIZE]
    if span & METADATA_SIZE_MAX != size:
        return False
    start = span >> METADATA_SIZE_BITS
    metadata_start = columns[row, METADATA_START]
    for place in range(size):
        if table.metadata[start + place] != commit.names[metadata_start + place]:
            return False
    return True


@inline_kernel
def _judge(table: Table, commit: Commit, verdict: Int64s, conflicts: Int64s) -> int:
    """Returns 0 if all conditions hold, else the outcome. Preconditions precede `monotonic`."""
    group = _NOT_LOOKED_FOR
    lost = 0
    backwards = 0
    for row in range(commit.columns.shape[0]):
        precondition = commit.columns[row, PRECONDITION]
        monotonic = commit.columns[row, MONOTONIC]
        if precondition == NO_PRECONDITION and monotonic == 0:
            continue
        if group == _NOT_LOOKED_FOR:
            group = find_group(table, commit.names, commit.group_start, commit.group_size)
        entry = _stored_entry(table, commit, group, row)
        if entry >= 0 and load_entry(table, entry).metadata_span == UNDECODABLE:
            verdict[VERDICT_ROW] = row
            return UNREADABLE
        if not _holds(table, commit, row, entry):
            # These conflicts overwrite the listed partitions that go backwards.
            _list_conflict(table, entry, row, lost, conflicts)
            lost += 1
        elif monotonic != 0 and entry >= 0 and _goes_back(table, commit, row, entry):
            if lost == 0:
                _list_conflict(table, entry, row, backwards, conflicts)
            backwards += 1
    verdict[VERDICT_CONFLICTS] = lost if lost > 0 else backwards
    if lost > 0:
        return CONFLICTING
    return NOT_MONOTONIC if backwards > 0 else 0


@inline_kernel
def _stored_entry(table: Table, commit: Commit, group: int, row: int) -> int:
    """The entry of one partition of the commit, or -1."""
    columns = commit.columns
    key = OffsetKey(
        commit.group_start,
        commit.group_size,
        columns[row, TOPIC_START],
        columns[row, TOPIC_SIZE],
        columns[row, PARTITION],
    )
    return find_in_group(table, group, commit.names, key)


@inline_kernel
def _holds(table: Table, commit: Commit, row: int, entry: int) -> bool:
    """Returns whether the stored offset meets the precondition of a partition."""
    precondition = commit.columns[row, PRECONDITION]
    if precondition == NO_PRECONDITION:
        return True
    if precondition == MUST_NOT_EXIST or entry < 0:
        return bool(precondition == MUST_NOT_EXIST and entry < 0)
    expected = commit.columns[row, EXPECTED]
    if precondition == EXPECTED_OFFSET:
        return bool(load_entry(table, entry).offset == expected)
    return bool(precondition == EXPECTED_REVISION and load_entry(table, entry).revision == expected)


@inline_kernel
def _goes_back(table: Table, commit: Commit, row: int, entry: int) -> bool:
    return bool(load_entry(table, entry).offset > commit.columns[row, COMMIT_OFFSET])


@inline_kernel
def _list_conflict(table: Table, entry: int, row: int, at: int, conflicts: Int64s) -> None:
    if at >= CONFLICTS_MAX:
        return
    conflicts[at, CONFLICT_ROW] = row
    conflicts[at, CONFLICT_OFFSET] = -1
    conflicts[at, CONFLICT_REVISION] = -1
    if entry >= 0:
        stored = load_entry(table, entry)
        conflicts[at, CONFLICT_OFFSET] = stored.offset
        conflicts[at, CONFLICT_REVISION] = stored.revision


@inline_kernel
def put_commit(
    commit: Commit,
    times: CommitTimes,
    base_offset: int,
    leader_epoch: int,
    value_version: int,
    out: Bytes,
    start: int,
    limit: int,
) -> int:
    """Write a commit's batch at `start`. Returns its end, or -1 if that is beyond `limit`."""
    end = _put_records(commit, times, value_version, out, start + BATCH_HEADER_BYTES, limit)
    if end < 0:
        return -1
    count = commit.columns.shape[0]
    now_ms = times.now_ms
    seal_batch(
        out, start, end, base_offset, count - 1, count, now_ms, now_ms, 0, -1, -1, -1, leader_epoch
    )
    return end


@inline_kernel
def _put_records(
    commit: Commit, times: CommitTimes, value_version: int, out: Bytes, position: int, limit: int
) -> int:
    """Write a record for each partition. Returns their end, or -1 if that is beyond `limit`."""
    headers_size = headers_size_of(commit)
    tags_size = tags_size_of(times.expire_timestamp, value_version)
    for row in range(commit.columns.shape[0]):
        key_size = key_size_of(commit, row)
        value_size = tags_size + value_size_of(commit.columns[row, METADATA_SIZE], value_version)
        size = record_size(0, row, key_size, value_size, headers_size)
        if position + size > limit:
            return -1
        position = put_record_start(out, position, 0, row, key_size, value_size, headers_size)
        position = put_key(commit, row, out, position)
        position = store_varint(out, position, value_size)
        position = put_value(commit, row, times, value_version, out, position)
        position = put_headers(commit, headers_size, out, position)
        headers_size = NO_HEADERS_BYTES  # Only the first record carries the request id.
    return position


@inline_kernel
def headers_size_of(commit: Commit) -> int:
    """Bytes of the first record's headers, their count included."""
    if commit.request_id_size == 0:
        return NO_HEADERS_BYTES
    return NO_HEADERS_BYTES + header_size(HEADER_NAME_SIZE, commit.request_id_size)


@inline_kernel
def key_size_of(commit: Commit, row: int) -> int:
    """Bytes of an offset's key: record type, two lengths, the names, the partition."""
    return int(10 + commit.group_size + commit.columns[row, TOPIC_SIZE])


@inline_kernel
def put_key(commit: Commit, row: int, out: Bytes, position: int) -> int:
    """Write an offset's key, record type 1. Returns its end."""
    topic_size = commit.columns[row, TOPIC_SIZE]
    store_i16(out, position, 1)
    store_i16(out, position + 2, commit.group_size)
    position += 4
    copy_bytes(out, position, commit.names, commit.group_start, commit.group_size)
    position += commit.group_size
    store_i16(out, position, topic_size)
    position += 2
    copy_bytes(out, position, commit.names, commit.columns[row, TOPIC_START], topic_size)
    position += topic_size
    store_i32(out, position, commit.columns[row, PARTITION])
    return position + 4


@inline_kernel
def value_size_of(metadata_size: int, version: int) -> int:
    """Bytes of an OffsetCommitValue of version 1, 3 or 4."""
    if version >= 4:
        # version, offset, leader epoch, metadata with a varint length, time, no tags
        return 2 + 8 + 4 + unsigned_varint_size(metadata_size + 1) + metadata_size + 8 + 1
    # The metadata has an int16 length. Version 1 has an expiry but no leader epoch.
    return 2 + 8 + 2 + metadata_size + 8 + (4 if version == 3 else 8)


@inline_kernel
def tags_size_of(expire_timestamp: int, version: int) -> int:
    """Bytes of a value's tagged fields, without their count."""
    return EXPIRE_TAG_BYTES if version >= 4 and expire_timestamp >= 0 else 0


@inline_kernel
def put_value(
    commit: Commit, row: int, times: CommitTimes, version: int, out: Bytes, position: int
) -> int:
    """Write an OffsetCommitValue. Returns its end."""
    metadata_size = commit.columns[row, METADATA_SIZE]
    store_i16(out, position, version)
    store_i64(out, position + 2, commit.columns[row, COMMIT_OFFSET])
    position += 10
    if version >= 3:
        store_i32(out, position, commit.columns[row, COMMIT_LEADER_EPOCH])
        position += 4
    if version >= 4:
        position = store_unsigned_varint(out, position, metadata_size + 1)
    else:
        store_i16(out, position, metadata_size)
        position += 2
    copy_bytes(out, position, commit.names, commit.columns[row, METADATA_START], metadata_size)
    position += metadata_size
    store_i64(out, position, times.now_ms)
    position += 8
    if version == 1:
        store_i64(out, position, times.expire_timestamp)
        position += 8
    elif version >= 4:
        position = _put_tags(times, out, position)
    return position


@inline_kernel
def _put_tags(times: CommitTimes, out: Bytes, position: int) -> int:
    """Write the tagged fields of a value of version 4. Returns their end."""
    if times.expire_timestamp < 0:
        store_i8(out, position, 0)
        return position + 1
    store_i8(out, position, 1)
    position = store_unsigned_varint(out, position + 1, EXPIRE_TAG)
    store_i8(out, position, 8)
    store_i64(out, position + 1, times.expire_timestamp)
    return position + 9


@inline_kernel
def put_headers(commit: Commit, headers_size: int, out: Bytes, position: int) -> int:
    """Write the count of headers and, unless the size says that there is none, the request id."""
    if headers_size == NO_HEADERS_BYTES:
        store_i8(out, position, 0)
        return position + 1
    position = store_varint(out, position, 1)
    position = store_varint(out, position, HEADER_NAME_SIZE)
    position = store_header_name(out, position)
    position = store_varint(out, position, commit.request_id_size)
    copy_bytes(out, position, commit.names, commit.request_id_start, commit.request_id_size)
    return position + commit.request_id_size


@kernel(f"int64({TABLE}, {COMMIT}, int64)")
def note_end_offsets(
    arrays: TableArrays,
    commit_names: Bytes,
    columns: Int64s,
    group_start: int,
    group_size: int,
    request_id_start: int,
    request_id_size: int,
    first: int,
) -> int:
    """Keep the end offsets that a replayed commit reports, starting at its row `first`.

    Returns the row for which the caller must make room, or the number of rows if all are done.
    """
    table = Table(*arrays)
    commit = Commit(
        commit_names, columns, group_start, group_size, request_id_start, request_id_size
    )
    group = find_group(table, commit_names, group_start, group_size)
    count: int = columns.shape[0]
    for row in range(first, count):
        if columns[row, END_OFFSET] >= 0:
            if not (has_extra_room(table) and has_window_room(table)):
                return row
            entry = _stored_entry(table, commit, group, row)
            if entry >= 0:
                note_end_offset(table, row_of(table, entry), columns[row, END_OFFSET])
    return count
