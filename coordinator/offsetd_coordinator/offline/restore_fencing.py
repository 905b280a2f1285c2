"""What a restored folder ends: leases and members, whose later history the backup does not know.

A writer that held a lease at the backup may have been fenced since. A member may have been removed.
If the restored server took them for what they were, a fenced writer could commit again. So every
lease is released, every classic group loses its members, and its generation is raised above all
that may have been given out since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.batch.record_batch import Record, batch_header, encode_batch
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.offsets_topic.schemas.keys import GroupKey, GroupSettingsKey, encode_key

from offsetd_coordinator.offline.copied_offsets import new_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.offsets_topic.group_records import GroupRecords
    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.state.replayed_state import ReplayedState

    Pair = tuple[bytes, bytes | None]

_CHUNK_BYTES: Final = 512 * 1024
_BATCH_BYTES: Final = 65_536
"""Bytes of keys and values after which a batch ends: its last record may exceed them."""
_INT32_MAX: Final = 2**31 - 1
_GENERATIONS_PER_SECOND_MAX: Final = 1
_SLACK_SECONDS: Final = 3600
"""A group that rebalanced each second since, and an hour of difference between two clocks."""


@attrs.define
class EndedGroups:
    """The number of leases that were released, and of groups that lost their members."""

    leases: int = 0
    groups: int = 0


def end_leases_and_members(store: LogStore, *, moment_ms: int, now_ms: int) -> EndedGroups:
    """Writes the records that end them, durably. `moment_ms` is that of the backup.

    Raises CorruptBatch, and the errors of `LogStore.append` and `LogStore.flush`.
    """
    ended = EndedGroups()
    raised_by = (now_ms - moment_ms) // 1000 * _GENERATIONS_PER_SECOND_MAX + _SLACK_SECONDS
    for topic_partition in [each for each in store.logs if each.topic == OFFSETS_TOPIC]:
        log = store.log(topic_partition)
        pairs: list[Pair] = []
        size = 0
        for records in _replayed(log).all_group_records():
            for key, value in _pairs(records, ended, raised_by=raised_by, now_ms=now_ms):
                pairs.append((key, value))
                size += len(key) + len(value or b"")
                if size > _BATCH_BYTES:
                    _append(store, topic_partition, pairs, now_ms)
                    pairs, size = [], 0
        if pairs:
            _append(store, topic_partition, pairs, now_ms)
    store.flush()
    return ended


def _replayed(log: PartitionLog) -> ReplayedState:
    state = new_state()
    for buffer, end in log.read_chunks(_CHUNK_BYTES):
        state.replay(buffer, 0, end)
    return state


def _pairs(
    records: GroupRecords, ended: EndedGroups, *, raised_by: int, now_ms: int
) -> Iterator[Pair]:
    """Keys and values of the records that end a group's lease and its members."""
    group = records.group_id.decode()
    settings, classic = records.settings, records.classic
    if settings is not None and settings.lease is not None:
        ended.leases += 1
        after = attrs.evolve(settings, lease=None)
        value = None if after.is_default else after.encode()
        yield encode_key(GroupSettingsKey(group=group)), value
    if classic is not None and (classic.members or classic.generation > 0):
        ended.groups += bool(classic.members)
        after_members = attrs.evolve(
            classic,
            generation=min(classic.generation + raised_by, _INT32_MAX - _SLACK_SECONDS),
            protocol=None,
            leader=None,
            members=(),
            current_state_timestamp_ms=(
                now_ms if classic.members else classic.current_state_timestamp_ms
            ),
        )
        yield encode_key(GroupKey(group=group)), after_members.encode()


def _append(
    store: LogStore,
    topic_partition: TopicPartition,
    pairs: list[Pair],
    now_ms: int,
) -> None:
    log = store.log(topic_partition)
    base_offset = log.offset_next
    records = [
        Record(key=key, value=value, offset=base_offset + place, timestamp_ms=now_ms)
        for place, (key, value) in enumerate(pairs)
    ]
    batch = encode_batch(records, base_offset=base_offset, leader_epoch=log.leader_epoch)
    header = batch_header(batch)
    store.append(
        topic_partition,
        batch,
        last_offset=header.last_offset,
        max_timestamp_ms=header.max_timestamp_ms,
    )
