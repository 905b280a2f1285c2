"""Backups of a running server: its logs, pinned, one backup at a time."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from importlib import metadata
from typing import TYPE_CHECKING

import attrs
from offsetd_storage.backups.backup_errors import BackupRefused
from offsetd_storage.backups.chunk_reading import ByteRate, KnownDigests, chunks_of
from offsetd_storage.backups.pinned_logs import PinnedLogs
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC

from offsetd_coordinator.runtime.commit_log import PartitionState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from offsetd_storage.backups.chunk_reading import Chunk
    from offsetd_storage.backups.manifest import Manifest
    from offsetd_storage.clock import Clock
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.runtime.commit_log import CommitLog

    Ends = Callable[[], Mapping[TopicPartition, int]]


def ends_of_node(store: LogStore, log: CommitLog) -> Ends:
    """The ends of the log partitions that a cluster's node serves, and of its internal topics.

    Its copies of them have committed records only.
    """

    def ends() -> dict[TopicPartition, int]:
        return {
            each: of_log.offset_next
            for each, of_log in store.logs.items()
            if each.topic != OFFSETS_TOPIC or log.state(each.partition) is PartitionState.SERVING
        }

    return ends


class BackupSource:
    """What backups read. Its methods block; any thread may call them."""

    def __init__(
        self,
        store: LogStore,
        *,
        clock: Clock,
        bytes_per_second_max: int,
        cluster_id: str = "",
        folder_id: str = "",
        ends: Ends | None = None,
    ) -> None:
        """On a node of a cluster: its id, the folder id of all nodes, and `ends_of_node`."""
        self._store = store
        self._clock = clock
        self._bytes_per_second_max = bytes_per_second_max
        self._cluster_id = cluster_id
        self._folder_id = folder_id
        self._ends = ends or store.durable_ends
        self._known = KnownDigests()
        self._running = threading.Lock()

    @contextmanager
    def pinned(self) -> Iterator[PinnedLogs]:
        """All logs as they are durable now. Raises BackupRefused, StorageFailed, OSError."""
        if not self._running.acquire(blocking=False):
            raise BackupRefused("the server is making a backup already: try again later")
        try:
            with PinnedLogs.pin(self._store, clock=self._clock, ends=self._ends) as pinned:
                pinned.head = self._named(pinned.head)
                yield pinned
        finally:
            self._running.release()

    def _named(self, head: Manifest) -> Manifest:
        """The head with what the store does not know."""
        head = attrs.evolve(head, server_version=metadata.version("offsetd"))
        if not self._cluster_id:
            return head
        # Kafka compacts the topic and does not report how far, so no record before the end
        # counts as exact.
        logs = [attrs.evolve(each, exact_from=each.end_offset) for each in head.logs]
        return attrs.evolve(
            head, cluster_id=self._cluster_id, folder_id=self._folder_id, logs=tuple(logs)
        )

    def chunks(self, pinned: PinnedLogs, held: Collection[str]) -> Iterator[Chunk]:
        """See `chunks_of`. The caller waits after each chunk as `rate` says."""
        return chunks_of(pinned, held, known=self._known)

    def rate(self, bytes_per_second_max: int = 0) -> ByteRate:
        """The limit on reads of one backup. 0: that of the settings."""
        return ByteRate(bytes_per_second_max or self._bytes_per_second_max)
