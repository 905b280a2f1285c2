"""Finds, stores, removes and reads offsets by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.kernels.offset_records import METADATA_SIZE_MAX, OffsetKey, OffsetValue
from offsetd_storage.kernels.registry import inline_kernel, kernel
from offsetd_storage.kernels.utf8 import utf16_length

from offsetd_coordinator.kernels.columns import (
    ENTRY_LIST,
    FREE,
    METADATA_SIZE_BITS,
    NAME_END,
    NAME_SPAN,
    READ_COMMIT_TIMESTAMP,
    READ_END_OFFSET,
    READ_EXPIRE_TIMESTAMP,
    READ_LEADER_EPOCH,
    READ_METADATA_END,
    READ_METADATA_START,
    READ_OFFSET,
    READ_PARTITION,
    READ_REVISION,
    READ_TOPIC_END,
    READ_TOPIC_START,
    TABLE,
    UNDECODABLE,
    Table,
)
from offsetd_coordinator.kernels.table.blocks import (
    base_of,
    entry_count,
    find_entry,
    find_or_add_block,
    find_or_add_row,
    list_group_entries,
    partition_of,
    remove_row,
    row_of,
    topic_of,
)
from offsetd_coordinator.kernels.table.entries import (
    forget_row,
    has_room,
    load_entry,
    mark_undecodable,
    store_row,
)
from offsetd_coordinator.kernels.table.group_placement import log_partition_of
from offsetd_coordinator.kernels.table.names import (
    add_name,
    find_name,
    name_size,
    name_start,
    name_tag,
)

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays


@inline_kernel
def find_group(table: Table, buffer: Bytes, start: int, size: int) -> int:
    """The name of a group, or -1 if nothing has that name."""
    return find_name(table, buffer, start, size, name_tag(table, buffer, start, size))


@inline_kernel
def find_in_group(table: Table, group: int, buffer: Bytes, key: OffsetKey) -> int:
    """The entry of an offset, or -1. `group` is the row of the group's name, or -1."""
    if group < 0:
        return -1
    tag = name_tag(table, buffer, key.topic_start, key.topic_size)
    topic = find_name(table, buffer, key.topic_start, key.topic_size, tag)
    if topic < 0:
        return -1
    return find_entry(table, group, topic, key.partition)


@inline_kernel
def find_offset(table: Table, buffer: Bytes, key: OffsetKey) -> int:
    """The entry of an offset, or -1."""
    group = find_group(table, buffer, key.group_start, key.group_size)
    return find_in_group(table, group, buffer, key)


@inline_kernel
def find_or_add_names(table: Table, buffer: Bytes, key: OffsetKey) -> tuple[int, int]:
    """The rows of the names of group and topic. Adds the names that are not stored yet.

    Returns -1 for both, and adds nothing, if a new name is not UTF-8. The caller has made room.
    """
    group_tag = name_tag(table, buffer, key.group_start, key.group_size)
    group = find_name(table, buffer, key.group_start, key.group_size, group_tag)
    topic_tag = name_tag(table, buffer, key.topic_start, key.topic_size)
    topic = find_name(table, buffer, key.topic_start, key.topic_size, topic_tag)
    if group < 0 and utf16_length(buffer, key.group_start, key.group_size) < 0:
        return -1, -1
    if topic < 0 and utf16_length(buffer, key.topic_start, key.topic_size) < 0:
        return -1, -1
    if group < 0:
        group = add_name(table, buffer, key.group_start, key.group_size, group_tag)
    if topic < 0:
        # The group may have the same name, which was just added.
        topic = find_name(table, buffer, key.topic_start, key.topic_size, topic_tag)
    if topic < 0:
        topic = add_name(table, buffer, key.topic_start, key.topic_size, topic_tag)
    return group, topic


@inline_kernel
def remove_offset(table: Table, buffer: Bytes, key: OffsetKey) -> bool:
    """Remove an offset. Returns whether it existed."""
    entry = find_offset(table, buffer, key)
    if entry >= 0:
        forget_row(table, row_of(table, entry))
        remove_row(table, entry)
    return entry >= 0


# The kernels of the slow path. `buffer` has the group's name. If the kernel takes one topic, the
# topic's name is next, and then the metadata.


@kernel(f"void({TABLE}, uint8[::1], int64, int64[:, ::1], int64[::1])")
def locate(
    arrays: TableArrays, buffer: Bytes, group_size: int, keys: Int64s, found: Int64s
) -> None:
    """Write the entry of each key, a row of topic start, topic size and partition, or -1."""
    table = Table(*arrays)
    group = find_group(table, buffer, 0, group_size)
    for row in range(found.size):
        key = OffsetKey(0, group_size, keys[row, 0], keys[row, 1], keys[row, 2])
        found[row] = find_in_group(table, group, buffer, key)


@kernel(f"boolean({TABLE}, uint8[::1], int64, int64, int64)")
def remove(
    arrays: TableArrays, buffer: Bytes, group_size: int, topic_size: int, partition: int
) -> bool:
    """Remove an offset. Returns whether it existed."""
    key = OffsetKey(0, group_size, group_size, topic_size, partition)
    return remove_offset(Table(*arrays), buffer, key)


@kernel(
    f"boolean({TABLE}, uint8[::1], int64, int64, int64, int64, int64, int64, int64, int64, int64)"
)
def store(
    arrays: TableArrays,
    buffer: Bytes,
    group_size: int,
    topic_size: int,
    partition: int,
    revision: int,
    offset: int,
    leader_epoch: int,
    metadata_size: int,
    commit_timestamp: int,
    expire_timestamp: int,
) -> bool:
    """Store an offset. Returns False if there is no room.

    If `metadata_size` is UNDECODABLE, the offset is marked as one whose record cannot be read.
    """
    table = Table(*arrays)
    metadata_start = group_size + topic_size
    if not has_room(table, metadata_start, max(metadata_size, 0)):
        return False
    key = OffsetKey(0, group_size, group_size, topic_size, partition)
    value = OffsetValue(
        offset,
        leader_epoch,
        metadata_start,
        max(metadata_size, 0),
        commit_timestamp,
        expire_timestamp,
    )
    group, topic = find_or_add_names(table, buffer, key)
    block = find_or_add_block(table, group, topic, base_of(partition))
    row = find_or_add_row(table, block, partition)
    store_row(table, row, buffer, value, revision)
    if metadata_size == UNDECODABLE:
        mark_undecodable(table, row)
    return True


@kernel(f"int64({TABLE}, uint8[::1], int64, int64[::1])")
def list_entries(arrays: TableArrays, buffer: Bytes, group_size: int, found: Int64s) -> int:
    """Write the entries of a group to `found`, if all fit. Returns how many it has."""
    table = Table(*arrays)
    group = find_group(table, buffer, 0, group_size)
    if group < 0:
        return 0
    count = entry_count(table, group)
    if count <= found.size:
        list_group_entries(table, group, found[:count])
    return count


@kernel(f"void({TABLE}, int64[::1], int64[:, ::1])")
def read_entries(arrays: TableArrays, entries: Int64s, read: Int64s) -> None:
    """Write the stored fields of each entry to its row of `read`, in the READ columns."""
    table = Table(*arrays)
    for at in range(entries.size):
        stored = load_entry(table, entries[at])
        topic = topic_of(table, entries[at])
        read[at, READ_TOPIC_START] = name_start(table, topic)
        read[at, READ_TOPIC_END] = name_start(table, topic) + name_size(table, topic)
        read[at, READ_PARTITION] = partition_of(table, entries[at])
        read[at, READ_LEADER_EPOCH] = stored.leader_epoch
        read[at, READ_OFFSET] = stored.offset
        read[at, READ_REVISION] = stored.revision
        read[at, READ_COMMIT_TIMESTAMP] = stored.commit_timestamp
        read[at, READ_EXPIRE_TIMESTAMP] = stored.expire_timestamp
        read[at, READ_END_OFFSET] = stored.end_offset
        if stored.metadata_span == UNDECODABLE:
            read[at, READ_METADATA_START] = UNDECODABLE
            read[at, READ_METADATA_END] = UNDECODABLE
        else:
            start = stored.metadata_span >> METADATA_SIZE_BITS
            read[at, READ_METADATA_START] = start
            read[at, READ_METADATA_END] = start + (stored.metadata_span & METADATA_SIZE_MAX)


@kernel(f"int64({TABLE}, int64, int64, int64[::1])")
def list_misplaced(arrays: TableArrays, partition: int, partitions: int, found: Int64s) -> int:
    """Write the spans of the groups whose hash belongs to another partition. Returns their number.

    `found` has room for every group.
    """
    table = Table(*arrays)
    count = 0
    for name in range(table.counters[NAME_END]):
        span = table.names[name, NAME_SPAN]
        if span == FREE or table.names[name, ENTRY_LIST] == 0:
            continue
        start, size = name_start(table, name), name_size(table, name)
        if log_partition_of(table.name_bytes, start, size, partitions) != partition:
            found[count] = span
            count += 1
    return count
