"""The files of one segment: their names and their renames."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from offsetd_storage.log.indexes import IndexFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from offsetd_storage.disk.files import File, Files

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

# The ends of the names of files that are not in use.
DELETED_STATE: Final = ".deleted"
CLEANED_STATE: Final = ".cleaned"
SWAP_STATE: Final = ".swap"

OFFSET_MAX: Final = 2**63 - 1


def segment_path(folder: Path, base_offset: int, suffix: str = LOG_SUFFIX) -> Path:
    """A segment's file: the base offset in 20 digits, then the suffix."""
    return folder / f"{base_offset:020d}{suffix}"


def segment_base_offsets(files: Files, folder: Path) -> list[int]:
    """Base offsets of the segments in a partition's folder, in order."""
    names = [name for name in files.list_folder(folder) if name.endswith(LOG_SUFFIX)]
    stems = [name.removesuffix(LOG_SUFFIX) for name in names]
    offsets = [int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdigit()]
    return sorted(offset for offset in offsets if offset <= OFFSET_MAX)


_CLOCK_OFF_MS: Final = 60_000


class SegmentFiles:
    """A segment's log file and its indexes. The end of their names is their state."""

    __slots__ = (
        "_file",
        "_files",
        "_folder",
        "_name_lock",
        "_offset_file",
        "_time_file",
        "base_offset",
        "is_retired",
        "path",
    )

    def __init__(
        self, files: Files, folder: Path, base_offset: int, *, create: bool, state: str
    ) -> None:
        self.base_offset = base_offset
        self.path = segment_path(folder, base_offset, LOG_SUFFIX + state)
        self.is_retired = False
        self._files = files
        self._folder = folder
        self._name_lock = threading.Lock()  # Guards `path` and `is_retired`.
        self._offset_file = IndexFile(files, self._path_of(INDEX_SUFFIX, state))
        self._time_file = IndexFile(files, self._path_of(TIME_INDEX_SUFFIX, state))
        if create:
            # The indexes are made now, so that a sync needs no room for a name. They are made
            # before the log, because indexes without a log are ignored.
            self._offset_file.make()
            self._time_file.make()
        self._file = files.open(self.path, create=True) if create else None

    @property
    def file(self) -> File:
        """The log file, for changes. The caller holds the log's lock, or has the log to itself."""
        if self._file is None:
            self._file = self._files.open(self.path)
        return self._file

    # Leaving and joining the log: one thread, of the cleaner or of retention.

    def retire(self) -> None:
        """Marks the segment as out of the log's list: its file is not opened again."""
        with self._name_lock:
            self.is_retired = True
        self.close()

    def rename(self, suffix: str, old_state: str, state: str) -> bool:
        """Renames one of its files to another state; returns whether there was such a file.

        Not durable before the folder is synced.
        """
        source, target = self._path_of(suffix, old_state), self._path_of(suffix, state)
        if not self._files.exists(source):
            return False
        with self._name_lock:
            self._files.rename(source, target)
            if suffix == LOG_SUFFIX:
                self.path = target
            elif suffix == INDEX_SUFFIX:
                self._offset_file.path = target
            elif suffix == TIME_INDEX_SUFFIX:
                self._time_file.path = target
        return True

    def remove_files(self, state: str = "", *, suffixes: Sequence[str] = SEGMENT_SUFFIXES) -> None:
        """Removes its files in a state. The log is last: without it the others are ignored."""
        self.close()
        for path in reversed(self.paths(state, suffixes=suffixes)):
            self._files.unlink(path)

    def paths(self, state: str, *, suffixes: Sequence[str] = SEGMENT_SUFFIXES) -> list[Path]:
        """The paths of its files in a state, as far as they exist; the log first."""
        paths = [self._path_of(suffix, state) for suffix in suffixes]
        return [path for path in paths if self._files.exists(path)]

    def _path_of(self, suffix: str, state: str) -> Path:
        return segment_path(self._folder, self.base_offset, suffix + state)

    def close(self) -> None:
        """Closes the log file. Writes nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _date_file(self, filled_ms: int | None) -> None:
        """Sets the file's time if the machine's clock made it look older than its batches."""
        if filled_ms is None or self._files.modified_ms(self.path) >= filled_ms - _CLOCK_OFF_MS:
            return
        self._files.set_modified_ms(self.path, filled_ms)
