"""Short ways to open a store on a small folder, to append to it, and to see what it holds."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from chance import seed_of
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.journal.journal_format import FRAME, decode_batches
from offsetd_storage.kernels import padded_copy
from offsetd_storage.log_store import OFFSETS_TOPIC, LogStore, LogStoreConfig
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import NOW_MS, batch_of, segment_bytes

if TYPE_CHECKING:
    from offsetd_storage.disk.files import Files
    from offsetd_storage.errors import StorageError
    from offsetd_storage.journal.batches_frame import BatchesFrame
    from offsetd_storage.log.partition_log import PartitionLog

FOLDER = Path("/offsets")
P0, P1, P2 = (TopicPartition(OFFSETS_TOPIC, partition) for partition in range(3))

# Segments of a few batches, a journal of a few frames, indexes with entries.
SMALL_LOG = LogConfig(segment_bytes_max=700, index_interval_bytes=150, preallocate_step_bytes=512)
SMALL = LogStoreConfig(
    partitions=3,
    log=SMALL_LOG,
    journal_file_bytes=4096,
    journal_header_bytes=512,
    recovery_threads=1,
)


def seeded() -> Random:
    """Chance for one test; OFFSETD_TEST_SEED repeats a run."""
    return Random(seed_of())


def opened(
    files: Files,
    config: LogStoreConfig = SMALL,
    *,
    folder: Path = FOLDER,
    random: Random | None = None,
) -> LogStore:
    return LogStore.open(
        files, folder, config, clock=ManualClock(NOW_MS), random=random or Random()
    )


def append(
    store: LogStore,
    topic_partition: TopicPartition,
    *,
    size_bytes: int | None = None,
    count: int = 1,
    leader_epoch: int = 0,
) -> bytes:
    """Appends a batch at the end of a log, and returns it."""
    offset = store.logs[topic_partition].offset_next
    batch = batch_of(offset, count=count, size_bytes=size_bytes, leader_epoch=leader_epoch)
    store.append(topic_partition, batch, last_offset=offset + count - 1, max_timestamp_ms=NOW_MS)
    return batch


def append_run(
    store: LogStore, topic_partition: TopicPartition, batches: bytes
) -> tuple[int, StorageError | None]:
    """Appends batches in one piece: how many went in, and why the others did not."""
    spans = np.array([[0, len(batches)]])
    [count], refusals = store.append_runs([topic_partition], padded_copy(batches), spans)
    return count, refusals.get(0)


def runs_of(frame: BatchesFrame) -> list[tuple[TopicPartition, bytes]]:
    """What a frame is going to have in the journal."""
    buffer, size_bytes = frame.payload
    return list(decode_batches(bytes(buffer[FRAME.size : FRAME.size + size_bytes])))


def commit(store: LogStore, topic_partition: TopicPartition, *, size_bytes: int = 100) -> bytes:
    """Appends a batch and flushes it, as the flusher does."""
    batch = append(store, topic_partition, size_bytes=size_bytes)
    store.flush()
    store.bound_unwritten()
    return batch


def log_bytes(log: PartitionLog) -> bytes:
    """All batches of a log, as its files hold them once they are written."""
    log.write()
    return b"".join(map(segment_bytes, log.segments))


def contents(store: LogStore) -> dict[TopicPartition, bytes]:
    """All batches of every log."""
    return {topic_partition: log_bytes(log) for topic_partition, log in store.logs.items()}


def tree(files: Files, folder: Path = FOLDER) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    found = {}
    for name in files.list_folder(folder):
        path = folder / name
        if files.is_folder(path):
            found |= tree(files, path)
        else:
            found[str(path)] = files.read_bytes(path)
    return found
