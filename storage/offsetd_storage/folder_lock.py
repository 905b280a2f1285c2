"""The lock on a data folder: one process at a time, offsetd or a Kafka broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.errors import FolderLocked

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.files import FileLock, Files

LOCK_NAME = ".lock"  # Kafka's name; it locks the same file.


class FolderLock:
    """A data folder held by this process, until `release` or the process's end."""

    def __init__(self, lock: FileLock) -> None:
        self._lock = lock

    @classmethod
    def acquire(cls, files: Files, folder: Path) -> FolderLock:
        """Takes the lock, before anything else in the folder is read or written.

        Raises FolderLocked where another holds it, also where that is this same process.
        """
        lock = files.lock(folder / LOCK_NAME)
        if lock is None:
            raise FolderLocked(f"{folder} is in use by another process (a server, or a broker)")
        return cls(lock)

    def release(self) -> None:
        """Gives the folder back. The lock's file stays: removing it would let two in."""
        self._lock.release()
