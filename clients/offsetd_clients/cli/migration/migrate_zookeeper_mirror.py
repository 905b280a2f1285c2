"""`offsetd migrate zookeeper mirror`: offsetd follows ZooKeeper."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any

import attrs
import typer
from kazoo.client import KazooClient, KazooState

from offsetd_clients.cli.arguments.option_groups import with_options
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.migration import migrate_steps as steps
from offsetd_clients.cli.migration.mirror_reports import (
    EventLines,
    checked_metrics_address,
    metrics_served,
)
from offsetd_clients.cli.migration.zookeeper_options import Session, ZooKeeperChoice, with_zookeeper
from offsetd_clients.cli.printing.terminal import EXIT_FAILED, EXIT_PARTLY, Row, Terminal, named_id
from offsetd_clients.migration.migration_journal import Journal
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.target import Target
from offsetd_clients.migration.zookeeper.kazoo_tree import KazooTree
from offsetd_clients.migration.zookeeper.mirror import (
    STATUS_INTERVAL_S,
    Followed,
    Mirror,
    MirrorOptions,
)
from offsetd_clients.migration.zookeeper.mirror_events import MirrorEvent, MirrorEventKind
from offsetd_clients.migration.zookeeper.mirror_rules import (
    DISAGREEMENT_MAX_DEFAULT,
    AbsentOffsets,
    Deletions,
)
from offsetd_clients.migration.zookeeper.source import check_groups_there
from offsetd_clients.plurals import counted

MIRROR_COLUMNS = ("group", "source_group", "stored", "left", "deleted", "has_moved", "problem")

DisagreementOption = Annotated[
    int,
    typer.Option(
        "--disagreement-max",
        min=0,
        metavar="OFFSETS",
        help="If others also commit to offsetd, the largest accepted difference; beyond it the"
        " group is no longer followed.",
    ),
]
DeletionsOption = Annotated[
    Deletions | None,
    typer.Option(
        "--deletions",
        metavar="follow|keep",
        help="Offsets deleted in ZooKeeper: delete them in offsetd too, or keep them.",
    ),
]
AbsentOption = Annotated[
    AbsentOffsets | None,
    typer.Option(
        "--absent",
        metavar="store|leave",
        help="Offsets of ZooKeeper that others deleted in offsetd: store them again, or leave "
        "them.",
    ),
]


@attrs.frozen(kw_only=True)
class MirrorChoice:
    """The options of a mirror."""

    once: bool
    options: MirrorOptions
    metrics: str | None


def _choice(
    *,
    once: bool,
    interval: float,
    disagreement_max: int,
    deletions: Deletions | None,
    absent: AbsentOffsets | None,
    allow_partial: bool,
    status_interval: float,
    metrics: str | None,
) -> MirrorChoice:
    return MirrorChoice(
        once=once,
        metrics=metrics,
        options=MirrorOptions(
            disagreement_max=disagreement_max,
            interval_s=interval,
            status_interval_s=status_interval,
            allow_partial=allow_partial,
            deletions=deletions or Deletions.KEEP,
            absent=absent or AbsentOffsets.LEAVE,
        ),
    )


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "once": (
        Annotated[bool, typer.Option("--once", help="One pass over all groups, without watching.")],
        False,
    ),
    "interval": (
        Annotated[
            float,
            typer.Option(
                min=0, metavar="SECONDS", help="How long changes are collected before a pass."
            ),
        ],
        1.0,
    ),
    "disagreement_max": (DisagreementOption, DISAGREEMENT_MAX_DEFAULT),
    "deletions": (DeletionsOption, None),
    "absent": (AbsentOption, None),
    "allow_partial": (steps.PartialOption, False),
    "status_interval": (
        Annotated[
            float,
            typer.Option(
                "--status-interval",
                min=1,
                metavar="SECONDS",
                help="How often the status is printed.",
            ),
        ],
        STATUS_INTERVAL_S,
    ),
    "metrics": (
        Annotated[
            str | None,
            typer.Option(
                metavar="HOST:PORT",
                help="The address at which Prometheus can read the status.",
                callback=checked_metrics_address,
            ),
        ],
        None,
    ),
}
with_mirror_options = with_options("choice", _choice, _OPTIONS)


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `mirror` to `app`."""

    @app.command("mirror")
    @with_zookeeper
    @with_mirror_options
    def mirror(
        plan_file: steps.PlanArgument,
        *,
        zookeeper: ZooKeeperChoice,
        choice: MirrorChoice,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Follow ZooKeeper while consumers still commit there, until Ctrl-C.

        The latest write counts, so offsetd also follows a rewind. The mirror writes nothing to
        ZooKeeper, and no audit records. It reports on standard error: groups that it stops
        following, deleted offsets, the loss and return of ZooKeeper, and its status every minute.
        Exits with 3 if some groups could not be followed.

        Examples:
            offsetd migrate zookeeper mirror plan.jsonl --hosts zk1:2181/kafka
        """
        with ExitStack() as stack:
            plan, journal = steps.entered(stack, terminal, plan_file, address)
            session = stack.enter_context(zookeeper.locked(plan, has_root=True))
            target = Target(
                stack.enter_context(connected(address, timeout, terminal)),
                reason=steps.reason_of(plan, ""),
            )
            tree = KazooTree(session.client, wait_s=zookeeper.session_timeout_s)
            if choice.options.deletions is Deletions.FOLLOW:
                check_groups_there(session.layout, tree, plan)
            events = EventLines(terminal)
            following = _mirror(session, tree, target, journal, choice.options, events)
            url = stack.enter_context(metrics_served(choice.metrics, following, events))
            if url is not None:
                terminal.note(f"metrics at {url()}")
            _follow(terminal, plan, following, events, once=choice.once)


def _mirror(
    session: Session,
    tree: KazooTree,
    target: Target,
    journal: Journal,
    options: MirrorOptions,
    events: EventLines,
) -> Mirror:
    following = Mirror(
        *(tree, session.layout, session.marks, target, options, session.lock, journal),
        tell=events.tell,
    )
    _listen(session.client, following)
    return following


def _follow(
    terminal: Terminal, plan: Plan, following: Mirror, events: EventLines, *, once: bool
) -> None:
    left_count = 0
    for group in plan.groups():
        following.follow(group, plan.selection.takes_topic)
    try:
        with _until_signal(following), following.status_told():
            with terminal.progress("following") as report:
                left_count = following.catch_up(report)
            if not left_count:
                events.tell(MirrorEvent(MirrorEventKind.FOLLOWING, text=str(following.status)))
            if not once:
                following.watch(lambda *_: None)
    finally:
        following.close()
        groups = list(following.groups.values())
        terminal.rows(MIRROR_COLUMNS, map(_followed_row, groups))
    stopped = [f"{named_id(each.group_id)}: {each.stopped}" for each in groups if each.stopped]
    is_partly = len(stopped) + left_count < len(groups)
    if left_count:
        many = counted(len(groups), "group")
        stopped.append(f"ended before {left_count} of {many} could be looked at")
    if stopped:
        code = EXIT_PARTLY if is_partly else EXIT_FAILED
        terminal.fail("\n".join(stopped), code)


def _listen(client: KazooClient, following: Mirror) -> None:
    """Calls the mirror when the connection to ZooKeeper is lost or returns."""

    def note(state: str) -> None:
        following.connection_changed(is_connected=state == KazooState.CONNECTED)

    client.add_listener(note)


@contextmanager
def _until_signal(following: Mirror) -> Iterator[None]:
    """Ends the mirror in good order on Ctrl-C or SIGTERM."""
    before = {
        each: signal.signal(each, lambda *_: following.end())
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _followed_row(followed: Followed) -> Row:
    return {
        "group": followed.group_id,
        "source_group": followed.source_group_id,
        "stored": followed.stored_count,
        "left": followed.left_count,
        "deleted": len(followed.deleted) + followed.followed_deletion_count,
        "has_moved": followed.has_moved,
        "problem": followed.stopped or None,
    }
