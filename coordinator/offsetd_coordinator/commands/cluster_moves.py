"""`offsetd cluster init` and `export`: a log moves into the topics of a cluster, or out of them."""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from offsetd_storage.cleaner.offline_cleaning import viewed_log
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.folder.folder_format import read_properties
from offsetd_storage.recovery.quarantine import DamageFound
from offsetd_storage.views.folder_view import FolderView, read_folder

from offsetd_coordinator.cluster.copy_checkpoint import COPIES_FILE
from offsetd_coordinator.cluster.kafka_clients import KafkaClients
from offsetd_coordinator.cluster.moving.folder_records import log_digest
from offsetd_coordinator.cluster.moving.log_digest import Compared
from offsetd_coordinator.cluster.moving.moving_in import MovingIn
from offsetd_coordinator.cluster.moving.moving_out import move_out
from offsetd_coordinator.cluster.moving.running_nodes import refuse_running_nodes
from offsetd_coordinator.cluster.moving.topic_contents import (
    TopicContents,
    nodes_with_internal_records,
)
from offsetd_coordinator.cluster.moving.topic_filling import TopicFilling
from offsetd_coordinator.cluster.topic_settings import ClusterTopics, topic_needs
from offsetd_coordinator.commands.log_folder import failures_told, looked_at
from offsetd_coordinator.commands.offline_store import offline_settings, opened_store
from offsetd_coordinator.commands.terminal import WRONG_USE, Terminal
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.configuration.server_settings import Settings
from offsetd_coordinator.configuration.settings_sources import SettingsError, load_settings
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.observability.log_setup import set_up_logging

COLUMNS: Final = ("topic", "partition", "records", "log_end_offset", "digest", "problem")
PARTIAL_SUFFIX: Final = ".exporting"
_NODE_ID: Final = "node.id"


def read_settings(
    terminal: Terminal,
    bootstrap_servers: str | None,
    cluster_id: str | None,
    node_id: str | None,
    assignments: Sequence[str],
) -> Settings:
    """The settings of the options, the environment and `--set`. Fails without brokers."""
    given = {
        "--bootstrap-servers": ("cluster.bootstrap.servers", bootstrap_servers),
        "--cluster-id": ("cluster.id", cluster_id),
        "--node-id": (_NODE_ID, node_id),
    }
    options = {
        option: (name, value) for option, (name, value) in given.items() if value is not None
    }
    try:
        settings = load_settings(environment=os.environ, assignments=assignments, options=options)
    except SettingsError as error:
        terminal.fail(str(error), code=WRONG_USE)
    if not settings.is_clustered:
        terminal.fail("name the brokers: --bootstrap-servers HOST:PORT", code=WRONG_USE)
    # The lines of the log go to stderr, as in serve.
    set_up_logging(level="warning", log_format=settings.logging_format, stream=sys.stderr)
    return settings


def init(
    terminal: Terminal,
    folder: Path,
    settings: Settings,
    assignments: Sequence[str],
    *,
    is_dry: bool,
) -> None:
    """Brings a folder into the topics. A dry run shows its logs, and whether the topics can be
    used."""
    with _failures_told(terminal):
        view = _checked_folder(terminal, folder)
        clients = KafkaClients(settings, node_id=settings.node_id)
        refuse_running_nodes(clients)
        needs = topic_needs(settings, clients.names, view.offsets_partitions)
        filling = TopicFilling(clients, needs)
        is_continued = filling.check()
        if is_continued:
            terminal.note("an earlier init was broken off: this one continues it")
        if is_dry:
            _print(terminal, _looked_at(terminal, folder, settings))
            terminal.note("nothing was changed: repeat without --dry-run to do it")
            return
        offline = offline_settings(terminal, OFFSETS_TOPIC, assignments)
        with (
            terminal.progress("init") as report,
            opened_store(terminal, view, offline, report) as store,
        ):
            if store.quarantined:
                damages = "; ".join(str(each) for each in store.quarantined.values())
                terminal.fail(f"damaged partitions cannot be moved: {damages}")
            filling.begin()
            moving = MovingIn(
                clients=clients,
                store=store,
                node_id=settings.node_id,
                wait_seconds=_wait_seconds(settings),
                report=report,
            )
            outcome = moving.run()
        _print(terminal, outcome)
        _fail_for_differences(terminal, outcome, "the topics stay closed to nodes")
        filling.end()
        terminal.note(_how_to_go_on(settings, folder))


def export(
    terminal: Terminal,
    folder: Path,
    settings: Settings,
    assignments: Sequence[str],
    *,
    is_node_named: bool,
) -> None:
    """Makes a folder of the topics. It has its name only when it is complete and compared."""
    with _failures_told(terminal):
        partial = _partial_folder(terminal, folder)
        clients = KafkaClients(settings, node_id=settings.node_id)
        refuse_running_nodes(clients)
        partitions = _checked_topics(terminal, clients, settings)
        node_id = settings.node_id
        if is_node_named or _NODE_ID in settings.said:
            _check_node(terminal, clients, settings)
        else:
            node_id = _only_node(terminal, clients, settings)
        contents = TopicContents(
            clients, partitions, node_id=node_id, wait_seconds=_wait_seconds(settings)
        )
        count = f"offsets.topic.num.partitions={partitions}"
        offline = offline_settings(terminal, OFFSETS_TOPIC, [*assignments, count])
        view = FolderView(folder=partial, logs=(), offsets_partitions=partitions, is_settled=True)
        with (
            terminal.progress("export") as report,
            opened_store(terminal, view, offline, report) as store,
        ):
            outcome = move_out(contents, store, report)
        _print(terminal, outcome)
        _fail_for_differences(terminal, outcome, f"the folder stays {partial}: delete it")
        files = OsFiles()
        files.rename(partial, folder)
        files.sync_folder(folder.parent)
        terminal.note(f"serve it: offsetd serve --data-dir {shlex.quote(str(folder))}")


@contextmanager
def _failures_told(terminal: Terminal) -> Iterator[None]:
    """A context that converts errors of the folder, the topics and the brokers to one line."""
    with failures_told(terminal):
        try:
            yield
        except CoordinatorError as error:
            terminal.fail(str(error))
        except DamageFound as found:
            terminal.fail(f"a partition is damaged: {found}; see offsetd log verify")
        except TimeoutError as error:
            terminal.fail(str(error) or "the brokers do not answer: is --bootstrap-servers right?")
        except Exception as error:
            # confluent-kafka is imported late, so its class of errors cannot be named here.
            if type(error).__module__.partition(".")[0] not in ("cimpl", "confluent_kafka"):
                raise
            terminal.fail(f"the Kafka cluster cannot be used: {error}")


def _checked_folder(terminal: Terminal, folder: Path) -> FolderView:
    if OsFiles().exists(folder / COPIES_FILE):
        terminal.fail(f"{folder} has the copies of a node of a cluster, not the log of a server")
    view = read_folder(OsFiles(), folder)
    if read_properties(OsFiles(), folder) is None:
        terminal.fail(
            f"{folder} is not a data folder of offsetd: bring a broker's groups in with"
            " offsetd migrate kafka"
        )
    return view


def _partial_folder(terminal: Terminal, folder: Path) -> Path:
    """The name of the folder until it is complete. Fails if one of the two is there."""
    files = OsFiles()
    if files.exists(folder):
        terminal.fail(f"{folder} is there already: name a new folder")
    partial = folder.with_name(folder.name + PARTIAL_SUFFIX)
    if files.exists(partial):
        terminal.fail(
            f"{partial} is left from an export that was broken off, or one is running: delete it"
            f" (rm -r {shlex.quote(str(partial))}), and export again"
        )
    return partial


def _checked_topics(terminal: Terminal, clients: KafkaClients, settings: Settings) -> int:
    """The number of log partitions. Fails if topics are missing or not completely filled."""
    needs = topic_needs(settings, clients.names, None)
    found = ClusterTopics(clients.admin()).found([each.name for each in needs])
    missing = [each.name for each in needs if each.name not in found]
    if missing:
        terminal.fail(f"there is no topic {missing[0]}: is --cluster-id right?")
    offsets = found[clients.names.offsets_topic]
    if offsets.is_being_filled:
        terminal.fail(
            f"topic {clients.names.offsets_topic} is being filled by offsetd cluster init, or an"
            " init was broken off: let it end, or run the same init again"
        )
    return offsets.partitions


def _check_node(terminal: Terminal, clients: KafkaClients, settings: Settings) -> None:
    """Fails if only other nodes have settings or audit events."""
    found = sorted(nodes_with_internal_records(clients, wait_seconds=_wait_seconds(settings)))
    if found and settings.node_id not in found:
        terminal.fail(
            f"no settings and audit events of a node {settings.node_id} are there; --node-id can"
            f" be: {', '.join(found)}",
            code=WRONG_USE,
        )


def _only_node(terminal: Terminal, clients: KafkaClients, settings: Settings) -> str:
    found = sorted(nodes_with_internal_records(clients, wait_seconds=_wait_seconds(settings)))
    if len(found) > 1:
        terminal.fail(
            f"name the node whose settings and audit events the folder gets: --node-id"
            f" ({', '.join(found)})",
            code=WRONG_USE,
        )
    return found[0] if found else settings.node_id


def _looked_at(terminal: Terminal, folder: Path, settings: Settings) -> Iterator[Compared]:
    """The logs of a folder, read without a lock."""
    _, logs = looked_at(terminal, folder, None, None)
    for each in sorted(logs, key=lambda log: log.topic_partition):
        where = each.topic_partition
        with viewed_log(OsFiles(), each, settings.configs.log_config(where.topic)) as log:
            digest = log_digest(where, log, has_keys=where != AUDIT_PARTITION)
            digest.end_offset = log.offset_next
        yield Compared(topic_partition=where, source=digest, copy=None)


def _print(terminal: Terminal, outcome: Iterable[Compared]) -> None:
    terminal.rows(COLUMNS, (_row(each) for each in outcome))


def _row(each: Compared) -> dict[str, object]:
    where = each.topic_partition
    return {
        "topic": where.topic,
        "partition": where.partition,
        "records": each.source.records,
        "log_end_offset": each.source.end_offset,
        "digest": each.source.text,
        "problem": each.problem,
    }


def _fail_for_differences(terminal: Terminal, outcome: Sequence[Compared], what: str) -> None:
    different = [each.topic_partition.folder_name for each in outcome if each.problem]
    if different:
        terminal.fail(f"what was read back differs: {', '.join(different)}; {what}")


def _wait_seconds(settings: Settings) -> float:
    """The longest time for which a transaction of a dead node may stay open."""
    return 2 * settings.cluster_transaction_timeout_ms / 1000


def _how_to_go_on(settings: Settings, folder: Path) -> str:
    sets = {
        "cluster.bootstrap.servers": settings.cluster_bootstrap_servers,
        "cluster.id": settings.cluster_id,
    }
    words = " ".join(f"--set {shlex.quote(f'{name}={value}')}" for name, value in sets.items())
    return (
        f"start the nodes with an empty --data-dir, {words}, and one of them with --set"
        f" {_NODE_ID}={shlex.quote(settings.node_id)}: it has the settings and the audit events."
        f" Serve {folder} no more: what a server wrote there would not be in the cluster"
    )
