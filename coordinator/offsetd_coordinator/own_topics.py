"""The topics of the server's own beside `__consumer_offsets`: loaded at a start, and applied."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from offsetd_storage.cleaner.clean import CleanerTools
from offsetd_storage.cleaner.cleaner_thread import BITMAP_BYTES_MAX, MAP_BYTES_MAX
from offsetd_storage.cleaner.offset_map import OffsetMap
from offsetd_storage.cleaner.preview import preview_round
from offsetd_storage.cleaner.throttle import Throttle
from offsetd_storage.store_config import TopicSpec
from offsetd_storage.upkeep import UpkeepConfig

from offsetd_coordinator.administration import (
    AUDIT_PARTITION,
    CONFIG_PARTITION,
    Administration,
)
from offsetd_coordinator.audit import AuditLog
from offsetd_coordinator.config_shard import ConfigShard
from offsetd_coordinator.node import NodeState
from offsetd_coordinator.topics import AUDIT_TOPIC, CONFIG_TOPIC

if TYPE_CHECKING:
    import random as random_module

    from offsetd_storage.cleaner.clean import CleanReport
    from offsetd_storage.clock import Clock
    from offsetd_storage.files import Files
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_configs import TopicConfigs
    from offsetd_storage.topic_partition import TopicPartition
    from offsetd_storage.upkeep import Upkeep

    from offsetd_coordinator.node import Node
    from offsetd_coordinator.runtime import Runtime

_log = structlog.get_logger(__name__)

_CHUNK_BYTES: Final = 512 * 1024


def own_topic_specs(configs: TopicConfigs) -> tuple[TopicSpec, ...]:
    """The topics as a store is told of them: each has one partition."""
    return tuple(
        TopicSpec(topic=topic, partitions=1, log=configs.log_config(topic))
        for topic in (AUDIT_TOPIC, CONFIG_TOPIC)
    )


def load_config_shard(
    store: LogStore, started_with: TopicConfigs, *, request_id_window_ms: int
) -> ConfigShard:
    """Replays the settings, warns of those that are not used, and has the store's logs obey them.

    A damaged log counts as empty: its changes are refused. Raises CorruptBatch or OSError for
    files that are no longer as recovery left them.
    """
    shard = ConfigShard(started_with, request_id_window_ms=request_id_window_ms)
    log = store.logs.get(CONFIG_PARTITION)
    if log is not None:
        for buffer, end in log.read_chunks(_CHUNK_BYTES):
            shard.replay(buffer[:end].tobytes())
        shard.end_load(offset_next=log.offset_next, leader_epoch=log.leader_epoch)
    applied = shard.applied
    for key, problem in applied.problems.items():
        _log.warning("a setting is kept, and not used", setting=str(key), problem=problem)
    if shard.unknown_records or shard.undecodable_records:
        _log.warning(
            "records of settings cannot be read",
            unknown=shard.unknown_records,
            undecodable=shard.undecodable_records,
        )
    apply_log_configs(store, applied.configs)
    return shard


def load_audit_log(store: LogStore, *, request_id_window_ms: int, now_ms: int) -> AuditLog:
    """Replays what of the audit log a retry may ask for. As `load_config_shard`."""
    audit = AuditLog(request_id_window_ms=request_id_window_ms)
    log = store.logs.get(AUDIT_PARTITION)
    if log is not None:
        since = log.offset_for_timestamp(now_ms - request_id_window_ms)
        if since is not None:
            for buffer, end in log.read_chunks(_CHUNK_BYTES, offset=since):
                audit.replay(buffer[:end].tobytes())
        audit.end_load(offset_next=log.offset_next, leader_epoch=log.leader_epoch)
    return audit


def upkeep_config(configs: TopicConfigs) -> UpkeepConfig:
    """What the settings say to what runs beside the appends."""
    return UpkeepConfig(
        cleaner=configs.cleaner,
        retention=configs.retention,
        background=configs.background,
        disk=configs.disk,
    )


def apply_log_configs(store: LogStore, configs: TopicConfigs) -> None:
    """From now on the store's logs go by these settings."""
    by_topic = {each.topic: configs.log_config(each.topic) for each in store.logs}
    for topic_partition, log in store.logs.items():
        if log.config != by_topic[topic_partition.topic]:
            log.config = by_topic[topic_partition.topic]


def administration_of(
    node: Node,
    runtime: Runtime,
    upkeep: Upkeep,
    shard: ConfigShard,
    audit: AuditLog,
    *,
    files: Files,
    clock: Clock,
    random: random_module.Random,
) -> Administration:
    """What changes the settings of a store that is open, and of what runs beside it."""
    store = runtime.store

    def apply(configs: TopicConfigs) -> None:
        apply_log_configs(store, configs)
        upkeep.configure(upkeep_config(configs))

    def preview(topic_partition: TopicPartition, rolls_active: bool) -> CleanReport | None:
        cleaner = upkeep.cleaner.config
        tools = CleanerTools(
            files=files,
            offset_map=OffsetMap(
                min(cleaner.dedupe_buffer_bytes // cleaner.threads, MAP_BYTES_MAX),
                load_factor=cleaner.dedupe_load_factor,
                hash_key=random.randbytes(16),
                bitmap_bytes_max=BITMAP_BYTES_MAX,
            ),
            clock=clock,
            throttle=partial(
                Throttle(cleaner.io_bytes_per_second_max, clock=clock, sleep=time.sleep),
                should_stop=should_stop,
            ),
            should_stop=should_stop,
        )
        return preview_round(
            store,
            upkeep.cleaner,
            topic_partition,
            tools,
            rolls_active=rolls_active,
            sleep=time.sleep,
        )

    def should_stop() -> bool:
        return runtime.failed is not None or node.state is NodeState.DRAINING

    return Administration(runtime, shard, audit, clock=clock, apply=apply, preview=preview)
