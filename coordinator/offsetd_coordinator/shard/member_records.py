"""Batches with the group records that members' requests cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.offsets_topic.schemas.keys import GroupKey, encode_key

from offsetd_coordinator.membership.refusals import GroupRecordTooLarge
from offsetd_coordinator.requests import (
    Decision,
    EndConsumerMembers,
    EndConsumerMembersReply,
    WriteGroupReply,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_storage.offsets_topic.group_records import GroupRecords

    from offsetd_coordinator.requests import MembersChange
    from offsetd_coordinator.shard.settings_decisions import Situation

    Pair = tuple[bytes, bytes | None]


def decide_members_change(
    records: GroupRecords, request: MembersChange, situation: Situation
) -> Decision:
    """The batches to write. Raises GroupRecordTooLarge."""
    if isinstance(request, EndConsumerMembers):
        return _decide_end(records, request, situation)
    # A group of KIP-848 that is empty becomes a classic one with this record.
    pairs: list[Pair] = [(encode_key(key), None) for key in records.consumer_tombstone_keys()]
    pairs.append((encode_key(GroupKey(group=request.group_id.decode())), request.value.encode()))
    batches = _batches(request.group_id, pairs, situation)
    reply = WriteGroupReply(batches[-1][1])
    return Decision.of_batches(request, reply, batches, situation.now.wall_ms)


def _decide_end(
    records: GroupRecords, request: EndConsumerMembers, situation: Situation
) -> Decision:
    pairs: list[Pair] = [
        (encode_key(key), None if value is None else value.encode())
        for key, value in records.end_of_consumer_members(request.member_ids)
    ]
    if not pairs:
        return Decision(request, EndConsumerMembersReply(None), None)
    batches = _batches(request.group_id, pairs, situation)
    reply = EndConsumerMembersReply(batches[-1][1])
    return Decision.of_batches(request, reply, batches, situation.now.wall_ms)


def _batches(
    group_id: bytes, pairs: Sequence[Pair], situation: Situation
) -> tuple[tuple[bytes, int], ...]:
    """Batches with the records in their order: one batch, or several if it would be too large."""
    base_offset, count = situation.offset_next, len(pairs)
    batch = encode_batch(
        [
            Record(
                key=key,
                value=value,
                offset=base_offset + index,
                timestamp_ms=situation.now.wall_ms,
            )
            for index, (key, value) in enumerate(pairs)
        ],
        base_offset=base_offset,
        leader_epoch=situation.leader_epoch,
    )
    if len(batch) <= situation.bytes_max:
        return ((batch, base_offset + count - 1),)
    if count == 1:
        raise GroupRecordTooLarge(
            "the record of group {group!r}, {size_bytes} bytes, exceeds max.message.bytes"
            " ({bytes_max})",
            group=group_id,
            size_bytes=len(batch),
            bytes_max=situation.bytes_max,
        )
    half = count // 2
    behind = situation._replace(offset_next=base_offset + half)
    return _batches(group_id, pairs[:half], situation) + _batches(group_id, pairs[half:], behind)
