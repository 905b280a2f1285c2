"""The way back to ZooKeeper: what is stored here is written there, and the mark goes.

Each znode only if nobody wrote it since the cutover; what stood there before is kept in the
journal. A group is written in one transaction.
"""

import base64
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from offsetd_clients import OffsetdError
from offsetd_clients.migration.journal import Entry, Journal, Step
from offsetd_clients.migration.outcomes import (
    GroupOutcome,
    MigrationStopped,
    Outcome,
    counted,
)
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.target import Stored, Target
from offsetd_clients.migration.values import FoundGroup, FoundOffset, PlannedGroup, Problem
from offsetd_clients.migration.zookeeper.connection import HeldLock, Marks, synced
from offsetd_clients.migration.zookeeper.cutover import outcome_of
from offsetd_clients.migration.zookeeper.layouts.layout import CannotWriteBack, Layout
from offsetd_clients.migration.zookeeper.transactions import (
    Write,
    WriteRefused,
    transaction,
)
from offsetd_clients.migration.zookeeper.tree import KazooTree, Node, answered


@attrs.frozen(kw_only=True)
class RollbackOptions:
    """`to_plan`: to the plan's offsets, and not to what is stored here now. `force`: also while
    consumers are alive, on either side.
    """

    execute: bool = False
    to_plan: bool = False
    force: bool = False


@attrs.frozen(kw_only=True)
class Rollback:
    """Of one plan."""

    plan: Plan
    journal: Journal
    client: KazooClient
    layout: Layout
    marks: Marks
    target: Target
    lock: HeldLock
    options: RollbackOptions

    def groups(self) -> Iterator[GroupOutcome]:
        """What became of each group that was cut over. Raises MigrationStopped, SourceFailed."""
        for group in self.plan.groups():
            entry = self.journal.latest(Step.CUTOVER, group.group_id)
            if entry is None:
                continue
            self.lock.check()
            try:
                yield self._roll_back(group, entry)
            except (WriteRefused, CannotWriteBack) as refused:
                yield outcome_of(group, Outcome.REFUSED, problem=str(refused))
            except (OffsetdError, KazooException) as error:
                raise MigrationStopped(f"at group {group.group_id!r}") from error

    def _roll_back(self, group: PlannedGroup, cut_over: Entry) -> GroupOutcome:
        tree = KazooTree(self.client)
        mark = self.marks.read(tree, [group.source_group_id]).get(group.source_group_id)
        begun = self.journal.latest(Step.ROLLBACK, group.group_id)
        if mark is None or mark.get("plan_id") != self.plan.plan_id:
            if begun is not None and not begun.is_done and self.options.execute:
                self.journal.finish(begun, None)  # All was written, and then we were killed.
            was_cut_over = cut_over.is_done or begun is not None
            if mark is None and was_cut_over:
                return outcome_of(group, Outcome.ALREADY)
            return outcome_of(group, Outcome.REFUSED, problem="it was not cut over by this plan")
        synced(self.client, "/")
        [found] = self.layout.read(tree, [group.source_group_id])
        problem = self._refusal(group, found)
        if problem:
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        writes, images = self._writes(tree, group, found, cut_over.details["versions"])
        if not self.options.execute:
            return outcome_of(group, Outcome.WOULD_ROLL_BACK, count=len(writes))
        entry = self.journal.begin(Step.ROLLBACK, group.group_id, {"images": images})
        for write in writes:
            if write.version is None:
                answered(self.client.ensure_path_async(write.path.rpartition("/")[0]))
        unmark = Write(self.marks.path(group.source_group_id), None, None)
        transaction(self.client, [*writes, unmark])
        self.journal.finish(entry, None)
        return outcome_of(group, Outcome.ROLLED_BACK, count=len(writes))

    def _refusal(self, group: PlannedGroup, found: FoundGroup) -> str:
        if self.options.force:
            return ""
        if found.owners:
            return f"{counted(found.owners, 'owner')} alive in ZooKeeper, as {found.owners[0]}"
        here = self.target.group(group.group_id)
        if here is not None and here.members:
            return f"{counted(here.members, 'member')} alive here, as {here.members[0].member_id}"
        if found.problems:
            return f"{counted(found.problems, 'problem')}, as {found.problems[0]}"
        return ""

    def _writes(
        self,
        tree: KazooTree,
        group: PlannedGroup,
        found: FoundGroup,
        versions: dict[str, int | None],
    ) -> tuple[list[Write], list[list[Any]]]:
        """What is to be written, and what stands there, as the journal keeps it.

        Raises WriteRefused, CannotWriteBack.
        """
        wanted = self._wanted(group)
        known = {each.topic_partition: each for each in found.offsets}
        nodes = tree.nodes(dict.fromkeys(each.place for each in found.offsets))
        values: dict[str, bytes] = {}
        created: dict[str, bytes] = {}
        for each in wanted:
            at = known.get(each.topic_partition)
            if at is None:
                place, value = self._new_place(group, each)
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

    def _wanted(self, group: PlannedGroup) -> Sequence[FoundOffset]:
        if self.options.to_plan:
            return group.offsets
        stored: Stored = self.target.stored([group.group_id])[group.group_id]
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


def _value(node: Node | Problem) -> bytes:
    if isinstance(node, Problem):
        raise WriteRefused(str(node))
    return node.value


def _unchanged_version(path: str, node: Node | Problem, versions: dict[str, int | None]) -> int:
    """That of the cutover, which has to be the znode's still."""
    if isinstance(node, Problem):
        raise WriteRefused(str(node))
    version = versions.get(path)
    if version is None or node.version != version:
        raise WriteRefused(f"{path} was written since the cutover")
    return version


def _image(node: Node | Problem) -> list[Any]:
    """Version, mtime, and the bytes."""
    if isinstance(node, Problem):
        raise WriteRefused(str(node))
    return [node.version, node.mtime_ms, base64.b64encode(node.value).decode()]
