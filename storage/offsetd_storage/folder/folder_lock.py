"""The lock on a data folder: one process at a time, offsetd or a Kafka broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.errors import FolderGone, FolderLocked, FolderMismatch
from offsetd_storage.folder.unfinished_restore import refuse_unfinished

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.disk.files import File, FileLock, Files

LOCK_NAME = ".lock"  # Kafka's name; it locks the same file.


def check_usable(files: Files, folder: Path) -> None:
    """Raises FolderMismatch if the folder cannot be locked or made. Changes nothing.

    It is for an early check; `FolderLock.acquire` may still fail.
    """
    place = folder
    if not files.exists(folder):
        place = folder.parent
        if not files.exists(place):
            raise FolderMismatch(f"{folder} cannot be made: {place} does not exist")
    if not files.is_folder(place):
        raise FolderMismatch(f"{place} is not a folder")
    if not files.may_write(place):
        what = "cannot be written to" if place == folder else "cannot be made"
        raise FolderMismatch(f"{folder} {what}: no permission in {place}, or a read-only disk")


class FolderLock:
    """A data folder held by this process, until `release` or the process's end.

    `files` reach the folder by its descriptor. When the folder is no longer at its path, they
    change no name in it, because another process may have locked another folder at the path.
    """

    def __init__(self, folder: Path, lock: FileLock) -> None:
        self.files = lock.files
        self._folder = folder
        self._lock = lock

    @classmethod
    def acquire(cls, files: Files, folder: Path, *, ends_restore: bool = False) -> FolderLock:
        """Takes the lock, before anything else in the folder is read or written.

        Raises FolderLocked if it is held, even by this process; FolderMismatch if a restore into
        the folder has not ended, unless the caller `ends_restore`.
        """
        if not ends_restore:
            refuse_unfinished(files, folder)
        lock = files.lock(folder / LOCK_NAME)
        if lock is None:
            raise FolderLocked(f"{folder} is in use by another process (a server, or a broker)")
        try:
            if not ends_restore:  # A restore may have begun and been broken off since.
                refuse_unfinished(lock.files, folder)
        except BaseException:
            lock.release()
            raise
        return cls(folder, lock)

    def check(self) -> None:
        """Raises FolderGone if the path now leads to another folder or lock, or to none."""
        if not self._lock.is_in_place():
            raise FolderGone(f"{self._folder} is no longer the folder that was opened")

    def leads_to(self, path: Path, file: File) -> bool:
        """Returns whether a path in the folder leads to this open file."""
        return self._lock.leads_to(path, file)

    def release(self) -> None:
        """Releases the folder. The lock's file stays, else two processes could lock the folder."""
        self._lock.release()
