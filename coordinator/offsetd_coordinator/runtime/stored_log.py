"""The base of the commit logs with a local store: the store's logs, and one failure of all."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.runtime.flusher import as_storage_failed
from offsetd_coordinator.runtime.storage_refusals import unavailable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from offsetd_storage.errors import StorageFailed, StorageFull
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.recovery.quarantine import Damage

    from offsetd_coordinator.errors import StorageUnavailable
    from offsetd_coordinator.runtime.commit_log import PartitionReader


class StoredLog:
    """The part of a `CommitLog` that does not depend on how appends become durable.

    After the first failure, `on_failed` is called once: the process must exit.
    """

    def __init__(
        self,
        store: LogStore,
        *,
        loop: asyncio.AbstractEventLoop,
        on_failed: Callable[[StorageFailed], None],
    ) -> None:
        self.partitions = store.partitions
        self.failed: StorageFailed | None = None
        self.on_durable: Callable[[], None] | None = None
        self.on_full: Callable[[StorageFull], object] = lambda _: None
        # Called after each flush that leaves the journal half full, or fuller.
        self.on_journal_filling: Callable[[], object] = lambda: None
        self.tickets = dict.fromkeys(range(store.partitions), 0)
        self._store = store
        self._loop = loop
        self._on_failed = on_failed
        self._topic_partitions = [
            TopicPartition(OFFSETS_TOPIC, partition) for partition in range(store.partitions)
        ]
        store.on_write_failed = self.fail_soon

    def reader(self, partition: int) -> PartitionReader:
        """A partition's log. Raises PartitionQuarantined."""
        return self._store.log(self._topic_partitions[partition])

    def damage(self, topic_partition: TopicPartition) -> Damage | None:
        """The damage of a log, or None."""
        return self._store.quarantined.get(topic_partition)

    def unavailable(self) -> StorageUnavailable:
        """The error that every call gets once the log has `failed`."""
        assert self.failed is not None, "asked before there was a failure"
        return unavailable(self.failed)

    def fail_soon(self, error: BaseException) -> None:
        """Notes that the store or our own code failed outside an append. For any thread."""
        with contextlib.suppress(RuntimeError):  # If the loop is closed, no call waits.
            self._loop.call_soon_threadsafe(self.fail, error)

    def fail(self, error: BaseException) -> None:
        """Stops the log: nothing more is acknowledged. Waiting calls get the error at once."""
        if self.failed is not None:
            return
        self.failed = as_storage_failed(error)
        for future in self._take_waits():
            if not future.done():
                future.set_exception(self.unavailable())
        if self.on_durable is not None:
            self.on_durable()
        self._on_failed(self.failed)

    def _take_waits(self) -> list[asyncio.Future[None]]:
        """The futures of all calls that wait. Nothing waits after it."""
        raise NotImplementedError
