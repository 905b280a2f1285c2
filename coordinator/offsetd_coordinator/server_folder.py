"""Opening a server's folder, and loading its shards."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from offsetd_storage.disk.disk_space import opened_with_reserve
from offsetd_storage.log.store_config import OFFSETS_PARTITIONS_DEFAULT
from offsetd_storage.log_store import OFFSETS_TOPIC, LogStore, LogStoreConfig

from offsetd_coordinator.administration.internal_topics import internal_topic_specs
from offsetd_coordinator.administration.repair_journal import complete_repairs, partition_of
from offsetd_coordinator.background.expirer import begin_where_left
from offsetd_coordinator.configuration.settings_consistency import frame_bytes_max
from offsetd_coordinator.configuration.shard_settings import shard_config
from offsetd_coordinator.expiry.uptime_marker import read_marker
from offsetd_coordinator.network.connection_limits import connections_beyond
from offsetd_coordinator.observability.start_progress import StartProgress
from offsetd_coordinator.runtime.shard_loader import load
from offsetd_coordinator.shard.shard import Shard

if TYPE_CHECKING:
    import random

    from offsetd_storage.clock import SteadyClock
    from offsetd_storage.disk.files import Files

    from offsetd_coordinator.configuration.server_settings import Settings

_log = structlog.get_logger(__name__)

DESCRIPTORS_BESIDE: Final = 64


class StartFailed(Exception):
    """The server cannot start; the message is one line for an operator."""


def open_store(
    settings: Settings, *, files: Files, clock: SteadyClock, random: random.Random, threads: int
) -> LogStore:
    """Opens the folder, and logs what was found. Raises StartFailed and the errors of the store."""
    progress = StartProgress("checking")
    partitions = settings.offsets_topic_num_partitions or OFFSETS_PARTITIONS_DEFAULT
    raise_descriptor_limit(partitions, settings.max_connections)
    folder = Path(settings.data_dir)
    read_marker(files, folder)  # A newer format is refused before anything is changed.
    store = opened_with_reserve(
        files,
        folder,
        lambda: LogStore.open(
            files,
            folder,
            store_config(settings, threads),
            clock=clock,
            random=random,
            on_progress=lambda at: progress.note(at.partitions_done, at.partitions, at.bytes_done),
        ),
    )
    _complete_repairs(store, folder)
    begin_where_left(clock, store, store.files, folder)
    report = store.report
    _log.info(
        "folder open",
        folder_id=store.folder_id,
        closed_clean=report.closed_clean,
        bytes_cut=report.bytes_cut,
        batches_appended_again=report.batches_appended_again,
    )
    for note in report.notes:
        _log.info("noted while opening", note=note)
    for warning in report.warnings:
        _log.warning("found while opening", warning=warning)
    for each in report.partitions:
        for problem in each.index_problems:
            _log.info("index rebuilt", partition=str(each.topic_partition), problem=problem)
    for damage in store.quarantined.values():
        _log.error("partition quarantined", damage=str(damage))
    # A second time, because now the folder's number of partitions is known.
    raise_descriptor_limit(store.partitions, settings.max_connections)
    return store


def _complete_repairs(store: LogStore, folder: Path) -> None:
    """The audit events of repairs that were broken off. Raises StorageFailed."""
    try:
        done = complete_repairs(store, folder)
    except BaseException:
        store.abandon()
        raise
    for event in done.events:
        _log.warning("audit entry of an earlier repair written", partition=partition_of(event))
    if done.problem:
        _log.warning("found while opening", warning=done.problem)


def load_shards(store: LogStore, settings: Settings, threads: int) -> dict[int, Shard]:
    """Loads the shards of all partitions that are not damaged."""
    config = shard_config(settings, store.partitions)
    shards = {
        topic_partition.partition: Shard(topic_partition.partition, config)
        for topic_partition in store.logs
        if topic_partition.topic == OFFSETS_TOPIC and topic_partition not in store.quarantined
    }
    progress = StartProgress("loading")
    load(
        store,
        shards,
        threads,
        lambda at: progress.note(at.partitions_done, at.partitions_total, at.bytes_done),
    )
    for partition, shard in shards.items():
        for group_id in shard.misplaced_groups():
            _log.error(
                "a group is not served: by its hash it belongs in another log partition",
                group=group_id.decode(errors="replace"),
                log_partition=partition,
            )
    return shards


def raise_descriptor_limit(partitions: int, connections: int) -> None:
    """Raises the limit of file descriptors to what the log's files and the connections need.

    Raises StartFailed if the hard limit is lower.
    """
    needed = 3 * partitions + connections + connections_beyond(connections)
    needed += DESCRIPTORS_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise StartFailed(
            f"{needed} file descriptors are needed, {hard} are allowed: raise the limit (ulimit -n)"
            f" or lower max.connections"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def store_config(settings: Settings, threads: int) -> LogStoreConfig:
    """The store's part of the settings."""
    return LogStoreConfig(
        partitions=settings.offsets_topic_num_partitions,
        log=settings.log,
        other_topics=internal_topic_specs(settings.configs),
        journal_file_bytes=settings.journal_file_bytes,
        frame_bytes_max=frame_bytes_max(settings),
        recovery_threads=threads,
    )
