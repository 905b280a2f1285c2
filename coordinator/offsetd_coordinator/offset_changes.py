"""What administrators make of a group's offsets: resets, and offsets that are put in from outside.

Pure: what is stored goes in, what is to be written comes out, or why not. Names are UTF-8 bytes.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import attrs

from offsetd_coordinator.errors import (
    OffsetBoundsUnknown,
    OffsetNotCommitted,
    OffsetOutOfRange,
    RecordUndecodable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from offsetd_coordinator.history import Change
    from offsetd_coordinator.requests import CommittedOffset

OFFSET_MAX: Final = (1 << 63) - 1

Partition = tuple[bytes, int]


class TargetKind(enum.Enum):
    """Where offsets are reset to."""

    OFFSET = "to-offset"
    SHIFT = "shift-by"
    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    CURRENT = "to-current"
    EXPLICIT = "from-file"


class Bounds(NamedTuple):
    """The offsets that a partition has: its first record's, and what lies behind its last."""

    earliest: int | None = None
    latest: int | None = None


@attrs.frozen(kw_only=True)
class ResetOffsets:
    """Moves offsets of one group, all that are chosen or none, in one batch.

    `value` is the offset or the shift; `explicit` has the target of each partition where that is
    what `kind` says. Else `partitions`, and what is committed or bounded of `topics`, are chosen;
    all that is committed, where neither is given. `is_forced`: also while there are members.
    """

    group_id: bytes
    kind: TargetKind
    call: ClassVar[str] = "ResetOffsets"
    value: int = 0
    explicit: Mapping[Partition, int] = attrs.field(factory=dict)
    partitions: tuple[Partition, ...] = ()
    topics: tuple[bytes, ...] = ()
    bounds: Mapping[Partition, Bounds] = attrs.field(factory=dict)
    is_forced: bool = False
    request_id: bytes = b""
    validate_only: bool = False


class PutOffset(NamedTuple):
    """An offset to be written. `leader_epoch` and `expire_timestamp_ms`: -1 is none."""

    topic: bytes
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: bytes = b""
    expire_timestamp_ms: int = -1


@attrs.frozen(kw_only=True)
class PutOffsets:
    """Writes offsets of one group as they are given, sorted by topic and partition.

    What does not fit one batch goes into several. `call` tells request ids of different calls
    apart. `is_new`: the group must not exist. `is_forced`: also while there are members.
    """

    group_id: bytes
    offsets: tuple[PutOffset, ...]
    call: str
    is_new: bool = False
    is_forced: bool = False
    request_id: bytes = b""
    validate_only: bool = False


OffsetsChange = ResetOffsets | PutOffsets


class OffsetChange(NamedTuple):
    """An offset before (None: there was none) and after a change (None: it is deleted)."""

    topic: bytes
    partition: int
    before: int | None
    after: int | None


class OffsetsChangedReply(NamedTuple):
    """The log offset of the last record, or None if nothing was written.

    `is_repeated`: the request was answered before, and `changes` is empty. `stored_count` is how
    many offsets the group had.
    """

    last_offset: int | None
    changes: tuple[OffsetChange, ...]
    is_repeated: bool = False
    stored_count: int = 0


@attrs.frozen(kw_only=True)
class RestoreOffsets:
    """Makes a group's offsets those of `then`. `is_forced`: also while there are members."""

    group_id: bytes
    then: Mapping[Partition, Change]
    is_forced: bool = False
    request_id: bytes = b""
    validate_only: bool = False


class RestoredReply(NamedTuple):
    """The log offset of the last record, or None if nothing was written; what changes, sorted.

    `is_repeated`: the request was answered before, and `changes` is empty.
    """

    last_offset: int | None
    changes: tuple[OffsetChange, ...]
    is_repeated: bool = False


def reset_offsets(request: ResetOffsets, stored: Iterable[CommittedOffset]) -> list[PutOffset]:
    """What a reset writes, sorted. `stored` is all that the group has.

    Raises OffsetNotCommitted, OffsetBoundsUnknown, OffsetOutOfRange, RecordUndecodable.
    """
    current = {(each.topic, each.partition): each for each in stored}
    chosen = sorted(_chosen(request, current))
    unreadable = [each for each in chosen if each in current and not current[each].is_decodable]
    if unreadable and request.kind in (TargetKind.SHIFT, TargetKind.CURRENT):
        topic, partition = unreadable[0]
        raise RecordUndecodable(
            "the offset of group {group!r} in {topic}:{partition} cannot be read, until it is "
            "written again",
            group=request.group_id,
            topic=topic,
            partition=partition,
        )
    bounds = {each: _bounds(request, each, current.get(each)) for each in chosen}
    targets = _targets(request, chosen, current, bounds)
    _check_range(targets, bounds)
    return [_put(each, target, current.get(each)) for each, target in targets.items()]


def changes(
    written: Iterable[PutOffset], stored: Iterable[CommittedOffset]
) -> tuple[OffsetChange, ...]:
    """What becomes of what is stored; the old offset of what cannot be read is not known."""
    before = {(each.topic, each.partition): each.offset for each in stored if each.is_decodable}
    return tuple(
        OffsetChange(each.topic, each.partition, before.get(each[:2]), each.offset)
        for each in written
    )


def _chosen(
    request: ResetOffsets, current: Mapping[Partition, CommittedOffset]
) -> Iterable[Partition]:
    if request.kind is TargetKind.EXPLICIT:
        return request.explicit
    if not request.partitions and not request.topics:
        return current
    named = set(request.topics)
    of_topics = {each for each in (*current, *request.bounds) if each[0] in named}
    missing = sorted(named - {topic for topic, _ in of_topics})
    if missing:
        raise OffsetNotCommitted(
            "{topic_count} topics have no committed offset: name their partitions",
            tuple({"topic": topic.decode()} for topic in missing),
            topic_count=len(missing),
        )
    return of_topics.union(request.partitions)


def _bounds(request: ResetOffsets, partition: Partition, stored: CommittedOffset | None) -> Bounds:
    """As the request has them; else the latest is what a commit has reported."""
    bounds = request.bounds.get(partition, Bounds())
    if bounds.latest is None and stored is not None and stored.end_offset >= 0:
        return bounds._replace(latest=stored.end_offset)
    return bounds


def _targets(
    request: ResetOffsets,
    chosen: list[Partition],
    current: Mapping[Partition, CommittedOffset],
    bounds: Mapping[Partition, Bounds],
) -> dict[Partition, int]:
    kind = request.kind
    if kind is TargetKind.EXPLICIT:
        return {each: request.explicit[each] for each in chosen}
    if kind is TargetKind.OFFSET:
        return dict.fromkeys(chosen, request.value)
    if kind is TargetKind.SHIFT:
        missing = [each for each in chosen if each not in current]
        if missing:
            raise OffsetNotCommitted(
                "{partition_count} partitions have no committed offset to shift",
                _listed(missing),
                partition_count=len(missing),
            )
        return {each: current[each].offset + request.value for each in chosen}
    targets: dict[Partition, int | None] = {}
    for each in chosen:
        if kind is TargetKind.CURRENT and each in current:
            targets[each] = current[each].offset
        else:
            earliest, latest = bounds[each]
            targets[each] = earliest if kind is TargetKind.EARLIEST else latest
    unknown = [each for each, target in targets.items() if target is None]
    if unknown:
        raise OffsetBoundsUnknown(
            "the {bound} offset of {partition_count} partitions is not known: give their bounds",
            _listed(unknown),
            bound="earliest" if kind is TargetKind.EARLIEST else "latest",
            partition_count=len(unknown),
        )
    return {each: target for each, target in targets.items() if target is not None}


def _check_range(targets: Mapping[Partition, int], bounds: Mapping[Partition, Bounds]) -> None:
    """Kafka's tool moves what is out of range to the nearest end, with a warning; we refuse."""
    outside = tuple(
        {
            "topic": each[0].decode(),
            "partition": each[1],
            "offset": target,
            **{name: bound for name, bound in bounds[each]._asdict().items() if bound is not None},
        }
        for each, target in targets.items()
        if not _is_within(target, bounds[each])
    )
    if outside:
        raise OffsetOutOfRange(
            "{partition_count} of {chosen_count} partitions have not the offset that they are to"
            " be reset to",
            outside,
            partition_count=len(outside),
            chosen_count=len(targets),
        )


def _is_within(target: int, bounds: Bounds) -> bool:
    earliest, latest = bounds
    return (earliest or 0) <= target <= (OFFSET_MAX if latest is None else latest)


def _put(partition: Partition, target: int, stored: CommittedOffset | None) -> PutOffset:
    """What described the position before does not describe another one."""
    if stored is None or stored.offset != target or not stored.is_decodable:
        return PutOffset(*partition, target)
    return PutOffset(
        *partition, target, stored.leader_epoch, stored.metadata, stored.expire_timestamp_ms
    )


def _listed(partitions: Iterable[Partition]) -> tuple[dict[str, object], ...]:
    return tuple({"topic": topic.decode(), "partition": number} for topic, number in partitions)
