"""Changes of a group's offsets by administrators: resets, and offsets written as given.

Pure: from the stored offsets it computes what to write, or an error. Names are UTF-8 bytes.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Collection, Iterator, Sequence
from itertools import count, islice, repeat
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import attrs

from offsetd_coordinator.errors import (
    OffsetBoundsUnknown,
    OffsetNotCommitted,
    OffsetOutOfRange,
    undecodable_offset,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from offsetd_coordinator.committed_offsets import CommittedColumns, OffsetRows

OFFSET_MAX: Final = (1 << 63) - 1
_NOWHERE: Final = -1
_LISTED_MAX: Final = 1000  # A refusal has no room for more partitions.
_COMPARED_TOPICS_MAX: Final = 200  # A search among more would delay other calls.

Partition = tuple[bytes, int]


class TargetKind(enum.Enum):
    """The kind of the target of a reset."""

    OFFSET = "to-offset"
    SHIFT = "shift-by"
    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    CURRENT = "to-current"
    EXPLICIT = "from-file"


class BoundSource(enum.StrEnum):
    """The source of the bounds of a partition."""

    REQUEST = "request"
    KAFKA = "kafka"
    REPORTED = "reported"
    """A client reported it with a commit."""


class Bounds(NamedTuple):
    """The offset of a partition's first record, and the offset after its last record."""

    earliest: int | None = None
    latest: int | None = None
    earliest_source: BoundSource = BoundSource.REQUEST
    latest_source: BoundSource = BoundSource.REQUEST


@attrs.frozen(kw_only=True)
class ResetOffsets:
    """Moves offsets of one group, all that are chosen or none, in one batch.

    `value` is the offset or the shift. If `kind` is EXPLICIT, `explicit` has the target of each
    partition. Otherwise `partitions` are chosen, and the partitions of `topics` that have an offset
    or bounds; without both, all partitions that have an offset. `is_forced` allows a reset while
    there are members.
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
    """An offset to write. For `leader_epoch` and `expire_timestamp_ms`, -1 means none.

    For `commit_timestamp_ms`, it means now.
    """

    topic: bytes
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: bytes = b""
    expire_timestamp_ms: int = -1
    commit_timestamp_ms: int = -1


class PutColumns(NamedTuple):
    """Offsets to write, sorted by topic and partition: a column for each field of `PutOffset`.

    Without commit times, all are committed now.
    """

    topics: Sequence[bytes] = ()
    partitions: Sequence[int] = ()
    offsets: Sequence[int] = ()
    leader_epochs: Sequence[int] = ()
    metadata: Sequence[bytes] = ()
    expire_timestamps_ms: Sequence[int] = ()
    commit_timestamps_ms: Sequence[int] = ()

    @classmethod
    def of(cls, offsets: Iterable[PutOffset]) -> PutColumns:
        """Makes columns of offsets that are sorted."""
        return cls(*zip(*offsets, strict=True))


@attrs.frozen(kw_only=True)
class PutOffsets:
    """Writes offsets of one group as they are given. Large changes give them as sorted rows.

    Offsets that do not fit one batch are written in several, unless there are expectations.
    `expected` has the revisions that stored offsets must have; None means that no offset may be
    stored. `call` makes equal request ids of different calls different. `is_new` means that the
    group must not exist. `is_forced` allows a write while there are members.
    """

    group_id: bytes
    offsets: PutColumns | OffsetRows
    call: str
    expected: Mapping[Partition, int | None] = attrs.field(factory=dict)
    is_new: bool = False
    is_forced: bool = False
    request_id: bytes = b""
    validate_only: bool = False


OffsetsChange = ResetOffsets | PutOffsets


class OffsetChange(NamedTuple):
    """An offset before a change (None if there was none) and after it (None if it is deleted).

    `revision` is the log offset of its record; None if there is no record, or it is unknown.
    """

    topic: bytes
    partition: int
    before: int | None
    after: int | None
    revision: int | None = None


@attrs.frozen(kw_only=True, eq=False)
class PutChanges(Collection[OffsetChange]):
    """The changes that put offsets make. `before` has the earlier offsets, as in OffsetChange.

    `first_revision` is the log offset of the first one's record; None if nothing is written.
    """

    puts: PutColumns
    before: Sequence[int | None]
    first_revision: int | None = None

    def __len__(self) -> int:
        return len(self.before)

    def __contains__(self, change: object) -> bool:
        return any(each == change for each in self)

    def __iter__(self) -> Iterator[OffsetChange]:
        first = self.first_revision
        columns = (
            self.puts.topics,
            self.puts.partitions,
            self.before,
            self.puts.offsets,
            repeat(None) if first is None else count(first),
        )
        return map(OffsetChange._make, zip(*columns, strict=False))


class EndCounts(NamedTuple):
    """The number of offsets of a reset whose partition's end was reported, or is unknown."""

    reported: int = 0
    unknown: int = 0


class OffsetsChangedReply(NamedTuple):
    """The log offset of the last record, or None if nothing was written.

    `is_repeated` means that the request was answered before; then `changes` is empty.
    `stored_count` is how many offsets the group had, and `replaced_count` is how many of them were
    replaced. `moved_count` is how many of the replaced offsets differ from the new ones.
    """

    last_offset: int | None
    changes: Collection[OffsetChange]
    is_repeated: bool = False
    stored_count: int = 0
    replaced_count: int = 0
    moved_count: int = 0
    ends: EndCounts = EndCounts()


@attrs.frozen(kw_only=True)
class RestoreOffsets:
    """Makes a group's offsets equal to `then`. Its rows are sorted, and all can be read.

    `is_forced` allows a restore while there are members.
    """

    group_id: bytes
    then: OffsetRows
    call: ClassVar[str] = "RestoreGroup"
    is_forced: bool = False
    request_id: bytes = b""
    validate_only: bool = False


class RestoredReply(NamedTuple):
    """The log offset of the last record, or None if nothing was written; what changes, sorted.

    `is_repeated` means that the request was answered before; then `changes` is empty.
    """

    last_offset: int | None
    changes: Collection[OffsetChange]
    is_repeated: bool = False


def reset_offsets(request: ResetOffsets, stored: CommittedColumns) -> PutColumns:
    """The offsets that a reset writes. `stored` has all offsets of the group.

    Raises OffsetNotCommitted, OffsetBoundsUnknown, OffsetOutOfRange, RecordUndecodable.
    """
    # This works by column: one object for each of ten thousand offsets would delay the event loop.
    chosen = _chosen(request, stored)
    if request.kind in (TargetKind.SHIFT, TargetKind.CURRENT):
        _check_readable(request, chosen, stored)
    bounds = _bounds(request, chosen, stored)
    targets = _targets(request, chosen, stored, bounds)
    _check_range(request, chosen, targets, bounds)
    return _puts(chosen, targets, stored)


def end_counts(request: ResetOffsets, written: PutColumns, stored: CommittedColumns) -> EndCounts:
    """Counts the partitions whose end neither the request nor Kafka gave: reported, or unknown."""
    given = {where for where, bounds in request.bounds.items() if bounds.latest is not None}
    place_of = stored.places()
    reported = unknown = 0
    for where in zip(written.topics, written.partitions, strict=True):
        if where in given:
            continue
        place = place_of.get(where, _NOWHERE)
        if place != _NOWHERE and stored.end_offsets[place] >= 0:
            reported += 1
        else:
            unknown += 1
    return EndCounts(reported, unknown)


class _Chosen(NamedTuple):
    """The partitions of a reset, sorted, and their places in the stored columns, or _NOWHERE."""

    topics: Sequence[bytes]
    partitions: Sequence[int]
    places: Sequence[int]

    def listed(self, rows: Iterable[int]) -> tuple[dict[str, object], ...]:
        """Some of the partitions, for a refusal."""
        return tuple(
            {"topic": self.topics[row].decode(), "partition": self.partitions[row]}
            for row in islice(rows, _LISTED_MAX)
        )


class _BoundColumns(NamedTuple):
    """The bounds of all chosen partitions; -1 if unknown."""

    earliest: list[int]
    latest: list[int]


def _chosen(request: ResetOffsets, stored: CommittedColumns) -> _Chosen:
    is_explicit = request.kind is TargetKind.EXPLICIT
    if not is_explicit and not request.partitions and not request.topics:
        return _Chosen(stored.topics, stored.partitions, range(len(stored.topics)))
    place_of = stored.places()
    if is_explicit:
        chosen = sorted(request.explicit)
    else:
        chosen = sorted(_of_topics(request, place_of).union(request.partitions))
    return _Chosen(
        [topic for topic, _ in chosen],
        [partition for _, partition in chosen],
        [place_of.get(each, _NOWHERE) for each in chosen],
    )


def _of_topics(request: ResetOffsets, stored: Iterable[Partition]) -> set[Partition]:
    named = set(request.topics)
    of_topics = {each for each in (*stored, *request.bounds) if each[0] in named}
    missing = sorted(named - {topic for topic, _ in of_topics})
    if missing:
        raise OffsetNotCommitted(
            "group {group!r} has no offset of {topic_count} of the topics{hint}; to begin a topic,"
            " name its partitions, as in TOPIC:0",
            tuple({"topic": topic.decode()} for topic in missing),
            topic_count=len(missing),
            group=request.group_id,
            hint=_nearest_topic(missing[0], {topic for topic, _ in stored}),
        )
    return of_topics


def _nearest_topic(missing: bytes, stored: Collection[bytes]) -> str:
    """A hint at the topic that may have been meant; empty if the search would take long."""
    if len(stored) > _COMPARED_TOPICS_MAX:
        return ""
    names = sorted(topic.decode() for topic in stored)
    near = difflib.get_close_matches(missing.decode(), names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _check_readable(request: ResetOffsets, chosen: _Chosen, stored: CommittedColumns) -> None:
    if all(stored.are_decodable):
        return
    for topic, partition, place in zip(*chosen, strict=True):
        if place != _NOWHERE and not stored.are_decodable[place]:
            raise undecodable_offset(request.group_id, topic, partition)


def _bounds(request: ResetOffsets, chosen: _Chosen, stored: CommittedColumns) -> _BoundColumns:
    """The request's bounds. If it gives no latest offset, a commit may have reported one."""
    earliest = [-1] * len(chosen.places)
    latest = [-1 if place == _NOWHERE else stored.end_offsets[place] for place in chosen.places]
    if request.bounds:
        named = zip(chosen.topics, chosen.partitions, strict=True)
        for row, given in enumerate(map(request.bounds.get, named)):
            if given is not None and given.earliest is not None:
                earliest[row] = given.earliest
            if given is not None and given.latest is not None:
                latest[row] = given.latest
    return _BoundColumns(earliest, latest)


def _targets(
    request: ResetOffsets, chosen: _Chosen, stored: CommittedColumns, bounds: _BoundColumns
) -> list[int]:
    kind, places = request.kind, chosen.places
    if kind is TargetKind.EXPLICIT:
        named = zip(chosen.topics, chosen.partitions, strict=True)
        return [request.explicit[each] for each in named]
    if kind is TargetKind.OFFSET:
        return [request.value] * len(places)
    if kind is TargetKind.SHIFT:
        missing = [row for row, place in enumerate(places) if place == _NOWHERE]
        if missing:
            raise OffsetNotCommitted(
                "there is no committed offset to shift; partitions without one: {partition_count}",
                chosen.listed(missing),
                partition_count=len(missing),
            )
        return [stored.offsets[place] + request.value for place in places]
    targets = bounds.earliest if kind is TargetKind.EARLIEST else bounds.latest
    unknown = [row for row, target in enumerate(targets) if target < 0]
    if kind is TargetKind.CURRENT:
        targets = [
            latest if place == _NOWHERE else stored.offsets[place]
            for place, latest in zip(places, targets, strict=True)
        ]
        unknown = [row for row in unknown if places[row] == _NOWHERE]
    if unknown:
        raise OffsetBoundsUnknown(
            "the {bound} offset is not known: give bounds; partitions: {partition_count}",
            chosen.listed(unknown),
            bound="earliest" if kind is TargetKind.EARLIEST else "latest",
            partition_count=len(unknown),
        )
    return targets


def _check_range(
    request: ResetOffsets, chosen: _Chosen, targets: list[int], bounds: _BoundColumns
) -> None:
    """Refuses targets out of range. Kafka's tool moves them to the nearest end, with a warning."""
    outside = [
        row
        for row, (target, earliest, latest) in enumerate(zip(targets, *bounds, strict=True))
        if not 0 <= target <= OFFSET_MAX or target < earliest or target > latest >= 0
    ]
    if outside:
        raise OffsetOutOfRange(
            "the offset to reset to is outside what the partition has; partitions:"
            " {partition_count} of {chosen_count}",
            tuple(
                named | {"offset": targets[row]} | _known(request, chosen, bounds, row)
                for named, row in zip(chosen.listed(outside), outside, strict=False)
            ),
            partition_count=len(outside),
            chosen_count=len(targets),
        )


def _known(
    request: ResetOffsets, chosen: _Chosen, bounds: _BoundColumns, row: int
) -> dict[str, object]:
    """The known bounds of a partition, and their sources."""
    given = request.bounds.get((chosen.topics[row], chosen.partitions[row]), Bounds())
    known: dict[str, object] = {}
    if bounds.earliest[row] >= 0:
        known |= {"earliest": bounds.earliest[row], "earliest_source": given.earliest_source}
    if bounds.latest[row] >= 0:
        is_given = given.latest is not None
        source = given.latest_source if is_given else BoundSource.REPORTED
        known |= {"latest": bounds.latest[row], "latest_source": source}
    return known


def _puts(chosen: _Chosen, targets: list[int], stored: CommittedColumns) -> PutColumns:
    """Drops the leader epoch, metadata and expiry of an offset if the reset changes the offset."""
    leader_epochs, metadata = [-1] * len(targets), [b""] * len(targets)
    expire_timestamps_ms = [-1] * len(targets)
    unchanged = [
        (row, place)
        for row, (place, target) in enumerate(zip(chosen.places, targets, strict=True))
        if place != _NOWHERE and stored.offsets[place] == target and stored.are_decodable[place]
    ]
    for row, place in unchanged:
        leader_epochs[row] = stored.leader_epochs[place]
        metadata[row] = stored.metadata[place]
        expire_timestamps_ms[row] = stored.expire_timestamps_ms[place]
    return PutColumns(
        chosen.topics, chosen.partitions, targets, leader_epochs, metadata, expire_timestamps_ms
    )
