"""Decisions on deletions: the keys that get tombstones, or an error.

Rules: Kafka's OffsetMetadataManager and GroupMetadataManager. Names are UTF-8 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from offsetd_storage.kernels import padded_copy
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key

from offsetd_coordinator.errors import (
    GroupIdNotFound,
)
from offsetd_coordinator.requests import DeleteGroupReply, DeleteOffsetsReply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.requests import DeleteGroup, DeleteOffsets
    from offsetd_coordinator.state.replayed_state import ReplayedState
    from offsetd_coordinator.state.write_authorisation import WriteAuthorisation


class Deletion(NamedTuple):
    """The keys to delete, and the answer to the request.

    `keys` has the bytes of all keys, one after the other. `ends` has the position at which each key
    ends. `reply` does not have its log offset yet.
    """

    keys: Bytes
    ends: Int64s
    reply: DeleteOffsetsReply | DeleteGroupReply


def offsets_to_delete(
    state: ReplayedState, request: DeleteOffsets, writers: WriteAuthorisation
) -> Deletion:
    """The deletion of the request's offsets that are stored or pending in a transaction.

    Raises RecordUndecodable, NonEmptyGroup, GroupSubscribedToTopic.
    """
    group_id, topics, offsets = request.group_id, set(request.topics), state.offsets
    named = set(request.partitions)
    writers.check_offsets_deletable(request)
    entries = offsets.locate(group_id, named)
    entries = entries[entries >= 0]
    if topics:
        entries = np.union1d(entries, offsets.entries_of_topics(group_id, topics))
    deleted = offsets.partitions_of(entries)
    order = sorted(range(len(deleted)), key=deleted.__getitem__)
    deleted = [deleted[at] for at in order]
    pending = state.pending.partitions(group_id)
    pending_only = {each for each in pending if each in named or each[0] in topics}.difference(
        deleted
    )
    others = state.other_keys(group_id, {*named, *deleted, *pending_only})
    return Deletion(
        *joined_keys(
            *offsets.keys_of(group_id, entries[order]),
            [*_offset_keys(group_id, pending_only), *others],
        ),
        DeleteOffsetsReply(None, tuple(deleted)),
    )


def group_to_delete(
    state: ReplayedState, request: DeleteGroup, writers: WriteAuthorisation
) -> Deletion:
    """The deletion of all records of a group. Its group records are the last keys, because the
    group exists while one of them remains.

    As in Kafka, a group without stored records exists if it has members, or has promised an id to
    a member.

    Raises GroupIdNotFound, RecordUndecodable, NonEmptyGroup.
    """
    group_id, offsets = request.group_id, state.offsets
    records = state.group_records(group_id)
    entries = offsets.entries_of(group_id)
    pending = sorted(state.pending.partitions(group_id))
    others = state.other_keys(group_id)
    has_any = records.group_type is not None or entries.size or pending or others
    if not (has_any or writers.has_members(group_id) or writers.has_promised(group_id)):
        raise GroupIdNotFound("there is no group {group!r}", group=group_id)
    writers.check_group_deletable(group_id)
    is_stored = (offsets.locate(group_id, pending) >= 0).tolist()
    pending_only = [each for each, stored in zip(pending, is_stored, strict=True) if not stored]
    return Deletion(
        *joined_keys(
            *offsets.keys_of(group_id, entries),
            [
                *_offset_keys(group_id, pending_only),
                *others,
                *map(encode_key, records.tombstone_keys()),
            ],
        ),
        DeleteGroupReply(None, entries.size),
    )


def joined_keys(keys: Bytes, ends: Int64s, more: list[bytes]) -> tuple[Bytes, Int64s]:
    """The keys followed by `more` keys, and the end of each."""
    if not more:
        return keys, ends
    end = int(ends[-1]) if ends.size else 0
    return (
        np.concatenate((keys[:end], padded_copy(b"".join(more)))),
        np.concatenate((ends, end + np.cumsum([len(key) for key in more], dtype=np.int64))),
    )


def _offset_keys(group_id: bytes, partitions: Iterable[tuple[bytes, int]]) -> list[bytes]:
    group = group_id.decode()
    return [
        encode_key(OffsetKey(group=group, topic=topic.decode(), partition=partition))
        for topic, partition in sorted(partitions)
    ]
