"""The mirror: offsetd follows ZooKeeper while consumers still commit there.

Each pass reads the groups that have changed, and does what `mirror_rules` decides. The mirror stops
following a group when another client commits an offset to it in offsetd that is far from
ZooKeeper's offset.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

from offsetd_clients import CommitConflict, OffsetdError, TopicPartition
from offsetd_clients.calling.retry import is_tried_again
from offsetd_clients.migration.migration_journal import Journal, Step
from offsetd_clients.migration.outcomes import MigrationStopped, counted
from offsetd_clients.migration.own_writes import own_writes, put_followed
from offsetd_clients.migration.target import Stored, Target, is_groups_own
from offsetd_clients.migration.values import FoundGroup, MigrationError, PlannedGroup, SourceFailed
from offsetd_clients.migration.zookeeper.connection import HeldLock, Marks
from offsetd_clients.migration.zookeeper.kazoo_tree import KazooTree, is_lost
from offsetd_clients.migration.zookeeper.layouts.layout import Layout
from offsetd_clients.migration.zookeeper.mirror_events import (
    MirrorEvent,
    MirrorEventKind,
    MirrorStatus,
)
from offsetd_clients.migration.zookeeper.mirror_rules import (
    DISAGREEMENT_MAX_DEFAULT,
    AbsentOffsets,
    Deletions,
    GroupMoves,
    absent_text,
    deleted_text,
    disagreement_text,
    moves_of,
    overwritten_text,
)
from offsetd_clients.migration.zookeeper.source import read_settled

NOT_RUN = "it was not stored here yet: run first"
UNDONE = "its run was undone: run it again"
STATUS_INTERVAL_S = 60.0

Report = Callable[[int, int, str], None]
Tell = Callable[[MirrorEvent], None]


def not_run(journal: Journal, group_id: str) -> str:
    """Returns why a group that is not in offsetd is neither followed nor cut over. Else empty."""
    ran = journal.latest(Step.RUN, group_id)
    if ran is None or not ran.is_done:
        return NOT_RUN
    return UNDONE if journal.newest_step(group_id) is Step.UNDO else ""


@attrs.define
class Followed:
    """The state of a followed group. `stopped` says why it is no longer followed; else empty.

    `has_moved`: it was cut over, and lives in offsetd.
    `deleted`: offsets deleted in ZooKeeper and not in offsetd.
    `absent`: offsets deleted in offsetd and not in ZooKeeper.
    """

    source_group_id: str
    group_id: str
    stored_count: int = 0
    left_count: int = 0
    followed_deletion_count: int = 0
    deleted: frozenset[TopicPartition] = frozenset()
    absent: frozenset[TopicPartition] = frozenset()
    stopped: str = ""
    has_moved: bool = False

    @property
    def is_followed(self) -> bool:
        return not (self.stopped or self.has_moved)


@attrs.frozen(kw_only=True)
class MirrorOptions:
    """`disagreement_max` is in offsets. `interval_s`: how long changes of a group are collected.

    `deletions`: whether offsets deleted in ZooKeeper are deleted in offsetd too.
    `absent`: whether offsets that others deleted in offsetd are stored again. Both kinds are always
    reported.
    """

    disagreement_max: int = DISAGREEMENT_MAX_DEFAULT
    interval_s: float = 1.0
    status_interval_s: float = STATUS_INTERVAL_S
    allow_partial: bool = False
    deletions: Deletions = Deletions.KEEP
    absent: AbsentOffsets = AbsentOffsets.LEAVE


class Mirror:
    """Follows groups: each pass reads those that have changed, and stores new offsets."""

    def __init__(
        self,
        tree: KazooTree,
        layout: Layout,
        marks: Marks,
        target: Target,
        options: MirrorOptions,
        lock: HeldLock,
        journal: Journal,
        *,
        tell: Tell = lambda _: None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tell` is called from several threads."""
        self._tree = tree
        self._layout = layout
        self._marks = marks
        self._target = target
        self._options = options
        self._lock = lock
        self._journal = journal
        self._tell = tell
        self._monotonic_s = monotonic_s
        self._groups: dict[str, Followed] = {}
        self._topics: dict[str, Callable[[str], bool]] = {}
        self._changed: dict[str, float] = {}  # Values: the time of the first change.
        self._condition = threading.Condition()
        self._is_ended = False
        self._is_done = False
        self._is_connected = True
        self._is_server_lost = False
        self._watches: dict[str, Callable[[Any], None]] = {}

    @property
    def groups(self) -> Mapping[str, Followed]:
        """All followed groups by their ids at the source."""
        return self._groups

    @property
    def status(self) -> MirrorStatus:
        """The present status. Any thread may read it."""
        groups = list(self._groups.values())
        with self._condition:
            changed = list(self._changed.values())
        return MirrorStatus(
            followed_count=sum(each.is_followed for each in groups),
            stopped_count=sum(bool(each.stopped) for each in groups),
            moved_count=sum(each.has_moved for each in groups),
            changed_count=len(changed),
            stored_count=sum(each.stored_count for each in groups),
            left_count=sum(each.left_count for each in groups),
            deleted_count=sum(len(each.deleted) for each in groups),
            lag_s=max(self._monotonic_s() - min(changed), 0.0) if changed else 0.0,
            is_connected=self._is_connected,
        )

    def follow(self, group: PlannedGroup, takes_topic: Callable[[str], bool]) -> None:
        """Begins to follow a group. It must be in offsetd: otherwise no retention is set for it."""
        source = group.source_group_id
        self._groups[source] = followed = Followed(source, group.group_id)
        self._topics[source] = takes_topic
        problem = not_run(self._journal, group.group_id)
        if problem:
            self._stop(followed, problem)

        def note(_event: Any) -> None:
            self._note(source)

        self._watches[source] = note
        if followed.is_followed:
            self._note(source)

    def end(self) -> None:
        """Ends `watch` and a pass. Any thread and signal handlers may call it."""
        self._is_ended = True
        threading.Thread(target=self._wake).start()  # A signal may arrive while the lock is held.

    def connection_changed(self, *, is_connected: bool) -> None:
        """Notes whether ZooKeeper is connected. Any thread may call it."""
        if is_connected != self._is_connected and not self._is_done:
            self._is_connected = is_connected
            kind = MirrorEventKind.ZOOKEEPER_FOUND
            self._tell(MirrorEvent(kind if is_connected else MirrorEventKind.ZOOKEEPER_LOST))

    @contextmanager
    def status_told(self) -> Iterator[None]:
        """Reports the status at intervals, even while a pass waits."""
        is_over = threading.Event()

        def tell() -> None:
            while not is_over.wait(self._options.status_interval_s):
                self._tell(MirrorEvent(MirrorEventKind.STATUS, text=str(self.status)))

        thread = threading.Thread(target=tell)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def close(self) -> None:
        """Ends all passes, so that the end of the session is not reported."""
        self._is_done = True

    def catch_up(self, report: Report) -> int:
        """Makes one pass over the changed groups; the first pass covers all groups.

        Returns the number of groups that were not read because `end` was called, else 0. Raises
        MigrationStopped, SourceFailed.
        """
        with self._condition:
            changed = list(self._changed)
        for done, source in enumerate(changed, 1):
            if self._is_ended:
                return len(changed) - done + 1
            followed = self._groups[source]
            since_s = self._taken(source)
            try:
                if followed.is_followed:
                    self._lock.check()
                    self._pass(followed)
            except BaseException:
                self._note(source, since_s)
                raise
            report(done, len(changed), followed.group_id)
        return 0

    def watch(self, report: Report) -> None:
        """Makes passes until `end` is called or no group is followed any more.

        During the call, ZooKeeper and the server may be unavailable. Raises MigrationError.
        """
        while self._is_going():
            try:
                self.catch_up(report)
                self._server_is(lost=False)
            except (MigrationStopped, SourceFailed) as error:
                self._outlast(error)
            with self._condition:
                if not self._changed and self._is_going():
                    self._condition.wait()
            if self._changed and not self._is_ended:
                time.sleep(self._options.interval_s)

    def _is_going(self) -> bool:
        return not self._is_ended and any(each.is_followed for each in self._groups.values())

    def _outlast(self, error: MigrationError) -> None:
        """Waits for ZooKeeper or the server to return, if the connection to it was lost.

        Raises any other error, and LockHeld.
        """
        cause = error.__cause__
        if isinstance(cause, OffsetdError):
            if not is_tried_again(cause):
                raise error
            self._server_is(lost=True)
            return
        is_of_lock = isinstance(error, MigrationStopped) and cause is None
        if not (is_of_lock or is_lost(cause) or self._lock.is_to_be_regained):
            raise error
        self.connection_changed(is_connected=False)
        while not self._is_ended and not self._lock.regained():
            pass
        if not self._is_ended:
            self.connection_changed(is_connected=True)
            for each in self._groups.values():  # The watches of all groups ended with the session.
                if each.is_followed:
                    self._note(each.source_group_id)

    def _server_is(self, *, lost: bool) -> None:
        if lost != self._is_server_lost:
            self._is_server_lost = lost
            kind = MirrorEventKind.SERVER_LOST if lost else MirrorEventKind.SERVER_FOUND
            self._tell(MirrorEvent(kind))

    def _note(self, source: str, since_s: float | None = None) -> None:
        now_s = self._monotonic_s()
        with self._condition:
            self._changed[source] = min(
                self._changed.get(source, now_s), now_s if since_s is None else since_s
            )
            self._condition.notify()

    def _taken(self, source: str) -> float:
        with self._condition:
            return self._changed.pop(source)

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify()

    def _stop(self, followed: Followed, problem: str) -> None:
        followed.stopped = problem
        self._tell(MirrorEvent(MirrorEventKind.STOPPED, followed.group_id, problem))

    def _pass(self, followed: Followed) -> None:
        source = followed.source_group_id
        if self._marks.read(self._tree, [source]):
            # Later changes in ZooKeeper come from a consumer that was not moved.
            followed.has_moved = True
            self._tell(MirrorEvent(MirrorEventKind.MOVED, followed.group_id))
            return
        found = read_settled(self._layout, self._tree.watched_by(self._watches[source]), source)
        if found.problems and not self._options.allow_partial:
            self._stop(followed, str(found.problems[0]))
            return
        try:
            stored = self._target.stored([followed.group_id])[followed.group_id]
            self._store(followed, found, stored)
        except CommitConflict:
            self._note(source)  # Someone wrote in the meantime: read the group again.
        except OffsetdError as error:
            if not is_groups_own(error):
                raise MigrationStopped(f"at group {followed.group_id!r}") from error
            self._stop(followed, f"{error.reason}: {error}")

    def _store(self, followed: Followed, found: FoundGroup, stored: Stored) -> None:
        moves = moves_of(
            found,
            stored,
            own_writes(self._journal, followed.group_id, stored),
            takes_topic=self._topics[followed.source_group_id],
            disagreement_max=self._options.disagreement_max,
        )
        self._note_deleted(followed, moves, is_group=not found.offsets)
        self._note_absent(followed, moves)
        problem = disagreement_text(moves)
        if not problem and self._options.deletions is Deletions.FOLLOW and moves.used:
            problem = f"{deleted_text(moves.used)}, committed here since"
        if problem:
            self._stop(followed, problem)
            return
        followed.left_count = len(moves.left)
        puts = moves.puts(self._options.absent)
        if puts:
            put_followed(
                self._journal,
                self._target,
                followed.group_id,
                puts,
                is_first=not stored,
                is_audited=False,
            )
            followed.stored_count += len(puts)
        overwritten = overwritten_text(moves)
        if overwritten:
            self._tell(MirrorEvent(MirrorEventKind.OVERWRITTEN, followed.group_id, overwritten))
        if moves.deleted and self._options.deletions is Deletions.FOLLOW:
            self._target.delete(followed.group_id, moves.deleted)
            followed.followed_deletion_count += len(moves.deleted)
            followed.deleted = frozenset()

    def _note_absent(self, followed: Followed, moves: GroupMoves) -> None:
        absent = frozenset(each.topic_partition for each in moves.absent)
        if absent - followed.absent:
            is_stored = self._options.absent is AbsentOffsets.STORE
            text = f"{absent_text(moves.absent)}; {'stored again' if is_stored else 'left so'}"
            self._tell(MirrorEvent(MirrorEventKind.ABSENT, followed.group_id, text))
        followed.absent = absent

    def _note_deleted(self, followed: Followed, moves: GroupMoves, *, is_group: bool) -> None:
        deleted = frozenset(moves.deleted)
        news, back = deleted - followed.deleted, followed.deleted - deleted
        followed.deleted = deleted
        group_id = followed.group_id
        if news:
            text = deleted_text(sorted(news))
            if is_group:
                text = f"the group is deleted in ZooKeeper: {counted(deleted, 'offset')}"
            kept = "" if self._options.deletions is Deletions.FOLLOW else "; kept here"
            self._tell(MirrorEvent(MirrorEventKind.DELETED, group_id, f"{text}{kept}"))
        if back:
            text = f"{counted(back, 'offset')}, as {min(back)}"
            self._tell(MirrorEvent(MirrorEventKind.RETURNED, group_id, text))
