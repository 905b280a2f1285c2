"""`offsetd groups reset`: its targets, its scope, and its results."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

import attrs
import typer

from offsetd_clients import (
    Bounds,
    GroupRefused,
    OffsetChange,
    OffsetClient,
    OffsetdError,
    OffsetNotCommitted,
    ResetOffsets,
    ResetTo,
    ShiftBy,
    ToOffset,
    TopicPartition,
)
from offsetd_clients.cli.arguments.group_choice import GroupChoice, offsets_of_groups, with_groups
from offsetd_clients.cli.arguments.options import ReasonOption
from offsetd_clients.cli.arguments.reset_targets import (
    parse_bound,
    parse_span,
    parse_time,
    parse_topics,
    read_csv,
)
from offsetd_clients.cli.arguments.whole_numbers import INT64_MAX
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.each_group import each_group, report_failures
from offsetd_clients.cli.printing.change_summary import summary
from offsetd_clients.cli.printing.dry_runs import (
    ExecuteOption,
    OnlyShowOption,
    check_dry_or_not,
    told_dry_run,
)
from offsetd_clients.cli.printing.terminal import EXIT_WRONG_USE, OutputFormat, Row, Terminal
from offsetd_clients.messages.change_messages import ResetTarget
from offsetd_clients.plurals import counted

CHANGE_COLUMNS = ("group", "topic", "partition", "offset", "new_offset", "revision")

CHANGE_DROPPABLE = ("revision",)

_LISTED_MAX = 10

ToOffsetOption = Annotated[
    int | None, typer.Option(min=0, max=INT64_MAX, metavar="OFFSET", help="To this offset.")
]
ShiftByOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="By this many offsets; negative: back."),
]
ToEarliestOption = Annotated[bool, typer.Option("--to-earliest", help="To the first offset.")]
ToLatestOption = Annotated[
    bool, typer.Option("--to-latest", help="To the end, after the last record.")
]
ToCurrentOption = Annotated[
    bool, typer.Option("--to-current", help="To the committed offset, which is written again.")
]
ToDatetimeOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="To what was committed at this time: ISO 8601, UTC without a zone."
    ),
]
ByDurationOption = Annotated[
    str | None,
    typer.Option(metavar="SPAN", help="To what was committed this long ago: 12h, PT12H."),
]
FromFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="To the offsets of a CSV file; - reads stdin.")
]
ChosenTopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="TOPIC[:P,…]", help="The topic, or some of its partitions; repeatable."
    ),
]
AllTopicsOption = Annotated[bool, typer.Option("--all-topics", help="All topics of the group.")]
BoundsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bounds",
        metavar="TOPIC:P=FIRST..END",
        help="The bounds of a partition that the server does not know; repeatable.",
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Also while a group has members, or its lease is held.")
]
ExportOption = Annotated[
    bool, typer.Option("--export", help="Print the new offsets as CSV, as --from-file takes it.")
]
HELP = """Move the offsets of groups, each of them all or none. Nothing happens without --execute.

A target outside a partition's range is an error; offsetd never picks the nearest offset.
Options and files are those of kafka-consumer-groups --reset-offsets, but a time is the time of
a commit, not of a record.

Examples:
    offsetd groups reset billing --topic orders --shift-by -5  # only shown
    offsetd groups reset billing --topic orders:0,1 --to-earliest --execute
    offsetd groups reset billing --all-topics --to-datetime 2026-11-20T21:06:15
    offsetd groups reset --all-groups --topic orders --by-duration 12h --export
    offsetd groups reset --all-groups --from-file plan.csv --execute
"""

Target: TypeAlias = ResetTarget | Path
Done: TypeAlias = Sequence[tuple[str, ResetOffsets]]
Failures: TypeAlias = Sequence[tuple[str, OffsetdError]]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommand to `app`."""

    @app.command("reset", help=HELP)
    @with_groups
    def reset(
        groups: GroupChoice,
        *,
        to_offset: ToOffsetOption = None,
        shift_by: ShiftByOption = None,
        to_earliest: ToEarliestOption = False,
        to_latest: ToLatestOption = False,
        to_current: ToCurrentOption = False,
        to_datetime: ToDatetimeOption = None,
        by_duration: ByDurationOption = None,
        from_file: FromFileOption = None,
        topics: ChosenTopicsOption = None,
        all_topics: AllTopicsOption = False,
        bounds: BoundsOption = None,
        force: ForceOption = False,
        export: ExportOption = False,
        dry_run: OnlyShowOption = False,
        execute: ExecuteOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        target = _one_target(
            to_offset=None if to_offset is None else ToOffset(to_offset),
            shift_by=None if shift_by is None else ShiftBy(shift_by),
            to_earliest=ResetTo.EARLIEST if to_earliest else None,
            to_latest=ResetTo.LATEST if to_latest else None,
            to_current=ResetTo.CURRENT if to_current else None,
            to_datetime=None if to_datetime is None else parse_time(to_datetime),
            by_duration=None if by_duration is None else parse_span(by_duration),
            from_file=from_file,
        )
        check_dry_or_not(dry_run=dry_run, execute=execute)
        if export:
            _refuse_other_output(terminal)
        _check_chosen_once(from_file is not None, bool(topics), all_topics)
        plan = Plan.of(topics, bounds, force=force, execute=execute, reason=reason)
        with connected(address, timeout, terminal) as client:
            targets = _targets(client, target, groups, terminal)
            done, failures = carry_out(plan, client, targets, terminal, groups)
        is_one = len(groups.named) == 1
        print_changes(done, terminal, export=export, is_one=is_one)
        if done and not execute:
            told_dry_run(terminal)
        report_failures(failures, done, address, terminal)


@attrs.frozen(kw_only=True)
class Plan:
    """The settings that hold for each group of a reset."""

    topics: Sequence[str]
    partitions: Sequence[TopicPartition]
    bounds: Mapping[TopicPartition, Bounds]
    force: bool
    execute: bool
    reason: str

    @classmethod
    def of(cls, topics: Iterable[str] | None, bounds: Iterable[str] | None, **flags: Any) -> Self:
        """Reads the topics and bounds. Raises typer.BadParameter."""
        whole_topics, partitions = parse_topics(topics or ())
        known: dict[TopicPartition, Bounds] = {}
        for where, bound in map(parse_bound, bounds or ()):
            if where in known:
                raise typer.BadParameter(f"--bounds: {where} is named twice")
            known[where] = bound
        return cls(topics=whole_topics, partitions=partitions, bounds=known, **flags)

    def check_bounds(self, client: OffsetClient, targets: Mapping[str, ResetTarget]) -> None:
        """Raises typer.BadParameter for bounds of a partition that is not reset."""
        others = [
            where
            for where in self.bounds
            if where not in self.partitions and where.topic not in self.topics
        ]
        if not others:
            return
        reset: set[TopicPartition] = set()
        for target in targets.values():
            reset.update(target if isinstance(target, Mapping) else ())
        if not (reset or self.topics or self.partitions):
            for offsets in offsets_of_groups(client, targets).values():
                reset.update(offsets)
        wrong = [str(where) for where in others if where not in reset]
        if wrong:
            raise typer.BadParameter(f"--bounds: {', '.join(wrong)} is not among what is reset")

    def carry_out(
        self,
        client: OffsetClient,
        group_id: str,
        targets: Mapping[str, ResetTarget],
        topics: Sequence[str] | None = None,
    ) -> ResetOffsets:
        """Resets one group, or only validates that. `topics` replaces the plan's topics."""
        return client.reset_offsets(
            group_id,
            targets[group_id],
            self.partitions,
            topics=self.topics if topics is None else topics,
            bounds=self.bounds,
            force=self.force,
            validate_only=not self.execute,
            reason=self.reason,
        )

    def left(self, client: OffsetClient, done: Done) -> Iterator[str]:
        """Yields chosen offsets that stay unchanged because the group had none at the time.

        Groups that the server no longer knows are skipped: their reset is done.
        """
        if self.partitions and not self.topics:
            return
        for group_id, answer in done:
            reset = {change.topic_partition for change in answer.changes}
            with suppress(OffsetdError):
                for where in client.fetch(group_id):
                    is_chosen = not self.topics or where.topic in self.topics
                    if is_chosen and where not in reset:
                        yield f"{group_id} {where}"

    def carry_out_where_there(
        self, client: OffsetClient, group_id: str, targets: Mapping[str, ResetTarget]
    ) -> ResetOffsets | None:
        """Does what `carry_out` does, without topics that the group does not have.

        Returns None if it has none of them.
        """
        try:
            return self.carry_out(client, group_id, targets)
        except GroupRefused:
            # The server refuses a group in use before it checks the offsets.
            if not self.topics or self.partitions:
                raise
            if any(where.topic in self.topics for where in client.fetch(group_id)):
                raise
            return None
        except OffsetNotCommitted as error:
            # The error has no partitions if the time is before the group had any of the topics.
            named = error.partitions or [{"topic": topic} for topic in self.topics]
            absent = {each.get("topic") for each in named if "partition" not in each}
            # The group may have the topic now, but had no offset at the time.
            absent -= {where.topic for where in client.fetch(group_id)}
            if not absent:
                raise
            there = [topic for topic in self.topics if topic not in absent]
        if not there and not self.partitions:
            return None
        return self.carry_out(client, group_id, targets, there)


def carry_out(
    plan: Plan,
    client: OffsetClient,
    targets: Mapping[str, ResetTarget],
    terminal: Terminal,
    groups: GroupChoice,
) -> tuple[Done, Failures]:
    """Resets each group, or only validates that; returns the results and the failures.

    With all groups, groups without any of the topics are skipped. It reports offsets that stay
    unchanged because there were none at the time.
    """
    plan.check_bounds(client, targets)
    reset_one = plan.carry_out_where_there if groups.all_groups else plan.carry_out
    answers, failures = each_group(targets, lambda each: reset_one(client, each, targets))
    done = [(group_id, answer) for group_id, answer in answers if answer is not None]
    if not done and not failures and answers:
        which = ", ".join(plan.topics)
        terminal.fail(f"no group has an offset of {which}" if which else "no group has offsets")
    _tell_of_ends(done, targets, terminal)
    if any(isinstance(target, datetime | timedelta) for target in targets.values()):
        left = list(plan.left(client, done))
        if left:
            terminal.note(_told_left(left))
    return done, failures


def _tell_of_ends(done: Done, targets: Mapping[str, ResetTarget], terminal: Terminal) -> None:
    """Reports partitions whose end may be outdated, and partitions whose end is unknown."""
    total = sum(len(answer.changes) for _, answer in done)
    reported = sum(
        answer.reported_end_count for each, answer in done if targets[each] is ResetTo.LATEST
    )
    if reported:
        terminal.note(
            f"{reported} of {counted(total, 'new offset')}: the end as a consumer reported it last,"
            " which may be outdated; --bounds says another"
        )
    checked = (ToOffset, ShiftBy, Mapping)
    unknown = sum(
        answer.unknown_end_count for each, answer in done if isinstance(targets[each], checked)
    )
    if unknown:
        terminal.note(
            f"{unknown} of {counted(total, 'new offset')}: not checked against the partition's"
            " end, which is not known; --bounds says it"
        )


def _targets(
    client: OffsetClient, target: Target, groups: GroupChoice, terminal: Terminal
) -> dict[str, ResetTarget]:
    """The targets by group. With all groups, a file names its own groups."""
    if isinstance(target, Path):
        named = None if groups.all_groups else groups.named
        return dict(read_csv(target, named, note=terminal.note))
    return dict.fromkeys(groups.ids(client, terminal), target)


def _refuse_other_output(terminal: Terminal) -> None:
    """Ends the command if an export (CSV) was combined with another format in `-o`."""
    assert terminal.called is not None, "within a command"
    source = terminal.called.get_parameter_source("output")
    is_given = source is not None and source.name == "COMMANDLINE"
    if is_given and terminal.output_format is not OutputFormat.CSV:
        terminal.fail(
            f"--export prints CSV: it does not go with -o {terminal.output_format.value}",
            EXIT_WRONG_USE,
        )


def _one_target(**targets: Target | None) -> Target:
    given = [target for target in targets.values() if target is not None]
    if len(given) != 1:
        raise typer.BadParameter(
            "give exactly one target: --to-offset, --shift-by, --to-earliest, --to-latest, "
            "--to-current, --to-datetime, --by-duration or --from-file"
        )
    return given[0]


def _check_chosen_once(*are_given: bool) -> None:
    if sum(are_given) != 1:
        raise typer.BadParameter("give either --topic, --all-topics or --from-file")


def print_changes(done: Done, terminal: Terminal, *, export: bool, is_one: bool) -> None:
    """Prints the changes. An export is CSV as Kafka's tool writes it.

    It has a column for the group if there are several.
    """
    if export:
        terminal.lines(_csv_lines(done, is_one=is_one))
    elif done:
        rows = ((group_id, change) for group_id, answer in done for change in answer.changes)
        terminal.rows(CHANGE_COLUMNS, map(change_row, rows), droppable=CHANGE_DROPPABLE)
    changes = [change for _, answer in done for change in answer.changes]
    if changes:
        terminal.note(summary((each.before, each.after) for each in changes))


def _told_left(left: Sequence[str]) -> str:
    """A line on offsets that stay unchanged, which names the first of them."""
    more = f" and {len(left) - _LISTED_MAX} more" if len(left) > _LISTED_MAX else ""
    named = ", ".join(left[:_LISTED_MAX])
    return f"left unchanged, because they had no offset at that time: {named}{more}"


def _csv_lines(done: Done, *, is_one: bool) -> Iterator[str]:
    line = StringIO()
    writer = csv.writer(line, lineterminator="")
    for group_id, answer in done:
        for change in answer.changes:
            where = change.topic_partition
            cells = (where.topic, where.partition, change.after)
            writer.writerow(cells if is_one else (group_id, *cells))
            yield line.getvalue()
            line.seek(0)
            line.truncate()


def change_row(change_of: tuple[str, OffsetChange]) -> Row:
    """A row with a group's id, and one change of its offsets."""
    group_id, change = change_of
    return {
        "group": group_id,
        "topic": change.topic_partition.topic,
        "partition": change.topic_partition.partition,
        "offset": change.before,
        "new_offset": change.after,
        "revision": change.revision.log_offset if change.revision else None,
    }
