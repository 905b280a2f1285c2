"""A sweep: one search of all groups of a shard for expired offsets, in slices. Changes nothing.

A slice lists the keys that get tombstones: expired offsets, then the records of groups that have no
offsets left. The caller writes and replays a slice before it asks for the next one, or drops it.
Between slices the shard may change.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import numpy as np
from offsetd_storage.kernels import padded_buffer, padded_copy
from offsetd_storage.offsets_topic.group_listing import GroupType
from offsetd_storage.offsets_topic.schemas.keys import GroupKey, encode_key

from offsetd_coordinator.expiry.expiry_rules import ExpiringGroup, ExpiryBase, plain_rule, rule_of
from offsetd_coordinator.kernels.columns import BLOCK_PARTITIONS, JUDGED_COLUMNS
from offsetd_coordinator.kernels.records.tombstone_records import put_offset_keys
from offsetd_coordinator.kernels.table.expired_offsets import (
    end_keys,
    find_groups,
    judge_entries,
    list_from,
)
from offsetd_coordinator.kernels.table.stored_offsets import list_entries
from offsetd_coordinator.state.offset_deletion import joined_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offsetd_storage.offsets_topic.group_listing import GroupState
    from offsetd_storage.offsets_topic.group_records import GroupRecords

    from offsetd_coordinator.expiry.expiry_rules import ExpiryTerms, GroupRule
    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.state.replayed_state import ReplayedState

_NO_COMMIT: Final = -(1 << 62)


@attrs.frozen(kw_only=True)
class SliceLimits:
    """Limits of one slice. A commit does not wait longer for a slice than for the disk."""

    rows: int = 8192
    """Rows of the table that are read."""
    groups: int = 16
    """Groups that are checked."""
    records: int = 64
    """Groups whose own retention is read from their records at once. They count as `groups` / 4."""
    expired_groups: int = 8
    offsets: int = 128
    """Offsets that get tombstones."""


class ExpiredGroup(NamedTuple):
    """The expired part of a group in a slice. `topics` maps topics to their number of offsets."""

    group_id: bytes
    offset_count: int
    topics: tuple[tuple[bytes, int], ...]
    is_gone: bool
    rule: GroupRule


class WarnedGroup(NamedTuple):
    """A group whose offsets expire soon, the first of them at `first_ms`."""

    group_id: bytes
    offset_count: int
    first_ms: int


class Slice(NamedTuple):
    """Concatenated keys of tombstones with their `ends`, and what to report about them."""

    keys: Bytes
    ends: Int64s
    expired: tuple[ExpiredGroup, ...]
    warned: tuple[WarnedGroup, ...]


def rule_of_records(
    records: GroupRecords,
    terms: ExpiryTerms,
    *,
    live_state: GroupState | None,
    has_lease: bool,
) -> GroupRule:
    """The rule for a group with records. If it has members, `live_state` is its state in memory."""
    settings = records.settings
    return rule_of(
        ExpiringGroup(
            type=records.group_type or GroupType.CLASSIC,
            protocol_type=records.protocol_type,
            state=records.state if live_state is None else live_state,
            became_empty_ms=records.became_empty_ms,
            is_subscribed=records.is_subscribed,
            retention_ms=None if settings is None else settings.retention_ms,
            never_expires=settings is not None and settings.never_expires,
            has_lease=has_lease,
        ),
        terms,
    )


class ShardRules:
    """The rules for the groups of a shard, at the moment of each call."""

    def __init__(
        self,
        state: ReplayedState,
        terms: ExpiryTerms,
        *,
        live_state: Callable[[bytes], GroupState | None],
        has_lease: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        self.terms = terms
        self.state = state
        self._live_state = live_state
        self._has_lease = has_lease
        self._plain = plain_rule(terms)

    def rule(self, group_id: bytes) -> GroupRule:
        """The rule for one group, which need not exist."""
        records = self.state.known_group_records(group_id)
        live_state = self._live_state(group_id)
        if records is None and live_state is None:
            return self._plain
        return rule_of_records(
            self.state.group_records(group_id),
            self.terms,
            live_state=live_state,
            has_lease=self._has_lease(group_id),
        )

    def sweep(self, limits: SliceLimits = SliceLimits()) -> ShardSweep:
        """A sweep over all groups of the shard."""
        return ShardSweep(self, limits)


class ShardSweep:
    """One sweep over a shard. Call `next_slice` until `is_done`."""

    def __init__(self, rules: ShardRules, limits: SliceLimits) -> None:
        self.is_done = False
        self._rules = rules
        self._state = state = rules.state
        self._terms = terms = rules.terms
        self._limits = limits
        self._cursor = np.zeros(1, np.int64)
        self._is_seen = np.zeros(0, np.uint8)
        self._found = np.empty(limits.groups, np.int64)
        self._entries = np.empty(limits.rows // 4, np.int64)  # Used for groups that are not large.
        self._waiting: list[bytes] = []  # Groups that were found, but not checked yet.
        self._large: _LargeGroup | None = None
        self._recorded = state.recorded_group_ids()  # They may have no offsets.
        # Once all retentions are known, the kernel skips offsets younger than the shortest of them.
        self._retention_least_ms = terms.retention_ms
        self._retentions_left = len(self._recorded)
        if terms.base is ExpiryBase.KAFKA and self._recorded:
            self._retention_least_ms = 0  # The age of a commit does not decide in an empty group.
            self._retentions_left = 0

    def next_slice(self, now_ms: int) -> Slice:
        """The next slice, which may be empty."""
        slice_ = _SliceMaking(self._state, self._limits)
        judged = 0
        while not slice_.is_full and judged < self._limits.groups:
            if self._retentions_left:
                judged += self._limits.groups // 4
                self._note_retentions()
            elif self._large is not None:
                judged += self._limits.groups  # A share of rows is enough work for one slice.
                self._judge_large(self._large, slice_, now_ms)
            elif self._waiting:
                judged += 1
                self._judge(self._waiting.pop(), slice_, now_ms)
            elif self._cursor[0] >= 0:
                judged += self._limits.groups // 4
                self._find(now_ms)
            elif self._recorded:
                judged += 1
                self._judge_recorded(self._recorded.pop(), slice_)
            else:
                self.is_done = True
                break
        return slice_.made()

    def _note_retentions(self) -> None:
        """Reads the own retention of some of the groups with records."""
        stop = max(self._retentions_left - self._limits.records, 0)
        for group_id in self._recorded[stop : self._retentions_left]:
            records = self._state.known_group_records(group_id)
            settings = None if records is None else records.settings
            if settings is None or settings.retention_ms is None:
                continue
            least_ms = self._retention_least_ms
            own_ms = settings.retention_ms
            self._retention_least_ms = own_ms if least_ms is None else min(least_ms, own_ms)
        self._retentions_left = stop

    def _find(self, now_ms: int) -> None:
        offsets = self._state.offsets
        names = offsets.name_rows
        if self._is_seen.size < names:
            self._is_seen = np.concatenate(
                (self._is_seen, np.zeros(names - self._is_seen.size, np.uint8))
            )
        warning_ms = self._terms.warning_ms
        least_ms = self._retention_least_ms
        committed_last = _NO_COMMIT if least_ms is None else now_ms - least_ms
        if least_ms is not None:
            committed_last += min(warning_ms, least_ms // 2)
        count = find_groups(
            offsets.arrays,
            self._cursor,
            self._limits.rows,
            committed_last,
            now_ms + warning_ms,
            self._is_seen,
            self._found,
        )
        self._waiting = [offsets.name_in(row) for row in self._found[:count].tolist()]

    def _judge(self, group_id: bytes, slice_: _SliceMaking, now_ms: int) -> None:
        entries = self._entries
        arrays = self._state.offsets.arrays
        count = list_entries(arrays, padded_copy(group_id), len(group_id), entries)
        if count == 0:
            return  # Its offsets were deleted after it was found.
        rule = self._rules.rule(group_id)
        if rule.holds_all:
            return
        if count > entries.size:
            self._large = _LargeGroup(group_id)
            return
        entries = entries[:count]
        judged = slice_.judge(group_id, entries, count, rule, self._terms.warning_ms, now_ms)
        if judged.has_more:
            self._waiting.append(group_id)
        elif judged.warned is not None:
            slice_.warned.append(judged.warned)

    def _judge_large(self, large: _LargeGroup, slice_: _SliceMaking, now_ms: int) -> None:
        """Checks the next share of the table for one large group."""
        offsets = self._state.offsets
        group_id = large.group_id
        rule = self._rules.rule(group_id)
        row = offsets.group_row(group_id)
        self._large = None
        if row < 0 or rule.holds_all:
            return
        cursor = np.array((large.block_next,), np.int64)
        entries = np.empty(max(self._limits.rows, BLOCK_PARTITIONS), np.int64)
        entries = entries[: list_from(offsets.arrays, row, cursor, entries)]
        count = offsets.count(group_id)
        judged = slice_.judge(group_id, entries, count, rule, self._terms.warning_ms, now_ms)
        if judged.warned is not None and not large.is_warned:
            slice_.warned.append(judged.warned)
            large = large._replace(is_warned=True)
        if judged.has_more:
            self._large = large
        elif cursor[0] >= 0:
            self._large = large._replace(block_next=int(cursor[0]))

    def _judge_recorded(self, group_id: bytes, slice_: _SliceMaking) -> None:
        """Checks a group with records; without any offset it may expire at once, as in Kafka."""
        state = self._state
        records = state.known_group_records(group_id)
        if records is None or state.offsets.count(group_id):
            return
        # A group's own settings stay. Left-over records, which are not a group, stay too.
        if records.group_type is None or records.settings is not None:
            return
        rule = self._rules.rule(group_id)
        if rule.may_go and not rule.holds_all and not state.pending.partitions(group_id):
            slice_.add(group_id, np.empty(0, np.int64), rule, is_gone=True)


class _LargeGroup(NamedTuple):
    """A large group. The sweep reads all blocks of the table for it."""

    group_id: bytes
    block_next: int = 0
    is_warned: bool = False


class _Judged(NamedTuple):
    """The result for some offsets of a group. `has_more` means that some expired ones are left."""

    has_more: bool
    warned: WarnedGroup | None


class _SliceMaking:
    """A slice while it is being collected."""

    def __init__(self, state: ReplayedState, limits: SliceLimits) -> None:
        self._state = state
        self._limits = limits
        self._entries: list[Int64s] = []
        self._other_keys: list[bytes] = []
        self._offset_count = 0
        self._expired: list[ExpiredGroup] = []  # Their topics are added later.
        self.warned: list[WarnedGroup] = []
        self._judged = np.zeros(JUDGED_COLUMNS, np.int64)

    @property
    def is_full(self) -> bool:
        return (
            self._offset_count >= self._limits.offsets
            or len(self._expired) >= self._limits.expired_groups
        )

    def made(self) -> Slice:
        """The collected slice, offsets' keys first. The table must not change before this call."""
        arrays = self._state.offsets.arrays
        entries = np.concatenate(self._entries) if self._entries else np.empty(0, np.int64)
        topics, ends = np.empty_like(entries), np.empty_like(entries)
        keys = padded_buffer(end_keys(arrays, entries, topics, ends))
        put_offset_keys(arrays, entries, ends, keys)
        return Slice(
            *joined_keys(keys, ends, self._other_keys),
            tuple(self._with_topics(topics.tolist())),
            tuple(self.warned),
        )

    def _with_topics(self, topics: list[int]) -> Iterator[ExpiredGroup]:
        """The expired groups with their topics. `topics` has each offset's topic, by name row."""
        start = 0
        for each in self._expired:
            end = start + each.offset_count
            counts = Counter(topics[start:end]).items()
            name_in = self._state.offsets.name_in
            yield each._replace(topics=tuple((name_in(row), count) for row, count in counts))
            start = end

    def judge(
        self,
        group_id: bytes,
        entries: Int64s,
        count: int,
        rule: GroupRule,
        warning_ms: int,
        now_ms: int,
    ) -> _Judged:
        """Adds those of `entries` that have expired. The group has `count` offsets in total."""
        due = np.empty(entries.size, np.int64)
        numbers = np.array((rule.retention_ms, rule.empty_ms, rule.base, warning_ms), np.int64)
        judge_entries(self._state.offsets.arrays, entries, numbers, now_ms, due, self._judged)
        due_count, warned_count, first_ms = self._judged.tolist()
        warned = None
        if warned_count and rule.is_subscribed is None:
            warned = WarnedGroup(group_id, warned_count, first_ms)
        due = self._without_used(group_id, due[:due_count], rule)
        if not due.size:
            return _Judged(has_more=False, warned=warned)
        # More than the room left in this slice, so a group that fits in a slice is not divided.
        taken = due[: self._limits.offsets]
        is_gone = (
            taken.size == count and rule.may_go and not self._state.pending.partitions(group_id)
        )
        self.add(group_id, taken, rule, is_gone=is_gone)
        return _Judged(has_more=taken.size < due.size, warned=warned)

    def _without_used(self, group_id: bytes, due: Int64s, rule: GroupRule) -> Int64s:
        """The entries without those of subscribed topics and those with open transactions."""
        offsets = self._state.offsets
        pending = self._state.pending.partitions(group_id)
        if not due.size or (rule.is_subscribed is None and not pending):
            return due
        partitions = offsets.partitions_of(due)
        is_read = {
            topic: rule.is_subscribed is not None and rule.is_subscribed(topic.decode())
            for topic, _ in partitions
        }
        stays = [is_read[each[0]] or each in pending for each in partitions]
        return due[~np.array(stays, np.bool_)]

    def add(self, group_id: bytes, entries: Int64s, rule: GroupRule, *, is_gone: bool) -> None:
        """Adds tombstones for these entries, and for the group's records if `is_gone`."""
        self._entries.append(entries)
        self._other_keys += self._keys_beside(group_id, entries, is_gone=is_gone)
        self._offset_count += entries.size
        self._expired.append(ExpiredGroup(group_id, entries.size, (), is_gone, rule))

    def _keys_beside(self, group_id: bytes, entries: Int64s, *, is_gone: bool) -> list[bytes]:
        state = self._state
        keys: list[bytes] = []
        if is_gone:
            keys += state.other_keys(group_id)
            records = state.known_group_records(group_id)
            if records is None:
                keys.append(encode_key(GroupKey(group=group_id.decode())))
            else:
                keys += map(encode_key, records.tombstone_keys())
        elif state.other_keys(group_id):
            keys += state.other_keys(group_id, set(state.offsets.partitions_of(entries)))
        return keys
