"""The cutover: from here on a group lives here. A mark in ZooKeeper says so.

Refused while consumers are alive there. What they wrote last is moved first, and the mark is set in
one transaction with a check that no znode of the group was written since it was read.
"""

from collections.abc import Iterator, Sequence

import attrs
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from offsetd_clients import OffsetdError
from offsetd_clients.migration.journal import Journal, Step, request_id_of
from offsetd_clients.migration.outcomes import (
    GroupOutcome,
    MigrationStopped,
    Outcome,
    counted,
)
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.target import Target, is_groups_own
from offsetd_clients.migration.values import FoundGroup, FoundOffset, PlannedGroup
from offsetd_clients.migration.zookeeper.connection import HeldLock, Marks, synced
from offsetd_clients.migration.zookeeper.layouts.layout import Layout
from offsetd_clients.migration.zookeeper.mirror import (
    DISAGREEMENT_MAX_DEFAULT,
    NOT_RUN,
    Move,
    disagreement_text,
    moves_of,
    puts_of,
)
from offsetd_clients.migration.zookeeper.transactions import (
    Write,
    WriteRefused,
    transaction,
)
from offsetd_clients.migration.zookeeper.tree import KazooTree


@attrs.frozen(kw_only=True)
class CutoverOptions:
    """`force`: also while owners are alive. `assume_stopped`: where the layout cannot tell."""

    execute: bool = False
    force: bool = False
    assume_stopped: bool = False
    allow_partial: bool = False
    disagreement_max: int = DISAGREEMENT_MAX_DEFAULT


@attrs.frozen(kw_only=True)
class Cutover:
    """Of one plan."""

    plan: Plan
    journal: Journal
    client: KazooClient
    layout: Layout
    marks: Marks
    target: Target
    lock: HeldLock
    options: CutoverOptions

    def groups(self) -> Iterator[GroupOutcome]:
        """What became of each group. Raises MigrationStopped, SourceFailed."""
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
        tree = KazooTree(self.client)
        mark = self.marks.read(tree, [group.source_group_id]).get(group.source_group_id)
        if mark is not None:
            return self._marked(group, mark.get("plan_id"))
        ran = self.journal.latest(Step.RUN, group.group_id)
        if ran is None or not ran.is_done:
            return outcome_of(group, Outcome.REFUSED, problem=NOT_RUN)
        if self.journal.newest_step(group.group_id) is Step.UNDO:
            return outcome_of(group, Outcome.REFUSED, problem="its run was undone: run it again")
        synced(self.client, "/")
        [found] = self.layout.read(tree, [group.source_group_id])
        problem = self._refusal(found)
        if problem:
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        offsets = [each for each in found.offsets if self.plan.selection.takes_topic(each.topic)]
        return self._move(group, offsets)

    def _move(self, group: PlannedGroup, offsets: Sequence[FoundOffset]) -> GroupOutcome:
        stored = self.target.stored([group.group_id])[group.group_id]
        moves = moves_of(offsets, stored, {}, disagreement_max=self.options.disagreement_max)
        apart = [each for each, move in moves if move is Move.STOP]
        if apart:
            return outcome_of(group, Outcome.REFUSED, problem=disagreement_text(apart, stored))
        news = [each for each, move in moves if move is Move.STORE]
        puts = puts_of(news, stored)
        if not self.options.execute:
            if puts:
                self.target.put(group.group_id, puts, validate_only=True)
            return outcome_of(group, Outcome.WOULD_CUT_OVER, count=len(puts))
        versions = {each.place: each.version for each in offsets}
        entry = self.journal.begin(Step.CUTOVER, group.group_id, {"versions": versions})
        if puts:
            request_id = request_id_of(self.plan.plan_id, entry)
            self.target.put(group.group_id, puts, request_id=request_id)
        mark = self.marks.value(group.source_group_id, group.group_id, self.plan.plan_id)
        write = Write(self.marks.path(group.source_group_id), None, mark)
        try:
            transaction(self.client, [write], checks=versions)
        except WriteRefused as refused:
            problem = f"{refused}: somebody writes there still; try again"
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        except KazooException as error:
            raise MigrationStopped(f"at group {group.group_id!r}") from error
        self.journal.finish(entry, None)
        return outcome_of(group, Outcome.CUT_OVER, count=len(puts))

    def _marked(self, group: PlannedGroup, plan_id: object) -> GroupOutcome:
        if plan_id != self.plan.plan_id:
            problem = f"it has moved by another plan, {plan_id}"
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        entry = self.journal.latest(Step.CUTOVER, group.group_id)
        if entry is not None and not entry.is_done and self.options.execute:
            self.journal.finish(entry, None)  # It was marked, and then we were killed.
        return outcome_of(group, Outcome.ALREADY)

    def _refusal(self, found: FoundGroup) -> str:
        if found.problems and not self.options.allow_partial:
            return f"{counted(found.problems, 'problem')}, as {found.problems[0]}"
        if found.owners and not self.options.force:
            return f"{counted(found.owners, 'owner')} alive, as {found.owners[0]}"
        if found.owners is None and not (self.options.assume_stopped or self.options.force):
            return "this layout does not tell who is alive: say --assume-stopped if nobody is"
        return ""


def outcome_of(
    group: PlannedGroup, outcome: Outcome, *, count: int = 0, problem: str = ""
) -> GroupOutcome:
    """What became of a group."""
    return GroupOutcome(
        group_id=group.group_id,
        source_group_id=group.source_group_id,
        outcome=outcome,
        offset_count=count,
        problem=problem,
    )
