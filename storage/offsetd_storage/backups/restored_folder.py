"""The folder that a restore fills: locked and marked, and emptied of what an earlier one left.

A restore begins in an empty folder. So what it has left is what it may have written, by its name;
with anything else in the folder, nothing is removed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from offsetd_storage.disk.files import replace_file
from offsetd_storage.errors import FolderMismatch
from offsetd_storage.folder.cleaner_checkpoint import CLEANER_CHECKPOINT
from offsetd_storage.folder.folder_format import PROPERTIES_NAME
from offsetd_storage.folder.folder_lock import LOCK_NAME, FolderLock
from offsetd_storage.folder.unfinished_restore import RESTORE_MARK
from offsetd_storage.journal.journal_files import JOURNAL_NAMES, SPARE_NAME
from offsetd_storage.log.kafka_checkpoints import LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from offsetd_storage.log.leader_epochs import LEADER_EPOCHS_FILE
from offsetd_storage.log.segment_list import SEGMENT_LIST_NAME
from offsetd_storage.recovery.clean_shutdown_marker import CLOSED_MARK_NAME
from offsetd_storage.recovery.quarantine import QUARANTINE_PREFIX
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.disk.files import Files

_REPLACED: Final = ".tmp"
_MARK_BEGUN: Final = RESTORE_MARK + _REPLACED
_LAST_UP_NAME: Final = "offsetd.last-up"  # Of the server's package, which writes it.
_ALWAYS_THERE: Final = frozenset(("lost+found", LOCK_NAME))
_FILES: Final = frozenset(
    (
        RESTORE_MARK,
        PROPERTIES_NAME,
        LOG_START_CHECKPOINT,
        RECOVERY_POINT_CHECKPOINT,
        CLEANER_CHECKPOINT,
        CLOSED_MARK_NAME,
        _LAST_UP_NAME,
        SPARE_NAME,
        *JOURNAL_NAMES,
    )
)
_LOG_FILES: Final = frozenset((LEADER_EPOCHS_FILE, SEGMENT_LIST_NAME))
_SEGMENT_FILE: Final = re.compile(r"\d{20}\.[a-z]+(\.[a-z]+)?", re.ASCII)
_TEXT: Final = (
    b"A restore of a backup has not ended here. Run offsetd backup restore again, or remove the"
    b" folder.\n"
)


def begin_restore(files: Files, folder: Path) -> FolderLock:
    """Locks and marks an empty folder, and makes it if it is missing.

    What an earlier restore left goes. The caller keeps the lock until `end_restore`, or until it
    fails. Raises FolderMismatch for a folder with other files, and FolderLocked for one that a
    server or another restore has, which are not changed; OSError.
    """
    if not files.exists(folder):
        files.make_folder(folder)
        files.sync_folder(folder.parent)
    elif not files.is_folder(folder):
        raise FolderMismatch(f"{folder} is not a folder")
    _unmarked_names(files, folder)  # A folder that is refused gets no lock's file either.
    lock = FolderLock.acquire(files, folder, ends_restore=True)
    try:
        names = _left_names(lock.files, folder)
        replace_file(lock.files, folder / RESTORE_MARK, _TEXT)
        for name in names:
            _remove(lock.files, folder / name)
    except BaseException:
        lock.release()
        raise
    return lock


def end_restore(files: Files, folder: Path) -> None:
    """Removes the mark, durably: from now on a server may open the folder. Raises OSError."""
    files.sync_folder(folder)
    files.unlink(folder / RESTORE_MARK)
    files.sync_folder(folder)


def _left_names(files: Files, folder: Path) -> list[str]:
    """The files that an earlier restore left, except its mark. Raises FolderMismatch for others."""
    left = _unmarked_names(files, folder)
    for name in left:
        if (foreign := _foreign(files, folder, name)) is not None:
            raise FolderMismatch(
                f"a restore into {folder} has not ended, but {foreign} is not from it: move that"
                " away, or restore into a new or empty folder"
            )
    return left


def _unmarked_names(files: Files, folder: Path) -> list[str]:
    """The files except a mark. Raises FolderMismatch if there are files and no mark."""
    names = set(files.list_folder(folder)) - _ALWAYS_THERE
    if RESTORE_MARK not in names and names - {_MARK_BEGUN}:
        raise FolderMismatch(
            f"{folder} is not empty ({min(names)}): restore into a new or empty folder"
        )
    return sorted(names - {RESTORE_MARK, _MARK_BEGUN})


def _foreign(files: Files, folder: Path, name: str) -> str | None:
    """A file there that no restore writes: the name itself, or one within; None without one."""
    if not files.is_folder(folder / name):
        is_ours = _is_one_of(_FILES, name) or name.startswith(QUARANTINE_PREFIX)
        return None if is_ours else name
    if TopicPartition.of_folder(name) is None:
        return name
    for each in files.list_folder(folder / name):
        is_segments = _SEGMENT_FILE.fullmatch(each) is not None
        if not (is_segments or _is_one_of(_LOG_FILES, each)) or files.is_folder(
            folder / name / each
        ):
            return f"{name}/{each}"
    return None


def _is_one_of(names: frozenset[str], name: str) -> bool:
    return name in names or name.removesuffix(_REPLACED) in names


def _remove(files: Files, path: Path) -> None:
    if not files.is_folder(path):
        files.unlink(path)
        return
    for each in files.list_folder(path):
        files.unlink(path / each)
    files.remove_folder(path)  # The backup may have fewer partitions than the one before.
