"""The mark of a folder that a restore has begun to fill, and has not completed.

No server opens such a folder. Everything in it was made by the restore, so the next restore begins
by removing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.disk.files import replace_file
from offsetd_storage.errors import FolderMismatch

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.disk.files import Files

RESTORE_MARK: Final = "offsetd.restoring"
_MARK_BEGUN: Final = RESTORE_MARK + ".tmp"
_NOT_OURS: Final = frozenset(("lost+found",))
_TEXT: Final = (
    b"A restore of a backup has not ended here. Run offsetd backup restore again, or remove the"
    b" folder.\n"
)


def refuse_unfinished(files: Files, folder: Path) -> None:
    """Raises FolderMismatch if a restore into the folder has not ended."""
    if files.exists(folder / RESTORE_MARK):
        raise FolderMismatch(
            f"a restore into {folder} has not ended: run offsetd backup restore again, or remove"
            " the folder"
        )


def begin_restore(files: Files, folder: Path) -> None:
    """Marks an empty folder, and makes it if it is missing; what an earlier restore left goes.

    Raises FolderMismatch for a folder with other files, which is not changed; OSError.
    """
    if not files.exists(folder):
        files.make_folder(folder)
        files.sync_folder(folder.parent)
    elif not files.is_folder(folder):
        raise FolderMismatch(f"{folder} is not a folder")
    names = set(files.list_folder(folder)) - _NOT_OURS
    if RESTORE_MARK not in names and names - {_MARK_BEGUN}:
        raise FolderMismatch(
            f"{folder} is not empty ({min(names)}): restore into a new or empty folder"
        )
    replace_file(files, folder / RESTORE_MARK, _TEXT)
    for name in sorted(names - {RESTORE_MARK, _MARK_BEGUN}):
        path = folder / name
        if files.is_folder(path):
            for each in files.list_folder(path):
                files.unlink(path / each)
        else:
            files.unlink(path)


def end_restore(files: Files, folder: Path) -> None:
    """Removes the mark, durably: from now on a server may open the folder. Raises OSError."""
    files.sync_folder(folder)
    files.unlink(folder / RESTORE_MARK)
    files.sync_folder(folder)
