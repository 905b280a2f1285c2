"""A task's work on a file of a plan: makes it, runs it, or verifies it. It does not use Spark."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs
from offsetd_clients import OffsetConflict, OffsetdError, RetryPolicy
from offsetd_clients.migration.differences import State, differences
from offsetd_clients.migration.outcomes import Outcome, counted, in_chunks, listed
from offsetd_clients.migration.rates import RateLimit
from offsetd_clients.migration.run import (
    RunOptions,
    difference_text,
    expiring_text,
    objection_by_plan,
    refusal,
)
from offsetd_clients.migration.target import Target, is_groups_own

from offsetd_pipeline.migration.plan_folder import (
    DRY_RUN,
    FOUND,
    OUTCOMES,
    PLAN,
    VERIFIED,
    PlanFolder,
)
from offsetd_pipeline.migration.plan_rows import (
    DIFFERENCE_SCHEMA,
    OUTCOME_SCHEMA,
    PLAN_SCHEMA,
    GroupPlan,
    difference_row,
    found_groups,
    plan_rows,
    planned_groups,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from offsetd_clients import Retention
    from offsetd_clients.migration.selection import Selection
    from offsetd_clients.migration.values import PlannedGroup

    from offsetd_pipeline.server_options import ServerOptions

_CALLS_AT_ONCE: Final = 8
_DONE: Final = (Outcome.MIGRATED, Outcome.ALREADY)


@attrs.frozen(kw_only=True)
class UnitWork:
    """Everything that a task needs to know. It is sent to the executors.

    `overwrite`: the states in which stored offsets are replaced. If `sets_retention`, `retention`
    is set for each group that has no retention of its own. `retentions` has the groups that have
    one.
    """

    folder: PlanFolder
    server: ServerOptions
    plan_id: str
    selection: Selection
    overwrite: frozenset[State]
    allow_partial: bool
    force: bool
    has_members: bool
    sets_retention: bool
    retention: Retention
    default_retention: Retention
    retentions: Mapping[str, Retention]
    reason: str
    is_audited: bool
    timeout_s: float
    rate: float | None = None

    @contextmanager
    def session(self) -> Iterator[UnitSession]:
        """The connection of a task to the server."""
        with self.server.client(RetryPolicy(timeout_s=self.timeout_s)) as client:
            yield UnitSession(self, Target(client, reason=self.reason), RateLimit(self.rate))

    @property
    def request_id(self) -> str:
        """The id of all requests: the server distinguishes them by group, not by unit."""
        return f"migrate-{self.plan_id}"


@attrs.frozen
class UnitSession:
    """The connection of one task: the server, and its rate limit. `rate` is that of one task."""

    work: UnitWork
    target: Target
    limit: RateLimit


# Planning.


def plan_unit(session: UnitSession, unit: str) -> dict[str, int]:
    """Makes a file of the plan from the found offsets. Returns its totals, by name."""
    work = session.work
    counts: dict[str, int] = {}

    def rows() -> Iterator[dict[str, Any]]:
        found = work.folder.rows(FOUND, unit)
        groups = found_groups(found, work.selection, has_members=work.has_members)
        for chunk in in_chunks(groups):
            stored = session.target.stored(group.group_id for group in chunk)
            for group in chunk:
                mine = differences(group.group_id, group.offsets, stored[group.group_id])
                why_not = _refusal(work, group, mine)
                _add(counts, "groups")
                _add(counts, "refused", bool(why_not))
                for each in mine:
                    _add(counts, str(each.state))
                yield from plan_rows(
                    group,
                    mine,
                    refusal=why_not,
                    sets_retention=work.sets_retention and group.group_id not in work.retentions,
                )

    work.folder.write_rows(PLAN, unit, rows(), PLAN_SCHEMA)
    return counts


def _refusal(work: UnitWork, group: PlannedGroup, found: Sequence[Any]) -> str:
    options = RunOptions(overwrite=work.overwrite, allow_partial=work.allow_partial)
    problem = refusal(group, found, options)
    to_put = [each.found for each in found if each.state is not State.EQUAL]
    if not problem and to_put and work.has_members and not work.force:
        problem = objection_by_plan(group)
    if problem:
        return problem
    retention = work.retentions.get(group.group_id)
    if retention is None and work.sets_retention:
        retention = work.retention
    if retention is None:
        retention = work.default_retention
    return expiring_text(to_put, retention, now_ms=time.time_ns() // 1_000_000)


def _add(counts: dict[str, int], name: str, count: int = 1) -> None:
    counts[name] = counts.get(name, 0) + count


# Running.


def run_unit(session: UnitSession, unit: str, *, execute: bool) -> dict[str, int]:
    """Writes the groups of a file of the plan, or validates them. Notes the outcome of each.

    Groups noted as done are skipped. Raises OffsetdError if an error does not concern one group
    only; then nothing is noted, and the work can be repeated.
    """
    folder = session.work.folder
    done: dict[str, dict[str, Any]] = {}
    if unit in folder.units(OUTCOMES):
        rows = folder.rows(OUTCOMES, unit)
        done = {each["group"]: each for each in rows if each["outcome"] in _DONE}

    def outcomes() -> Iterator[dict[str, Any]]:
        for each in done.values():
            yield each if execute else {**each, "outcome": str(Outcome.ALREADY), "offsets": 0}
        groups = planned_groups(folder.rows(PLAN, unit))
        left = (each for each in groups if each.group_id not in done)
        for chunk in in_chunks(left):
            yield from _run_chunk(session, chunk, execute=execute)

    folder.write_rows(OUTCOMES if execute else DRY_RUN, unit, outcomes(), OUTCOME_SCHEMA)
    return {}


def _run_chunk(
    session: UnitSession, chunk: Sequence[GroupPlan], *, execute: bool
) -> Iterator[dict[str, Any]]:
    work, target = session.work, session.target
    puts = {each.group_id: each.puts for each in chunk if not each.refusal and each.puts}
    errors: dict[str, OffsetdError | None] = {}
    problems: dict[str, str] = {}
    if puts:
        if execute:
            session.limit.wait(sum(map(len, puts.values())))
            problems = _set_retentions(
                work, target, [each for each in chunk if each.group_id in puts]
            )
        errors = target.put_many(
            {group_id: of_one for group_id, of_one in puts.items() if group_id not in problems},
            request_id=work.request_id if execute else None,
            validate_only=not execute,
            is_audited=work.is_audited,
        )
    moved = [each for each in chunk if isinstance(errors.get(each.group_id), OffsetConflict)]
    already = _standing(target, moved)
    for each in chunk:
        problem = each.refusal or problems.get(each.group_id) or already.get(each.group_id, "")
        error = errors.get(each.group_id)
        if error is not None and each.group_id not in already:
            if not is_groups_own(error):
                raise error
            problem = f"{error.reason}: {error}" if error.reason else str(error)
        count = len(puts.get(each.group_id, ()))
        if problem:
            outcome, count = Outcome.REFUSED, 0
        elif not count or each.group_id in already:
            outcome, count = Outcome.ALREADY, 0
        else:
            outcome = Outcome.MIGRATED if execute else Outcome.WOULD_MIGRATE
        yield {
            "group": each.group_id,
            "source_group": each.source_group_id,
            "outcome": str(outcome),
            "offsets": count,
            "problem": problem or None,
        }


def _standing(target: Target, groups: Sequence[GroupPlan]) -> dict[str, str]:
    """The reason to refuse each group that was written since the plan.

    A reason is empty if all planned offsets are stored: an earlier run, which was killed, wrote
    them.
    """
    if not groups:
        return {}
    stored = target.stored(each.group_id for each in groups)
    found = {}
    for each in groups:
        compared = differences(each.group_id, each.offsets, stored[each.group_id])
        other = [one for one in compared if one.state is not State.EQUAL]
        told = listed([*map(difference_text, other)])
        found[each.group_id] = (
            f"written here since the plan: {counted(other, 'offset')}: {told}" if other else ""
        )
    return found


def _set_retentions(work: UnitWork, target: Target, groups: Sequence[GroupPlan]) -> dict[str, str]:
    """Sets retentions first, so that written offsets do not expire at once.

    Returns the refusals.
    """

    def set_one(group: GroupPlan) -> tuple[str, str]:
        try:
            target.set_retention(group.group_id, work.retention, work.request_id)
        except OffsetdError as error:
            if not is_groups_own(error):
                raise
            return group.group_id, str(error)
        return group.group_id, ""

    wanted = [each for each in groups if each.sets_retention]
    if not wanted:
        return {}
    with ThreadPoolExecutor(_CALLS_AT_ONCE) as pool:
        return {group_id: problem for group_id, problem in pool.map(set_one, wanted) if problem}


# Verifying.


def verify_unit(session: UnitSession, unit: str, *, good: frozenset[State]) -> dict[str, int]:
    """Notes the offsets of a file of the plan that are not on the server in a good state."""
    folder, count, ahead_count = session.work.folder, 0, 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal count, ahead_count
        for chunk in in_chunks(planned_groups(folder.rows(PLAN, unit))):
            stored = session.target.stored(each.group_id for each in chunk)
            for group in chunk:
                count += len(group.offsets)
                for each in differences(group.group_id, group.offsets, stored[group.group_id]):
                    if each.state not in good:
                        yield difference_row(each)
                    elif each.state is State.AHEAD:
                        ahead_count += 1

    folder.write_rows(VERIFIED, unit, rows(), DIFFERENCE_SCHEMA)
    return {"offsets": count, "ahead": ahead_count}
