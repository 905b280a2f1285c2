"""The run stores the offsets of a plan in offsetd, each group as a whole or not at all."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeGuard

import attrs

from offsetd_clients import Bounds, Group, OffsetdError, Retention, TopicPartition
from offsetd_clients.migration.differences import GONE, Difference, State, differences
from offsetd_clients.migration.migration_journal import Entry, Journal, Step, request_id_of
from offsetd_clients.migration.outcomes import (
    GroupOutcome,
    MigrationStopped,
    Outcome,
    counted,
    in_chunks,
    listed,
    outcome_of,
)
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.rates import RateLimit
from offsetd_clients.migration.run_entries import (
    carried_of,
    image_of,
    others_of,
    retention_of,
    retention_text,
    written_by,
)
from offsetd_clients.migration.target import (
    Put,
    Stored,
    Target,
    is_groups_own,
    time_of,
)
from offsetd_clients.migration.values import FoundOffset, PlannedGroup

_NOT_AGAINST = frozenset((State.MISSING, State.EQUAL, State.DELETED))
"""Differences that do not stop a group: a run follows the plan, and deletes nothing."""


@attrs.frozen(kw_only=True)
class RunOptions:
    """The options of a run.

    `overwrite`: the states in which stored offsets are replaced.
    `allow_partial`: of groups with problems, the offsets that were found are moved. If
    `sets_retention`, `retention` is set for each group that has no retention of its own.
    `objection`: called for each group before it is moved; returns why it must not be moved, or an
    empty string.
    `now_ms`: the time since 1970, in milliseconds.
    """

    execute: bool = False
    overwrite: frozenset[State] = frozenset()
    allow_partial: bool = False
    check_bounds: bool = False
    sets_retention: bool = True
    retention: Retention = "never"
    objection: Callable[[PlannedGroup], str] = lambda _: ""
    now_ms: Callable[[], int] = lambda: round(time.time() * 1000)


def run(
    plan: Plan, journal: Journal, target: Target, options: RunOptions, limit: RateLimit
) -> Iterator[GroupOutcome]:
    """Yields the outcome of each group.

    Raises MigrationStopped for problems that do not concern one group only.
    """
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
    """Runs one group at a time."""

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
            return outcome_of(group, Outcome.ALREADY)
        chosen = [each for each in found if each.state is not State.EQUAL]
        problem = refusal(group, found, self.options)
        if not problem and chosen:
            problem = self.options.objection(group)
        if problem:
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        try:
            return self._store(group, entry, found, stored)
        except OffsetdError as error:
            if is_groups_own(error):
                return outcome_of(group, Outcome.REFUSED, problem=_told(error))
            raise MigrationStopped(f"at group {group.group_id!r}") from error

    def _store(
        self,
        group: PlannedGroup,
        entry: Entry | None,
        found: Sequence[Difference],
        stored: Stored,
    ) -> GroupOutcome:
        chosen = [each for each in found if each.state is not State.EQUAL]
        puts = [
            Put(each.found, None if each.stored is None else each.stored.revision)
            for each in chosen
        ]
        newest = self.journal.newest_step(group.group_id)
        if not puts and entry and entry.is_done and newest is not Step.UNDO:
            return outcome_of(group, Outcome.ALREADY)
        if not self.options.execute:
            return self._looked_at(group, puts)
        if not puts and _is_cut_short(entry, newest) and entry.details["puts"]:
            # The offsets were stored, but the run was killed before it noted this.
            self._finish(entry, stored)
            return outcome_of(group, Outcome.MIGRATED, count=len(entry.details["puts"]))
        self.limit.wait(len(puts))
        here = self.target.group(group.group_id)
        problem = self._expired(puts, here)
        if problem:
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        entry = self._begun(group, entry, found, stored, here)
        request_id = request_id_of(self.plan.plan_id, entry)
        to_set = entry.details["set"]
        if to_set is not None and self._sets_retention(group, here):
            retention = retention_of(to_set["retention"])
            self.target.set_retention(group.group_id, retention, request_id)
        revision = self.target.put(group.group_id, puts, request_id=request_id) if puts else None
        self.journal.finish(entry, {"revision": revision and revision.log_offset})
        return outcome_of(group, Outcome.MIGRATED if puts else Outcome.ALREADY, count=len(puts))

    def _looked_at(self, group: PlannedGroup, puts: Sequence[Put]) -> GroupOutcome:
        """Asks the server to validate the offsets."""
        if not puts:
            return outcome_of(group, Outcome.ALREADY)
        problem = self._expired(puts, self.target.group(group.group_id))
        if problem:
            return outcome_of(group, Outcome.REFUSED, problem=problem)
        self.target.put(group.group_id, puts, validate_only=True)
        return outcome_of(group, Outcome.WOULD_MIGRATE, count=len(puts))

    def _expired(self, puts: Sequence[Put], here: Group | None) -> str:
        """Names offsets that are so old that they would expire at once; else empty."""
        retention = None if here is None else here.retention
        if retention is None and self.options.sets_retention:
            retention = self.options.retention
        if retention is None:
            retention = self.target.default_retention()
        return expiring_text([each.found for each in puts], retention, now_ms=self.options.now_ms())

    def _begun(
        self,
        group: PlannedGroup,
        entry: Entry | None,
        found: Sequence[Difference],
        stored: Stored,
        here: Group | None,
    ) -> Entry:
        """Returns the attempt that was killed, if it had the same work; else a new attempt.

        A new attempt carries the offsets that earlier ones stored, so that all of them can be
        undone.
        """
        chosen = [each for each in found if each.state is not State.EQUAL]
        puts = [[*_identity(each.found), image_of(each.stored)] for each in chosen]
        newest = self.journal.newest_step(group.group_id)
        if _is_cut_short(entry, newest) and entry.details["puts"] == puts:
            return entry
        details = {
            "existed": None if here is None else {"retention": retention_text(here.retention)},
            "set": None,
            "puts": puts,
            "orders": [each.found.order for each in chosen],
            "equal": [
                [each.found.topic, each.found.partition, each.stored.revision, each.found.order]
                for each in found
                if each.stored is not None and each.state is State.EQUAL
            ],
            "others": others_of(stored, puts),
            "carried": [],
        }
        if entry is not None and here is not None and not self._is_undone(group.group_id):
            details["existed"] = entry.details["existed"]
            details["set"] = entry.details.get("set")
            details["carried"] = carried_of(written_by(entry, stored), puts)
            details["others"] = entry.details.get("others")
        if self._sets_retention(group, here):
            details["set"] = {"retention": retention_text(self.options.retention)}
        return self.journal.begin(Step.RUN, group.group_id, details)

    def _sets_retention(self, group: PlannedGroup, here: Group | None) -> bool:
        has_own = here is not None and here.retention is not None
        return self.options.sets_retention and bool(group.offsets) and not has_own

    def _finish(self, entry: Entry, stored: Stored) -> None:
        written = [
            TopicPartition(topic, partition) for topic, partition, *_ in entry.details["puts"]
        ]
        revisions = [stored[each].revision for each in written if each in stored]
        self.journal.finish(entry, {"revision": max(revisions)})

    def _is_taken_back(self, group_id: str) -> bool:
        return self.journal.newest_step(group_id) in (Step.UNDO, Step.ROLLBACK)

    def _is_undone(self, group_id: str) -> bool:
        undone = self.journal.latest(Step.UNDO, group_id)
        is_newer = self.journal.is_begun_behind(Step.UNDO, Step.RUN, group_id)
        return undone is not None and undone.is_done and is_newer


def _is_cut_short(entry: Entry | None, newest: Step | None) -> TypeGuard[Entry]:
    """Whether a run was killed, and no step was begun since."""
    return entry is not None and not entry.is_done and newest is Step.RUN


def refusal(group: PlannedGroup, found: Sequence[Difference], options: RunOptions) -> str:
    """The reason why a group is not moved, as text for users; empty if it is moved."""
    if group.problems and not options.allow_partial:
        return f"{counted(group.problems, 'problem')}: {listed([*map(str, group.problems)])}"
    against = [
        each
        for each in found
        if each.state is State.OUT_OF_BOUNDS
        or (each.state not in _NOT_AGAINST and each.state not in options.overwrite)
    ]
    if against:
        return f"{counted(against, 'offset')}: {listed([*map(difference_text, against)])}"
    return ""


def objection_by_plan(planned: PlannedGroup) -> str:
    """The reason not to move a group: it had live members when it was planned. Else empty."""
    if planned.owners is None:
        return "whether it has members could not be read"
    return f"it had {listed(planned.owners)}" if planned.owners else ""


def expiring_text(found: Sequence[FoundOffset], retention: Retention, *, now_ms: int) -> str:
    """Names offsets that are so old that they would expire at once; else empty."""
    if not isinstance(retention, timedelta):
        return ""
    kept_since = now_ms - round(retention.total_seconds() * 1000)
    gone = [
        f"{each.topic_partition} is of {time_of(each.commit_time_ms)}"
        for each in found
        if each.commit_time_ms is not None and each.commit_time_ms <= kept_since
    ]
    if not gone:
        return ""
    return f"{counted(gone, 'offset')} would expire at once, kept for {retention}: {listed(gone)}"


def difference_text(difference: Difference) -> str:
    """A difference as text for users: `orders:0 is ahead here: 50, not 42`."""
    found, stored = difference.found, difference.stored
    if difference.bounds == GONE:
        return f"{found.topic_partition} is not there"
    if difference.state is State.OUT_OF_BOUNDS and difference.bounds is not None:
        earliest, latest = difference.bounds.earliest, difference.bounds.latest
        return f"{found.topic_partition} has no {found.offset}: it has {earliest} to {latest}"
    here = "nothing" if stored is None else stored.offset
    return f"{found.topic_partition} is {difference.state} here: {here}, not {found.offset}"


def _identity(found: FoundOffset) -> list[Any]:
    return [found.topic, found.partition, found.offset]


def _told(error: OffsetdError) -> str:
    return f"{error.reason}: {error}" if error.reason else str(error)
