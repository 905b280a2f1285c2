"""The two files of a journal on the disk: making them, and exchanging them to change their size.

Their blocks are written, not only reserved. So later writes change no metadata, cannot find the
disk full, and need only an fdatasync. A file gets its name when it is complete, so a journal file
that is missing or short has been damaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.disk.files import Buffer, File, Files
    from offsetd_storage.folder.folder_lock import FolderLock

JOURNAL_NAMES: Final = ("offsetd-journal-0", "offsetd-journal-1")
SPARE_NAME: Final = "offsetd-journal.tmp"  # The name of a file while it is made.
_ZERO_CHUNK_BYTES: Final = 1 << 20


class JournalFiles:
    """The two files. A place is an index into JOURNAL_NAMES. Every call may raise OSError."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder
        self._paths = tuple(folder / name for name in JOURNAL_NAMES)
        self._spare_path = folder / SPARE_NAME
        self._spare: File | None = None
        self._open: dict[int, File] = {}

    def __getitem__(self, place: int) -> File:
        """The file in a place, opened if it is not open."""
        if place not in self._open:
            self._open[place] = self._files.open(self._paths[place])
        return self._open[place]

    def size(self, place: int) -> int | None:
        """The size of the file in a place; None if there is none."""
        return self[place].size() if self._files.exists(self._paths[place]) else None

    def reserve(self, place: int) -> None:
        """Allocates a file's blocks again: a copied folder may lack blocks of zeros."""
        self[place].allocate(0, self[place].size())

    def make_spare(self, size_bytes: int) -> None:
        """Makes a spare file of zeros. If that fails (also with ENOSPC), the journal is unchanged.

        The spare stays open, so that an exchange needs no further file descriptor.
        """
        self._close_spare()
        self._spare = file = self._files.open(self._spare_path, create=True)
        file.truncate(0)
        zeros = bytes(min(_ZERO_CHUNK_BYTES, size_bytes))
        for position in range(0, size_bytes, _ZERO_CHUNK_BYTES):
            file.pwrite([zeros[: size_bytes - position]], position)
        file.sync()

    def drop_spare(self) -> bool:
        """Removes the spare of this process or an earlier one. Returns whether there was one."""
        self._close_spare()
        if not self._files.exists(self._spare_path):
            return False
        self._files.unlink(self._spare_path)
        return True

    def put_spare(self, place: int, content: Buffer, position: int) -> None:
        """Puts the spare in the place of a file that is not needed. Durable when the call returns.

        The new file holds `content` before it gets its name.
        """
        spare, self._spare = self._spare, None
        assert spare is not None, "there is no spare"
        before = self._open.pop(place, None)
        if before is not None:
            before.close()
        self._open[place] = spare
        if len(content):
            spare.pwrite([content], position)
            spare.sync()
        self._files.rename(self._spare_path, self._paths[place])
        self._files.sync_folder(self._folder)

    def lost_files(self, lock: FolderLock) -> list[Path]:
        """The paths of open files that were removed or replaced."""
        return [
            self._paths[place]
            for place, file in self._open.items()
            if not lock.leads_to(self._paths[place], file)
        ]

    def close(self) -> None:
        """Closes the files."""
        self._close_spare()
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _close_spare(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._spare = None
