"""`offsetd migrate zookeeper mirror|cutover|rollback`: the steps that involve ZooKeeper."""

from contextlib import ExitStack
from typing import Annotated

import typer

from offsetd_clients.cli.arguments.options import ReasonOption
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.migration import migrate_steps as steps
from offsetd_clients.cli.migration import migrate_zookeeper_mirror
from offsetd_clients.cli.migration.migrate_zookeeper_mirror import (
    AbsentOption,
    DeletionsOption,
    DisagreementOption,
)
from offsetd_clients.cli.migration.zookeeper_options import ZooKeeperChoice, with_zookeeper
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_clients.migration.target import Target
from offsetd_clients.migration.zookeeper.cutover import Cutover, CutoverOptions
from offsetd_clients.migration.zookeeper.mirror_rules import DISAGREEMENT_MAX_DEFAULT
from offsetd_clients.migration.zookeeper.rollback import Rollback, RollbackOptions


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommands to `app`."""
    migrate_zookeeper_mirror.register(app, terminal)
    _register_cutover(app, terminal)
    _register_rollback(app, terminal)


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
            bool, typer.Option("--assume-stopped", help="No consumer commits; for unknown owners.")
        ] = False,
        disagreement_max: DisagreementOption = DISAGREEMENT_MAX_DEFAULT,
        deletions: DeletionsOption = None,
        absent: AbsentOption = None,
        allow_partial: steps.PartialOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Cut groups over to offsetd: move the last changes, and mark each group in ZooKeeper.

        Refuses a group whose consumers are alive in ZooKeeper or write there, one that others
        commit to here, far from ZooKeeper's offset (if near, the later commit counts; the row names
        the other), and one with offsets deleted on one side without --deletions or --absent.

        Examples:
            offsetd migrate zookeeper cutover plan.jsonl --hosts zk1:2181 --execute
        """
        options = CutoverOptions(
            execute=execute,
            force=force,
            assume_stopped=assume_stopped,
            allow_partial=allow_partial,
            disagreement_max=disagreement_max,
            deletions=deletions,
            absent=absent,
        )
        with ExitStack() as stack:
            plan, journal = steps.entered(stack, terminal, plan_file, address)
            session = stack.enter_context(zookeeper.locked(plan, has_root=True))
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
            typer.Option(
                "--to-plan", help="Write the plan's offsets, not those stored in offsetd."
            ),
        ] = False,
        force: Annotated[
            bool, typer.Option("--force", help="Also while consumers are alive on either side.")
        ] = False,
        recreate_deleted: Annotated[
            bool, typer.Option("--recreate-deleted", help="Create deleted znodes again.")
        ] = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Write the offsets stored in offsetd back to ZooKeeper, for groups that were cut over.

        A znode is written only if it did not change since the cutover. Its earlier content is kept
        in the plan's journal. The offsets in offsetd stay; `undo`, or `offsetd groups delete`,
        removes them.

        Examples:
            offsetd migrate zookeeper rollback plan.jsonl --hosts zk1:2181 --execute
        """
        options = RollbackOptions(
            execute=execute, to_plan=to_plan, force=force, recreate_deleted=recreate_deleted
        )
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
