"""The output of the steps of every migration: rows on stdout, everything else on stderr."""

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from os import getpid
from pathlib import Path
from typing import Annotated, Any

import typer

from offsetd_clients import OffsetdError
from offsetd_clients.cli.arguments.time_spans import parse_retention
from offsetd_clients.cli.connection import explain
from offsetd_clients.cli.printing.dry_runs import told_dry_run
from offsetd_clients.cli.printing.plain_text import error_words
from offsetd_clients.cli.printing.terminal import (
    EXIT_FAILED,
    EXIT_PARTLY,
    Row,
    Terminal,
    named_id,
)
from offsetd_clients.migration.batch_sizes import MESSAGE_BYTES_DEFAULT, batch_bytes_most
from offsetd_clients.migration.differences import Difference, State
from offsetd_clients.migration.migration_journal import Journal
from offsetd_clients.migration.outcomes import GroupOutcome, MigrationStopped, Outcome
from offsetd_clients.migration.plan_file import (
    Plan,
    PlanSummary,
    planned_groups,
    write_plan,
)
from offsetd_clients.migration.run import RunOptions, refusal
from offsetd_clients.migration.selection import Selection
from offsetd_clients.migration.target import Target, time_of
from offsetd_clients.migration.values import (
    MigrationError,
    PlannedGroup,
    Problem,
    Source,
)
from offsetd_clients.migration.verify import compared
from offsetd_clients.plurals import counted

PLAN_COLUMNS = ("source_group", "group", "offsets", "owners", "last_commit_time", "problems")
DIFF_COLUMNS = (
    "group",
    "topic",
    "partition",
    "offset",
    "stored",
    "state",
    "commit_time",
    "stored_commit_time",
    "place",
)
PLAN_DROPPABLE = ("last_commit_time", "owners")
DIFF_DROPPABLE = ("place", "stored_commit_time", "commit_time")
OUTCOME_COLUMNS = ("group", "source_group", "outcome", "offsets", "problem")
_PROBLEMS_LISTED_MAX = 20
_RETENTION_AS_IS = "as-is"
_TOLD_APART = {State.AHEAD: "ahead here", State.DELETED: "deleted at the source"}

_OVERWRITABLE = (State.BEHIND, State.AHEAD, State.CONFLICT)


def overwritable(text: str) -> State:
    """Reads a state of stored offsets that a run may replace, for typer."""
    if text not in list(_OVERWRITABLE):
        raise typer.BadParameter(f"{text!r} is none of {', '.join(_OVERWRITABLE)}")
    return State(text)


PlanArgument = Annotated[
    Path, typer.Argument(metavar="PLAN", dir_okay=False, help="The plan's file.")
]
PlanFileOption = Annotated[
    Path | None,
    typer.Option("--file", dir_okay=False, metavar="FILE", help="The file to write the plan to."),
]
ExecuteOption = Annotated[
    bool, typer.Option("--execute", help="Apply the changes. Without it they are only shown.")
]
PartialOption = Annotated[
    bool,
    typer.Option(
        "--allow-partial", help="Also move groups with problems, as far as they were found."
    ),
]
RateOption = Annotated[
    float | None,
    typer.Option("--rate", min=1, metavar="N", help="At most this many offsets a second."),
]
BoundsOption = Annotated[
    bool,
    typer.Option(
        "--check-bounds",
        help="Refuse offsets outside their partition's range, as reported by the server's "
        "Kafka cluster (kafka.bootstrap.servers).",
    ),
]


def run_options(
    *,
    execute: bool,
    overwrite: list[State] | None,
    allow_partial: bool,
    retention: str,
    check_bounds: bool = False,
) -> RunOptions:
    """Makes the RunOptions from the options of a `run`. `retention` may also be `as-is`."""
    is_set = retention != _RETENTION_AS_IS
    try:
        parsed = parse_retention(retention) if is_set else None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return RunOptions(
        execute=execute,
        overwrite=frozenset(overwrite or ()),
        allow_partial=allow_partial,
        check_bounds=check_bounds,
        sets_retention=is_set,
        retention=parsed,
    )


@contextmanager
def told(terminal: Terminal, address: str) -> Iterator[None]:
    """Prints, on one line, an error that ends a step."""
    try:
        yield
    except MigrationError as error:
        terminal.fail(_with_cause(error, address), EXIT_FAILED)
    except OSError as error:
        terminal.fail(error_words(error), EXIT_FAILED)


def holder() -> str:
    """The name of this process, for others that wait for its lock."""
    return f"offsetd migrate on {socket.gethostname()}, process {getpid()}"


def reason_of(plan: Plan, reason: str) -> str:
    """The reason for the audit log: the user's, or a default."""
    return reason or f"migration by plan {plan.plan_id}"


def plan_step(
    terminal: Terminal,
    source: Source,
    selection: Selection,
    file: Path | None,
    *,
    is_for_here: bool = True,
) -> None:
    """Prints the groups of a source, and writes them to a plan if a file is named.

    If the plan is for offsetd, it warns of groups that may be too large for a server. Exits with 3
    if some groups cannot be moved, with 1 if none can.
    """
    rows: list[Row] = []
    problems: list[Problem] = []
    large: dict[str, int] = {}
    group_ids, topics = set[str](), set[str]()
    movable = 0

    def see(found: PlannedGroup | Problem) -> None:
        nonlocal movable
        rows.append(_problem_row(found) if isinstance(found, Problem) else _plan_row(found))
        problems.extend([found] if isinstance(found, Problem) else found.problems)
        if isinstance(found, PlannedGroup):
            movable += not found.problems
            group_ids.add(found.source_group_id)
            topics.update(each.topic for each in found.offsets)
            batch_bytes = batch_bytes_most(found)
            if is_for_here and batch_bytes > MESSAGE_BYTES_DEFAULT:
                large[found.group_id] = batch_bytes
        report(len(rows), 0, "" if isinstance(found, Problem) else found.group_id)

    with terminal.progress("reading") as report:
        if file is None:
            for found in planned_groups(source, selection):
                see(found)
        else:
            now_ms = round(time.time() * 1000)
            summary = write_plan(file, source, selection, created_ms=now_ms, seen=see)
    terminal.rows(PLAN_COLUMNS, rows, droppable=PLAN_DROPPABLE)
    if file is not None:
        terminal.note(f"{file}: {_summary_text(summary)}")
    if large:
        _warn_of_large(terminal, large)
    missed = selection.unmatched(group_ids, topics)
    _list_notes(terminal, [f"nothing was found of {each}" for each in missed])
    _report_problems(terminal, problems, is_some_good=movable > 0)


def diff_step(
    terminal: Terminal,
    plan: Plan,
    target: Target,
    source: Source | None = None,
    *,
    check_bounds: bool = False,
    show_equal: bool = False,
) -> None:
    """Prints the differences between the stored offsets and a plan, or the source as it is now.

    Exits with 3 if a run would refuse some groups, with 1 if it would refuse all.
    """
    counts = dict.fromkeys(State, 0)
    options = RunOptions(check_bounds=check_bounds)
    refused: list[str] = []
    groups = 0

    def rows() -> Iterator[Row]:
        nonlocal groups
        for group, found, _ in compared(plan, target, source, check_bounds=check_bounds):
            groups += 1
            report(groups, plan.summary.group_count, group.group_id)
            problem = refusal(group, found, options)
            if problem:
                refused.append(f"{named_id(group.group_id)}: {problem}")
            for each in found:
                counts[each.state] += 1
                if show_equal or each.state is not State.EQUAL:
                    yield difference_row(each)

    with terminal.progress("comparing") as report:
        drained(terminal, DIFF_COLUMNS, rows(), DIFF_DROPPABLE)
    terminal.note(", ".join(f"{count} {state}" for state, count in counts.items() if count))
    if refused:
        _fail_listing(terminal, refused, "would be refused", is_partly=len(refused) < groups)


def verify_step(
    terminal: Terminal, plan: Plan, target: Target, source: Source | None, *, allow_ahead: bool
) -> None:
    """Prints the stored offsets that differ from the source, or from the plan without a source.

    Exits with 1 if there are any. With `allow_ahead`, larger stored offsets are accepted, because
    consumers may have moved; so are offsets deleted at the source. Both are counted separately;
    deleted ones are printed too.
    """
    good = {State.EQUAL, State.AHEAD, State.DELETED} if allow_ahead else {State.EQUAL}
    offsets = wrong = groups = 0
    told_apart = {State.AHEAD: 0, State.DELETED: 0} if allow_ahead else {State.DELETED: 0}
    problems: list[Problem] = []

    def rows() -> Iterator[Row]:
        nonlocal offsets, wrong, groups
        for group, found, now in compared(plan, target, source):
            groups += 1
            offsets += len(found)
            problems.extend(now)
            report(groups, plan.summary.group_count, group.group_id)
            for each in found:
                wrong += each.state not in good
                if each.state in told_apart:
                    told_apart[each.state] += 1
                if each.state not in good or each.state is State.DELETED:
                    yield difference_row(each)

    with terminal.progress("verifying") as report:
        drained(terminal, DIFF_COLUMNS, rows(), DIFF_DROPPABLE)
    apart = "".join(
        f", {count} {_TOLD_APART[state]}" for state, count in told_apart.items() if count
    )
    told = f"{counted(groups, 'group')}, {counted(offsets, 'offset')}"
    terminal.note(f"{told}: {counted(wrong, 'differs', 'differ')}{apart}")
    _list_notes(terminal, [*map(str, problems)])
    if wrong or problems:
        told = counted(wrong, "offset differs", "offsets differ")
        terminal.fail(f"{told}, {counted(len(problems), 'problem')}", EXIT_FAILED)


def outcome_step(
    terminal: Terminal,
    title: str,
    outcomes: Iterator[GroupOutcome],
    total: int,
    *,
    execute: bool,
    address: str,
) -> None:
    """Prints the outcome of each group. Exits with 3 if only some were done, with 1 if none."""
    counts: dict[Outcome, int] = {}
    refused: list[str] = []
    stopped: list[MigrationError] = []

    def rows() -> Iterator[Row]:
        try:
            for done, each in enumerate(outcomes, 1):
                counts[each.outcome] = counts.get(each.outcome, 0) + 1
                if each.outcome is Outcome.REFUSED:
                    refused.append(f"{named_id(each.group_id)}: {each.problem}")
                report(done, total, each.group_id)
                yield outcome_row(each)
        except MigrationError as error:
            stopped.append(error)

    with terminal.progress(title) as report:
        drained(terminal, OUTCOME_COLUMNS, rows())
    terminal.note(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    if not execute:
        told_dry_run(terminal)
    is_partly = len(refused) < sum(counts.values())
    if stopped:
        code = EXIT_PARTLY if is_partly and execute else EXIT_FAILED
        terminal.fail(f"stopped {_with_cause(stopped[0], address)}; run it again to go on", code)
    if refused:
        _fail_listing(terminal, refused, "refused", is_partly=is_partly)


def entered(
    stack: ExitStack, terminal: Terminal, plan_file: Path, address: str
) -> tuple[Plan, Journal]:
    """Opens a plan and its journal, and locks the journal. Reports errors."""
    stack.enter_context(told(terminal, address))
    plan = Plan.open(plan_file)
    return plan, stack.enter_context(Journal.open(plan_file, plan.plan_id))


def drained(
    terminal: Terminal,
    columns: tuple[str, ...],
    rows: Iterator[Row],
    droppable: tuple[str, ...] = (),
) -> None:
    """Prints rows. The iteration runs to its end, even if the reader of stdout is gone."""
    terminal.rows(columns, rows, droppable=droppable)
    for _ in rows:
        pass


def difference_row(difference: Difference) -> Row:
    """The row of one partition."""
    found, stored = difference.found, difference.stored
    return {
        "group": difference.group_id,
        "topic": found.topic,
        "partition": found.partition,
        "offset": found.offset,
        "stored": None if stored is None else stored.offset,
        "state": str(difference.state),
        "commit_time": time_of(found.commit_time_ms),
        "stored_commit_time": None if stored is None else stored.commit_time,
        "place": found.place or None,
    }


def outcome_row(outcome: GroupOutcome) -> Row:
    """The row of one group."""
    return {
        "group": outcome.group_id,
        "source_group": outcome.source_group_id,
        "outcome": str(outcome.outcome),
        "offsets": outcome.offset_count,
        "problem": outcome.problem or None,
    }


def _plan_row(group: PlannedGroup) -> Row:
    return {
        "source_group": group.source_group_id,
        "group": group.group_id,
        "offsets": len(group.offsets),
        "owners": None if group.owners is None else len(group.owners),
        "last_commit_time": time_of(group.last_commit_time_ms),
        "problems": len(group.problems),
    }


def _problem_row(problem: Problem) -> Row:
    row: dict[str, Any] = {"source_group": problem.group_id, "offsets": 0, "problems": 1}
    return row


def _warn_of_large(terminal: Terminal, large: dict[str, int]) -> None:
    """Warns of groups that may not fit into one batch: a run writes each group as one batch."""
    for group_id in list(large)[:_PROBLEMS_LISTED_MAX]:
        terminal.note(f"{named_id(group_id)}: its offsets take up to {large[group_id]} bytes")
    if len(large) > _PROBLEMS_LISTED_MAX:
        terminal.note(f"… and {len(large) - _PROBLEMS_LISTED_MAX} more")
    terminal.note(
        f"max.message.bytes is {MESSAGE_BYTES_DEFAULT} unless the server has another: if it is not"
        f" larger, such a group is refused. Restart the server with it, as in"
        f" offsetd serve --set max.message.bytes={max(large.values())}"
    )


def _summary_text(summary: PlanSummary) -> str:
    return (
        f"{counted(summary.group_count, 'group')}, {counted(summary.offset_count, 'offset')}, "
        f"{counted(summary.problem_count, 'problem')}"
    )


def _report_problems(terminal: Terminal, problems: list[Problem], *, is_some_good: bool) -> None:
    _list_notes(terminal, [*map(str, problems)])
    if problems:
        code = EXIT_PARTLY if is_some_good else EXIT_FAILED
        terminal.fail(f"{counted(len(problems), 'problem')}: their groups are not moved", code)


def _list_notes(terminal: Terminal, lines: Sequence[str]) -> None:
    for line in lines[:_PROBLEMS_LISTED_MAX]:
        terminal.note(line)
    if len(lines) > _PROBLEMS_LISTED_MAX:
        terminal.note(f"… and {len(lines) - _PROBLEMS_LISTED_MAX} more")


def _fail_listing(terminal: Terminal, lines: list[str], what: str, *, is_partly: bool) -> None:
    _list_notes(terminal, lines)
    code = EXIT_PARTLY if is_partly else EXIT_FAILED
    terminal.fail(f"{counted(len(lines), 'group')} {what}", code)


def _with_cause(error: MigrationError, address: str) -> str:
    cause = error.__cause__
    if isinstance(error, MigrationStopped) and isinstance(cause, OffsetdError):
        return f"{error}: {explain(cause, address)}"
    if isinstance(error, MigrationStopped) and cause is not None:
        return f"{error}: {type(cause).__name__}: {cause}"
    return str(error)
