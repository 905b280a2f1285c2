"""`offsetd groups reset`: where to, of what, and what came of it."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

import attrs
import typer

from offsetd_clients import (
    Bounds,
    OffsetClient,
    ResetOffsets,
    ResetTo,
    ShiftBy,
    ToOffset,
    TopicPartition,
)
from offsetd_clients.change_messages import ResetTarget
from offsetd_clients.cli.changed_offsets import summary
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.dry_runs import (
    ExecuteOption,
    OnlyShowOption,
    check_dry_or_not,
    told_dry_run,
)
from offsetd_clients.cli.each_group import each_group, report_failures
from offsetd_clients.cli.offsets import INT64_MAX
from offsetd_clients.cli.options import (
    AllGroupsOption,
    AnyGroupsArgument,
    NamedGroupsOption,
    ReasonOption,
    check_groups_chosen,
    chosen_groups,
)
from offsetd_clients.cli.reset_targets import (
    parse_bound,
    parse_span,
    parse_time,
    parse_topics,
    read_csv,
)
from offsetd_clients.cli.terminal import Row, Terminal

CHANGE_COLUMNS = ("group", "topic", "partition", "offset", "new_offset", "revision")

ToOffsetOption = Annotated[
    int | None, typer.Option(min=0, max=INT64_MAX, metavar="OFFSET", help="To this one.")
]
ShiftByOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="So much further, or back."),
]
ToEarliestOption = Annotated[bool, typer.Option("--to-earliest", help="To the first.")]
ToLatestOption = Annotated[bool, typer.Option("--to-latest", help="Behind the last.")]
ToCurrentOption = Annotated[
    bool, typer.Option("--to-current", help="To what is committed, written again.")
]
ToDatetimeOption = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="To what was committed then: ISO 8601, else UTC."),
]
ByDurationOption = Annotated[
    str | None,
    typer.Option(metavar="SPAN", help="To what was committed so long ago: 12h, PT12H."),
]
FromFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="To the offsets of a CSV file; -: of stdin.")
]
ChosenTopicsOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC[:P,…]", help="Of this topic; repeatable."),
]
AllTopicsOption = Annotated[
    bool, typer.Option("--all-topics", help="Of all topics that the group has.")
]
BoundsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bounds",
        metavar="TOPIC:P=FIRST..END",
        help="What a partition has, where the server does not know; repeatable.",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Also while a group has members.")]
ExportOption = Annotated[
    bool, typer.Option("--export", help="Print the new offsets as CSV, as --from-file takes it.")
]
HELP = """Move the offsets of groups, each of them all or none. Nothing happens without --execute.

A target that a partition has not is an error, and nothing is moved to the nearest. Options and
files are those of kafka-consumer-groups --reset-offsets; a time is when something was committed.

Examples:
    offsetd groups reset billing --topic orders --shift-by -5       # what it would do
    offsetd groups reset billing --topic orders:0,1 --to-earliest --execute
    offsetd groups reset billing --all-topics --to-datetime 2026-11-20T21:06:15.341
    offsetd groups reset --all-groups --all-topics --by-duration PT12H --export > plan.csv
    offsetd groups reset --all-groups --from-file plan.csv --execute --reason "bad release"
"""

Target: TypeAlias = ResetTarget | Path
Done: TypeAlias = Sequence[tuple[str, ResetOffsets]]


def register(groups: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommand to `groups`."""

    @groups.command("reset", help=HELP)
    def reset(
        group_ids: AnyGroupsArgument = None,
        *,
        to_offset: ToOffsetOption = None,
        shift_by: ShiftByOption = None,
        to_earliest: ToEarliestOption = False,
        to_latest: ToLatestOption = False,
        to_current: ToCurrentOption = False,
        to_datetime: ToDatetimeOption = None,
        by_duration: ByDurationOption = None,
        from_file: FromFileOption = None,
        named: NamedGroupsOption = None,
        all_groups: AllGroupsOption = False,
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
        group_ids = [*(group_ids or ()), *(named or ())]
        check_groups_chosen(group_ids, all_groups=all_groups)
        check_dry_or_not(dry_run=dry_run, execute=execute)
        _check_chosen_once(from_file is not None, bool(topics), all_topics)
        plan = Plan.of(topics, bounds, force=force, execute=execute, reason=reason)
        with connected(address, timeout, terminal) as client:
            targets = _targets(client, target, group_ids, all_groups=all_groups)
            done, failures = each_group(targets, lambda each: plan.carry_out(client, each, targets))
        _print(done, terminal, export=export, is_one=len(targets) == 1 and not all_groups)
        if done and not execute:
            told_dry_run(terminal)
        report_failures(failures, done, address, terminal)


@attrs.frozen(kw_only=True)
class Plan:
    """What holds for each group that is reset."""

    topics: Sequence[str]
    partitions: Sequence[TopicPartition]
    bounds: Mapping[TopicPartition, Bounds]
    force: bool
    execute: bool
    reason: str

    @classmethod
    def of(cls, topics: Iterable[str] | None, bounds: Iterable[str] | None, **flags: Any) -> Self:
        """Reads what is written of topics and bounds. Raises typer.BadParameter."""
        whole_topics, partitions = parse_topics(topics or ())
        known = dict(map(parse_bound, bounds or ()))
        return cls(topics=whole_topics, partitions=partitions, bounds=known, **flags)

    def carry_out(
        self, client: OffsetClient, group_id: str, targets: Mapping[str, ResetTarget]
    ) -> ResetOffsets:
        """Resets one group, or looks what that would do."""
        return client.reset_offsets(
            group_id,
            targets[group_id],
            self.partitions,
            topics=self.topics,
            bounds=self.bounds,
            force=self.force,
            validate_only=not self.execute,
            reason=self.reason,
        )


def _targets(
    client: OffsetClient, target: Target, named: Sequence[str], *, all_groups: bool
) -> dict[str, ResetTarget]:
    """By group. A file says for itself which all groups are."""
    if isinstance(target, Path):
        return dict(read_csv(target, None if all_groups else named))
    return dict.fromkeys(chosen_groups(client, named, all_groups=all_groups), target)


def _one_target(**targets: Target | None) -> Target:
    given = [target for target in targets.values() if target is not None]
    if len(given) != 1:
        raise typer.BadParameter(
            "say where to, once: --to-offset, --shift-by, --to-earliest, --to-latest,"
            " --to-current, --to-datetime, --by-duration or --from-file"
        )
    return given[0]


def _check_chosen_once(*are_given: bool) -> None:
    if sum(are_given) != 1:
        raise typer.BadParameter("say either --topic, --all-topics or --from-file")


def _print(done: Done, terminal: Terminal, *, export: bool, is_one: bool) -> None:
    """The changes; exported, a file as Kafka's tool has it, with the group unless it is one."""
    if export:
        terminal.lines(_csv_lines(done, is_one=is_one))
    elif done:
        terminal.rows(CHANGE_COLUMNS, _change_rows(done))
    changes = [change for _, answer in done for change in answer.changes]
    if changes:
        terminal.note(summary((each.before, each.after) for each in changes))


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


def _change_rows(done: Done) -> Iterator[Row]:
    for group_id, answer in done:
        for change in answer.changes:
            yield {
                "group": group_id,
                "topic": change.topic_partition.topic,
                "partition": change.topic_partition.partition,
                "offset": change.before,
                "new_offset": change.after,
                "revision": change.revision.log_offset if change.revision else None,
            }
