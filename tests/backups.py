"""Short ways to back up a small store, and to restore it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from log_stores import SMALL, seeded
from offsetd_storage.backups.backup_writing import WrittenBackup, write_backup
from offsetd_storage.backups.chunk_reading import KnownDigests, chunks_of
from offsetd_storage.backups.log_restoring import LogRestoring
from offsetd_storage.backups.pinned_logs import PinnedLogs
from offsetd_storage.backups.repository import Repository
from offsetd_storage.backups.restored_folder import begin_restore, end_restore
from offsetd_storage.backups.targets import FolderTarget
from offsetd_storage.clock import ManualClock
from offsetd_storage.log_store import LogStore
from partition_logs import NOW_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offsetd_storage.backups.chunk_reading import Chunk
    from offsetd_storage.backups.manifest import Manifest
    from offsetd_storage.backups.point_in_time import Cut
    from offsetd_storage.disk.files import Files
    from offsetd_storage.folder.folder_lock import FolderLock
    from offsetd_storage.topic_partition import TopicPartition

BACKUPS = Path("/backups")
RESTORED = Path("/restored")
LATER_MS = 60_000


def repository_of(files: Files, folder: Path = BACKUPS) -> Repository:
    return Repository(FolderTarget(files, folder))


def pin(store: LogStore, moment_ms: int = NOW_MS) -> PinnedLogs:
    return PinnedLogs.pin(store, clock=ManualClock(moment_ms))


def back_up(
    store: LogStore,
    repository: Repository,
    *,
    known: KnownDigests | None = None,
    moment_ms: int = NOW_MS,
    on_bytes: Callable[[int], object] = lambda _: None,
    change: Callable[[Chunk], Chunk] = lambda chunk: chunk,
) -> WrittenBackup:
    """A backup of all that is durable. `change` is what a bad connection does to a chunk."""
    with pin(store, moment_ms) as pinned:
        held = repository.reusable_chunks()
        chunks = chunks_of(pinned, held, known=known or KnownDigests())
        return write_backup(
            repository,
            pinned.head,
            map(change, chunks),
            held=held,
            random=seeded(),
            now_ms=moment_ms,
            on_bytes=on_bytes,
        )


def fill(
    files: Files,
    repository: Repository,
    manifest: Manifest,
    folder: Path = RESTORED,
    *,
    now_ms: int = NOW_MS + LATER_MS,
    cuts: Mapping[TopicPartition, Cut] | None = None,
) -> FolderLock:
    """A restore up to the point where the store is opened: the mark is still there."""
    lock = begin_restore(files, folder)
    LogRestoring(
        repository=repository,
        manifest=manifest,
        files=files,
        folder=folder,
        now_ms=now_ms,
        cuts=cuts or {},
    ).restore(seeded())
    return lock


def opened_restored(files: Files, lock: FolderLock, folder: Path = RESTORED) -> LogStore:
    return LogStore.open(
        files, folder, SMALL, clock=ManualClock(NOW_MS), random=seeded(), restore_lock=lock
    )


def restore(
    files: Files,
    repository: Repository,
    manifest: Manifest,
    folder: Path = RESTORED,
    *,
    now_ms: int = NOW_MS + LATER_MS,
) -> LogStore:
    """A restore, and a start of the restored folder."""
    lock = fill(files, repository, manifest, folder, now_ms=now_ms)
    opened_restored(files, lock, folder).close()
    end_restore(files, folder)
    lock.release()
    return LogStore.open(files, folder, SMALL, clock=ManualClock(now_ms), random=seeded())
