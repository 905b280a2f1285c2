"""`offsetd migrate zookeeper mirror|cutover|rollback`: steps that ZooKeeper takes part in."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer

from offsetd_clients.cli import migrate_steps as steps
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.options import ReasonOption
from offsetd_clients.cli.terminal import EXIT_FAILED, EXIT_PARTLY, Row, Terminal
from offsetd_clients.cli.zookeeper_options import ZooKeeperChoice, with_zookeeper
from offsetd_clients.migration.journal import Step
from offsetd_clients.migration.target import Target
from offsetd_clients.migration.zookeeper.cutover import Cutover, CutoverOptions
from offsetd_clients.migration.zookeeper.mirror import (
    DISAGREEMENT_MAX_DEFAULT,
    Followed,
    Mirror,
    MirrorOptions,
)
from offsetd_clients.migration.zookeeper.rollback import Rollback, RollbackOptions
from offsetd_clients.migration.zookeeper.tree import KazooTree

MIRROR_COLUMNS = ("group", "source_group", "stored", "left", "has_moved", "problem")

DisagreementOption = Annotated[
    int,
    typer.Option(
        "--disagreement-max",
        min=0,
        metavar="OFFSETS",
        help="Offsets that were written on both sides may be so far apart; else the group is left.",
    ),
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommands to `app`."""
    _register_mirror(app, terminal)
    _register_cutover(app, terminal)
    _register_rollback(app, terminal)


def _register_mirror(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("mirror")
    @with_zookeeper
    def mirror(
        plan_file: steps.PlanArgument,
        *,
        zookeeper: ZooKeeperChoice,
        once: Annotated[
            bool, typer.Option("--once", help="One pass over all groups, and no watching.")
        ] = False,
        interval: Annotated[
            float,
            typer.Option(min=0, metavar="SECONDS", help="So long changes are gathered."),
        ] = 1.0,
        disagreement_max: DisagreementOption = DISAGREEMENT_MAX_DEFAULT,
        allow_partial: steps.PartialOption = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Follow ZooKeeper here while consumers still commit there, until Ctrl-C.

        Who wrote last counts, so a rewind is followed, too. Nothing is written to ZooKeeper, and no
        audit record for each commit. Exits with 3 if some groups could not be followed.

        Examples:
            offsetd migrate zookeeper mirror plan.jsonl --hosts zk1:2181/kafka
        """
        options = MirrorOptions(
            disagreement_max=disagreement_max, interval_s=interval, allow_partial=allow_partial
        )
        with ExitStack() as stack:
            plan, journal = steps.entered(stack, terminal, plan_file, address)
            session = stack.enter_context(zookeeper.locked(plan))
            client = stack.enter_context(connected(address, timeout, terminal))
            tree = KazooTree(session.client, wait_s=zookeeper.session_timeout_s)
            following = Mirror(
                *(tree, session.layout, session.marks, Target(client), options, session.lock)
            )
            for group in plan.groups():
                ran = journal.latest(Step.RUN, group.group_id)
                has_run = ran is not None and ran.is_done
                following.follow(group, plan.selection.takes_topic, has_run=has_run)
            try:
                with terminal.progress("following") as report, _until_signal(following):
                    following.catch_up(report)
                    terminal.note(f"following {len(following.groups)} groups")
                    if not once:
                        following.watch(report)
            finally:
                groups = list(following.groups.values())
                terminal.rows(MIRROR_COLUMNS, map(_followed_row, groups))
        stopped = [f"group {each.group_id}: {each.stopped}" for each in groups if each.stopped]
        if stopped:
            code = EXIT_PARTLY if len(stopped) < len(groups) else EXIT_FAILED
            terminal.fail("\n".join(stopped), code)


@contextmanager
def _until_signal(following: Mirror) -> Iterator[None]:
    """Ctrl-C, or SIGTERM, ends it well."""
    before = {
        each: signal.signal(each, lambda *_: following.end())
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _register_cutover(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("cutover")
    @with_zookeeper
    def cutover(
        plan_file: steps.PlanArgument,
        *,
        zookeeper: ZooKeeperChoice,
        execute: steps.ExecuteOption = False,
        force: Annotated[
            bool, typer.Option("--force", help="Also while owners are alive in ZooKeeper.")
        ] = False,
        assume_stopped: Annotated[
            bool,
            typer.Option(
                "--assume-stopped",
                help="Nobody commits any more: for layouts that do not tell who is alive.",
            ),
        ] = False,
        disagreement_max: DisagreementOption = DISAGREEMENT_MAX_DEFAULT,
        allow_partial: steps.PartialOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """From now on groups live here: the last changes are moved, and each group is marked.

        Refused while consumers are alive in ZooKeeper, or write there meanwhile. Exits with 3 if
        some groups were refused.

        Examples:
            offsetd migrate zookeeper cutover plan.jsonl --hosts zk1:2181/kafka --execute
        """
        options = CutoverOptions(
            execute=execute,
            force=force,
            assume_stopped=assume_stopped,
            allow_partial=allow_partial,
            disagreement_max=disagreement_max,
        )
        with ExitStack() as stack:
            plan, journal = steps.entered(stack, terminal, plan_file, address)
            session = stack.enter_context(zookeeper.locked(plan))
            client = stack.enter_context(connected(address, timeout, terminal))
            cutting = Cutover(
                plan=plan,
                journal=journal,
                client=session.client,
                layout=session.layout,
                marks=session.marks,
                target=Target(client, reason=steps.reason_of(plan, reason)),
                lock=session.lock,
                options=options,
            )
            steps.outcome_step(
                *(terminal, "cutting over", cutting.groups(), plan.summary.group_count),
                execute=execute,
                address=address,
            )


def _register_rollback(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("rollback")
    @with_zookeeper
    def rollback(
        plan_file: steps.PlanArgument,
        *,
        zookeeper: ZooKeeperChoice,
        execute: steps.ExecuteOption = False,
        to_plan: Annotated[
            bool,
            typer.Option("--to-plan", help="To the plan's offsets, not to those stored here."),
        ] = False,
        force: Annotated[
            bool, typer.Option("--force", help="Also while consumers are alive on either side.")
        ] = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Write what is stored here back to ZooKeeper, for groups that were cut over.

        Each znode only if nobody wrote it since; what stood there is kept in the plan's journal.
        What is stored here stays: `undo`, or `offsetd groups delete`, take it away.

        Examples:
            offsetd migrate zookeeper rollback plan.jsonl --hosts zk1:2181/kafka --execute
        """
        options = RollbackOptions(execute=execute, to_plan=to_plan, force=force)
        with ExitStack() as stack:
            plan, journal = steps.entered(stack, terminal, plan_file, address)
            session = stack.enter_context(zookeeper.locked(plan))
            client = stack.enter_context(connected(address, timeout, terminal))
            back = Rollback(
                plan=plan,
                journal=journal,
                client=session.client,
                layout=session.layout,
                marks=session.marks,
                target=Target(client, reason=steps.reason_of(plan, reason)),
                lock=session.lock,
                options=options,
            )
            steps.outcome_step(
                *(terminal, "rolling back", back.groups(), plan.summary.group_count),
                execute=execute,
                address=address,
            )


def _followed_row(followed: Followed) -> Row:
    return {
        "group": followed.group_id,
        "source_group": followed.source_group_id,
        "stored": followed.stored_count,
        "left": followed.left_count,
        "has_moved": followed.has_moved,
        "problem": followed.stopped or None,
    }
