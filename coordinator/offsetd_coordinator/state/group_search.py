"""Finds groups of one shard by their names, the topics of their offsets, and their lease.

The table is searched part by part, so that a caller can yield to others between two parts.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
from offsetd_storage.kernels import padded_copy

from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS, parts
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.columns import Table
from offsetd_coordinator.kernels.table.blocks import LOW_HALF
from offsetd_coordinator.kernels.table.names import locate_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_coordinator.kernels.columns import Int64s
    from offsetd_coordinator.membership.member_requests import Moment
    from offsetd_coordinator.state.leases import Leases
    from offsetd_coordinator.state.offset_table import OffsetTable
    from offsetd_coordinator.state.replayed_state import ReplayedState

ITEMS_PER_PART: Final = 10
"""Items that take as long as a part of the search in which nothing is found."""

_NAME_SIZE_MASK: Final = (1 << columns.NAME_SIZE_BITS) - 1
# Names are compared from the end of the prefix on: its first bytes are often those of all groups.
_COMPARED_BYTES: Final = 8
# To copy a name takes longer than to pass over one.
_NAMES_DIVISOR: Final = 4


@attrs.define(kw_only=True)
class GroupSearch:
    """The groups that a search looks for: all, unless its fields narrow it.

    `below`: groups from this id on are not needed any more. It may fall while the search runs.
    """

    prefix: bytes = b""
    after: bytes | None = None
    topics: tuple[bytes, ...] = ()
    lease_holder: str = ""
    below: bytes | None = None

    def wants(self, group_id: bytes) -> bool:
        """Whether the group id matches the search. Topics and lease are not checked."""
        return (
            group_id.startswith(self.prefix)
            and (self.after is None or group_id > self.after)
            and (self.below is None or group_id < self.below)
        )


def found_groups(
    state: ReplayedState, leases: Leases, search: GroupSearch, now: Moment
) -> Iterator[list[bytes]]:
    """The groups with a record, an offset or a pending offset, in no order, none twice.

    Yields a list for each part of the search; some are empty. Groups that change between two parts
    are listed or not.
    """
    listed = set[bytes]()
    if search.lease_holder:
        found = _with_lease(state, leases, search, now)
    elif search.topics:
        found = _in_table(state.offsets, search)
    else:
        recorded = (
            [each for each in part if state.has_group(each)]
            for part in parts(state.recorded_group_ids())
        )
        pending = parts(list(state.pending.group_ids()))
        found = chain(_in_table(state.offsets, search), recorded, pending)
    for part in found:
        fresh = [each for each in part if search.wants(each) and each not in listed]
        listed.update(fresh)
        yield fresh


def _with_lease(
    state: ReplayedState, leases: Leases, search: GroupSearch, now: Moment
) -> Iterator[list[bytes]]:
    """The groups whose lease the holder has, among those with records."""
    for part in parts(state.recorded_group_ids()):
        yield [
            each
            for each in part
            if search.wants(each)
            and _is_held_by(leases, each, search.lease_holder, now)
            and (not search.topics or state.offsets.entries_of_topics(each, search.topics).size)
        ]


def _is_held_by(leases: Leases, group_id: bytes, holder: str, now: Moment) -> bool:
    status = leases.status(group_id, now)
    return status is not None and status.is_held and status.lease.holder == holder


def _in_table(offsets: OffsetTable, search: GroupSearch) -> Iterator[list[bytes]]:
    """The groups with offsets, or with offsets of the topics, in the order of the table."""
    spans_in = _spans_of_topics if search.topics else _spans_of_names
    # Rows that are added meanwhile are not needed, and could keep the search going for ever.
    last = int(offsets.counters[columns.BLOCK_END if search.topics else columns.NAME_END])
    rows = SLICE_ROWS if search.prefix or search.topics else SLICE_ROWS // _NAMES_DIVISOR
    for first in range(0, last, rows):
        # Spans, rows and arrays are valid until the next change.
        table = Table(*offsets.arrays)
        end = min(first + rows, last)
        spans = _with_end_of_prefix(table, spans_in(offsets, table, search, first, end), search)
        yield [_name(table, span) for span in spans.tolist()]


def _spans_of_names(
    _offsets: OffsetTable, table: Table, _search: GroupSearch, first: int, end: int
) -> Int64s:
    names = table.names[first:end]
    # In a free row, ENTRY_LIST is the link to the next free row, so it may differ from 0.
    spans: Int64s = names[:, columns.NAME_SPAN]
    named: Int64s = spans[(names[:, columns.ENTRY_LIST] != 0) & (spans != columns.FREE)]
    return named


def _spans_of_topics(
    offsets: OffsetTable, table: Table, search: GroupSearch, first: int, end: int
) -> Int64s:
    ends = np.cumsum([len(topic) for topic in search.topics], dtype=np.int64)
    topics = np.empty(len(search.topics), np.int64)
    locate_names(offsets.arrays, padded_copy(b"".join(search.topics)), ends, topics)
    blocks = table.blocks[first:end, columns.GROUP_TOPIC]
    is_asked_for = np.isin(blocks & LOW_HALF, topics[topics >= 0])
    groups = np.unique(blocks[is_asked_for] >> 32)
    spans: Int64s = table.names[groups, columns.NAME_SPAN]
    return spans


def _with_end_of_prefix(table: Table, spans: Int64s, search: GroupSearch) -> Int64s:
    """The names that have the last bytes of the prefix at the same place."""
    prefix = search.prefix
    spans = spans[(spans & _NAME_SIZE_MASK) >= len(prefix)]
    for at in range(len(prefix) - 1, max(len(prefix) - _COMPARED_BYTES, 0) - 1, -1):
        spans = spans[table.name_bytes[(spans >> columns.NAME_SIZE_BITS) + at] == prefix[at]]
    return spans


def _name(table: Table, span: int) -> bytes:
    start = span >> columns.NAME_SIZE_BITS
    return table.name_bytes[start : start + (span & _NAME_SIZE_MASK)].tobytes()
