"""Reads of a group of any size as of one moment, while other calls continue.

A small group is read at once. A large one is read slice by slice, and may change between two
slices. So the changes are read from the log afterwards. Each change has a record, and the last
record of a partition gives its final offset. The rows and these records together are the group as
of the log offset at which the reading ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from offsetd_storage.kernels import padded_copy

from offsetd_coordinator.committed_offsets import OffsetRows
from offsetd_coordinator.cooperative_scheduling import SLICE_BLOCKS, SLICE_ROWS, next_turn
from offsetd_coordinator.errors import CoordinatorNotAvailable, UnstableOffsetCommit
from offsetd_coordinator.history.history_errors import HistoryCompacted
from offsetd_coordinator.history.offset_events import rows_of_changes, whole_changes
from offsetd_coordinator.history.offset_history import durable_log, reading
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.table.copied_rows import walk_group
from offsetd_coordinator.runtime.commit_log import until_durable

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.expiry.expiry_rules import GroupRule
    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.offset_changes import Partition
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.state.offset_table import OffsetTable
    from offsetd_coordinator.wire.fetch_encoder import FetchAnswer
    from offsetd_coordinator.wire.group_selections import GroupSelection

_TRIES_MAX: Final = 3
_EDGE_COLUMNS: Final = 3


class GroupPage(NamedTuple):
    """A page of a group's offsets, sorted. More may follow after the partition `last`."""

    rows: OffsetRows
    last: Partition | None


async def read_group(runtime: Runtime, group_id: bytes) -> OffsetRows:
    """All offsets of a group, sorted, once they are durable. Unreadable offsets are included.

    Raises CoordinatorNotAvailable, LogPartitionQuarantined, StorageUnavailable.
    """
    return await _read(runtime, group_id, lambda offsets: _Walk(offsets, group_id))


async def read_page(
    runtime: Runtime, group_id: bytes, after: Partition | None, size: int
) -> GroupPage:
    """The first `size` offsets after a partition. Raises the errors of `read_group`."""
    least: list[_Least] = []

    def source(offsets: OffsetTable) -> _Walk:
        least[:] = [_Least(offsets, group_id, after=after, size=size + 1)]
        return least[0]

    rows = await _read(runtime, group_id, source)
    if after is not None:
        rows = _between(rows, after, None)
    bound = least[0].before
    if bound is not None:
        rows = _between(rows, None, bound)
    if len(rows) > size:
        rows = rows.take(slice(size))
        return GroupPage(rows, rows.partition(size - 1))
    return GroupPage(rows, bound)


async def read_partitions(
    runtime: Runtime, group_id: bytes, names: Bytes, keys: Int64s
) -> OffsetRows:
    """The offsets of `keys`, sorted. A key is a topic's span in `names` and a partition.

    Raises the errors of `read_group`.
    """
    # The kernels expect the group id first.
    names = np.concatenate((np.frombuffer(group_id, np.uint8), names))
    keys = keys + np.array((len(group_id), 0, 0), np.int64)
    rows = await _read(runtime, group_id, lambda offsets: _Named(offsets, group_id, names, keys))
    asked = np.zeros((len(keys), columns.ROW_COLUMNS), np.int64)
    asked[:, : keys.shape[1]] = keys
    return await asyncio.to_thread(_only, rows, OffsetRows(names, asked))


async def add_large(
    runtime: Runtime, answer: FetchAnswer, selection: GroupSelection, rule: GroupRule
) -> None:
    """Adds the requested offsets of a large group, once they are durable.

    Raises the errors of `Shard.fetch_into` and of `read_group`.
    """
    group_id = selection.group_id
    log_partition, shard = runtime.shard_of(group_id)
    if selection.require_stable and selection.has_any_of(shard.pending_partitions(group_id)):
        raise UnstableOffsetCommit(
            "a transaction has offsets pending for group {group!r}", group=group_id
        )
    if selection.partitions is None:
        rows = await read_group(runtime, group_id)
    else:
        rows = await read_partitions(runtime, group_id, selection.names, selection.partitions)
    await answer.add_rows(group_id, rows, rule, log_partition=log_partition)


def _only(rows: OffsetRows, asked: OffsetRows) -> OffsetRows:
    return rows.take(np.flatnonzero(rows.places_in(asked.sorted()) >= 0))


def _between(rows: OffsetRows, after: Partition | None, last: Partition | None) -> OffsetRows:
    """The sorted rows after one partition, up to another one (inclusive)."""
    first, end = 0, len(rows)
    if after is not None:
        first = _first_where(rows, lambda each: each > after)
    if last is not None:
        end = _first_where(rows, lambda each: each > last)
    return rows.take(slice(first, end))


def _first_where(rows: OffsetRows, holds: Callable[[Partition], bool]) -> int:
    """The first row for which the condition holds; it also holds for all later rows."""
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        if holds(rows.partition(middle)):
            high = middle
        else:
            low = middle + 1
    return low


class _Walk:
    """A walk over all entries of a group, a slice at a time."""

    def __init__(
        self,
        offsets: OffsetTable,
        group_id: bytes,
        *,
        after: Partition | None = None,
        before: Partition | None = None,
    ) -> None:
        self.is_small = offsets.count(group_id) <= SLICE_ROWS
        self.parts: list[OffsetRows] = []
        self._offsets = offsets
        self._group_id = group_id
        self._walk = np.zeros(columns.WALK_COLUMNS, np.int64)
        self._found = np.empty(SLICE_ROWS, np.int64)
        self.set_edges(after, before)

    def set_edges(self, after: Partition | None, before: Partition | None) -> None:
        """Limits the walk to the entries between these partitions."""
        names = bytearray(self._group_id)
        edges = np.full((2, _EDGE_COLUMNS), -1, np.int64)
        for at, edge in enumerate((after, before)):
            if edge is not None:
                topic, partition = edge
                edges[at] = len(names), len(topic), partition
                names += topic
        self._names, self._edges = padded_copy(names), edges

    def take_slice(self) -> bool:
        """Reads the next slice; returns whether it was the last."""
        walk, found = self._walk, self._found
        arrays, group_size = self._offsets.arrays, len(self._group_id)
        walk_group(arrays, self._names, group_size, self._edges, SLICE_BLOCKS, walk, found)
        entries = found[: walk[columns.WALK_COUNT]]
        if entries.size:
            self.parts.append(OffsetRows.of_entries(self._offsets.arrays, entries))
        return bool(walk[columns.WALK_BLOCK] < 0)

    def take_all(self) -> OffsetRows:
        """Reads all of a small group at once."""
        return OffsetRows.of_entries(self._offsets.arrays, self._offsets.entries_of(self._group_id))

    async def rest(self) -> None:
        """Lets other tasks run."""
        await next_turn()


class _Least(_Walk):
    """A walk that keeps the first entries after a partition.

    `before` is the last one that was kept, if others were left out, else None.
    """

    def __init__(
        self, offsets: OffsetTable, group_id: bytes, *, after: Partition | None, size: int
    ) -> None:
        super().__init__(offsets, group_id, after=after)
        self.before: Partition | None = None
        self._after = after
        self._size = size

    async def rest(self) -> None:
        if sum(map(len, self.parts)) < self._size + SLICE_ROWS:
            await super().rest()
            return
        least = await asyncio.to_thread(_sorted, self.parts)
        if len(least) > self._size:
            least = least.take(slice(self._size))
            self.before = least.partition(self._size - 1)
            self.set_edges(self._after, self.before)
        self.parts = [least]


class _Named(_Walk):
    """A walk over the entries of named partitions."""

    def __init__(self, offsets: OffsetTable, group_id: bytes, names: Bytes, keys: Int64s) -> None:
        super().__init__(offsets, group_id)
        self.is_small = len(keys) <= SLICE_ROWS
        self._names, self._keys = names, keys
        self._next = 0

    def take_slice(self) -> bool:
        first, self._next = self._next, self._next + SLICE_ROWS
        self.parts.append(self._rows(self._keys[first : self._next]))
        return self._next >= len(self._keys)

    def take_all(self) -> OffsetRows:
        return self._rows(self._keys)

    def _rows(self, keys: Int64s) -> OffsetRows:
        entries = self._offsets.locate_keys(self._names, len(self._group_id), keys)
        return OffsetRows.of_entries(self._offsets.arrays, entries[entries >= 0])


async def _read(
    runtime: Runtime, group_id: bytes, source: Callable[[OffsetTable], _Walk]
) -> OffsetRows:
    for _ in range(_TRIES_MAX):
        partition, shard = runtime.shard_of(group_id)
        await shard.holds.until_whole(group_id)
        walk, start = source(shard.offsets), shard.offset_next
        if walk.is_small:
            rows, ticket = walk.take_all().sorted(), runtime.ticket_of(group_id)
            await until_durable(runtime.log, ticket)
            return rows
        while not walk.take_slice():
            await walk.rest()
        await shard.holds.until_whole(group_id)
        runtime.check_shard(partition, shard)
        ticket, end = runtime.ticket_of(group_id), shard.offset_next
        await until_durable(runtime.log, ticket)
        with contextlib.suppress(HistoryCompacted):
            return await _settled(runtime, group_id, walk.parts, start, end)
    raise CoordinatorNotAvailable("the log of group {group!r} is being cleaned", group=group_id)


async def _settled(
    runtime: Runtime, group_id: bytes, parts: list[OffsetRows], start: int, end: int
) -> OffsetRows:
    """The rows as of log offset `end`: those of `parts`, updated by the changes since `start`.

    Raises HistoryCompacted if the log no longer has these changes.
    """
    if start == end:
        return await asyncio.to_thread(_sorted, parts)
    log, _ = durable_log(runtime, runtime.partition_of(group_id))

    def settle() -> OffsetRows:
        _, changed = whole_changes(log, start, end, group_id)
        return _sorted([*parts, rows_of_changes(changed)])

    return await reading(settle)


def _sorted(parts: list[OffsetRows]) -> OffsetRows:
    if not parts:
        return OffsetRows.of(())
    return OffsetRows.joined(parts).sorted()
