"""The rollback to ZooKeeper: it writes the stored offsets to ZooKeeper, and removes the mark.

A znode is written only if it did not change since the cutover. Its earlier content is kept in the
journal. Each group is written in one transaction.
"""

import base64
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from offsetd_clients import OffsetdError, TopicPartition
from offsetd_clients.migration.followed_writes import OwnWrites
from offsetd_clients.migration.migration_journal import NOT_MARKED, Entry, Journal, Step
from offsetd_clients.migration.outcomes import (
    GroupOutcome,
    MigrationStopped,
    Outcome,
    counted,
    outcome_of,
)
from offsetd_clients.migration.own_writes import own_writes
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.target import Stored, Target, alive_here
from offsetd_clients.migration.values import FoundGroup, FoundOffset, PlannedGroup, Problem
from offsetd_clients.migration.zookeeper.connection import HeldLock, Marks, synced
from offsetd_clients.migration.zookeeper.cutover import other_root
from offsetd_clients.migration.zookeeper.kazoo_tree import KazooTree, answered
from offsetd_clients.migration.zookeeper.layouts.layout import CannotWriteBack, Layout
from offsetd_clients.migration.zookeeper.mirror_rules import absent_text, deleted_text
from offsetd_clients.migration.zookeeper.source import read_settled
from offsetd_clients.migration.zookeeper.transactions import (
    Write,
    WriteRefused,
    transaction,
)
from offsetd_clients.migration.zookeeper.tree import Node


@attrs.frozen(kw_only=True)
class RollbackOptions:
    """`to_plan`: write the plan's offsets instead of those stored in offsetd now.

    `force`: write also while consumers are alive, on either side.
    `recreate_deleted`: create deleted znodes again.
    """

    execute: bool = False
    to_plan: bool = False
    force: bool = False
    recreate_deleted: bool = False


@attrs.frozen(kw_only=True)
class Rollback:
    """The rollback of one plan."""

    plan: Plan
    journal: Journal
    client: KazooClient
    layout: Layout
    marks: Marks
    target: Target
    lock: HeldLock
    options: RollbackOptions

    def groups(self) -> Iterator[GroupOutcome]:
        """Yields the outcome of each group that was cut over.

        Raises MigrationStopped, SourceFailed.
        """
        for group in self.plan.groups():
            entry = self.journal.latest(Step.CUTOVER, group.group_id)
            if entry is None or entry.result == NOT_MARKED:
                continue
            self.lock.check()
            try:
                yield self._roll_back(group, entry)
            except (WriteRefused, CannotWriteBack) as refused:
                yield outcome_of(group, Outcome.REFUSED, problem=str(refused))
            except (OffsetdError, KazooException) as error:
                raise MigrationStopped(f"at group {group.group_id!r}") from error

    def _roll_back(self, group: PlannedGroup, cut_over: Entry) -> GroupOutcome:
        problem = other_root(cut_over, self.marks)
        if problem:
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        tree = KazooTree(self.client)
        synced(self.client, "/")
        mark = self.marks.read(tree, [group.source_group_id]).get(group.source_group_id)
        if mark is None:
            return self._unmarked(group, cut_over)
        if mark.get("plan_id") != self.plan.plan_id:
            return outcome_of(group, Outcome.REFUSED, problem="it was not cut over by this plan")
        found = read_settled(self.layout, tree, group.source_group_id)
        problem = self._refusal(group, found)
        if problem:
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        stored: Stored = self.target.stored([group.group_id])[group.group_id]
        wanted = self._wanted(group, stored)
        own = own_writes(self.journal, group.group_id, stored)
        deleted = self._deleted(found, wanted, stored, own)
        wanted = [each for each in wanted if each.topic_partition not in deleted]
        writes, images = self._writes(tree, group, found, wanted, cut_over.details["versions"])
        notes = [f"{deleted_text(deleted)}: not made again"] if deleted else []
        absent = [] if self.options.to_plan else _absent(found, stored, own)
        notes += [f"{absent_text(absent)}: not changed there"] if absent else []
        note = "; ".join(notes)
        if not self.options.execute:
            return outcome_of(group, Outcome.WOULD_ROLL_BACK, count=len(writes), problem=note)
        here = [[where.topic, where.partition, each.revision] for where, each in stored.items()]
        details = {"images": images, "here": here}
        entry = self.journal.begin(Step.ROLLBACK, group.group_id, details)
        for write in writes:
            if write.version is None:
                answered(self.client.ensure_path_async(write.path.rpartition("/")[0]))
        unmark = Write(self.marks.path(group.source_group_id), None, None)
        transaction(self.client, [*writes, unmark])
        self.journal.finish(entry, None)
        return outcome_of(group, Outcome.ROLLED_BACK, count=len(writes), problem=note)

    def _unmarked(self, group: PlannedGroup, cut_over: Entry) -> GroupOutcome:
        """The outcome without a mark: it was rolled back, never set, or removed by someone."""
        back = self.journal.latest(Step.ROLLBACK, group.group_id)
        is_newer = self.journal.is_begun_behind(Step.ROLLBACK, Step.CUTOVER, group.group_id)
        if back is not None and is_newer:
            if not back.is_done and self.options.execute:
                # All znodes were written, but the rollback was killed before it noted this.
                self.journal.finish(back, None)
            return outcome_of(group, Outcome.ALREADY)
        if cut_over.is_done:
            problem = "its mark is gone: cut it over again, and it is set"
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        if self.options.execute:
            self.journal.finish(cut_over, NOT_MARKED)
        problem = "its cutover was cut off before the mark was set: it lives in ZooKeeper still"
        return outcome_of(group, Outcome.REFUSED, problem=problem)

    def _refusal(self, group: PlannedGroup, found: FoundGroup) -> str:
        if self.options.force:
            return ""
        if found.owners:
            return f"{counted(found.owners, 'owner')} alive in ZooKeeper, as {found.owners[0]}"
        alive = alive_here(self.target, group.group_id)
        if alive:
            return alive
        if found.problems:
            return f"{counted(found.problems, 'problem')}, as {found.problems[0]}"
        return ""

    def _writes(
        self,
        tree: KazooTree,
        group: PlannedGroup,
        found: FoundGroup,
        wanted: Sequence[FoundOffset],
        versions: dict[str, int | None],
    ) -> tuple[list[Write], list[list[Any]]]:
        """The writes to make, and the present content of the znodes, in the journal's form.

        Raises WriteRefused, CannotWriteBack.
        """
        known = {each.topic_partition: each for each in found.offsets}
        nodes = tree.nodes(dict.fromkeys(each.place for each in found.offsets))
        values: dict[str, bytes] = {}
        created: dict[str, bytes] = {}
        for each in wanted:
            at = known.get(each.topic_partition)
            if at is None:
                place, value = self._new_place(group, each)
                if place in versions and not self.options.recreate_deleted:
                    raise WriteRefused(f"{place} was deleted since the cutover")
                created[place] = value
            elif at.offset != each.offset:
                values[at.place] = self.layout.rendered(
                    values.get(at.place) or _value(nodes[at.place]), at, each.offset
                )
        writes = [
            Write(path, _unchanged_version(path, nodes[path], versions), value)
            for path, value in values.items()
        ]
        writes += [Write(path, None, value) for path, value in created.items()]
        images = [[path, _image(nodes[path])] for path in values]
        return writes, images + [[path, None] for path in created]

    def _deleted(
        self,
        found: FoundGroup,
        wanted: Sequence[FoundOffset],
        stored: Stored,
        own: OwnWrites,
    ) -> list[TopicPartition]:
        """Offsets deleted in ZooKeeper, with no commits by others in offsetd since the move."""
        if self.options.recreate_deleted:
            return []
        there = {each.topic_partition for each in found.offsets}
        named = [each.topic_partition for each in wanted]
        return [
            where
            for where in named
            if where in own
            and where not in there
            and (where not in stored or stored[where].revision == own[where].revision)
        ]

    def _wanted(self, group: PlannedGroup, stored: Stored) -> Sequence[FoundOffset]:
        if self.options.to_plan:
            return group.offsets
        takes = self.plan.selection.takes_topic
        return [
            FoundOffset(topic=each.topic, partition=each.partition, offset=committed.offset)
            for each, committed in stored.items()
            if takes(each.topic)
        ]

    def _new_place(self, group: PlannedGroup, offset: FoundOffset) -> tuple[str, bytes]:
        place = self.layout.place_of(group.source_group_id, offset.topic, offset.partition)
        if place is None:
            raise CannotWriteBack(
                f"{offset.topic_partition} has no znode, and this layout cannot have one made"
            )
        return place, self.layout.rendered(b"", offset, offset.offset)


def _absent(found: FoundGroup, stored: Stored, own: OwnWrites) -> list[FoundOffset]:
    """The migration's offsets that others deleted in offsetd, and that ZooKeeper still has."""
    return [
        each
        for each in found.offsets
        if each.topic_partition in own and each.topic_partition not in stored
    ]


def _value(node: Node | Problem) -> bytes:
    if isinstance(node, Problem):
        raise WriteRefused(str(node))
    return node.value


def _unchanged_version(path: str, node: Node | Problem, versions: dict[str, int | None]) -> int:
    """The version that the znode had at the cutover. Raises WriteRefused if it has another one."""
    if isinstance(node, Problem):
        raise WriteRefused(str(node))
    version = versions.get(path)
    if version is None or node.version != version:
        raise WriteRefused(f"{path} was written since the cutover")
    return version


def _image(node: Node | Problem) -> list[Any]:
    """Version, mtime and bytes of a znode."""
    if isinstance(node, Problem):
        raise WriteRefused(str(node))
    return [node.version, node.mtime_ms, base64.b64encode(node.value).decode()]
