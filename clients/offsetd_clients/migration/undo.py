"""The undo of a run in offsetd: it restores the offsets that were stored before."""

from collections.abc import Iterator
from typing import Any

from offsetd_clients import Group, OffsetdError, TopicPartition
from offsetd_clients.migration.migration_journal import Entry, Journal, Step
from offsetd_clients.migration.outcomes import (
    GroupOutcome,
    MigrationStopped,
    Outcome,
    counted,
    in_chunks,
    outcome_of,
)
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.run_entries import (
    Written,
    changed_others,
    retention_text,
    written_by,
)
from offsetd_clients.migration.target import Put, Stored, Target, alive_here, is_groups_own
from offsetd_clients.migration.values import FoundOffset, PlannedGroup


def undo(
    plan: Plan, journal: Journal, target: Target, *, execute: bool = False
) -> Iterator[GroupOutcome]:
    """Undoes the groups that the run has stored, unless others wrote to them since.

    Raises MigrationStopped for problems that do not concern one group only.
    """
    for chunk in in_chunks(plan.groups()):
        try:
            stored = target.stored(group.group_id for group in chunk)
        except OffsetdError as error:
            raise MigrationStopped("the server does not say what is stored") from error
        for group in chunk:
            entry = journal.latest(Step.RUN, group.group_id)
            if entry is not None:
                yield _undone(journal, target, group, entry, stored[group.group_id], execute)


def _undone(
    journal: Journal,
    target: Target,
    group: PlannedGroup,
    entry: Entry,
    stored: Stored,
    execute: bool,
) -> GroupOutcome:
    newest = journal.newest_step(group.group_id)
    last = journal.latest(Step.UNDO, group.group_id)
    if last is not None and last.is_done and newest is Step.UNDO:
        return outcome_of(group, Outcome.ALREADY)
    if journal.is_cut_over(group.group_id):
        return outcome_of(group, Outcome.REFUSED, problem="it was cut over: roll that back first")
    left, problem = _left(entry, stored)
    if problem:
        return outcome_of(group, Outcome.REFUSED, problem=problem)
    try:
        problem = alive_here(target, group.group_id)
        if problem:
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        if not execute:
            return outcome_of(group, Outcome.WOULD_UNDO, count=len(left))
        begun = journal.begin(Step.UNDO, group.group_id, None)
        count, problem = _take_back(target, group.group_id, entry)
    except OffsetdError as error:
        if is_groups_own(error):
            return outcome_of(group, Outcome.REFUSED, problem=f"{error.reason}: {error}")
        raise MigrationStopped(f"at group {group.group_id!r}") from error
    if problem:
        return outcome_of(group, Outcome.REFUSED, problem=problem)
    journal.finish(begun, None)
    return outcome_of(group, Outcome.UNDONE, count=count)


def _left(entry: Entry, stored: Stored) -> tuple[list[Written], str]:
    """Returns the offsets left to undo, and the reason not to undo them: others wrote since."""
    left: list[Written] = []
    changed: list[TopicPartition] = []
    written = written_by(entry, stored)
    for each in written:
        now = stored.get(each.partition)
        if now is not None and now.revision == each.revision:
            left.append(each)
        elif not each.is_as_before(stored):
            changed.append(each.partition)
    changed += changed_others(entry, written, stored)
    if not changed:
        return left, ""
    named = ", ".join(map(str, changed[:3]))
    return left, f"{counted(changed, 'offset')} written since the run, as {named}"


def _take_back(target: Target, group_id: str, entry: Entry) -> tuple[int, str]:
    """Undoes a group. Returns the number of undone offsets, and the reason if it refuses.

    A deletion has no precondition. So the group is read again just before; a commit between these
    two calls is lost. The undo can be repeated: the next attempt completes one that was killed.
    """
    here = target.group(group_id)
    stored = target.stored([group_id])[group_id]
    left, problem = _left(entry, stored)
    if problem:
        return 0, problem
    is_whole = {each.partition for each in left} == set(stored)
    is_runs = entry.details["existed"] is None and not _has_own_retention(here, entry)
    if left and is_whole and is_runs:
        target.delete_group(group_id)
        return len(left), ""
    gone = [each.partition for each in left if each.before is None]
    if gone:
        target.delete(group_id, gone)
    puts = [
        Put(_found(each.partition, each.before), each.revision)
        for each in left
        if each.before is not None
    ]
    if puts:
        target.put(group_id, puts)
    if here is not None and here.retention is not None and not _has_own_retention(here, entry):
        target.set_retention(group_id, None, request_id="")
    return len(left), ""


def _has_own_retention(here: Group | None, entry: Entry) -> bool:
    """Whether a group has a retention that no run has set: a run sets one only if there is none."""
    if here is None or here.retention is None:
        return False
    was_set = entry.details.get("set")
    return was_set is None or was_set["retention"] != retention_text(here.retention)


def _found(partition: TopicPartition, before: list[Any]) -> FoundOffset:
    offset, leader_epoch, metadata, commit_time_ms, _ = before
    return FoundOffset(
        topic=partition.topic,
        partition=partition.partition,
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_time_ms=commit_time_ms,
    )
