"""Restores of a group's offsets to an earlier state: changed offsets are written, new ones deleted.

The functions are pure: they take the stored offsets and the earlier ones, and return batches.
"""

from __future__ import annotations

from itertools import count, repeat
from typing import TYPE_CHECKING, NamedTuple

from offsetd_coordinator.offset_changes import OffsetChange, PutChanges, PutColumns, RestoredReply
from offsetd_coordinator.state.offset_batches import PutRows, encode_offsets, fits_one_batch
from offsetd_coordinator.state.offset_deletion import joined_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from offsetd_coordinator.committed_offsets import CommittedColumns, CommittedOffset
    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.offset_changes import Partition, RestoreOffsets
    from offsetd_coordinator.state.offset_batches import Encoder
    from offsetd_coordinator.state.replayed_state import ReplayedState


class _Written(NamedTuple):
    """Batches, each with its last log offset; the first log offsets of commits and tombstones."""

    batches: tuple[tuple[bytes, int], ...]
    commits_at: int
    tombstones_at: int


def restored(
    state: ReplayedState, request: RestoreOffsets, encoder: Encoder, request_id: bytes
) -> tuple[RestoredReply, tuple[tuple[bytes, int], ...]]:
    """The reply, and the batches to write, each with its last log offset.

    The batches carry `request_id`. Raises InvalidCommitSize if a record is too large for a batch.
    """
    group_id = request.group_id
    stored = state.offsets.read_columns(group_id)
    places = stored.places()
    then = {(each.topic, each.partition): each for each in request.then.committed()}
    differing = _differing(then, stored, places)
    deleted = sorted(places.keys() - then.keys())
    puts = _puts(differing, encoder.now_ms)
    before = _offsets(stored, map(places.get, zip(puts.topics, puts.partitions, strict=True)))
    gone = _offsets(stored, map(places.get, deleted))
    if request.validate_only or not (differing or deleted):
        put = PutChanges(puts=puts, before=before)
        return RestoredReply(None, _sorted(put, _deletions(deleted, gone, repeat(None)))), ()
    keys = _tombstone_keys(state, group_id, deleted)
    # A request is known by the first record of its last batch, if that is a commit.
    written = _written(encoder, group_id, request_id if differing else b"", puts, keys)
    put = PutChanges(puts=puts, before=before, first_revision=written.commits_at)
    deletions = _deletions(deleted, gone, count(written.tombstones_at))
    return RestoredReply(written.batches[-1][1], _sorted(put, deletions)), written.batches


def _written(
    encoder: Encoder,
    group_id: bytes,
    request_id: bytes,
    puts: PutColumns,
    keys: tuple[Bytes, Int64s],
) -> _Written:
    """One batch with the commits first, if all fits. Else several, with the commits last."""
    base_offset = encoder.base_offset
    whole = PutRows.of(group_id, request_id, puts, keys)
    if fits_one_batch(encoder, whole):
        batches = encode_offsets(encoder, whole)
        return _Written(batches, base_offset, base_offset + len(puts.topics))
    commits_at = base_offset + keys[1].size
    tombstones = encode_offsets(encoder, PutRows.of(group_id, b"", PutColumns(), keys))
    commits = encode_offsets(
        encoder._replace(base_offset=commits_at), PutRows.of(group_id, request_id, puts)
    )
    return _Written((*tombstones, *commits), commits_at, base_offset)


def _differing(
    then: Mapping[Partition, CommittedOffset],
    stored: CommittedColumns,
    places: Mapping[Partition, int],
) -> list[CommittedOffset]:
    """The partitions whose stored offsets differ from those in `then`."""
    return [
        change
        for partition, change in then.items()
        if (place := places.get(partition)) is None
        or not stored.are_decodable[place]
        or stored.offsets[place] != change.offset
        or stored.leader_epochs[place] != change.leader_epoch
        or stored.metadata[place] != change.metadata
    ]


def _offsets(stored: CommittedColumns, places: Iterable[int | None]) -> list[int | None]:
    """The stored offsets of these partitions; None if there is none or it cannot be read."""
    return [
        None if place is None or not stored.are_decodable[place] else stored.offsets[place]
        for place in places
    ]


def _puts(then: Sequence[CommittedOffset], now_ms: int) -> PutColumns:
    """The offsets to write: committed now, with the lifetime that they had then."""
    return PutColumns(
        [change.topic for change in then],
        [change.partition for change in then],
        [change.offset for change in then],
        [change.leader_epoch for change in then],
        [change.metadata for change in then],
        [
            now_ms + max(0, change.expire_timestamp_ms - change.commit_timestamp_ms)
            if change.expire_timestamp_ms >= 0
            else -1
            for change in then
        ],
    )


def _tombstone_keys(
    state: ReplayedState, group_id: bytes, deleted: Sequence[Partition]
) -> tuple[Bytes, Int64s]:
    """The keys of these offsets, then the keys that name the same offsets in an older form."""
    entries = state.offsets.locate(group_id, deleted)
    others = state.other_keys(group_id, set(deleted)) if deleted else []
    return joined_keys(*state.offsets.keys_of(group_id, entries), others)


def _deletions(
    deleted: Sequence[Partition], before: Sequence[int | None], revisions: Iterable[int | None]
) -> list[OffsetChange]:
    return [
        OffsetChange(topic, partition, offset, None, revision)
        for (topic, partition), offset, revision in zip(deleted, before, revisions, strict=False)
    ]


def _sorted(put: PutChanges, gone: Sequence[OffsetChange]) -> Collection[OffsetChange]:
    return sorted((*put, *gone)) if gone else put
