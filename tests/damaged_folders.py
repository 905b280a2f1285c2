"""Folders with a bad batch in each of some partitions of `__consumer_offsets`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    CONFIG_PARTITION,
)
from offsetd_storage.batch.record_batch import Record, batch_header, decode_batches, encode_batch
from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import COMPACT, DELETE, LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.log.store_config import TopicSpec
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

PARTITIONS = 3
_CONFIG = LogStoreConfig(
    partitions=PARTITIONS,
    journal_file_bytes=2 << 20,
    log=LogConfig(cleanup_policy=COMPACT),
    other_topics=(
        TopicSpec(
            topic=CONFIG_PARTITION.topic, partitions=1, log=LogConfig(cleanup_policy=COMPACT)
        ),
        TopicSpec(topic=AUDIT_PARTITION.topic, partitions=1, log=LogConfig(cleanup_policy=DELETE)),
    ),
)


def opened(folder: Path) -> LogStore:
    return LogStore.open(OsFiles(), folder, _CONFIG, clock=SystemClock(), random=random.Random(7))


def offsets_partition(partition: int) -> TopicPartition:
    return TopicPartition("__consumer_offsets", partition)


def damaged_folder(
    folder: Path, partitions: Collection[int], *, also: Collection[TopicPartition] = ()
) -> Path:
    """A folder of a closed server. The second of three batches of each partition is bad."""
    now_ms = SystemClock().now_ms()
    store = opened(folder)
    damaged = [*map(offsets_partition, partitions), *also]
    for where in damaged:
        for number in range(3):
            value = OffsetCommitValue(offset=number, commit_timestamp_ms=now_ms).encode(3)
            key = encode_key(
                OffsetKey(group=f"g{where.partition}-{number}", topic="orders", partition=0)
            )
            record = Record(key=key, value=value, offset=0, timestamp_ms=now_ms)
            store.produce(where, encode_batch([record], base_offset=0))
            store.flush()
    store.close()
    for where in damaged:
        path = folder / where.folder_name / f"{0:020d}.log"
        content = bytearray(path.read_bytes())
        content[batch_header(bytes(content), 0).size_bytes + 17] ^= 1
        path.write_bytes(content)
    return folder


def repairs_in_audit_log(folder: Path) -> list[AuditEvent]:
    """The events of repairs in the audit log of a folder that nobody has open."""
    store = opened(folder)
    try:
        events = [
            AuditEvent.decode(record.value or b"", time_ms=record.timestamp_ms)
            for batch in decode_batches(store.log(AUDIT_PARTITION).read(0, bytes_max=1 << 20))
            for record in batch.records
            if record.value and record.value.startswith(b'{"version"')
        ]
    finally:
        store.close()
    return [each for each in events if each.method == "RepairPartition"]
