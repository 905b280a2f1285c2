"""The rules for the offsets of a group that still lives in ZooKeeper: the latest write counts.

Revisions show whether others have committed to offsetd: if an offset's stored revision is not the
migration's own, others have committed it. A change that was made only in ZooKeeper is stored, even
if it goes back.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

import attrs

from offsetd_clients import CommittedOffset, TopicPartition
from offsetd_clients.migration.followed_writes import OwnWrite, OwnWrites
from offsetd_clients.migration.outcomes import counted
from offsetd_clients.migration.target import Put, Stored, milliseconds
from offsetd_clients.migration.values import FoundGroup, FoundOffset

DISAGREEMENT_MAX_DEFAULT = 10_000


class Move(StrEnum):
    """The decision for one offset."""

    NOTHING = "nothing"
    STORE = "store"  # Only ZooKeeper has changed it.
    OVERWRITE = "overwrite"  # Others have committed to offsetd, and ZooKeeper's commit is later.
    ABSENT = "absent"  # Others have deleted it in offsetd.
    LEAVE = "leave"  # Others have committed to offsetd, and their commit is later.
    STOP = "stop"  # Others have committed to offsetd, and the two are too far apart.


class AbsentOffsets(StrEnum):
    """The action for offsets that are in ZooKeeper, and that another client deleted in offsetd."""

    STORE = "store"  # They are stored again.
    LEAVE = "leave"


class Deletions(StrEnum):
    """The action in offsetd for offsets deleted in ZooKeeper."""

    FOLLOW = "follow"  # They are deleted in offsetd too.
    KEEP = "keep"


@attrs.frozen(kw_only=True)
class GroupMoves:
    """The decisions for a group. Offsets are in order of topic and partition.

    `news` must be stored. `overwriting`, a part of them, replace commits of other clients. `absent`
    are in ZooKeeper, and other clients deleted them in offsetd. `deleted` are deleted in ZooKeeper
    and stored in offsetd. Since then, other clients have committed to `used`, a part of them.
    """

    stored: Stored
    news: Sequence[FoundOffset]
    overwriting: Sequence[FoundOffset]
    absent: Sequence[FoundOffset]
    left: Sequence[FoundOffset]
    apart: Sequence[FoundOffset]
    deleted: Sequence[TopicPartition]
    used: Sequence[TopicPartition]

    def puts(self, absent: AbsentOffsets = AbsentOffsets.LEAVE) -> list[Put]:
        """The puts, in order of topic and partition. Each replaces the present stored offset."""
        chosen = list(self.news)
        if absent is AbsentOffsets.STORE:
            chosen = sorted([*chosen, *self.absent], key=lambda each: each.topic_partition)
        stored = self.stored
        return [
            Put(each, now.revision if (now := stored.get(each.topic_partition)) else None)
            for each in chosen
        ]


def decide(
    found: FoundOffset,
    stored: CommittedOffset | None,
    own: OwnWrite | None,
    *,
    disagreement_max: int,
) -> Move:
    """The decision for an offset of ZooKeeper, given the stored offset, if any.

    `own` is the migration's newest write of that offset.
    """
    is_written_there = own is None or None in (own.order, found.order) or found.order != own.order
    if stored is None:  # offsetd never had the offset, or it was deleted there.
        return Move.STORE if is_written_there else Move.ABSENT
    if stored.offset == found.offset:
        return Move.NOTHING
    if own is not None and stored.revision == own.revision:
        return Move.STORE
    if abs(found.offset - stored.offset) > disagreement_max:
        return Move.STOP
    return Move.OVERWRITE if is_written_there and _is_later(found, stored) else Move.LEAVE


def moves_of(
    found: FoundGroup,
    stored: Stored,
    own: OwnWrites,
    *,
    takes_topic: Callable[[str], bool],
    disagreement_max: int,
) -> GroupMoves:
    """The decisions for all offsets of a group in the chosen topics."""
    moves: dict[Move, list[FoundOffset]] = {each: [] for each in Move}
    news: list[FoundOffset] = []
    for each in found.offsets:
        if takes_topic(each.topic):
            where = each.topic_partition
            move = decide(
                each, stored.get(where), own.get(where), disagreement_max=disagreement_max
            )
            moves[move].append(each)
            if move in (Move.STORE, Move.OVERWRITE):
                news.append(each)
    deleted = [where for where in deleted_of(found, stored, own) if takes_topic(where.topic)]
    return GroupMoves(
        stored=stored,
        news=news,
        overwriting=moves[Move.OVERWRITE],
        absent=moves[Move.ABSENT],
        left=moves[Move.LEAVE],
        apart=moves[Move.STOP],
        deleted=deleted,
        used=[where for where in deleted if stored[where].revision != own[where].revision],
    )


def deleted_of(
    found: FoundGroup, stored: Stored, own: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """The migration's offsets that are still stored in offsetd and no longer in ZooKeeper."""
    if found.problems:
        return []  # An offset that cannot be read may still be there.
    there = {each.topic_partition for each in found.offsets}
    return sorted(where for where in own if where in stored and where not in there)


def disagreement_text(moves: GroupMoves) -> str:
    """The reason why a group is not followed or cut over: offsets too far apart. Else empty."""
    if not moves.apart:
        return ""
    first = moves.apart[0]
    here = moves.stored[first.topic_partition].offset
    return (
        f"{counted(moves.apart, 'offset')} committed here and far apart, as "
        f"{first.topic_partition}: {first.offset} in ZooKeeper, {here} here"
    )


def absent_text(absent: Sequence[FoundOffset]) -> str:
    """Names the offsets that ZooKeeper has and others deleted in offsetd."""
    first = absent[0]
    return f"{counted(absent, 'offset')} deleted here, as {_in_zookeeper(first)}"


def overwritten_text(moves: GroupMoves) -> str:
    """Names the commits to offsetd that later ones of ZooKeeper replace; empty if none."""
    if not moves.overwriting:
        return ""
    first = moves.overwriting[0]
    here = moves.stored[first.topic_partition].offset
    several = counted(moves.overwriting, "offset")
    return (
        f"{several} committed here and later in ZooKeeper, as {_in_zookeeper(first)}, {here} here"
    )


def _in_zookeeper(found: FoundOffset) -> str:
    return f"{found.topic_partition}: {found.offset} in ZooKeeper"


def deleted_text(deleted: Sequence[TopicPartition]) -> str:
    """Names the offsets that are deleted in ZooKeeper."""
    return f"{counted(deleted, 'offset')} deleted in ZooKeeper, as {deleted[0]}"


def _is_later(found: FoundOffset, stored: CommittedOffset) -> bool:
    """Whether the offset in ZooKeeper is later, by the clocks of both sides."""
    if found.commit_time_ms is None:
        return False
    return found.commit_time_ms >= milliseconds(stored.commit_time)
