"""The background task that makes a cluster's backups: on the node that serves log partition 0.

All nodes look at the target, so that each knows when the next backup is due, and can tell how old
the last one is. Nothing else is shared: a node that takes log partition 0 over goes on from what
the target holds.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from offsetd_storage.backups.backup_errors import BackupDamaged, BackupRefused
from offsetd_storage.backups.backup_writing import write_backup
from offsetd_storage.errors import NewerFormat

from offsetd_coordinator.background.backup_attempts import (
    RETRY_MS_MAX,
    BackupAttempts,
    BackupStopped,
)
from offsetd_coordinator.messages.backup_messages import joined_answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from offsetd_storage.backups.backup_writing import WrittenBackup
    from offsetd_storage.backups.chunk_reading import Chunk
    from offsetd_storage.backups.repository import Repository
    from offsetd_storage.clock import Clock

    from offsetd_coordinator.cluster.backups.node_streams import NodeStreams
    from offsetd_coordinator.configuration.backup_settings import BackupSettings
    from offsetd_coordinator.counters import BackupCounters

_log = structlog.get_logger(__name__)

MAKERS_PARTITION: Final = 0
"""The node that serves this log partition makes the backups."""
_LOOK_MS_MAX: Final = 60_000
_TICK_SECONDS: Final = 1.0


class _Found(NamedTuple):
    """A backup of this cluster at the target."""

    backup_id: str
    moment_ms: int
    size_bytes: int


class ClusterBackups:
    """Makes a backup each `backup.interval.ms`, if this node `makes`. For the event loop's thread.

    `connect` makes a client of all nodes; `folder_id` is the one that they share.
    """

    def __init__(
        self,
        settings: BackupSettings,
        counters: BackupCounters,
        *,
        folder_id: str,
        makes: Callable[[], bool],
        connect: Callable[[], NodeStreams],
        clock: Clock,
        random: Random,
    ) -> None:
        self._settings = settings
        self._counters = counters
        self._folder_id = folder_id
        self._makes = makes
        self._connect = connect
        self._clock = clock
        self._random = random
        self._attempts = BackupAttempts(settings, counters, clock=clock)
        self._running: asyncio.Task[None] | None = None
        self._client: NodeStreams | None = None
        self._newest: _Found | None = None
        self._known: dict[str, _Found | None] = {}

    def start(self) -> None:
        """Starts the task, if there is a target."""
        if self._settings.backup_target:
            self._counters.interval_seconds = self._settings.backup_interval_ms / 1000
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Ends the task; a backup that goes on is not made."""
        if self._running is None:
            return
        self._running.cancel()
        await asyncio.wait([self._running])
        self._running = None

    async def _run(self) -> None:
        is_well, look_at_s = True, time.monotonic()
        while True:
            if time.monotonic() >= look_at_s or (is_well and self._is_mine_now()):
                is_well = await self._on_thread(self._attempts.tried, self._looked) is not None
                if is_well and self._is_mine_now():
                    is_well = await self._on_thread(self._attempts.made, self._written) is not None
                limit_ms = _LOOK_MS_MAX if is_well else RETRY_MS_MAX
                wait_ms = min(self._settings.backup_interval_ms, limit_ms)
                look_at_s = time.monotonic() + wait_ms / 1000
            await asyncio.sleep(_TICK_SECONDS)

    def _is_mine_now(self) -> bool:
        """Whether a backup is due, and this node makes it."""
        due_ms = 0 if self._newest is None else self._newest.moment_ms
        due_ms += self._settings.backup_interval_ms
        return self._makes() and self._clock.now_ms() >= due_ms

    async def _on_thread(self, call: Callable[..., Any], work: Callable[..., Any]) -> Any:
        """Calls on a thread, which ends soon once this node stops, or makes no backups any more."""
        self._attempts.stopping.clear()
        running = asyncio.ensure_future(asyncio.to_thread(call, work))
        try:
            while not running.done():
                await asyncio.wait([running], timeout=_TICK_SECONDS)
                if work == self._written and not self._makes():
                    self._interrupt()
        except asyncio.CancelledError:
            self._interrupt()
            await asyncio.wait([running])
            raise
        return running.result()

    def _interrupt(self) -> None:
        self._attempts.stopping.set()
        if (client := self._client) is not None:
            client.close()

    # On a thread -----------------------------------------------------------------------------

    def _looked(self, repository: Repository) -> bool:
        """Notes the newest backup of this cluster, whichever node made it.

        Raises BackupRefused if it is older than the one that was there before: a disk may not be
        mounted any more. A prune keeps the newest one.
        """
        ids = repository.backup_ids()
        self._known = {each: self._known[each] for each in ids if each in self._known}
        found = next(filter(None, (self._found(repository, each) for each in reversed(ids))), None)
        newest = self._newest
        if newest is not None and (found is None or found.backup_id < newest.backup_id):
            raise BackupRefused(
                f"the last backup, {newest.backup_id}, is not there any more: bring it back, or"
                " start the nodes again"
            )
        self._newest = found
        if found is not None:
            self._counters.last_moment_ms = found.moment_ms
            self._counters.last_bytes = found.size_bytes
        return True

    def _found(self, repository: Repository, backup_id: str) -> _Found | None:
        """The backup, if it is one of this cluster and can be read. Each is read once."""
        if backup_id not in self._known:
            try:
                manifest = repository.manifest(backup_id)
            except (BackupDamaged, NewerFormat) as error:
                _log.warning("a backup at the target cannot be used", reason=str(error))
                self._known[backup_id] = None
            else:
                found = _Found(backup_id, manifest.moment_ms, manifest.size_bytes)
                is_ours = manifest.folder_id == self._folder_id
                self._known[backup_id] = found if is_ours else None
        return self._known[backup_id]

    def _written(self, repository: Repository) -> WrittenBackup:
        held = repository.reusable_chunks()
        self._client = client = self._connect()
        try:
            self._check_stop()
            head, chunks = joined_answers(client.streams([bytes.fromhex(each) for each in held]))
            return write_backup(
                repository,
                head,
                self._until_stop(chunks),
                held=held,
                random=self._random,
                now_ms=self._clock.now_ms(),
            )
        finally:
            self._client = None
            client.close()

    def _until_stop(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        for chunk in chunks:
            self._check_stop()
            yield chunk
        self._check_stop()

    def _check_stop(self) -> None:
        if self._attempts.stopping.is_set():
            raise BackupStopped
