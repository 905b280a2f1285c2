"""A group's offsets become again what they were: what has changed is written, what came is deleted.

Pure: what is stored and what was comes in, batches come out.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from offsetd_storage.record_batch import Record, encode_batch

from offsetd_coordinator.errors import InvalidCommitSize
from offsetd_coordinator.kernels.request_ids import HEADER_NAME
from offsetd_coordinator.offset_changes import OffsetChange, RestoredReply
from offsetd_coordinator.put_batches import answered_before, known_id
from offsetd_coordinator.schemas.keys import OffsetKey, encode_key
from offsetd_coordinator.schemas.offset_commit import OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from offsetd_coordinator.history import Change
    from offsetd_coordinator.offset_changes import Partition, RestoreOffsets
    from offsetd_coordinator.put_batches import Encoder
    from offsetd_coordinator.replayed_state import ReplayedState
    from offsetd_coordinator.requests import CommittedOffset

CALL: Final = "RestoreGroup"
# Of a record beside its key and its value, at most; and of a batch with a request's id.
_RECORD_BYTES_MAX: Final = 48
_BATCH_BYTES_MAX: Final = 128


def restored(
    state: ReplayedState, request: RestoreOffsets, encoder: Encoder
) -> tuple[RestoredReply, tuple[tuple[bytes, int], ...]]:
    """The reply, and the batches to be written, each with its last log offset.

    Raises InvalidCommitSize where a record is too large for any batch.
    """
    request_id = known_id(CALL, request.request_id)
    if not request.validate_only:
        answered = answered_before(encoder, request.group_id, request_id)
        if answered is not None:
            return RestoredReply(answered, (), is_repeated=True), ()
    stored = {(each.topic, each.partition): each for each in _stored(state, request.group_id)}
    written = [
        change
        for partition, change in sorted(request.then.items())
        if not _is_same(stored.get(partition), change)
    ]
    deleted = sorted(stored.keys() - request.then.keys())
    changes = [
        *(OffsetChange(*_partition(each), _offset(stored, each), each.offset) for each in written),
        *(OffsetChange(*each, _offset_of(stored[each]), None) for each in deleted),
    ]
    reply = RestoredReply(None, tuple(sorted(changes, key=lambda each: each[:2])))
    if request.validate_only or not changes:
        return reply, ()
    # A request is known by the first record of its last batch, if that is a commit.
    commits = [_commit(request.group_id, each, encoder) for each in written]
    keys = chain(
        (encode_key(_key(request.group_id, each)) for each in deleted),
        state.other_keys(request.group_id, set(deleted)) if deleted else (),
    )
    records = [*((key, None) for key in keys), *commits]
    batches = tuple(_batches(records, request_id if commits else b"", encoder))
    return reply._replace(last_offset=batches[-1][1]), batches


def _stored(state: ReplayedState, group_id: bytes) -> Iterable[CommittedOffset]:
    return state.offsets.read_group(group_id)


def _partition(change: Change) -> Partition:
    return change.topic, change.partition


def _offset(stored: Mapping[Partition, CommittedOffset], change: Change) -> int | None:
    known = stored.get(_partition(change))
    return None if known is None else _offset_of(known)


def _offset_of(stored: CommittedOffset) -> int | None:
    return stored.offset if stored.is_decodable else None


def _is_same(stored: CommittedOffset | None, change: Change) -> bool:
    return (
        stored is not None
        and stored.is_decodable
        and stored.offset == change.offset
        and stored.leader_epoch == change.leader_epoch
        and stored.metadata == change.metadata
    )


def _key(group_id: bytes, partition: Partition) -> OffsetKey:
    topic, number = partition
    return OffsetKey(group=group_id.decode(), topic=topic.decode(), partition=number)


def _commit(group_id: bytes, change: Change, encoder: Encoder) -> tuple[bytes, bytes | None]:
    """It is committed now, and lives as long from now on as it was to live then."""
    expire_ms = -1
    if change.expire_time_ms >= 0:
        lives_ms = max(0, change.expire_time_ms - change.commit_time_ms)
        expire_ms = encoder.now_ms + lives_ms
    value = OffsetCommitValue(
        offset=change.offset,
        leader_epoch=change.leader_epoch,
        metadata=change.metadata.decode(),
        commit_timestamp_ms=encoder.now_ms,
        expire_timestamp_ms=expire_ms,
    )
    key = encode_key(_key(group_id, _partition(change)))
    return key, value.encode(encoder.value_version)


def _batches(
    records: list[tuple[bytes, bytes | None]], request_id: bytes, encoder: Encoder
) -> Iterator[tuple[bytes, int]]:
    """One where they fit. The commits come last, and with them the request's id."""
    parts: list[list[tuple[bytes, bytes | None]]] = [[]]
    size = _BATCH_BYTES_MAX
    for record in records:
        record_bytes = len(record[0]) + len(record[1] or b"") + _RECORD_BYTES_MAX
        if size + record_bytes > encoder.bytes_max:
            if not parts[-1]:
                raise InvalidCommitSize(
                    "group_id", "a record exceeds {bytes_max} bytes", bytes_max=encoder.bytes_max
                )
            parts.append([])
            size = _BATCH_BYTES_MAX
        parts[-1].append(record)
        size += record_bytes
    # Of one batch the commits come first: its first record has the request's id.
    parts[-1].sort(key=lambda record: record[1] is None)
    base_offset = encoder.base_offset
    for part in parts:
        has_id = request_id and part is parts[-1]
        headers = ((HEADER_NAME.decode(), request_id),) if has_id else ()
        encoded = encode_batch(
            [
                Record(
                    key=key,
                    value=value,
                    offset=base_offset + place,
                    timestamp_ms=encoder.now_ms,
                    headers=headers if place == 0 else (),
                )
                for place, (key, value) in enumerate(part)
            ],
            base_offset=base_offset,
            leader_epoch=encoder.leader_epoch,
        )
        base_offset += len(part)
        yield encoded, base_offset - 1
