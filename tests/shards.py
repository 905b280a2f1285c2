"""Shards for tests: made, asked, fed with records, and compared."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.expiry.expiry_rules import NO_RULE
from offsetd_coordinator.membership.member_requests import Moment
from offsetd_coordinator.requests import CommitOffsets, LeaseReply, OffsetEntry
from offsetd_coordinator.shard.shard import Shard, ShardConfig
from offsetd_coordinator.state.group_search import GroupSearch, found_groups
from offsetd_coordinator.wire.fetch_encoder import FetchAnswer, GroupEncoder
from offsetd_coordinator.wire.group_selections import GroupSelection
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.kernels import padded_copy
from offsetd_storage.offsets_topic.schemas.keys import (
    ConsumerGroupKey,
    GroupKey,
    GroupSettingsKey,
    OffsetKey,
    encode_key,
)
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsetd_coordinator.committed_offsets import CommittedOffset
    from offsetd_coordinator.requests import Decision, Reply, Request
    from offsetd_storage.offsets_topic.group_listing import GroupListing

NOW_MS = 1_700_000_000_000
COLLIDING_SEEDS = (0, 0, 0, 0)
"""Hash seeds with which everything gets the same hash, so that only comparing tells apart."""


def new_shard(partition: int = 0, **config: object) -> Shard:
    """An empty shard."""
    return Shard(partition, ShardConfig(**config))  # type: ignore[arg-type]


def ask(shard: Shard, request: Request, now_ms: int = NOW_MS) -> Decision:
    """Decides, and applies what was decided."""
    decision = shard.decide(request, now_ms)
    shard.apply(decision)
    return decision


def answer(shard: Shard, request: Request, now_ms: int = NOW_MS) -> Reply:
    """The reply, once it is applied; raises the refusal."""
    decision = ask(shard, request, now_ms)
    if decision.refusal is not None:
        raise decision.refusal
    assert decision.reply is not None
    return decision.reply


def commit(
    group_id: str, *entries: OffsetEntry, request_id: bytes = b"", **more: Any
) -> CommitOffsets:
    """A commit of a group."""
    return CommitOffsets.of(group_id.encode(), entries, request_id, **more)


def entry(topic: str, partition: int, offset: int, **more: Any) -> OffsetEntry:
    """One partition of a commit."""
    return OffsetEntry(topic=topic.encode(), partition=partition, offset=offset, **more)


def offset_key(group: str, topic: str = "t", partition: int = 0, version: int = 1) -> bytes:
    """A committed offset's key."""
    return encode_key(OffsetKey(group=group, topic=topic, partition=partition, version=version))


def group_key(group: str) -> bytes:
    """A classic group's key."""
    return encode_key(GroupKey(group=group))


def settings_key(group: str) -> bytes:
    """The key of what is set for a group."""
    return encode_key(GroupSettingsKey(group=group))


def consumer_group_key(group: str, record_type: int, **more: Any) -> bytes:
    """A KIP-848 group's key."""
    return encode_key(ConsumerGroupKey(record_type=record_type, group=group, **more))


def offset_value(offset: int, version: int = 4, **more: object) -> bytes:
    """A committed offset's value."""
    value = OffsetCommitValue(offset=offset, commit_timestamp_ms=NOW_MS)
    return attrs.evolve(value, **more).encode(version)  # type: ignore[arg-type]


def batch_of(
    base_offset: int, *records: tuple[bytes | None, bytes | None], **batch: object
) -> bytes:
    """A batch of records, given as (key, value)."""
    return encode_batch(
        [
            Record(key=key, value=value, offset=base_offset + index, timestamp_ms=NOW_MS)
            for index, (key, value) in enumerate(records)
        ],
        base_offset=base_offset,
        **batch,  # type: ignore[arg-type]
    )


def end_of_transaction(base_offset: int, producer_id: int, *, commit: bool) -> bytes:
    """A transaction's marker."""
    return batch_of(
        base_offset,
        (bytes([0, 0, 0, commit]), bytes(6)),
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def replay(shard: Shard, *batches: bytes) -> Shard:
    """The shard, after these batches."""
    content = b"".join(batches)
    shard.replay(padded_copy(content), 0, len(content))
    return shard


def replayed(*batches: bytes, **config: object) -> Shard:
    """A new shard, after these batches."""
    return replay(new_shard(**config), *batches)


def told(reply: object) -> object:
    """What a retry is told again: of a lease only which it is, for the times are the answer's."""
    return (reply.last_offset, reply.lease.epoch) if isinstance(reply, LeaseReply) else reply


def fetched(
    shard: Shard,
    group_id: bytes,
    partitions: Iterable[tuple[bytes, int]] | None = None,
    *,
    require_stable: bool = True,
) -> list[offset_service_pb2.CommittedOffset]:
    """A group's offsets, or some of them, as a fetch answers them."""
    answer = FetchAnswer(GroupEncoder())
    selection = GroupSelection.of(group_id, partitions, require_stable=require_stable)
    shard.fetch_into(answer, selection, NO_RULE)
    [group] = offset_service_pb2.FetchOffsetsResponse.FromString(answer.encoded()).groups
    return list(group.offsets)


def offsets_of(shard: Shard, group_id: str) -> dict[tuple[str, int], int]:
    """A group's offsets."""
    return {
        (offset.topic.decode(), offset.partition): offset.offset
        for offset in shard.fetch(group_id.encode())
    }


def state_of(shard: Shard) -> dict[str, object]:
    """All that a replay brings back, comparable."""
    state = shard._state
    found = found_groups(state, shard.leases, GroupSearch(), Moment(0, 0))
    groups = sorted(chain.from_iterable(found))  # Which reads the batches of transactions.
    transactions = state.pending._transactions
    return {
        "listed": [state.group_records(group_id).listing() for group_id in groups],
        "described": [
            state.group_records(group_id).describe(state.offsets.count(group_id))
            for group_id in groups
        ],
        "offsets": {group_id: _sorted(state.offsets.read_group(group_id)) for group_id in groups},
        "pending": {producer: each.offsets for producer, each in transactions.items()},
        "records": {group_id: group._records for group_id, group in sorted(state._groups.items())},
    }


def _sorted(offsets: Iterable[CommittedOffset]) -> list[CommittedOffset]:
    return sorted(offset._replace(end_offset=-1) for offset in offsets)


def listed_groups(shard: Shard, *, now: Moment | None = None, **search: Any) -> list[GroupListing]:
    """The groups of a shard that a search finds, in no order."""
    parts = shard.list_groups(GroupSearch(**search), now or Moment(0, 0))
    return [listing for part in parts for listing in part]
