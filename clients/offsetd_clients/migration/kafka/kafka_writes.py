"""Writes offsets to a Kafka cluster: back to the groups of a plan, or for the first time.

Kafka has no conditional commit, and takes offsets one by one. So each group is read before it is
written, and read again afterwards. A step that was killed at any point and is run again ends in the
same state: offsets that are already in the cluster are not written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from offsetd_clients import OffsetdError, OffsetToCommit, TopicPartition
from offsetd_clients.migration.differences import is_within
from offsetd_clients.migration.kafka.cluster import ClusterFailed, ClusterGroup, KafkaCluster
from offsetd_clients.migration.kafka.targets import moved_on
from offsetd_clients.migration.migration_journal import Journal, Step
from offsetd_clients.migration.outcomes import (
    GroupOutcome,
    MigrationStopped,
    Outcome,
    in_chunks,
    listed,
    outcome_of,
)
from offsetd_clients.migration.target import alive_here
from offsetd_clients.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from offsetd_clients.migration.plan_file import Plan
    from offsetd_clients.migration.rates import RateLimit
    from offsetd_clients.migration.target import Stored, Target
    from offsetd_clients.migration.values import PlannedGroup

_OUTCOMES: Final = {
    Step.ROLLBACK: (Outcome.WOULD_ROLL_BACK, Outcome.ROLLED_BACK),
    Step.RUN: (Outcome.WOULD_MIGRATE, Outcome.MIGRATED),
}


@attrs.frozen(kw_only=True)
class Move:
    """The offsets that must be written to a group of the cluster.

    `expected` are other offsets that the group may have now.

    `objection` says why the group must not be written; else it is empty.
    """

    planned: PlannedGroup
    group_id: str
    wanted: Mapping[TopicPartition, OffsetToCommit]
    expected: Mapping[TopicPartition, int]
    objection: str = ""


@attrs.frozen(kw_only=True)
class BackOptions:
    """`overwrite`: also replace offsets of the cluster that the plan does not have.

    `step` is ROLLBACK, or RUN for groups that go to the cluster for the first time.
    """

    execute: bool = False
    overwrite: bool = False
    step: Step = Step.ROLLBACK


def moves_back(
    plan: Plan, journal: Journal, target: Target, *, force: bool = False
) -> Callable[[Sequence[PlannedGroup]], list[Move]]:
    """Moves back the present offsets of groups that a run has moved to offsetd.

    Only topics of the plan are moved, and only if the cluster still has the offsets of the plan.
    Offsets deleted in offsetd stay in the cluster. `force`: also while consumers use the group in
    offsetd.
    """
    takes = plan.selection.takes_topic

    def moves(groups: Sequence[PlannedGroup]) -> list[Move]:
        stored, alive = _seen_here(target, [each.group_id for each in groups], force=force)
        return [
            Move(
                planned=each,
                group_id=each.source_group_id,
                wanted={
                    where: OffsetToCommit(
                        found.offset, leader_epoch=found.leader_epoch, metadata=found.metadata
                    )
                    for where, found in stored[each.group_id].items()
                    if takes(where.topic)
                },
                expected={found.topic_partition: found.offset for found in each.offsets},
                objection=_not_moved_here(journal, each.group_id) or somebody,
            )
            for each, somebody in zip(groups, alive, strict=True)
        ]

    return moves


def _not_moved_here(journal: Journal, group_id: str) -> str:
    """The reason if offsetd does not have the plan's offsets: not run, or undone. Else empty."""
    ran = journal.latest(Step.RUN, group_id)
    if ran is None:
        return "no run of this plan has moved it here"
    if not ran.is_done:
        return "the run of this plan has not moved it here to its end: run it again"
    if journal.newest_step(group_id) is Step.UNDO:
        return "its run was undone"
    return ""


def moves_there(
    target: Target, *, force: bool = False
) -> Callable[[Sequence[PlannedGroup]], list[Move]]:
    """Moves a plan's offsets to the cluster, if the cluster has none for them yet.

    `force`: also groups with live consumers in offsetd, or whose offsets changed after the plan.
    """

    def moves(groups: Sequence[PlannedGroup]) -> list[Move]:
        objections = [""] * len(groups) if force else _used_here(target, groups)
        return [
            Move(
                planned=each,
                group_id=each.group_id,
                wanted={
                    found.topic_partition: OffsetToCommit(
                        found.offset, leader_epoch=found.leader_epoch, metadata=found.metadata
                    )
                    for found in each.offsets
                },
                expected={},
                objection=objection,
            )
            for each, objection in zip(groups, objections, strict=True)
        ]

    return moves


def _used_here(target: Target, groups: Sequence[PlannedGroup]) -> list[str]:
    """For each group, the evidence that it is or was used in offsetd since the plan; else empty."""
    stored, alive = _seen_here(target, [each.source_group_id for each in groups])
    now = [
        {where: found.offset for where, found in stored[each.source_group_id].items()}
        for each in groups
    ]
    return [
        somebody or moved_on(each, offsets, "here")
        for each, offsets, somebody in zip(groups, now, alive, strict=True)
    ]


def _seen_here(
    target: Target, group_ids: Sequence[str], *, force: bool = False
) -> tuple[dict[str, Stored], list[str]]:
    """The stored offsets of groups, and the live members of each.

    With `force`, members are not fetched.
    """
    try:
        stored = target.stored(group_ids)
        return stored, ["" if force else alive_here(target, each) for each in group_ids]
    except OffsetdError as error:
        raise MigrationStopped("the server does not say what is stored") from error


def write_back(
    plan: Plan,
    journal: Journal,
    cluster: KafkaCluster,
    moves: Callable[[Sequence[PlannedGroup]], list[Move]],
    options: BackOptions,
    limit: RateLimit,
) -> Iterator[GroupOutcome]:
    """Yields the outcome of each group. Raises MigrationStopped if the cluster does not answer."""
    for chunk in in_chunks(plan.groups()):
        some = moves(chunk)
        for move, group in zip(some, cluster.read([each.group_id for each in some]), strict=True):
            yield _Writer(journal, cluster, options, limit).write(move, group)


@attrs.frozen
class _Writer:
    """Writes one group at a time."""

    journal: Journal
    cluster: KafkaCluster
    options: BackOptions
    limit: RateLimit

    def write(self, move: Move, group: ClusterGroup) -> GroupOutcome:
        there = {each.topic_partition: each.offset for each in group.offsets}
        to_write = {
            where: each for where, each in move.wanted.items() if there.get(where) != each.offset
        }
        problem = move.objection if to_write else ""
        problem = problem or group.problem or self._refusal(move, group, there, to_write)
        if problem:
            return outcome_of(move.planned, Outcome.REFUSED, problem=problem)
        if not to_write:
            return outcome_of(move.planned, Outcome.ALREADY)
        would, done = _OUTCOMES[self.options.step]
        if not self.options.execute:
            return outcome_of(move.planned, would, count=len(to_write))
        self.limit.wait(len(to_write))
        before = [[where.topic, where.partition, there.get(where)] for where in to_write]
        entry = self.journal.begin(self.options.step, move.planned.group_id, {"before": before})
        problem = self._written(move.group_id, to_write)
        if problem:
            return outcome_of(move.planned, Outcome.REFUSED, problem=problem)
        self.journal.finish(entry, None)
        return outcome_of(move.planned, done, count=len(to_write))

    def _refusal(
        self,
        move: Move,
        group: ClusterGroup,
        there: Mapping[TopicPartition, int],
        to_write: Mapping[TopicPartition, OffsetToCommit],
    ) -> str:
        """The reason why the group must not be written; empty if there is none."""
        if not to_write:
            return ""
        if group.members:
            return f"it has members at {self.cluster.address}: {listed(group.members)}"
        moved_on = [
            f"{where} is {there[where]} there, not {move.expected.get(where, 'absent')} as planned"
            for where in to_write
            if where in there and there[where] != move.expected.get(where)
        ]
        if moved_on and not self.options.overwrite:
            return f"{counted(len(moved_on), 'offset')}: {listed(moved_on)}"
        bounds, gone = self.cluster.bounds(to_write)
        outside = [f"{where} is not there" for where in sorted(gone)]
        outside += [
            f"{where} has no {to_write[where].offset}: it has {has.earliest} to {has.latest}"
            for where, has in bounds.items()
            if not is_within(to_write[where].offset, has)
        ]
        return f"{counted(len(outside), 'offset')}: {listed(outside)}" if outside else ""

    def _written(self, group_id: str, offsets: Mapping[TopicPartition, OffsetToCommit]) -> str:
        """Writes, then reads again. Returns text about offsets that differ; empty if none does."""
        try:
            self.cluster.set_offsets(group_id, offsets)
            problem = ""
        except ClusterFailed as error:
            if error.is_unreachable:
                raise MigrationStopped(f"at group {group_id!r}: it may be written in part") from (
                    error
                )
            problem = str(error)
        [group] = self.cluster.read([group_id])
        there = {each.topic_partition: each.offset for each in group.offsets}
        missing = [str(where) for where, each in offsets.items() if there.get(where) != each.offset]
        if group.problem or not missing:
            return group.problem or problem
        return f"offsets that are not written: {len(missing)} of {len(offsets)}: {problem}"
