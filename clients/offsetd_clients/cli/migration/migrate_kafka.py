"""`offsetd migrate kafka plan|diff|run|verify|rollback|undo`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import attrs
import typer

from offsetd_clients import OffsetClient
from offsetd_clients.cli.arguments.options import ReasonOption
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    OffsetdAddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.migration import migrate_steps as steps
from offsetd_clients.cli.migration.kafka_options import KafkaChoice, some_cluster, with_kafka
from offsetd_clients.cli.migration.migrate_selection import with_selection
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_clients.migration.differences import State
from offsetd_clients.migration.kafka.cluster import KafkaCluster
from offsetd_clients.migration.kafka.cluster_source import CLUSTER_KIND, ClusterSource
from offsetd_clients.migration.kafka.folder_source import FOLDERS_KIND, FolderSource
from offsetd_clients.migration.kafka.kafka_writes import (
    BackOptions,
    moves_back,
    moves_there,
    write_back,
)
from offsetd_clients.migration.kafka.offsetd_source import HERE_KIND, HereSource
from offsetd_clients.migration.kafka.targets import (
    BoundedTarget,
    ClusterTarget,
    objection_of,
)
from offsetd_clients.migration.migration_journal import Journal, Step
from offsetd_clients.migration.outcomes import GroupOutcome
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.rates import RateLimit
from offsetd_clients.migration.run import RunOptions, objection_by_plan, run
from offsetd_clients.migration.selection import Selection
from offsetd_clients.migration.target import Target
from offsetd_clients.migration.undo import undo
from offsetd_clients.migration.values import MigrationError, PlannedGroup, Source
from offsetd_clients.plurals import counted

ForceOption = Annotated[
    bool,
    typer.Option(
        "--force", help="Also groups that have members, or whose offsets changed after the plan."
    ),
]
FolderOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--folder",
        metavar="DIR",
        help="A copy of a broker's data folder, or only of its __consumer_offsets-* folders; "
        "repeatable.",
    ),
]
FromHereOption = Annotated[
    bool, typer.Option("--from-here", help="Plan groups of offsetd, to write them to a cluster.")
]
MetadataOption = Annotated[
    bool,
    typer.Option(
        "--metadata",
        help="Also take the metadata from a cluster. If another client than librdkafka wrote "
        "it, random bytes may follow it.",
    ),
]
OverwriteOption = Annotated[
    list[State] | None,
    typer.Option(
        "--overwrite",
        parser=steps.overwritable,
        metavar="STATE",
        help="Replace stored offsets in this state: behind, ahead, conflict; repeatable.",
    ),
]
RetentionOption = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="The retention of groups that have none in offsetd: a time such as 90d, never, "
        "default (the server's setting), or as-is.",
    ),
]


def register(migrate: typer.Typer, terminal: Terminal) -> None:
    """Adds `kafka` with its subcommands to `migrate`."""
    app = typer.Typer(
        help="Move groups from a Kafka cluster, or from copies of its folders; and back.",
        no_args_is_help=True,
    )
    _register_plan(app, terminal)
    _register_diff(app, terminal)
    _register_run(app, terminal)
    _register_verify(app, terminal)
    _register_rollback(app, terminal)
    _register_undo(app, terminal)
    migrate.add_typer(app, name="kafka")


def _register_plan(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("plan")
    @with_selection
    @with_kafka
    def plan(
        *,
        kafka: KafkaChoice,
        selection: Selection,
        file: steps.PlanFileOption = None,
        folder: FolderOption = None,
        from_here: FromHereOption = False,
        metadata: MetadataOption = False,
        address: OffsetdAddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print the groups of Kafka, and write a plan of the migration.

        Nothing is changed. Exits with 3 if some groups have problems; a run does not move these
        groups.

        Examples:
            offsetd migrate kafka plan --bootstrap-servers kafka1:9092 --file plan.jsonl
            offsetd migrate kafka plan --folder copy-1 --folder copy-2 --file plan.jsonl
            offsetd migrate kafka plan --from-here --include 'bill.*' --file there.jsonl
        """
        if folder and from_here:
            raise typer.BadParameter("--folder and --from-here exclude each other")
        with steps.told(terminal, address), ExitStack() as stack:
            source: Source
            if folder:
                source = FolderSource(folder, note=terminal.note)
            elif from_here:
                client = stack.enter_context(connected(address, timeout, terminal))
                source = HereSource(client, takes=selection.takes)
            else:
                source = ClusterSource(
                    some_cluster(kafka.cluster()), takes=selection.takes, with_metadata=metadata
                )
                stack.callback(_note_metadata, terminal, source)
            steps.plan_step(terminal, source, selection, file, is_for_here=not from_here)


def _note_metadata(terminal: Terminal, source: ClusterSource) -> None:
    if source.left_out_metadata_count:
        terminal.note(
            f"{counted(source.left_out_metadata_count, 'offset has', 'offsets have')} metadata,"
            " which is left out: see"
            " --metadata, or plan from copied folders"
        )


def _register_diff(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("diff")
    @with_kafka
    def diff(
        plan_file: steps.PlanArgument,
        *,
        kafka: KafkaChoice,
        now: Annotated[
            bool, typer.Option("--now", help="Read the source again instead of the plan.")
        ] = False,
        all_: Annotated[bool, typer.Option("--all", help="Also print equal offsets.")] = False,
        address: OffsetdAddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Compare the stored offsets with a plan: missing, ahead, behind, conflict.

        An offset outside its partition's range, as the cluster reports it, is out of bounds. Exits
        with 3 if a run would refuse some groups.

        Examples:
            offsetd migrate kafka diff plan.jsonl
            offsetd migrate kafka diff plan.jsonl --now -o csv
        """
        with steps.told(terminal, address), ExitStack() as stack:
            plan = Plan.open(plan_file)
            client = stack.enter_context(connected(address, timeout, terminal))
            sides = _Sides(plan, client, kafka.cluster(plan))
            steps.diff_step(
                terminal,
                plan,
                sides.target(),
                sides.source(terminal) if now else None,
                check_bounds=sides.cluster is not None,
                show_equal=all_,
            )


def _register_run(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("run")
    @with_kafka
    def run_(
        plan_file: steps.PlanArgument,
        *,
        kafka: KafkaChoice,
        execute: steps.ExecuteOption = False,
        overwrite: OverwriteOption = None,
        allow_partial: steps.PartialOption = False,
        force: ForceOption = False,
        retention: RetentionOption = "never",
        rate: steps.RateOption = None,
        reason: ReasonOption = "",
        address: OffsetdAddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Store the offsets of a plan: each group in one batch.

        A plan of Kafka's groups is stored in offsetd, a plan of offsetd's groups in the cluster.

        A run replaces other stored offsets only with --overwrite. It refuses groups that have
        members, or whose offsets changed after the plan. If it is killed, run it again: it goes on
        where it was. Exits with 3 if some groups were refused.

        Examples:
            offsetd migrate kafka run plan.jsonl --rate 1000
            offsetd migrate kafka run plan.jsonl --execute --reason 'off the cluster'
        """
        options = steps.run_options(
            execute=execute,
            overwrite=overwrite,
            allow_partial=allow_partial,
            retention=retention,
        )
        with ExitStack() as stack:
            plan, journal = steps.entered(stack, terminal, plan_file, address)
            client = stack.enter_context(connected(address, timeout, terminal))
            sides = _Sides(plan, client, kafka.cluster(plan))
            steps.outcome_step(
                terminal,
                "moving",
                sides.run(journal, options, RateLimit(rate), reason=reason, force=force),
                plan.summary.group_count,
                execute=execute,
                address=address,
            )


def _register_verify(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("verify")
    @with_kafka
    def verify(
        plan_file: steps.PlanArgument,
        *,
        kafka: KafkaChoice,
        as_planned: Annotated[
            bool,
            typer.Option(
                "--as-planned", help="Compare with the plan, not with its source as it is now."
            ),
        ] = False,
        allow_ahead: Annotated[
            bool,
            typer.Option(
                "--allow-ahead", help="Accept larger offsets: consumers may have moved and gone on."
            ),
        ] = False,
        address: OffsetdAddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Check that the source's offsets of a plan's groups are stored. Exits with 1 if not.

        Examples:
            offsetd migrate kafka verify plan.jsonl
            offsetd migrate kafka verify plan.jsonl --as-planned --allow-ahead
        """
        with steps.told(terminal, address), ExitStack() as stack:
            plan = Plan.open(plan_file)
            client = stack.enter_context(connected(address, timeout, terminal))
            sides = _Sides(plan, client, kafka.cluster(plan))
            # Copies of folders do not change: the plan has their content.
            is_copy = plan.source.kind == FOLDERS_KIND
            source = None if as_planned or is_copy else sides.source(terminal)
            steps.verify_step(terminal, plan, sides.target(), source, allow_ahead=allow_ahead)


def _register_rollback(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("rollback")
    @with_kafka
    def rollback(
        plan_file: steps.PlanArgument,
        *,
        kafka: KafkaChoice,
        execute: steps.ExecuteOption = False,
        overwrite: Annotated[
            bool,
            typer.Option(
                "--overwrite", help="Also replace offsets of the cluster that differ from the plan."
            ),
        ] = False,
        force: Annotated[
            bool, typer.Option("--force", help="Also groups that consumers use in offsetd.")
        ] = False,
        rate: steps.RateOption = None,
        address: OffsetdAddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Write the offsets that offsetd now has for a plan's groups back to the cluster.

        Refuses groups that no run has moved to offsetd, groups with members, and groups whose
        offsets in the cluster differ from the plan. The offsets in offsetd stay. Exits with 3 if
        some groups were refused.

        Examples:
            offsetd migrate kafka rollback plan.jsonl
            offsetd migrate kafka rollback plan.jsonl --execute
        """
        options = BackOptions(execute=execute, overwrite=overwrite)
        with ExitStack() as stack:
            plan, journal = steps.entered(stack, terminal, plan_file, address)
            if plan.source.kind == HERE_KIND:
                raise MigrationError(
                    "the plan's groups were not in the cluster before, and confluent-kafka deletes"
                    " no offsets: kafka-consumer-groups.sh --delete-offsets does"
                )
            client = stack.enter_context(connected(address, timeout, terminal))
            sides = _Sides(plan, client, kafka.cluster(plan))
            outcomes = write_back(
                plan,
                journal,
                some_cluster(sides.cluster),
                moves_back(plan, journal, Target(client), force=force),
                options,
                RateLimit(rate),
            )
            steps.outcome_step(
                *(terminal, "rolling back", outcomes, plan.summary.group_count),
                execute=execute,
                address=address,
            )


def _register_undo(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("undo")
    def undo_(
        plan_file: steps.PlanArgument,
        *,
        execute: steps.ExecuteOption = False,
        reason: ReasonOption = "",
        address: OffsetdAddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Undo in offsetd what a run has stored, unless others wrote to it since.

        The earlier offsets are restored. Groups that did not exist are deleted.

        Examples:
            offsetd migrate kafka undo plan.jsonl --execute --reason 'not yet'
        """
        with ExitStack() as stack:
            plan, journal = steps.entered(stack, terminal, plan_file, address)
            if plan.source.kind == HERE_KIND:
                raise MigrationError("no run of this plan has stored anything in offsetd")
            client = stack.enter_context(connected(address, timeout, terminal))
            target = Target(client, reason=steps.reason_of(plan, reason))
            outcomes = undo(plan, journal, target, execute=execute)
            steps.outcome_step(
                *(terminal, "taking back", outcomes, plan.summary.group_count),
                execute=execute,
                address=address,
            )


@attrs.frozen
class _Sides:
    """The source and the target of a plan's groups. `cluster` is None if no cluster takes part."""

    plan: Plan
    client: OffsetClient
    cluster: KafkaCluster | None

    def target(self, reason: str = "") -> Target:
        if self.plan.source.kind == HERE_KIND:
            return ClusterTarget(self.client, some_cluster(self.cluster))
        if self.cluster is None:
            return Target(self.client, reason=reason)
        return BoundedTarget(self.client, self.cluster, reason=reason)

    def source(self, terminal: Terminal) -> Source:
        """The source in its present state. Raises MigrationError."""
        options = self.plan.source.options
        match self.plan.source.kind:
            case kind if kind == HERE_KIND:
                return HereSource(self.client, takes=self.plan.selection.takes)
            case kind if kind == FOLDERS_KIND:
                return FolderSource([Path(each) for each in options["folders"]], note=terminal.note)
            case kind if kind == CLUSTER_KIND:
                return ClusterSource(
                    some_cluster(self.cluster), with_metadata=options["with_metadata"]
                )
            case kind:
                raise MigrationError(f"the plan is of {kind}, not of Kafka")

    def run(
        self, journal: Journal, options: RunOptions, limit: RateLimit, *, reason: str, force: bool
    ) -> Iterator[GroupOutcome]:
        """Yields the outcome of each group, in offsetd or in the cluster. Raises MigrationError."""
        if self.plan.source.kind == HERE_KIND:
            back = BackOptions(
                execute=options.execute, overwrite=bool(options.overwrite), step=Step.RUN
            )
            cluster = some_cluster(self.cluster)
            moves = moves_there(Target(self.client), force=force)
            return write_back(self.plan, journal, cluster, moves, back, limit)
        options = attrs.evolve(
            options,
            check_bounds=self.cluster is not None,
            objection=_none if force else self._objection(),
        )
        target = self.target(steps.reason_of(self.plan, reason))
        return run(self.plan, journal, target, options, limit)

    def _objection(self) -> Callable[[PlannedGroup], str]:
        """A function that says why a group must not be moved now."""
        if self.plan.source.kind == CLUSTER_KIND:
            return objection_of(some_cluster(self.cluster))
        return objection_by_plan


def _none(_planned: PlannedGroup) -> str:
    return ""
