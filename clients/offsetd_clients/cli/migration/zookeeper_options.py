"""The options of several commands for a ZooKeeper and the layout of its offsets."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer
from kazoo.client import KazooClient

from offsetd_clients.cli.arguments.option_groups import with_options
from offsetd_clients.cli.migration.migrate_steps import holder
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.values import MigrationError
from offsetd_clients.migration.zookeeper.connection import (
    STATE_ROOT_DEFAULT,
    TIMEOUT_S_DEFAULT,
    HeldLock,
    Marks,
    ZooKeeper,
    migrator_lock,
)
from offsetd_clients.migration.zookeeper.kazoo_tree import KazooTree
from offsetd_clients.migration.zookeeper.layouts import LAYOUTS, layout_of
from offsetd_clients.migration.zookeeper.layouts.layout import Layout, LayoutOptions
from offsetd_clients.migration.zookeeper.source import (
    KIND,
    ZooKeeperSource,
    check_address,
    check_root_there,
    marks_of,
    options_of,
)

# The lock of a killed migrator ends with its session.
_LOCK_WAIT_SESSIONS = 2.0


@attrs.frozen(kw_only=True)
class ZooKeeperChoice:
    """The options of a ZooKeeper. Without `hosts`, those of the plan are used."""

    hosts: str | None
    auth: tuple[tuple[str, str], ...] = attrs.field(repr=False)
    ca_file: Path | None
    certificate_file: Path | None
    key_file: Path | None
    is_tls: bool
    session_timeout_s: float
    state_root: str

    def zookeeper(self, plan: Plan | None = None) -> ZooKeeper:
        """Returns the ZooKeeper. Raises MigrationError if the options and the plan name none."""
        hosts = self.hosts or (plan.source.address if plan and plan.source.kind == KIND else None)
        if hosts is None:
            raise MigrationError("name the ZooKeeper: --hosts HOST:PORT[/CHROOT]")
        return ZooKeeper(
            hosts=hosts,
            timeout_s=self.session_timeout_s,
            auth=self.auth,
            is_tls=self.is_tls or self.ca_file is not None,
            ca_file=_text(self.ca_file),
            certificate_file=_text(self.certificate_file),
            key_file=_text(self.key_file),
        )

    @contextmanager
    def locked(self, plan: Plan, *, has_root: bool = False) -> Iterator["Session"]:
        """A session that holds the migrator's lock.

        `has_root`: the root of the layout must exist. Raises LockHeld, MigrationError.
        """
        zookeeper = self.zookeeper(plan)
        check_address(plan, zookeeper.hosts)
        layout_name, options = options_of(plan.source)
        layout = layout_of(layout_name, options)
        with zookeeper.connected() as client:
            if has_root:
                check_root_there(layout, KazooTree(client, wait_s=self.session_timeout_s))
            wait_s = self.session_timeout_s * _LOCK_WAIT_SESSIONS
            with migrator_lock(client, holder(), root=self.state_root, wait_s=wait_s) as lock:
                yield Session(
                    client=client,
                    lock=lock,
                    layout=layout,
                    marks=marks_of(plan.source, self.state_root),
                )

    def lock_if_any(self, stack: ExitStack, plan: Plan) -> Callable[[], None]:
        """Takes the migrator's lock, if the plan was made from a ZooKeeper and not from a file.

        Returns a function that raises MigrationStopped after the lock is lost.
        """
        if plan.source.kind != KIND:
            return lambda: None
        return stack.enter_context(self.locked(plan)).lock.check

    @contextmanager
    def source(self, plan: Plan) -> Iterator[ZooKeeperSource]:
        """The plan's source in its present state. Raises SourceFailed."""
        layout_name, options = options_of(plan.source)
        zookeeper = self.zookeeper(plan)
        with zookeeper.connected(read_only=True) as client:
            tree = KazooTree(client, wait_s=zookeeper.timeout_s)
            yield ZooKeeperSource.of(tree, zookeeper.hosts, layout_name, options)


@attrs.frozen(kw_only=True)
class Session:
    """A connection to ZooKeeper that holds the lock, with the layout and the marks of a plan."""

    client: KazooClient
    lock: HeldLock
    layout: Layout
    marks: Marks


def _credential(text: str) -> tuple[str, str]:
    scheme, colon, credential = text.partition(":")
    if not (scheme and colon):
        raise typer.BadParameter("--auth takes SCHEME:CREDENTIAL, as digest:user:password")
    return scheme, credential


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _checked_timeout(value: float) -> float:
    if not 0.1 <= value <= 600:
        raise typer.BadParameter(f"{value} is not from 0.1 to 600.")
    return value


def _zookeeper(
    *,
    hosts: str | None,
    auth: list[str] | None,
    tls: bool,
    ca: Path | None,
    certificate: Path | None,
    key: Path | None,
    session_timeout: float,
    state_root: str,
) -> ZooKeeperChoice:
    return ZooKeeperChoice(
        hosts=hosts,
        auth=tuple(map(_credential, auth or ())),
        ca_file=ca,
        certificate_file=certificate,
        key_file=key,
        is_tls=tls,
        session_timeout_s=session_timeout,
        state_root=state_root,
    )


_ZOOKEEPER_OPTIONS: dict[str, tuple[Any, Any]] = {
    "hosts": (
        Annotated[
            str | None,
            typer.Option(
                "--hosts",
                envvar="OFFSETD_ZOOKEEPER",
                metavar="HOST:PORT,…[/CHROOT]",
                help="The ZooKeeper; default: that of the plan.",
            ),
        ],
        None,
    ),
    "auth": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--auth",
                envvar="OFFSETD_ZOOKEEPER_AUTH",
                metavar="SCHEME:CREDENTIAL",
                help="As digest:user:password; repeatable. Safer in the environment variable.",
            ),
        ],
        None,
    ),
    "tls": (Annotated[bool, typer.Option("--tls", help="Connect with TLS.")], False),
    "ca": (
        Annotated[
            Path | None,
            typer.Option(
                "--ca",
                exists=True,
                dir_okay=False,
                help="The authorities to trust, as PEM; implies --tls.",
            ),
        ],
        None,
    ),
    "certificate": (
        Annotated[
            Path | None,
            typer.Option(
                "--certificate",
                exists=True,
                dir_okay=False,
                help="The client's certificate, for TLS.",
            ),
        ],
        None,
    ),
    "key": (
        Annotated[
            Path | None,
            typer.Option("--key", exists=True, dir_okay=False, help="The key of the certificate."),
        ],
        None,
    ),
    "session_timeout": (
        Annotated[
            float,
            typer.Option(
                "--session-timeout",
                metavar="SECONDS",
                help="Timeout of the session, and of each answer.",
                callback=_checked_timeout,
            ),
        ],
        TIMEOUT_S_DEFAULT,
    ),
    "state_root": (
        Annotated[
            str,
            typer.Option(
                "--state-root",
                metavar="PATH",
                help="The znode of the lock and of the marks of moved groups.",
            ),
        ],
        STATE_ROOT_DEFAULT,
    ),
}


def _text_option(metavar: str, text: str) -> tuple[Any, Any]:
    return Annotated[str, typer.Option(metavar=metavar, help=text)], ""


_LAYOUT_OPTIONS: dict[str, tuple[Any, Any]] = {
    "layout": (
        Annotated[str, typer.Option(metavar="NAME", help=f"One of {', '.join(LAYOUTS)}.")],
        "kafka08",
    ),
    "root": _text_option("PATH", "The root of the layout, if it is not the usual one."),
    "topic": _text_option("TOPIC", "The topic, for layouts whose values name none."),
    "group": _text_option("GROUP", "The group, for a single znode with all partitions."),
    "last_processed": (
        Annotated[
            bool,
            typer.Option(
                "--last-processed", help="Values are the last processed offsets, not the next ones."
            ),
        ],
        False,
    ),
    "path_pattern": _text_option(
        "REGEX",
        "For the layout regex: a pattern of whole paths, with (?P<group>…), (?P<topic>…) "
        "and (?P<partition>…).",
    ),
    "value_pattern": _text_option(
        "REGEX", "For the layout regex: a pattern of whole values, with (?P<offset>…)."
    ),
}


@attrs.frozen
class LayoutChoice:
    """A layout's name and options."""

    name: str
    options: LayoutOptions


def _layout(*, layout: str, last_processed: bool, **options: str) -> LayoutChoice:
    chosen = LayoutOptions(is_last=last_processed, **options)
    try:
        layout_of(layout, chosen)
    except MigrationError as error:
        raise typer.BadParameter(str(error)) from None
    return LayoutChoice(layout, chosen)


with_zookeeper = with_options("zookeeper", _zookeeper, _ZOOKEEPER_OPTIONS)
"""Gives a command the options that make up its parameter `zookeeper`."""
with_layout = with_options("layout_choice", _layout, _LAYOUT_OPTIONS)
"""Gives a command the options that make up its parameter `layout_choice`."""
