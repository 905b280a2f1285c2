"""What a node of a cluster does before it opens its folder: clients, topics, and old copies."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import structlog
from offsetd_storage.errors import StorageError

from offsetd_coordinator.cluster.copy_checkpoint import CopyCheckpoint, begin_copies
from offsetd_coordinator.cluster.kafka_clients import KafkaClients
from offsetd_coordinator.cluster.shared_internal_topics import catch_up_internal_topics
from offsetd_coordinator.cluster.shared_rules import LoadedRules, load_rules
from offsetd_coordinator.cluster.topic_settings import CALL_SECONDS, ClusterTopics, topic_needs
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.runtime.node_directory import Replication
from offsetd_coordinator.server_folder import StartFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log_store import LogStore

    from offsetd_coordinator.cluster.topic_settings import FoundTopic
    from offsetd_coordinator.configuration.server_settings import Settings

_log = structlog.get_logger(__name__)


@attrs.frozen(kw_only=True)
class OpenCluster:
    """What a node has opened before it joins."""

    clients: KafkaClients
    store: LogStore
    copies: CopyCheckpoint
    rules: LoadedRules
    reload_rules: Callable[[], LoadedRules]
    replication: Replication
    folder: Path
    files: Files
    """The files without the lock of the store."""
    clock: Clock


def open_cluster(
    settings: Settings, *, files: Files, clock: Clock, open_store: Callable[[int], LogStore]
) -> OpenCluster:
    """Makes and checks the topics, and opens the folder with as many log partitions. Blocks.

    Copies that are too old, of another cluster or damaged are deleted: they are read again. The
    node's own logs get what they lack. Raises StartFailed and the errors of the store.
    """
    folder = Path(settings.data_dir)
    try:
        clients = KafkaClients(settings, node_id=settings.node_id)
        offsets_topic, cluster_id = _prepared_topics(settings, clients)
        topic_id, now_ms = offsets_topic.topic_id, clock.now_ms()
        copies = CopyCheckpoint.load(
            files, folder, topic_id=topic_id, cluster_id=cluster_id, now_ms=now_ms
        )
    except CoordinatorError as error:
        raise StartFailed(str(error)) from error
    except TimeoutError as error:
        servers = settings.cluster_bootstrap_servers
        raise StartFailed(
            f"no broker of cluster.bootstrap.servers ({servers}) answers within"
            f" {CALL_SECONDS:.0f} s"
        ) from error
    except Exception as error:
        raise StartFailed(f"the Kafka cluster cannot be used: {error}") from error
    if copies is None:
        copies = begin_copies(
            files, folder, CopyCheckpoint(topic_id=topic_id, cluster_id=cluster_id)
        )
    store = open_store(offsets_topic.partitions)
    if store.quarantined:
        _log.warning("damaged copies are read again", count=len(store.quarantined))
        store.abandon()
        copies = begin_copies(
            files, folder, CopyCheckpoint(topic_id=topic_id, cluster_id=cluster_id)
        )
        store = open_store(offsets_topic.partitions)
    reload_rules = partial(
        load_rules,
        clients,
        request_id_window_ms=settings.request_id_window_ms,
        transaction_seconds=settings.cluster_transaction_timeout_ms / 1000,
    )
    _catch_up(settings, clients, store, copies)
    return OpenCluster(
        clients=clients,
        store=store,
        copies=copies,
        rules=_loaded(reload_rules),
        reload_rules=reload_rules,
        replication=Replication(
            topic=clients.names.offsets_topic,
            replication_factor=offsets_topic.replication_factor,
            min_insync_replicas=int(offsets_topic.settings["min.insync.replicas"]),
        ),
        folder=folder,
        files=files,
        clock=clock,
    )


def _catch_up(
    settings: Settings, clients: KafkaClients, store: LogStore, copies: CopyCheckpoint
) -> None:
    """Gives the node's own logs what they lack. Raises StartFailed and the errors of the store."""
    try:
        catch_up_internal_topics(
            clients,
            store,
            copies,
            node_id=settings.node_id,
            transaction_seconds=settings.cluster_transaction_timeout_ms / 1000,
        )
    except StorageError:
        raise
    except Exception as error:
        raise StartFailed(f"the node's internal topics cannot be read: {error}") from error


def _loaded(load: Callable[[], LoadedRules]) -> LoadedRules:
    try:
        return load()
    except Exception as error:
        raise StartFailed(f"the access rules cannot be read: {error}") from error


def _prepared_topics(settings: Settings, clients: KafkaClients) -> tuple[FoundTopic, str]:
    """Makes and checks the topics. Returns that of the offsets, and the id of the Kafka cluster."""
    admin = clients.admin()
    needs = topic_needs(settings, clients.names, settings.offsets_topic_num_partitions)
    found = ClusterTopics(admin).prepare(needs)
    cluster_id = admin.describe_cluster(request_timeout=CALL_SECONDS).result().cluster_id
    return found[clients.names.offsets_topic], cluster_id
