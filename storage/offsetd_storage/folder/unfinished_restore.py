"""The mark of a folder that a restore has begun to fill, and has not completed.

No server opens such a folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.errors import FolderMismatch

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.disk.files import Files

RESTORE_MARK: Final = "offsetd.restoring"


def refuse_unfinished(files: Files, folder: Path) -> None:
    """Raises FolderMismatch if a restore into the folder has not ended."""
    if files.exists(folder / RESTORE_MARK):
        raise FolderMismatch(
            f"a restore into {folder} has not ended: run offsetd backup restore again, or remove"
            " the folder"
        )
