"""`offsetd migrate zookeeper plan|diff|run|verify|undo|export`.

`migrate_zookeeper_move` has the steps that write to ZooKeeper or watch it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from offsetd_clients.cli.arguments.option_groups import with_options
from offsetd_clients.cli.arguments.options import ReasonOption, ReplaceFileOption
from offsetd_clients.cli.arguments.user_files import check_absent, write_file
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.migration import migrate_steps as steps
from offsetd_clients.cli.migration import migrate_zookeeper_move
from offsetd_clients.cli.migration.migrate_selection import with_selection
from offsetd_clients.cli.migration.zookeeper_options import (
    LayoutChoice,
    ZooKeeperChoice,
    with_layout,
    with_zookeeper,
)
from offsetd_clients.cli.printing.terminal import EXIT_FAILED, EXIT_PARTLY, Terminal, named_id
from offsetd_clients.migration.differences import State
from offsetd_clients.migration.outcomes import GroupOutcome
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.rates import RateLimit
from offsetd_clients.migration.run import RunOptions, run
from offsetd_clients.migration.selection import Selection
from offsetd_clients.migration.target import Target
from offsetd_clients.migration.undo import undo
from offsetd_clients.migration.values import Source
from offsetd_clients.migration.zookeeper.connection import Marks
from offsetd_clients.migration.zookeeper.kazoo_tree import KazooTree
from offsetd_clients.migration.zookeeper.offset_file import KIND as FILE_KIND
from offsetd_clients.migration.zookeeper.offset_file import OffsetFile, lines_of
from offsetd_clients.migration.zookeeper.source import ZooKeeperSource


def register(migrate: typer.Typer, terminal: Terminal) -> None:
    """Adds `zookeeper` with its subcommands to `migrate`."""
    app = typer.Typer(
        help="Move offsets from ZooKeeper to offsetd, step by step.", no_args_is_help=True
    )
    _register_plan(app, terminal)
    _register_diff(app, terminal)
    _register_run(app, terminal)
    migrate_zookeeper_move.register(app, terminal)
    _register_verify(app, terminal)
    _register_undo(app, terminal)
    _register_export(app, terminal)
    migrate.add_typer(app, name="zookeeper")


def _register_plan(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("plan")
    @with_zookeeper
    @with_layout
    @with_selection
    def plan(
        *,
        zookeeper: ZooKeeperChoice,
        layout_choice: LayoutChoice,
        selection: Selection,
        file: steps.PlanFileOption = None,
        from_file: Annotated[
            Path | None,
            typer.Option(
                "--from-file",
                exists=True,
                dir_okay=False,
                metavar="FILE",
                help="A file of ExportZkOffsets, instead of a ZooKeeper.",
            ),
        ] = None,
        again: Annotated[
            bool, typer.Option("--again", help="Also plan groups that are marked as moved.")
        ] = False,
    ) -> None:
        """Print the groups of ZooKeeper, and write a plan of the migration.

        Nothing is changed. Exits with 3 if some groups have problems; a run does not move these
        groups.

        Examples:
            offsetd migrate zookeeper plan --hosts zk1:2181/kafka --file plan.jsonl
            offsetd migrate zookeeper plan --hosts zk1:2181 --layout storm --root /storm
            offsetd migrate zookeeper plan --from-file exported --file plan.jsonl
        """
        with steps.told(terminal, ""), ExitStack() as stack:
            source: Source
            if from_file is not None:
                source = OffsetFile(path=from_file)
            else:
                source = _source(stack, zookeeper, layout_choice, selection, again=again)
            steps.plan_step(terminal, source, selection, file)


def _source(
    stack: ExitStack,
    choice: ZooKeeperChoice,
    layout: LayoutChoice,
    selection: Selection,
    *,
    again: bool,
) -> ZooKeeperSource:
    zookeeper = choice.zookeeper()
    client = stack.enter_context(zookeeper.connected(read_only=True))
    tree = KazooTree(client, wait_s=zookeeper.timeout_s)
    marks = Marks(layout=layout.name, layout_root=layout.options.root, state_root=choice.state_root)
    return ZooKeeperSource.of(
        tree,
        zookeeper.hosts,
        layout.name,
        layout.options,
        marks=None if again else marks,
        takes=selection.takes,
    )


def _register_diff(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("diff")
    @with_zookeeper
    def diff(
        plan_file: steps.PlanArgument,
        *,
        zookeeper: ZooKeeperChoice,
        now: Annotated[
            bool, typer.Option("--now", help="Read ZooKeeper again instead of the plan.")
        ] = False,
        all_: Annotated[bool, typer.Option("--all", help="Also print equal offsets.")] = False,
        check_bounds: steps.BoundsOption = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Compare the stored offsets with a plan: missing, ahead, behind, conflict.

        Exits with 3 if a run would refuse some groups.

        Examples:
            offsetd migrate zookeeper diff plan.jsonl --hosts zk1:2181/kafka
        """
        with steps.told(terminal, address), ExitStack() as stack:
            plan = Plan.open(plan_file)
            client = stack.enter_context(connected(address, timeout, terminal))
            source = _source_now(stack, zookeeper, plan) if now else None
            steps.diff_step(
                terminal,
                plan,
                Target(client),
                source,
                check_bounds=check_bounds,
                show_equal=all_,
            )


def _source_now(stack: ExitStack, zookeeper: ZooKeeperChoice, plan: Plan) -> Source:
    if plan.source.kind == FILE_KIND:
        return OffsetFile(path=Path(plan.source.address))
    return stack.enter_context(zookeeper.source(plan))


def _register_run(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("run")
    @with_zookeeper
    @with_run_options
    def run_(
        plan_file: steps.PlanArgument,
        *,
        zookeeper: ZooKeeperChoice,
        options: RunOptions,
        rate: steps.RateOption = None,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Store the offsets of a plan in offsetd: each group in one batch, or not at all.

        A run replaces other stored offsets only with --overwrite. If it is killed, run it again: it
        goes on where it was. Exits with 3 if some groups were refused.

        Examples:
            offsetd migrate zookeeper run plan.jsonl
            offsetd migrate zookeeper run plan.jsonl --execute --reason "off ZooKeeper"
        """
        with ExitStack() as stack:
            plan, journal = steps.entered(stack, terminal, plan_file, address)
            check_lock = zookeeper.lock_if_any(stack, plan)
            client = stack.enter_context(connected(address, timeout, terminal))
            target = Target(client, reason=steps.reason_of(plan, reason))
            outcomes = run(plan, journal, target, options, RateLimit(rate))
            steps.outcome_step(
                terminal,
                "moving",
                _while_locked(outcomes, check_lock),
                plan.summary.group_count,
                execute=options.execute,
                address=address,
            )


def _while_locked(
    outcomes: Iterator[GroupOutcome], check_lock: Callable[[], None]
) -> Iterator[GroupOutcome]:
    """Begins no further group after the lock is lost. Raises MigrationStopped."""
    for each in outcomes:
        yield each
        check_lock()


with_run_options = with_options(
    "options",
    steps.run_options,
    {
        "execute": (steps.ExecuteOption, False),
        "overwrite": (
            Annotated[
                list[State] | None,
                typer.Option(
                    parser=steps.overwritable,
                    metavar="STATE",
                    help="Replace stored offsets in this state: behind, ahead, "
                    "conflict; repeatable.",
                ),
            ],
            None,
        ),
        "allow_partial": (steps.PartialOption, False),
        "check_bounds": (steps.BoundsOption, False),
        "retention": (
            Annotated[
                str,
                typer.Option(
                    metavar="TIME",
                    help="The retention of the groups in offsetd: a time such as 90d, never, "
                    "default (the server's setting), or as-is. ZooKeeper has no retention.",
                ),
            ],
            "never",
        ),
    },
)


def _register_verify(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("verify")
    @with_zookeeper
    def verify(
        plan_file: steps.PlanArgument,
        *,
        zookeeper: ZooKeeperChoice,
        as_planned: Annotated[
            bool,
            typer.Option(
                "--as-planned", help="Compare with the plan, not with ZooKeeper as it is now."
            ),
        ] = False,
        allow_ahead: Annotated[
            bool,
            typer.Option(
                "--allow-ahead", help="Accept larger offsets: consumers may have moved and gone on."
            ),
        ] = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Check that ZooKeeper's offsets of a plan's groups are stored in offsetd.

        Exits with 1 if not.

        Examples:
            offsetd migrate zookeeper verify plan.jsonl --hosts zk1:2181/kafka
        """
        with steps.told(terminal, address), ExitStack() as stack:
            plan = Plan.open(plan_file)
            client = stack.enter_context(connected(address, timeout, terminal))
            source = None if as_planned else _source_now(stack, zookeeper, plan)
            steps.verify_step(terminal, plan, Target(client), source, allow_ahead=allow_ahead)


def _register_undo(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("undo")
    @with_zookeeper
    def undo_(
        plan_file: steps.PlanArgument,
        *,
        zookeeper: ZooKeeperChoice,
        execute: steps.ExecuteOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Undo in offsetd what a run has stored, unless others wrote to it since.

        The earlier offsets are restored. Groups that did not exist are deleted.

        Examples:
            offsetd migrate zookeeper undo plan.jsonl --hosts zk1:2181/kafka --execute
        """
        with ExitStack() as stack:
            plan, journal = steps.entered(stack, terminal, plan_file, address)
            check_lock = zookeeper.lock_if_any(stack, plan)
            client = stack.enter_context(connected(address, timeout, terminal))
            target = Target(client, reason=steps.reason_of(plan, reason))
            steps.outcome_step(
                terminal,
                "taking back",
                _while_locked(undo(plan, journal, target, execute=execute), check_lock),
                plan.summary.group_count,
                execute=execute,
                address=address,
            )


def _register_export(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("export")
    def export(
        plan_file: steps.PlanArgument,
        *,
        file: Annotated[
            Path | None,
            typer.Option(
                "--file",
                dir_okay=False,
                metavar="FILE",
                help="The file to write; default: standard output.",
            ),
        ] = None,
        force: ReplaceFileOption = False,
        here: Annotated[
            bool,
            typer.Option("--here", help="The offsets stored in offsetd, not those of the plan."),
        ] = False,
        root: Annotated[
            str, typer.Option(metavar="PATH", help="The root of the paths in the file.")
        ] = "/consumers",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Write the plan's groups as a file for Kafka's ImportZkOffsets.

        Exits with 3 if a name cannot be part of a znode's path. All other groups are in the file.

        Examples:
            offsetd migrate zookeeper export plan.jsonl --file offsets.txt
        """
        problems: list[str] = []
        check_absent(file, terminal, force=force)
        with steps.told(terminal, address), ExitStack() as stack:
            plan = Plan.open(plan_file)
            target = None
            if here:
                target = Target(stack.enter_context(connected(address, timeout, terminal)))
            lines = _export_lines(plan, target, root, problems)
            if file is None:
                terminal.lines(line.removesuffix("\n") for line in lines)
            else:
                write_file(file, (line.encode() for line in lines))
        if problems:
            is_partly = len(problems) < plan.summary.group_count
            terminal.fail("\n".join(problems), EXIT_PARTLY if is_partly else EXIT_FAILED)


def _export_lines(
    plan: Plan, target: Target | None, root: str, problems: list[str]
) -> Iterator[str]:
    for group in plan.groups():
        offsets = [(each.topic, each.partition, each.offset) for each in group.offsets]
        if target is not None:
            stored = target.stored([group.group_id])[group.group_id]
            offsets = [(at.topic, at.partition, each.offset) for at, each in stored.items()]
        try:
            yield from list(lines_of(group.source_group_id, offsets, root=root))
        except ValueError as error:
            problems.append(f"{named_id(group.source_group_id)}: {error}")
