"""The way back here: what a run has stored becomes again what it was before."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import attrs

from offsetd_clients import OffsetdError, Retention, TopicPartition
from offsetd_clients.migration.journal import Entry, Journal, Step
from offsetd_clients.migration.outcomes import (
    GroupOutcome,
    MigrationStopped,
    Outcome,
    counted,
    in_chunks,
)
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.run import image_of
from offsetd_clients.migration.target import Put, Stored, Target, is_groups_own
from offsetd_clients.migration.values import FoundOffset, PlannedGroup


@attrs.frozen
class _Written:
    """An offset that the run stored: at what revision, and what was there before (an image)."""

    partition: TopicPartition
    revision: int
    before: list[Any] | None


def undo(
    plan: Plan, journal: Journal, target: Target, *, execute: bool = False
) -> Iterator[GroupOutcome]:
    """Groups that the run has stored, each only as far as nobody wrote to it since.

    Raises MigrationStopped where something is no group's own matter.
    """
    for chunk in in_chunks(plan.groups()):
        try:
            stored = target.stored(group.group_id for group in chunk)
        except OffsetdError as error:
            raise MigrationStopped("the server does not say what is stored") from error
        for group in chunk:
            entry = journal.latest(Step.RUN, group.group_id)
            if entry is not None and entry.is_done:
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
        return _outcome(group, Outcome.ALREADY)
    if newest is Step.CUTOVER:
        return _outcome(group, Outcome.REFUSED, problem="it was cut over: roll that back first")
    left, changed = _left(_written(entry), stored)
    if changed:
        named = ", ".join(map(str, changed[:3]))
        problem = f"{counted(changed, 'offset')} written since the run, as {named}"
        return _outcome(group, Outcome.REFUSED, problem=problem)
    if not execute:
        return _outcome(group, Outcome.WOULD_UNDO, len(left))
    begun = journal.begin(Step.UNDO, group.group_id, None)
    try:
        _take_back(target, group.group_id, entry, left, stored)
    except OffsetdError as error:
        if is_groups_own(error):
            return _outcome(group, Outcome.REFUSED, problem=f"{error.reason}: {error}")
        raise MigrationStopped(f"at group {group.group_id!r}") from error
    journal.finish(begun, None)
    return _outcome(group, Outcome.UNDONE, len(left))


def _written(entry: Entry) -> list[_Written]:
    puts = entry.details["puts"]
    if not puts:
        return []
    first = entry.result["revision"] - len(puts) + 1
    return [
        _Written(TopicPartition(topic, partition), revision, before)
        for revision, (topic, partition, _, before) in enumerate(puts, first)
    ]


def _left(written: list[_Written], stored: Stored) -> tuple[list[_Written], list[TopicPartition]]:
    """What is still to be taken back, and what somebody else has written."""
    left, changed = [], []
    for each in written:
        now = stored.get(each.partition)
        if now is not None and now.revision == each.revision:
            left.append(each)
        elif not _is_as_before(each, stored):
            changed.append(each.partition)
    return left, changed


def _is_as_before(each: _Written, stored: Stored) -> bool:
    now = image_of(stored.get(each.partition))
    if now is None or each.before is None:
        return now is each.before
    return now[:3] == each.before[:3]


def _take_back(
    target: Target, group_id: str, entry: Entry, left: list[_Written], stored: Stored
) -> None:
    """Twice the same does no harm: a kill in its middle is made good by the next try."""
    existed = entry.details["existed"]
    if existed is None and {each.partition for each in left} == set(stored):
        target.delete_group(group_id)
        return
    puts = [Put(_found(each), each.revision) for each in left if each.before is not None]
    if puts:
        target.put(group_id, puts)
    gone = [each.partition for each in left if each.before is None]
    if gone:
        target.delete(group_id, gone)
    if existed is not None:
        target.set_retention(group_id, _retention(existed["retention"]), request_id="")


def _found(each: _Written) -> FoundOffset:
    assert each.before is not None, "it was there"
    offset, leader_epoch, metadata, commit_time_ms, _ = each.before
    return FoundOffset(
        topic=each.partition.topic,
        partition=each.partition.partition,
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_time_ms=commit_time_ms,
    )


def _retention(kept: int | str | None) -> Retention:
    if isinstance(kept, int):
        return timedelta(milliseconds=kept)
    return "never" if kept == "never" else None


def _outcome(
    group: PlannedGroup, outcome: Outcome, count: int = 0, *, problem: str = ""
) -> GroupOutcome:
    return GroupOutcome(
        group_id=group.group_id,
        source_group_id=group.source_group_id,
        outcome=outcome,
        offset_count=count,
        problem=problem,
    )
