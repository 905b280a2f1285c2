"""The run: what a plan has is stored here, group by group, each as a whole or not at all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import attrs

from offsetd_clients import Bounds, CommittedOffset, OffsetdError, Retention, TopicPartition
from offsetd_clients.migration.differences import GONE, Difference, State, differences
from offsetd_clients.migration.journal import Entry, Journal, Step, request_id_of
from offsetd_clients.migration.outcomes import (
    GroupOutcome,
    MigrationStopped,
    Outcome,
    counted,
    in_chunks,
)
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.rates import RateLimit
from offsetd_clients.migration.target import Put, Stored, Target, is_groups_own, milliseconds
from offsetd_clients.migration.values import FoundOffset, PlannedGroup

_REFUSED_LISTED_MAX = 3


@attrs.frozen(kw_only=True)
class RunOptions:
    """`overwrite`: what stands here in these states is replaced. `allow_partial`: what was found
    of groups with problems is moved. `retention` is set for each group that has none of its own, if
    `sets_retention`.
    `objection` says, of a group that is about to be moved, why it must not be (empty: it may).
    """

    execute: bool = False
    overwrite: frozenset[State] = frozenset()
    allow_partial: bool = False
    check_bounds: bool = False
    sets_retention: bool = True
    retention: Retention = "never"
    objection: Callable[[PlannedGroup], str] = lambda _: ""


def run(
    plan: Plan, journal: Journal, target: Target, options: RunOptions, limit: RateLimit
) -> Iterator[GroupOutcome]:
    """What became of each group. Raises MigrationStopped where that is no group's own matter."""
    for chunk in in_chunks(plan.groups()):
        try:
            stored = target.stored(group.group_id for group in chunk)
            bounds = target.bounds(_partitions(chunk)) if options.check_bounds else {}
        except OffsetdError as error:
            raise MigrationStopped("the server does not say what is stored") from error
        for group in chunk:
            yield _Runner(plan, journal, target, options, limit).run(
                group, stored[group.group_id], bounds
            )


def _partitions(groups: Sequence[PlannedGroup]) -> list[TopicPartition]:
    return list(dict.fromkeys(each.topic_partition for group in groups for each in group.offsets))


@attrs.frozen
class _Runner:
    """One group at a time."""

    plan: Plan
    journal: Journal
    target: Target
    options: RunOptions
    limit: RateLimit

    def run(
        self, group: PlannedGroup, stored: Stored, bounds: Mapping[TopicPartition, Bounds]
    ) -> GroupOutcome:
        entry = self.journal.latest(Step.RUN, group.group_id)
        found = differences(group.group_id, group.offsets, stored, bounds)
        is_stored = all(each.stored is not None for each in found)
        if entry and entry.is_done and is_stored and not self._is_taken_back(group.group_id):
            return _outcome(group, Outcome.ALREADY)
        chosen = [each for each in found if each.state is not State.EQUAL]
        problem = refusal(group, found, self.options)
        if not problem and chosen:
            problem = self.options.objection(group)
        if problem:
            return _outcome(group, Outcome.REFUSED, problem=problem)
        try:
            return self._store(group, entry, chosen, stored)
        except OffsetdError as error:
            if is_groups_own(error):
                return _outcome(group, Outcome.REFUSED, problem=_told(error))
            raise MigrationStopped(f"at group {group.group_id!r}") from error

    def _store(
        self,
        group: PlannedGroup,
        entry: Entry | None,
        chosen: Sequence[Difference],
        stored: Stored,
    ) -> GroupOutcome:
        puts = [
            Put(each.found, None if each.stored is None else each.stored.revision)
            for each in chosen
        ]
        if not self.options.execute:
            return self._looked_at(group, puts)
        if not puts and entry and not entry.is_done and entry.details["puts"]:
            self._finish(entry, stored)  # It was stored, and then we were killed.
            return _outcome(group, Outcome.MIGRATED, count=len(entry.details["puts"]))
        self.limit.wait(len(puts))
        entry = self._begun(group, entry, chosen)
        request_id = request_id_of(self.plan.plan_id, entry)
        existed = entry.details["existed"]
        has_own = existed is not None and existed["retention"] is not None
        if self.options.sets_retention and group.offsets and not has_own:
            self.target.set_retention(group.group_id, self.options.retention, request_id)
        revision = self.target.put(group.group_id, puts, request_id=request_id) if puts else None
        self.journal.finish(entry, {"revision": revision and revision.log_offset})
        return _outcome(group, Outcome.MIGRATED if puts else Outcome.ALREADY, count=len(puts))

    def _looked_at(self, group: PlannedGroup, puts: Sequence[Put]) -> GroupOutcome:
        """The server says whether it would take them."""
        if puts:
            self.target.put(group.group_id, puts, validate_only=True)
        outcome = Outcome.WOULD_MIGRATE if puts else Outcome.ALREADY
        return _outcome(group, outcome, count=len(puts))

    def _begun(
        self, group: PlannedGroup, entry: Entry | None, chosen: Sequence[Difference]
    ) -> Entry:
        """The attempt that a kill has cut, if it was to do the very same; else a new one."""
        puts = [[*_identity(each.found), image_of(each.stored)] for each in chosen]
        if entry and not entry.is_done and entry.details["puts"] == puts:
            return entry
        before = self.target.group(group.group_id)
        existed = None if before is None else {"retention": retention_text(before.retention)}
        return self.journal.begin(Step.RUN, group.group_id, {"existed": existed, "puts": puts})

    def _finish(self, entry: Entry, stored: Stored) -> None:
        written = [
            TopicPartition(topic, partition) for topic, partition, *_ in entry.details["puts"]
        ]
        revisions = [stored[each].revision for each in written if each in stored]
        self.journal.finish(entry, {"revision": max(revisions)})

    def _is_taken_back(self, group_id: str) -> bool:
        return self.journal.newest_step(group_id) in (Step.UNDO, Step.ROLLBACK)


def refusal(group: PlannedGroup, found: Sequence[Difference], options: RunOptions) -> str:
    """Why a group is not moved, for people; empty: it is."""
    if group.problems and not options.allow_partial:
        return f"{counted(group.problems, 'problem')}: {_listed(map(str, group.problems))}"
    against = [
        each
        for each in found
        if each.state is State.OUT_OF_BOUNDS
        or (each.state not in (State.MISSING, State.EQUAL) and each.state not in options.overwrite)
    ]
    if against:
        return f"{counted(against, 'offset')}: {_listed(map(difference_text, against))}"
    return ""


def difference_text(difference: Difference) -> str:
    """One, for people: `orders:0 is ahead here: 50, not 42`."""
    found, stored = difference.found, difference.stored
    if difference.bounds == GONE:
        return f"{found.topic_partition} is not there"
    if difference.state is State.OUT_OF_BOUNDS and difference.bounds is not None:
        earliest, latest = difference.bounds.earliest, difference.bounds.latest
        return f"{found.topic_partition} has no {found.offset}: it has {earliest} to {latest}"
    here = "nothing" if stored is None else stored.offset
    return f"{found.topic_partition} is {difference.state} here: {here}, not {found.offset}"


def image_of(stored: CommittedOffset | None) -> list[Any] | None:
    """What is stored, as a journal keeps it: offset, leader epoch, metadata, commit time."""
    if stored is None:
        return None
    return [
        stored.offset,
        stored.leader_epoch,
        stored.metadata,
        milliseconds(stored.commit_time),
        stored.revision,
    ]


def retention_text(retention: Retention) -> int | str | None:
    """A retention as a journal keeps it: milliseconds, "never", or None."""
    if isinstance(retention, timedelta):
        return round(retention.total_seconds() * 1000)
    return retention


def _identity(found: FoundOffset) -> list[Any]:
    return [found.topic, found.partition, found.offset]


def _listed(texts: Iterator[str]) -> str:
    listed = list(texts)
    more = len(listed) - _REFUSED_LISTED_MAX
    return "; ".join(listed[:_REFUSED_LISTED_MAX]) + (f"; and {more} more" if more > 0 else "")


def _told(error: OffsetdError) -> str:
    return f"{error.reason}: {error}" if error.reason else str(error)


def _outcome(
    group: PlannedGroup, outcome: Outcome, *, count: int = 0, problem: str = ""
) -> GroupOutcome:
    return GroupOutcome(
        group_id=group.group_id,
        source_group_id=group.source_group_id,
        outcome=outcome,
        offset_count=count,
        problem=problem,
    )
