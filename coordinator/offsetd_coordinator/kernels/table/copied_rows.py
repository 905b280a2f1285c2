"""Copies offsets of one group to rows of their own, which do not change with the table.

A row has the PUT columns of an offset, so that it can be written, and the ROW columns. Its spans
are in `texts`, which belongs to the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.kernels.byte_order import copy_bytes, load_i64, load_u8
from offsetd_storage.kernels.offset_records import METADATA_SIZE_MAX
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    BLOCK_END,
    BLOCK_PARTITIONS,
    COMMIT_LEADER_EPOCH,
    COMMIT_OFFSET,
    FREE,
    GROUP_TOPIC,
    METADATA_SIZE,
    METADATA_SIZE_BITS,
    METADATA_START,
    PARTITION,
    PUT_COMMIT_TIMESTAMP,
    PUT_EXPIRE_TIMESTAMP,
    PUT_IS_TOMBSTONE,
    ROW_END_OFFSET,
    ROW_REVISION,
    TABLE,
    TOPIC_SIZE,
    TOPIC_START,
    UNDECODABLE,
    WALK_BLOCK,
    WALK_COUNT,
    Table,
)
from offsetd_coordinator.kernels.table.blocks import list_block, partition_of, topic_of
from offsetd_coordinator.kernels.table.entries import load_entry
from offsetd_coordinator.kernels.table.names import name_size, name_start
from offsetd_coordinator.kernels.table.stored_offsets import find_group

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays


@inline_kernel
def compare_names(
    texts: Bytes, start: int, size: int, others: Bytes, other_start: int, other_size: int
) -> int:
    """Compares two names by their bytes: returns a number below 0, 0, or a number above 0."""
    least = min(size, other_size)
    at = 0
    while at + 8 <= least and load_i64(texts, start + at) == load_i64(others, other_start + at):
        at += 8
    while at < least:
        byte, other_byte = load_u8(texts, start + at), load_u8(others, other_start + at)
        if byte != other_byte:
            return int(byte) - int(other_byte)
        at += 1
    return size - other_size


@inline_kernel
def compare_rows(texts: Bytes, row: Int64s, others: Bytes, other: Int64s) -> int:
    """Compares the topics of two rows as `compare_names` does, and then their partitions."""
    order = compare_names(
        texts,
        row[TOPIC_START],
        row[TOPIC_SIZE],
        others,
        other[TOPIC_START],
        other[TOPIC_SIZE],
    )
    return order if order != 0 else row[PARTITION] - other[PARTITION]


@kernel(f"void({TABLE}, uint8[::1], int64, int64[:, ::1], int64, int64[::1], int64[::1])")
def walk_group(
    arrays: TableArrays,
    names: Bytes,
    group_size: int,
    edges: Int64s,
    blocks_max: int,
    walk: Int64s,
    found: Int64s,
) -> None:
    """Write the entries of a group that are between two edges to `found`.

    Each row of `edges` is a topic's span in `names` and a partition; size -1 means no edge. Reads
    at most `blocks_max` blocks, of any group, starting at the walk's block. `found` has room for
    at least one block.
    """
    table = Table(*arrays)
    end = table.counters[BLOCK_END]
    block = walk[WALK_BLOCK]
    stop = min(end, block + blocks_max)
    group = find_group(table, names, 0, group_size)
    count = 0
    while block < stop and count + BLOCK_PARTITIONS <= found.size:
        group_topic = table.blocks[block, GROUP_TOPIC]
        if group_topic != FREE and group_topic >> 32 == group:
            listed = list_block(table, block, found, count)
            count = _inside(table, block, names, edges, found, count, listed)
        block += 1
    walk[WALK_COUNT] = count
    walk[WALK_BLOCK] = -1 if block >= end or group < 0 else block


@inline_kernel
def _inside(
    table: Table, block: int, names: Bytes, edges: Int64s, found: Int64s, first: int, end: int
) -> int:
    """Keep the entries of a block that are between the edges. Returns their end in `found`."""
    topic = table.blocks[block, GROUP_TOPIC] & ((1 << 32) - 1)
    start, size = name_start(table, topic), name_size(table, topic)
    for edge in range(2):
        edge_start, edge_size = edges[edge, TOPIC_START], edges[edge, TOPIC_SIZE]
        if edge_size < 0:
            continue
        order = compare_names(table.name_bytes, start, size, names, edge_start, edge_size)
        if order != 0:
            if (order < 0) == (edge == 0):
                return first
            continue
        kept = first
        for at in range(first, end):
            partition = partition_of(table, found[at])
            is_behind = partition > edges[edge, PARTITION]
            if is_behind == (edge == 0) and partition != edges[edge, PARTITION]:
                found[kept] = found[at]
                kept += 1
        end = kept
    return end


@kernel(f"int64({TABLE}, int64[::1])")
def texts_size(arrays: TableArrays, entries: Int64s) -> int:
    """The number of bytes of texts that `copy_entries` writes."""
    table = Table(*arrays)
    size = 0
    last_topic = -1
    for at in range(entries.size):
        topic = topic_of(table, entries[at])
        if topic != last_topic:
            size += name_size(table, topic)
            last_topic = topic
        span = load_entry(table, entries[at]).metadata_span
        size += 0 if span == UNDECODABLE else span & METADATA_SIZE_MAX
    return size


@kernel(f"void({TABLE}, int64[::1], int64[:, ::1], int64, uint8[::1])")
def copy_entries(
    arrays: TableArrays, entries: Int64s, rows: Int64s, texts_at: int, texts: Bytes
) -> None:
    """Write a row for each entry, and its texts, starting at `texts_at`. There is room for both."""
    table = Table(*arrays)
    last_topic = -1
    topic_at = topic_size = 0
    for at in range(entries.size):
        entry = entries[at]
        topic = topic_of(table, entry)
        if topic != last_topic:
            topic_at, topic_size = texts_at, name_size(table, topic)
            copy_bytes(texts, topic_at, table.name_bytes, name_start(table, topic), topic_size)
            texts_at += topic_size
            last_topic = topic
        stored = load_entry(table, entry)
        rows[at, TOPIC_START] = topic_at
        rows[at, TOPIC_SIZE] = topic_size
        rows[at, PARTITION] = partition_of(table, entry)
        rows[at, COMMIT_OFFSET] = stored.offset
        rows[at, COMMIT_LEADER_EPOCH] = stored.leader_epoch
        rows[at, METADATA_START] = texts_at
        rows[at, METADATA_SIZE] = UNDECODABLE
        if stored.metadata_span != UNDECODABLE:
            size = stored.metadata_span & METADATA_SIZE_MAX
            start = stored.metadata_span >> METADATA_SIZE_BITS
            copy_bytes(texts, texts_at, table.metadata, start, size)
            texts_at += size
            rows[at, METADATA_SIZE] = size
        rows[at, PUT_EXPIRE_TIMESTAMP] = stored.expire_timestamp
        rows[at, PUT_IS_TOMBSTONE] = 0
        rows[at, PUT_COMMIT_TIMESTAMP] = stored.commit_timestamp
        rows[at, ROW_REVISION] = stored.revision
        rows[at, ROW_END_OFFSET] = stored.end_offset


@kernel("void(uint8[::1], int64[:, ::1], int64[::1], int64[::1])")
def sort_rows(texts: Bytes, rows: Int64s, order: Int64s, scratch: Int64s) -> None:
    """Write the rows to `order`, sorted by topic and partition. The sort is stable.

    It is a merge sort that starts with the runs that are already sorted.
    """
    count = order.size
    for at in range(count):
        order[at] = at
    while count > 0:
        start = 0
        while start < count:
            middle = _run_end(texts, rows, order, start)
            if middle - start == count:
                return
            end = middle if middle == count else _run_end(texts, rows, order, middle)
            second = middle
            for target in range(start, end):
                takes_first = start < middle and (
                    second == end
                    or compare_rows(texts, rows[order[start]], texts, rows[order[second]]) <= 0
                )
                scratch[target] = order[start] if takes_first else order[second]
                start += takes_first
                second += not takes_first
            start = end
        for at in range(count):
            order[at] = scratch[at]


@inline_kernel
def _run_end(texts: Bytes, rows: Int64s, order: Int64s, start: int) -> int:
    """The end of the sorted run that begins at `start`."""
    at = start + 1
    while at < order.size and compare_rows(texts, rows[order[at - 1]], texts, rows[order[at]]) <= 0:
        at += 1
    return at


@kernel("int64(uint8[::1], int64[:, ::1], int64[::1])")
def keep_newest(texts: Bytes, rows: Int64s, order: Int64s) -> int:
    """Keep for each partition the row with the largest revision (the first, if two are equal),
    unless that row is a deletion. Kept rows move to the front of the sorted `order`. Returns their
    number. A kept row without an end offset gets that of the partition's first row.
    """
    kept = 0
    at = 0
    while at < order.size:
        newest = order[at]
        end_offset = rows[newest, ROW_END_OFFSET]
        after = at + 1
        while (
            after < order.size
            and compare_rows(texts, rows[order[at]], texts, rows[order[after]]) == 0
        ):
            if rows[order[after], ROW_REVISION] > rows[newest, ROW_REVISION]:
                newest = order[after]
            after += 1
        if rows[newest, PUT_IS_TOMBSTONE] == 0:
            if rows[newest, ROW_END_OFFSET] < 0:
                rows[newest, ROW_END_OFFSET] = end_offset
            order[kept] = newest
            kept += 1
        at = after
    return kept


@kernel("void(uint8[::1], int64[:, ::1], uint8[::1], int64[:, ::1], int64[::1])")
def match_rows(
    texts: Bytes, rows: Int64s, other_texts: Bytes, others: Int64s, places: Int64s
) -> None:
    """For each row, write the index of its partition in `others`, or -1. Both are sorted."""
    at = 0
    for row in range(rows.shape[0]):
        order = 1
        while at < others.shape[0]:
            order = compare_rows(other_texts, others[at], texts, rows[row])
            if order >= 0:
                break
            at += 1
        places[row] = at if at < others.shape[0] and order == 0 else -1
