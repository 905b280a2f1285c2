"""Which offsets have expired: groups found by walking all rows, rows of one group judged.

The rules are those of `offsetd_coordinator.expiry`, in numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    BASE_REPLACED,
    COMMIT_TIMESTAMP,
    ENTRY_END,
    ENTRY_LIST,
    EXPIRE_TIMESTAMP,
    FREE,
    GROUP_TOPIC,
    JUDGED_DUE,
    JUDGED_FIRST,
    JUDGED_WARNED,
    LINKS,
    METADATA_SPAN,
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
from offsetd_coordinator.kernels.entries import LOW_HALF, low_half
from offsetd_coordinator.kernels.names import name_size
from offsetd_coordinator.kernels.offsets import find_group
from offsetd_coordinator.kernels.tombstones import OFFSET_KEY_FIXED_BYTES

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays


@inline_kernel
def expiry_time(commit: int, expire: int, retention: int, empty: int, base: int) -> int:
    """From when on an offset is expired, or NEVER."""
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
    """Look at up to `rows_max` rows from `cursor[0]` on, and write the groups that may be due.

    That is a group with an offset committed no later than `committed_last`, or with an expire
    timestamp no later than `expire_last`. A group is written once, as the row of its name, and
    marked in `is_seen`, which has a byte for every name. Stops where `found` is full; moves the
    cursor, to -1 at the end. Returns how many were written.
    """
    table = Table(*arrays)
    entries = table.entries
    end = table.counters[ENTRY_END]
    row = cursor[0]
    stop = min(end, row + rows_max)
    count = 0
    while row < stop and count < found.size:
        group_topic = entries[row, GROUP_TOPIC]
        expire = entries[row, EXPIRE_TIMESTAMP]
        row += 1
        if group_topic == FREE or entries[row - 1, METADATA_SPAN] == UNDECODABLE:
            continue
        if expire > NO_TIME:
            if expire > expire_last:
                continue
        elif entries[row - 1, COMMIT_TIMESTAMP] > committed_last:
            continue
        group = group_topic >> 32
        if is_seen[group] == 0:
            is_seen[group] = 1
            found[count] = group
            count += 1
    cursor[0] = -1 if row >= end else row
    return count


@kernel(f"int64({TABLE}, uint8[::1], int64, int64[::1])")
def list_group(arrays: TableArrays, buffer: Bytes, group_size: int, found: Int64s) -> int:
    """Write the rows of a group's offsets, as many as fit; how many the group has."""
    table = Table(*arrays)
    group = find_group(table, buffer, 0, group_size)
    if group < 0:
        return 0
    following = table.names[group, ENTRY_LIST] >> 32
    count = low_half(table.names[group, ENTRY_LIST])
    for at in range(min(count, found.size)):
        found[at] = following - 1
        following = table.entries[following - 1, LINKS] >> 32
    return count


@kernel(f"int64({TABLE}, int64[::1], int64[::1], int64[::1])")
def end_keys(arrays: TableArrays, rows: Int64s, topics: Int64s, ends: Int64s) -> int:
    """Write where the key of each of `rows` ends, one behind the other, and the last end is.

    Also the row of each one's topic's name.
    """
    table = Table(*arrays)
    end = 0
    for at in range(rows.size):
        group_topic = table.entries[rows[at], GROUP_TOPIC]
        topics[at] = group_topic & LOW_HALF
        end += OFFSET_KEY_FIXED_BYTES + name_size(table, group_topic >> 32)
        end += name_size(table, topics[at])
        ends[at] = end
    return end


@kernel(f"int64({TABLE}, int64, int64, int64, int64[::1])")
def list_rows_between(arrays: TableArrays, group: int, start: int, stop: int, found: Int64s) -> int:
    """Write the group's rows from `start` to before `stop`; there is room. How many there are."""
    table = Table(*arrays)
    count = 0
    for row in range(start, min(stop, table.counters[ENTRY_END])):
        group_topic = table.entries[row, GROUP_TOPIC]
        if group_topic != FREE and group_topic >> 32 == group:
            found[count] = row
            count += 1
    return count


@kernel(f"void({TABLE}, int64[::1], int64[::1], int64, int64[::1], int64[::1])")
def judge_rows(
    arrays: TableArrays, rows: Int64s, rule: Int64s, now: int, due: Int64s, judged: Int64s
) -> None:
    """Say of `rows`, by a rule, which have expired at `now`: written to `due`, which has room."""
    table = Table(*arrays)
    entries = table.entries
    count = 0
    warned = 0
    first = NEVER
    for at in range(rows.size):
        row = rows[at]
        if entries[row, METADATA_SPAN] == UNDECODABLE:
            continue
        commit = entries[row, COMMIT_TIMESTAMP]
        expire = entries[row, EXPIRE_TIMESTAMP]
        time = expiry_time(commit, expire, rule[RULE_RETENTION], rule[RULE_EMPTY], rule[RULE_BASE])
        if now >= time:
            due[count] = row
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
    """Whether what expires at `time` is to be warned of; not in the first half of its life."""
    lived_half = 0 <= commit < time and now - commit >= time - now
    return bool(time - now <= warning and (lived_half or commit < 0))
