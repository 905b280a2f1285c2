"""Who wrote last: what is to be done about the offsets of a group while it lives in ZooKeeper.

Whether somebody has committed here is known by revisions: what stands here at another one than the
migration has written is somebody's. What only ZooKeeper has changed comes here, be it further back.
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
    """What is done about one offset."""

    NOTHING = "nothing"
    STORE = "store"  # Only ZooKeeper has changed it.
    OVERWRITE = "overwrite"  # Somebody has committed here, and ZooKeeper's commit is the later one.
    ABSENT = "absent"  # Somebody has deleted it here.
    LEAVE = "leave"  # The one that is stored here is.
    STOP = "stop"  # Somebody has committed here, and they are too far apart.


class AbsentOffsets(StrEnum):
    """What becomes of offsets that ZooKeeper has and somebody has deleted here."""

    STORE = "store"  # They are stored again.
    LEAVE = "leave"


class Deletions(StrEnum):
    """What becomes here of offsets that are deleted in ZooKeeper."""

    FOLLOW = "follow"  # They are deleted here, too.
    KEEP = "keep"


@attrs.frozen(kw_only=True)
class GroupMoves:
    """What is to be done about a group. Offsets are in order of topic and partition.

    `news` are to be stored; of these, `overwriting` take the place of somebody's commits here.
    `absent` are in ZooKeeper, and somebody has deleted them here. `deleted` are deleted in
    ZooKeeper and stored here; to `used`, of these, somebody has committed here since.
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
        """Each in the place of what is stored now; in order of topic and partition."""
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
    """What to do about an offset in ZooKeeper, and what is stored here of it, if anything is.

    `own` is the migration's newest write of it.
    """
    is_written_there = own is None or None in (own.order, found.order) or found.order != own.order
    if stored is None:  # Deleted here, if it was here before.
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
    """What to do about each offset of a group, of the topics that are taken."""
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
    """What the migration has stored, and is here still, and ZooKeeper has no more."""
    if found.problems:
        return []  # What cannot be read may be there.
    there = {each.topic_partition for each in found.offsets}
    return sorted(where for where in own if where in stored and where not in there)


def disagreement_text(moves: GroupMoves) -> str:
    """Why a group is not followed, or not cut over; empty: nothing is too far apart."""
    if not moves.apart:
        return ""
    first = moves.apart[0]
    here = moves.stored[first.topic_partition].offset
    return (
        f"{counted(moves.apart, 'offset')} committed here and far apart, as "
        f"{first.topic_partition}: {first.offset} in ZooKeeper, {here} here"
    )


def absent_text(absent: Sequence[FoundOffset]) -> str:
    """Which offsets ZooKeeper has, and somebody has deleted here."""
    first = absent[0]
    return f"{counted(absent, 'offset')} deleted here, as {_in_zookeeper(first)}"


def overwritten_text(moves: GroupMoves) -> str:
    """Which commits made here go, as ZooKeeper's are later; empty: none."""
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
    """Which offsets are deleted in ZooKeeper."""
    return f"{counted(deleted, 'offset')} deleted in ZooKeeper, as {deleted[0]}"


def _is_later(found: FoundOffset, stored: CommittedOffset) -> bool:
    """By the clocks of both sides."""
    if found.commit_time_ms is None:
        return False
    return found.commit_time_ms >= milliseconds(stored.commit_time)
