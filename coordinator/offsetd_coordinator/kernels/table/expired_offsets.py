"""Finds expired offsets: walks all blocks to find groups, then judges the entries of one group.

The rules are those of `offsetd_coordinator.expiry.expiry_rules`, as numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.kernels.bitmap import count_ones
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    BASE_REPLACED,
    BLOCK_END,
    BLOCK_PARTITIONS,
    FREE,
    GROUP_TOPIC,
    JUDGED_DUE,
    JUDGED_FIRST,
    JUDGED_WARNED,
    MASK,
    NEVER,
    NO_TIME,
    RULE_BASE,
    RULE_EMPTY,
    RULE_RETENTION,
    RULE_WARNING,
    TABLE,
    TIME_MAX,
    UNDECODABLE,
    Table,
)
from offsetd_coordinator.kernels.records.tombstone_records import OFFSET_KEY_FIXED_BYTES
from offsetd_coordinator.kernels.table.blocks import (
    first_row,
    group_of,
    list_block,
    topic_of,
)
from offsetd_coordinator.kernels.table.entries import load_entry, load_row
from offsetd_coordinator.kernels.table.names import name_size

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays


@inline_kernel
def expiry_time(commit: int, expire: int, retention: int, empty: int, base: int) -> int:
    """The time at which an offset expires, or NEVER."""
    if expire > NO_TIME:
        return expire
    if retention >= TIME_MAX:
        return NEVER
    since = max(commit, empty)
    if base == BASE_REPLACED:
        since = commit if empty == NO_TIME else empty
        since = max(since, 0)
    if since <= NO_TIME or since >= TIME_MAX:
        return NEVER
    return since + retention


@kernel(f"int64({TABLE}, int64[::1], int64, int64, int64, uint8[::1], int64[::1])")
def find_groups(
    arrays: TableArrays,
    cursor: Int64s,
    rows_max: int,
    committed_last: int,
    expire_last: int,
    is_seen: Bytes,
    found: Int64s,
) -> int:
    """Search about `rows_max` rows, starting at the block `cursor[0]`, for groups that may be due.

    A group may be due if it has an offset that was committed at or before `committed_last`, or that
    expires at or before `expire_last`. Each group is written once, as the row of its name, and
    marked in `is_seen`, which has a byte for every name. Stops when `found` is full. Moves the
    cursor, to -1 at the end. Returns the number of groups written.
    """
    table = Table(*arrays)
    end = table.counters[BLOCK_END]
    block = cursor[0]
    looked = 0
    count = 0
    while block < end and looked < rows_max and count < found.size:
        group_topic = table.blocks[block, GROUP_TOPIC]
        looked += 1
        if group_topic != FREE and is_seen[group_topic >> 32] == 0:
            looked += count_ones(table.blocks[block, MASK])
            if _may_be_due(table, block, committed_last, expire_last):
                is_seen[group_topic >> 32] = 1
                found[count] = group_topic >> 32
                count += 1
        block += 1
    cursor[0] = -1 if block >= end else block
    return count


@inline_kernel
def _may_be_due(table: Table, block: int, committed_last: int, expire_last: int) -> bool:
    """Returns whether a block has an offset that was committed, or expires, by these times."""
    start = first_row(table, block)
    for row in range(start, start + count_ones(table.blocks[block, MASK])):
        stored = load_row(table, row)
        if stored.metadata_span == UNDECODABLE:
            continue
        if stored.expire_timestamp > NO_TIME:
            if stored.expire_timestamp <= expire_last:
                return True
        elif stored.commit_timestamp <= committed_last:
            return True
    return False


@kernel(f"int64({TABLE}, int64[::1], int64[::1], int64[::1])")
def end_keys(arrays: TableArrays, entries: Int64s, topics: Int64s, ends: Int64s) -> int:
    """Write the end of each entry's key, as if the keys had no gaps. Returns the last end.

    Also writes the row of the name of each entry's topic.
    """
    table = Table(*arrays)
    end = 0
    for at in range(entries.size):
        topics[at] = topic_of(table, entries[at])
        end += OFFSET_KEY_FIXED_BYTES + name_size(table, group_of(table, entries[at]))
        end += name_size(table, topics[at])
        ends[at] = end
    return end


@kernel(f"int64({TABLE}, int64, int64[::1], int64[::1])")
def list_from(arrays: TableArrays, group: int, cursor: Int64s, found: Int64s) -> int:
    """Write entries of a group, starting at the block `cursor[0]`. Returns their number.

    Reads at most as many blocks as `found` has places; a block may need 64 places. Moves the
    cursor, to -1 at the end.
    """
    table = Table(*arrays)
    end = table.counters[BLOCK_END]
    block = cursor[0]
    stop = block + found.size
    count = 0
    while block < min(end, stop) and count + BLOCK_PARTITIONS <= found.size:
        group_topic = table.blocks[block, GROUP_TOPIC]
        if group_topic != FREE and group_topic >> 32 == group:
            count = list_block(table, block, found, count)
        block += 1
    cursor[0] = -1 if block >= end else block
    return count


@kernel(f"void({TABLE}, int64[::1], int64[::1], int64, int64[::1], int64[::1])")
def judge_entries(
    arrays: TableArrays, entries: Int64s, rule: Int64s, now: int, due: Int64s, judged: Int64s
) -> None:
    """Write the entries that, by a rule, have expired at `now` to `due`, which has enough room.

    Writes the counts and the next time of expiry to `judged`.
    """
    table = Table(*arrays)
    count = 0
    warned = 0
    first = NEVER
    for at in range(entries.size):
        stored = load_entry(table, entries[at])
        if stored.metadata_span == UNDECODABLE:
            continue
        commit, expire = stored.commit_timestamp, stored.expire_timestamp
        time = expiry_time(commit, expire, rule[RULE_RETENTION], rule[RULE_EMPTY], rule[RULE_BASE])
        if now >= time:
            due[count] = entries[at]
            count += 1
            continue
        first = min(first, time)
        if time != NEVER and is_soon(commit, time, now, rule[RULE_WARNING]):
            warned += 1
    judged[JUDGED_DUE] = count
    judged[JUDGED_WARNED] = warned
    judged[JUDGED_FIRST] = first


@inline_kernel
def is_soon(commit: int, time: int, now: int, warning: int) -> bool:
    """Returns whether an offset expires soon. It never does in the first half of its life."""
    lived_half = 0 <= commit < time and now - commit >= time - now
    return bool(time - now <= warning and (lived_half or commit < 0))
