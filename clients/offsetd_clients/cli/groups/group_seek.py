"""`offsetd groups seek`: it does what `rpk group seek` does, but first only shows it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from offsetd_clients import OffsetClient, ResetTo, TopicPartition
from offsetd_clients.cli.arguments.group_choice import GroupChoice, with_groups
from offsetd_clients.cli.arguments.options import ReasonOption
from offsetd_clients.cli.arguments.reset_targets import parse_seek_time, read_seek_file
from offsetd_clients.cli.arguments.topic_choice import TopicChoice
from offsetd_clients.cli.completion import complete_group_id
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.each_group import report_failures
from offsetd_clients.cli.groups.group_reset import (
    BoundsOption,
    ForceOption,
    Plan,
    carry_out,
    print_changes,
)
from offsetd_clients.cli.printing.dry_runs import (
    ExecuteOption,
    OnlyShowOption,
    check_dry_or_not,
    told_dry_run,
)
from offsetd_clients.cli.printing.terminal import EXIT_FAILED, Terminal, named_id

if TYPE_CHECKING:
    from offsetd_clients.messages.change_messages import ResetTarget

_ENDS = {"start": ResetTo.EARLIEST, "end": ResetTo.LATEST}

ToOption = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="start|end|TIME",
        help="To the first offset, to the end, or to what was committed at a time: ISO 8601, "
        "or since 1970 in seconds, milliseconds (13 digits) or nanoseconds (19 digits).",
    ),
]
ToGroupOption = Annotated[
    str | None,
    typer.Option(
        "--to-group",
        metavar="GROUP",
        help="To the offsets of another group.",
        autocompletion=complete_group_id,
    ),
]
ToFileOption = Annotated[
    Path | None,
    typer.Option(
        "--to-file",
        metavar="FILE",
        help="To the offsets of a file with lines TOPIC PARTITION OFFSET; -: of stdin.",
    ),
]
SoughtTopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "--topics",
        metavar="TOPIC[:P,…]",
        help="Only this topic, or some of its partitions; repeatable. Default: all.",
    ),
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommand to `app`."""

    @app.command("seek")
    @with_groups
    def seek(
        groups: GroupChoice,
        *,
        to: ToOption = None,
        to_group: ToGroupOption = None,
        to_file: ToFileOption = None,
        topics: SoughtTopicsOption = None,
        bounds: BoundsOption = None,
        force: ForceOption = False,
        dry_run: OnlyShowOption = False,
        execute: ExecuteOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Move the offsets of groups, as rpk does. Nothing happens without --execute.

        Each group is moved as a whole or not at all. Partitions that the other group or the file
        does not name stay unchanged.

        Examples:
            offsetd groups seek billing --to start                  # what it would do
            offsetd groups seek billing --to end --topic orders --execute
            offsetd groups seek billing --to 2026-11-20T21:06:15.341 --execute
            offsetd groups seek billing --to-group billing-trial --execute
            offsetd groups seek billing --to-file offsets.txt --execute
        """
        if (to, to_group, to_file).count(None) != 2:
            raise typer.BadParameter("give exactly one target: --to, --to-group or --to-file")
        check_dry_or_not(dry_run=dry_run, execute=execute)
        plan = Plan.of(topics, bounds, force=force, execute=execute, reason=reason)
        target: ResetTarget | None = None
        if to is not None:
            target = _ENDS.get(to) or parse_seek_time(to)
        elif to_file is not None:
            target = _chosen(read_seek_file(to_file), plan)
        with connected(address, timeout, terminal) as client:
            if target is None:
                assert to_group is not None, "checked above"
                target = _offsets_of(client, to_group, plan, terminal)
            if isinstance(target, Mapping):
                # The target names all partitions.
                plan = attrs.evolve(plan, topics=(), partitions=())
            targets = dict.fromkeys(groups.ids(client, terminal), target)
            done, failures = carry_out(plan, client, targets, terminal, groups)
        print_changes(done, terminal, export=False, is_one=True)
        if done and not execute:
            told_dry_run(terminal)
        report_failures(failures, done, address, terminal)


def _offsets_of(
    client: OffsetClient, group_id: str, plan: Plan, terminal: Terminal
) -> Mapping[TopicPartition, int]:
    stored = client.fetch_many([group_id]).get(group_id, {})
    if not stored:
        terminal.fail(f"{named_id(group_id)} has no offsets", EXIT_FAILED)
    return _chosen({where: committed.offset for where, committed in stored.items()}, plan)


def _chosen(offsets: Mapping[TopicPartition, int], plan: Plan) -> Mapping[TopicPartition, int]:
    """The offsets of the chosen topics and partitions. Raises typer.BadParameter."""
    chosen = TopicChoice(plan.topics, plan.partitions)
    found = chosen.of_offsets(offsets)
    if not found:
        raise typer.BadParameter(f"there are no offsets of {chosen}")
    return found
