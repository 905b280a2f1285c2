"""What deletions take away: the keys that get tombstones, or why not.

Rules: Kafka's OffsetMetadataManager and GroupMetadataManager. Names are UTF-8 bytes; keys have
them as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    NonEmptyGroup,
    RecordUndecodable,
)
from offsetd_coordinator.groups import GroupType
from offsetd_coordinator.requests import DeleteGroupReply, DeleteOffsetsReply
from offsetd_coordinator.schemas.keys import ConsumerGroupKey, GroupKey, OffsetKey
from offsetd_coordinator.schemas.protocol_metadata import CONSUMER_PROTOCOL_TYPE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from collections.abc import Set as AbstractSet

    from offsetd_coordinator.group_records import GroupRecords
    from offsetd_coordinator.requests import DeleteOffsets

TombstoneKey = OffsetKey | GroupKey | ConsumerGroupKey


def offsets_to_delete(
    request: DeleteOffsets,
    records: GroupRecords,
    stored: AbstractSet[tuple[bytes, int]],
    pending: AbstractSet[tuple[bytes, int]],
) -> list[TombstoneKey]:
    """The keys of what is there of the request's partitions, stored or pending in a transaction.

    Raises RecordUndecodable, NonEmptyGroup, GroupSubscribedToTopic.
    """
    topics = set(request.topics)
    _check_unused(records, {*topics, *(topic for topic, _ in request.partitions)})
    there = stored | pending
    chosen = {*request.partitions} & there
    chosen |= {partition for partition in there if partition[0] in topics}
    return _offset_keys(request.group_id, chosen)


def group_to_delete(
    records: GroupRecords,
    stored: AbstractSet[tuple[bytes, int]],
    pending: AbstractSet[tuple[bytes, int]],
) -> list[TombstoneKey]:
    """The keys of all that a group has, its own records last.

    Raises GroupIdNotFound, RecordUndecodable, NonEmptyGroup.
    """
    name = records.group_id.decode()
    if records.group_type is None and not stored and not pending:
        raise GroupIdNotFound(f"there is no group {name!r}")
    _check_readable(records)
    if records.has_members:
        raise NonEmptyGroup(f"group {name!r} has members")
    return [*_offset_keys(records.group_id, stored | pending), *records.tombstone_keys()]


def reply_to_deletion(
    keys: Sequence[TombstoneKey], stored: AbstractSet[tuple[bytes, int]], last_offset: int | None
) -> DeleteOffsetsReply | DeleteGroupReply:
    """The answer to the deletion that wrote tombstones for `keys` when `stored` was there.

    Only the deletion of a group writes a key that is not an offset's.
    """
    offsets = [(key.topic.encode(), key.partition) for key in keys if isinstance(key, OffsetKey)]
    deleted = tuple(offset for offset in offsets if offset in stored)
    if len(offsets) < len(keys):
        return DeleteGroupReply(last_offset, len(deleted))
    return DeleteOffsetsReply(last_offset, deleted)


def _check_unused(records: GroupRecords, topics: Collection[bytes]) -> None:
    _check_readable(records)
    if not records.has_members:
        return
    name = records.group_id.decode()
    if records.group_type is GroupType.CLASSIC and records.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise NonEmptyGroup(f"group {name!r} has members")
    for topic in sorted(topics):
        if records.is_subscribed(topic.decode()):
            raise GroupSubscribedToTopic(f"group {name!r} is subscribed to {topic.decode()!r}")


def _check_readable(records: GroupRecords) -> None:
    if not records.is_readable:
        raise RecordUndecodable(
            f"a record of group {records.group_id.decode()!r} cannot be read: it may have members"
        )


def _offset_keys(group_id: bytes, partitions: Collection[tuple[bytes, int]]) -> list[TombstoneKey]:
    group = group_id.decode()
    return [
        OffsetKey(group=group, topic=topic.decode(), partition=partition)
        for topic, partition in sorted(partitions)
    ]
