"""Loading of a node's shards from their logs, before it serves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offsetd_storage.log_store import LogStore

    from offsetd_coordinator.runtime.commit_log import PartitionReader
    from offsetd_coordinator.shard.shard import Shard

# A chunk of this size stays in a core's cache from the copy until the replay.
_CHUNK_BYTES: Final = 512 * 1024
# A commit's record rarely has fewer. Room for too many offsets costs nothing until it is touched,
# but some systems limit how much a process may reserve.
_COMMIT_RECORD_BYTES_MIN: Final = 40
_OFFSETS_EXPECTED_MAX: Final = 1 << 16


@attrs.frozen(kw_only=True)
class LoadProgress:
    """The progress of a load."""

    partitions_done: int
    partitions_total: int
    bytes_done: int
    bytes_total: int


def load(
    store: LogStore,
    shards: Mapping[int, Shard],
    threads: int,
    on_progress: Callable[[LoadProgress], None] | None,
) -> None:
    """Replays each shard's log, `threads` at a time, the largest first.

    `on_progress` is called after each partition, from the thread that loaded it, one call at a
    time. Raises CorruptBatch or OSError for files that are no longer as recovery left them.
    """
    logs = {partition: store.logs[TopicPartition(OFFSETS_TOPIC, partition)] for partition in shards}
    progress = _Progress(logs, on_progress)

    def load_one(partition: int) -> None:
        load_shard(shards[partition], logs[partition])
        progress.note(logs[partition])

    largest_first = sorted(logs, key=lambda partition: -logs[partition].size_bytes)
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="load") as pool:
        for _ in pool.map(load_one, largest_first):
            pass


def load_shard(shard: Shard, log: PartitionReader) -> None:
    """Replays a whole log into a new shard, which then continues at the end of the log."""
    shard.begin_load(min(log.size_bytes // _COMMIT_RECORD_BYTES_MIN, _OFFSETS_EXPECTED_MAX))
    for buffer, end in log.read_chunks(_CHUNK_BYTES):
        shard.replay(buffer, 0, end)
    shard.end_load(offset_next=log.offset_next, leader_epoch=log.leader_epoch)


class _Progress:
    def __init__(
        self,
        logs: Mapping[int, PartitionReader],
        on_progress: Callable[[LoadProgress], None] | None,
    ) -> None:
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._progress = LoadProgress(
            partitions_done=0,
            partitions_total=len(logs),
            bytes_done=0,
            bytes_total=sum(log.size_bytes for log in logs.values()),
        )

    def note(self, log: PartitionReader) -> None:
        with self._lock:
            self._progress = attrs.evolve(
                self._progress,
                partitions_done=self._progress.partitions_done + 1,
                bytes_done=self._progress.bytes_done + log.size_bytes,
            )
            if self._on_progress is not None:
                self._on_progress(self._progress)
