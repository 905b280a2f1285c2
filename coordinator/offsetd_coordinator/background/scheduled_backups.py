"""The background task that makes the server's own backups, on a thread."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from offsetd_storage.backups.backup_errors import BackupRefused
from offsetd_storage.backups.backup_writing import write_backup

from offsetd_coordinator.background.backup_attempts import (
    RETRY_MS_MAX,
    BackupAttempts,
    BackupStopped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from offsetd_storage.backups.backup_writing import WrittenBackup
    from offsetd_storage.backups.chunk_reading import Chunk
    from offsetd_storage.backups.repository import Repository
    from offsetd_storage.clock import Clock

    from offsetd_coordinator.background.backup_source import BackupSource
    from offsetd_coordinator.configuration.backup_settings import BackupSettings
    from offsetd_coordinator.counters import BackupCounters


class ScheduledBackups:
    """Makes a backup each `backup.interval.ms`. For the event loop's thread."""

    def __init__(
        self,
        source: BackupSource,
        settings: BackupSettings,
        counters: BackupCounters,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._source = source
        self._settings = settings
        self._counters = counters
        self._clock = clock
        self._random = random
        self._attempts = BackupAttempts(settings, counters, clock=clock)
        self._running: asyncio.Task[None] | None = None
        self._last_id: str | None = None

    def start(self) -> None:
        """Starts the task, if there is a target. The first backup begins at once."""
        if self._settings.backup_target:
            self._counters.interval_seconds = self._settings.backup_interval_ms / 1000
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Ends the task; a backup that goes on ends at its next chunk, and is not made."""
        if self._running is None:
            return
        self._attempts.stopping.set()
        self._running.cancel()
        await asyncio.wait([self._running])
        self._running = None

    async def _run(self) -> None:
        while True:
            begun_s = time.monotonic()
            # The thread ends soon after `stop`; until then it must not outlive the store.
            making = asyncio.ensure_future(asyncio.to_thread(self._attempts.made, self._written))
            try:
                is_made = await asyncio.shield(making) is not None
            except asyncio.CancelledError:
                await asyncio.wait([making])
                raise
            wait_ms = self._settings.backup_interval_ms
            if not is_made:
                wait_ms = min(wait_ms, RETRY_MS_MAX)
            await asyncio.sleep(max(wait_ms / 1000 - (time.monotonic() - begun_s), 0))

    def _check_last(self, repository: Repository) -> None:
        """Raises BackupRefused if the last backup is gone: a disk may not be mounted any more."""
        if self._last_id is not None and self._last_id not in repository.backup_ids():
            raise BackupRefused(
                f"the last backup, {self._last_id}, is not there any more: bring it back, or start"
                " the server again"
            )

    def _written(self, repository: Repository) -> WrittenBackup:
        self._check_last(repository)
        with self._source.pinned() as pinned:
            held = repository.reusable_chunks()
            written = write_backup(
                repository,
                pinned.head,
                self._until_stop(self._source.chunks(pinned, held)),
                held=held,
                random=self._random,
                now_ms=self._clock.now_ms(),
            )
        self._last_id = written.backup_id
        return written

    def _until_stop(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        rate = self._source.rate()
        for chunk in chunks:
            yield chunk
            if self._attempts.stopping.wait(rate.seconds_after(chunk.read_bytes)):
                raise BackupStopped
