"""The cutover: after it, a group lives in offsetd. A mark in ZooKeeper records this.

It is refused while consumers are alive in ZooKeeper. First it moves their last writes. Then one
transaction sets the mark, and checks that no znode of the group was written since it was read. The
check does not see new znodes. A group of more than about 2,000 znodes is checked in several
transactions. Therefore the group is read once more after the mark; if anything has changed, the
mark is removed.
"""

from collections.abc import Iterable, Iterator, Sequence

import attrs
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from offsetd_clients import OffsetdError
from offsetd_clients.migration.migration_journal import NOT_MARKED, Entry, Journal, Step
from offsetd_clients.migration.outcomes import (
    GroupOutcome,
    MigrationStopped,
    Outcome,
    counted,
    outcome_of,
)
from offsetd_clients.migration.own_writes import own_writes, put_followed
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.target import Target, is_groups_own
from offsetd_clients.migration.values import FoundGroup, FoundOffset, PlannedGroup
from offsetd_clients.migration.zookeeper.connection import HeldLock, Marks, synced
from offsetd_clients.migration.zookeeper.kazoo_tree import KazooTree
from offsetd_clients.migration.zookeeper.layouts.layout import Layout
from offsetd_clients.migration.zookeeper.mirror import not_run
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
from offsetd_clients.migration.zookeeper.transactions import (
    Write,
    WriteRefused,
    transaction,
)

_STRAGGLER = "consumers still write there; try again"


@attrs.frozen(kw_only=True)
class CutoverOptions:
    """The options of a cutover. `force`: also while owners are alive.

    `assume_stopped`: for layouts that do not show owners.

    `deletions`: whether offsets deleted in ZooKeeper are deleted in offsetd too.
    `absent`: whether offsets that others deleted in offsetd are stored again. If it is None, such
    groups are refused.
    """

    execute: bool = False
    force: bool = False
    assume_stopped: bool = False
    allow_partial: bool = False
    disagreement_max: int = DISAGREEMENT_MAX_DEFAULT
    deletions: Deletions | None = None
    absent: AbsentOffsets | None = None


@attrs.frozen(kw_only=True)
class Cutover:
    """The cutover of one plan."""

    plan: Plan
    journal: Journal
    client: KazooClient
    layout: Layout
    marks: Marks
    target: Target
    lock: HeldLock
    options: CutoverOptions

    def groups(self) -> Iterator[GroupOutcome]:
        """Yields the outcome of each group. Raises MigrationStopped, SourceFailed."""
        if self.options.execute:
            self.marks.ensure_root(self.client)
        for group in self.plan.groups():
            self.lock.check()
            try:
                yield self._cut_over(group)
            except OffsetdError as error:
                if not is_groups_own(error):
                    raise MigrationStopped(f"at group {group.group_id!r}") from error
                yield outcome_of(group, Outcome.REFUSED, problem=f"{error.reason}: {error}")

    def _cut_over(self, group: PlannedGroup) -> GroupOutcome:
        before = self.journal.latest(Step.CUTOVER, group.group_id)
        if before is not None and self.journal.is_cut_over(group.group_id):
            problem = other_root(before, self.marks)
            if problem:
                return outcome_of(group, Outcome.REFUSED, problem=problem)
        tree = KazooTree(self.client)
        mark = self.marks.read(tree, [group.source_group_id]).get(group.source_group_id)
        if mark is not None:
            return self._marked(group, mark.get("plan_id"))
        problem = not_run(self.journal, group.group_id)
        if problem:
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        synced(self.client, "/")
        found = read_settled(self.layout, tree, group.source_group_id)
        problem = self._refusal(found)
        if problem:
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        moves = self._moves(group, found)
        problem = disagreement_text(moves) or self._deletion_problem(moves)
        if problem:
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        return self._move(group, self._taken(found), moves)

    def _moves(self, group: PlannedGroup, found: FoundGroup) -> GroupMoves:
        stored = self.target.stored([group.group_id])[group.group_id]
        return moves_of(
            found,
            stored,
            own_writes(self.journal, group.group_id, stored),
            takes_topic=self.plan.selection.takes_topic,
            disagreement_max=self.options.disagreement_max,
        )

    def _deletion_problem(self, moves: GroupMoves) -> str:
        """The reason why deletions on one side prevent the cutover of a group; else empty."""
        if moves.absent and self.options.absent is None:
            return f"{absent_text(moves.absent)}: say --absent store, or leave"
        if moves.deleted and self.options.deletions is None:
            return f"{deleted_text(moves.deleted)}: say --deletions follow, or keep"
        if moves.used and self.options.deletions is Deletions.FOLLOW:
            return f"{deleted_text(moves.used)}, committed here since"
        return ""

    def _move(
        self, group: PlannedGroup, offsets: Sequence[FoundOffset], moves: GroupMoves
    ) -> GroupOutcome:
        puts = moves.puts(self.options.absent or AbsentOffsets.LEAVE)
        note = overwritten_text(moves)
        to_delete = moves.deleted if self.options.deletions is Deletions.FOLLOW else ()
        count = len(puts) + len(to_delete)
        if not self.options.execute:
            if puts:
                self.target.put(group.group_id, puts, validate_only=True)
            return outcome_of(group, Outcome.WOULD_CUT_OVER, count=count, problem=note)
        versions = _versions(offsets)
        details = {"versions": versions, "state_root": self.marks.state_root}
        entry = self.journal.begin(Step.CUTOVER, group.group_id, details)
        if puts:
            put_followed(
                self.journal,
                self.target,
                group.group_id,
                puts,
                is_first=not moves.stored,
                is_audited=True,
            )
        if to_delete:
            self.target.delete(group.group_id, to_delete)
        mark = self.marks.value(group.source_group_id, group.group_id, self.plan.plan_id)
        write = Write(self.marks.path(group.source_group_id), None, mark)
        try:
            transaction(self.client, [write], checks=versions)
        except WriteRefused as refused:
            self.journal.finish(entry, NOT_MARKED)
            problem = f"{refused}: {_STRAGGLER}"
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        except KazooException as error:
            raise MigrationStopped(f"at group {group.group_id!r}") from error
        problem = self._settled(group, entry)
        if problem:
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        return outcome_of(group, Outcome.CUT_OVER, count=count, problem=note)

    def _settled(self, group: PlannedGroup, entry: Entry) -> str:
        """Completes the cutover after the mark, or undoes it. Returns why it was undone, or ""."""
        self.layout.forget()
        found = read_settled(self.layout, KazooTree(self.client), group.source_group_id)
        now = _versions(self._taken(found)).items()
        changed = sorted({path for path, _ in now ^ entry.details["versions"].items()})
        if not changed:
            self.journal.finish(entry, None)
            return ""
        try:
            unmark = Write(self.marks.path(group.source_group_id), None, None)
            transaction(self.client, [unmark])
        except KazooException as error:
            raise MigrationStopped(f"at group {group.group_id!r}") from error
        self.journal.finish(entry, NOT_MARKED)
        return f"{changed[0]} changed while the group was marked: {_STRAGGLER}"

    def _taken(self, found: FoundGroup) -> list[FoundOffset]:
        return [each for each in found.offsets if self.plan.selection.takes_topic(each.topic)]

    def _marked(self, group: PlannedGroup, plan_id: object) -> GroupOutcome:
        if plan_id != self.plan.plan_id:
            problem = f"it has moved by another plan, {plan_id}"
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        entry = self.journal.latest(Step.CUTOVER, group.group_id)
        if entry is not None and not entry.is_done and self.options.execute:
            # The mark was set, but the cutover was killed before it noted the mark.
            problem = self._settled(group, entry)
            if problem:
                return outcome_of(group, Outcome.REFUSED, problem=problem)
        return outcome_of(group, Outcome.ALREADY)

    def _refusal(self, found: FoundGroup) -> str:
        if found.problems and not self.options.allow_partial:
            return f"{counted(found.problems, 'problem')}, as {found.problems[0]}"
        if found.owners and not self.options.force:
            return f"{counted(found.owners, 'owner')} alive, as {found.owners[0]}"
        if found.owners is None and not (self.options.assume_stopped or self.options.force):
            return (
                "this layout does not show live consumers: use --assume-stopped if there are none"
            )
        return ""


def _versions(offsets: Iterable[FoundOffset]) -> dict[str, int | None]:
    return {each.place: each.version for each in offsets}


def other_root(cut_over: Entry, marks: Marks) -> str:
    """The reason not to search for the mark: the cutover put it elsewhere. Else empty."""
    root = cut_over.details["state_root"]
    if root == marks.state_root:
        return ""
    return f"its mark is below {root}: say --state-root {root}"
