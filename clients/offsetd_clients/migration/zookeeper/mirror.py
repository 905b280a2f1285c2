"""ZooKeeper is followed here while consumers still commit there.

Who wrote last counts, be it further back: a rewind is followed, which taking the larger offset
would undo. What was written last is told by the order of writes in ZooKeeper (mzxid) for as long
as this process watches, and by times before that: an offset that is moved keeps its znode's mtime.
Where both sides were written, and differ by more than a limit, a group is followed no further.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs

from offsetd_clients import CommitConflict, CommittedOffset, OffsetdError, TopicPartition
from offsetd_clients.migration.outcomes import MigrationStopped
from offsetd_clients.migration.target import (
    Put,
    Stored,
    Target,
    is_groups_own,
    milliseconds,
    revisions_of,
)
from offsetd_clients.migration.values import FoundGroup, FoundOffset, PlannedGroup
from offsetd_clients.migration.zookeeper.connection import HeldLock, Marks
from offsetd_clients.migration.zookeeper.layouts.layout import Layout
from offsetd_clients.migration.zookeeper.tree import KazooTree

DISAGREEMENT_MAX_DEFAULT = 10_000
NOT_RUN = "it was not stored here yet: run first"


class Move(StrEnum):
    """What is done about one offset."""

    NOTHING = "nothing"
    STORE = "store"  # ZooKeeper's is the newer one.
    LEAVE = "leave"  # The one that is stored here is.
    STOP = "stop"  # Both were written, and are too far apart.


@attrs.frozen
class Mirrored:
    """What this process has stored last: where it stood among ZooKeeper's writes, and at what
    revision it is here.
    """

    order: int | None
    revision: int


def decide(
    found: FoundOffset,
    stored: CommittedOffset | None,
    last: Mirrored | None,
    *,
    disagreement_max: int,
) -> Move:
    """What to do about an offset in ZooKeeper, and what is stored here of it, if anything is."""
    if stored is None:
        return Move.STORE
    if stored.offset == found.offset:
        return Move.NOTHING
    is_newer = _is_newer(found, stored, last)
    is_ours = stored.revision == last.revision if last is not None else is_newer
    if not (is_newer and is_ours) and abs(found.offset - stored.offset) > disagreement_max:
        return Move.STOP
    return Move.STORE if is_newer else Move.LEAVE


def _is_newer(found: FoundOffset, stored: CommittedOffset, last: Mirrored | None) -> bool:
    if last is not None and last.order is not None and found.order is not None:
        return found.order > last.order
    if found.commit_time_ms is None:
        return False
    return found.commit_time_ms >= milliseconds(stored.commit_time)


@attrs.define
class Followed:
    """A group as it goes. `stopped` says why it is followed no further; empty: it is.

    `has_moved`: it was cut over, and lives here.
    """

    source_group_id: str
    group_id: str
    stored_count: int = 0
    left_count: int = 0
    stopped: str = ""
    has_moved: bool = False

    @property
    def is_followed(self) -> bool:
        return not (self.stopped or self.has_moved)


@attrs.frozen(kw_only=True)
class MirrorOptions:
    """`disagreement_max`: offsets. `interval_s`: so long changes of a group are gathered."""

    disagreement_max: int = DISAGREEMENT_MAX_DEFAULT
    interval_s: float = 1.0
    allow_partial: bool = False


class Mirror:
    """Follows groups: each pass reads those that have changed, and stores what is new."""

    def __init__(
        self,
        tree: KazooTree,
        layout: Layout,
        marks: Marks,
        target: Target,
        options: MirrorOptions,
        lock: HeldLock,
    ) -> None:
        self._tree = tree
        self._layout = layout
        self._marks = marks
        self._target = target
        self._options = options
        self._lock = lock
        self._groups: dict[str, Followed] = {}
        self._topics: dict[str, Callable[[str], bool]] = {}
        self._last: dict[tuple[str, TopicPartition], Mirrored] = {}
        self._changed: dict[str, None] = {}
        self._condition = threading.Condition()
        self._is_ended = False
        self._watches: dict[str, Callable[[Any], None]] = {}

    @property
    def groups(self) -> Mapping[str, Followed]:
        """All that are followed, by their ids at the source."""
        return self._groups

    def follow(
        self, group: PlannedGroup, takes_topic: Callable[[str], bool], *, has_run: bool
    ) -> None:
        """This group, too; but none that was not run, as nobody has set how long it is kept."""
        source = group.source_group_id
        self._groups[source] = Followed(source, group.group_id, stopped="" if has_run else NOT_RUN)
        self._topics[source] = takes_topic
        self._changed[source] = None

        def note(_event: Any) -> None:
            self._note(source)

        self._watches[source] = note

    def end(self) -> None:
        """Ends `watch`; for any thread, and for signals."""
        self._is_ended = True
        threading.Thread(target=self._wake).start()  # A signal may come while the lock is held.

    def catch_up(self, report: Callable[[int, int, str], None]) -> None:
        """One pass over what has changed; the first one is over all.

        Raises MigrationStopped, SourceFailed.
        """
        with self._condition:
            changed, self._changed = list(self._changed), {}
        for done, source in enumerate(changed, 1):
            followed = self._groups[source]
            if followed.is_followed:
                self._lock.check()
                self._pass(followed)
            report(done, len(changed), followed.group_id)

    def watch(self, report: Callable[[int, int, str], None]) -> None:
        """Passes, for as long as `end` was not called and any group is followed."""
        while not self._is_ended and any(each.is_followed for each in self._groups.values()):
            self.catch_up(report)
            with self._condition:
                if not self._changed and not self._is_ended:
                    self._condition.wait()
            time.sleep(self._options.interval_s)

    def _note(self, source: str) -> None:
        with self._condition:
            self._changed[source] = None
            self._condition.notify()

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify()

    def _pass(self, followed: Followed) -> None:
        source = followed.source_group_id
        if self._marks.read(self._tree, [source]):
            followed.has_moved = True  # What comes there by now is a straggler's.
            return
        tree = self._tree.watched_by(self._watches[source])
        [found] = self._layout.read(tree, [source])
        if found.problems and not self._options.allow_partial:
            followed.stopped = str(found.problems[0])
            return
        try:
            stored = self._target.stored([followed.group_id])[followed.group_id]
            self._store(followed, found, stored)
        except CommitConflict:
            self._note(source)  # Somebody was quicker: it is looked at again.
        except OffsetdError as error:
            if not is_groups_own(error):
                raise MigrationStopped(f"at group {followed.group_id!r}") from error
            followed.stopped = f"{error.reason}: {error}"

    def _store(self, followed: Followed, found: FoundGroup, stored: Stored) -> None:
        takes_topic = self._topics[followed.source_group_id]
        offsets = [each for each in found.offsets if takes_topic(each.topic)]
        moves = moves_of(
            offsets,
            stored,
            self._last_of(followed.group_id, offsets),
            disagreement_max=self._options.disagreement_max,
        )
        stopped = [each for each, move in moves if move is Move.STOP]
        if stopped:
            followed.stopped = disagreement_text(stopped, stored)
            return
        followed.left_count = sum(move is Move.LEAVE for _, move in moves)
        news = [each for each, move in moves if move is Move.STORE]
        if not news:
            return
        revision = self._target.put(followed.group_id, puts_of(news, stored), is_audited=False)
        assert revision is not None, "something was stored"
        partitions = [each.topic_partition for each in news]
        for each, at in zip(news, revisions_of(revision, partitions), strict=True):
            self._last[followed.group_id, each.topic_partition] = Mirrored(each.order, at)
        followed.stored_count += len(news)

    def _last_of(
        self, group_id: str, offsets: Iterable[FoundOffset]
    ) -> dict[TopicPartition, Mirrored]:
        named = (each.topic_partition for each in offsets)
        return {
            each: self._last[group_id, each] for each in named if (group_id, each) in self._last
        }


def moves_of(
    offsets: Sequence[FoundOffset],
    stored: Stored,
    last: Mapping[TopicPartition, Mirrored],
    *,
    disagreement_max: int,
) -> list[tuple[FoundOffset, Move]]:
    """What to do about each offset of a group."""
    return [
        (
            each,
            decide(
                each,
                stored.get(each.topic_partition),
                last.get(each.topic_partition),
                disagreement_max=disagreement_max,
            ),
        )
        for each in offsets
    ]


def puts_of(offsets: Iterable[FoundOffset], stored: Stored) -> list[Put]:
    """Each in the place of what is stored now."""
    puts = []
    for each in offsets:
        now = stored.get(each.topic_partition)
        puts.append(Put(each, None if now is None else now.revision))
    return puts


def disagreement_text(offsets: Sequence[FoundOffset], stored: Stored) -> str:
    """Why a group is not followed, or not cut over."""
    first = offsets[0]
    here = stored[first.topic_partition].offset
    return (
        f"{len(offsets)} offsets were written on both sides and are far apart, as "
        f"{first.topic_partition}: {first.offset} in ZooKeeper, {here} here"
    )
