"""A lock on a simulated disk, and the disk as the holder of the lock sees it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.disk.files import File, Files
    from offsetd_storage.disk.simulated_disk import FileNode, FolderNode
    from offsetd_storage.disk.simulated_tree import FileTree

_CHANGING_NAMES: Final = frozenset(("make_folder", "remove_folder", "rename", "unlink"))


class SimulatedLock:
    """A lock that is held on a simulated disk. `tree` holds the files of `disk`."""

    def __init__(
        self, disk: Files, tree: FileTree, path: Path, folder: FolderNode, file: FileNode
    ) -> None:
        self._disk = disk
        self._tree = tree
        self._path = path
        self._folder = folder
        self._file: FileNode | None = file  # Kept, so that no other file gets its id.
        tree.locked.add(id(file))

    @property
    def files(self) -> Files:
        """The disk; paths in the lock's folder lead there even after the folder was moved."""
        return cast("Files", _DiskOfLock(self._disk, self._tree, self, self._path, self._folder))

    def is_in_place(self) -> bool:
        """Whether the paths of the folder and of the file still lead to what was locked."""
        return (
            self._file is not None
            and self._tree.leads_to(self._path.parent, self._folder)
            and self._tree.leads_to(self._path, self._file)
        )

    def leads_to(self, path: Path, file: File) -> bool:
        """Whether a path within the folder leads to a file that is open."""
        node = self._tree.node_of(file)
        with self._tree.reached_through(self._path.parent, self._folder):
            return self._tree.leads_to(path, node)

    def release(self) -> None:
        """Gives the lock back. Calling it again does nothing."""
        file, self._file = self._file, None
        if file is not None:
            self._tree.locked.discard(id(file))


class _DiskOfLock:
    """A simulated disk. Its methods find paths in a locked folder through that folder."""

    def __init__(
        self, disk: Files, tree: FileTree, lock: SimulatedLock, path: Path, folder: FolderNode
    ) -> None:
        self._disk = disk
        self._tree = tree
        self._lock = lock
        self._path = path.parent
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._disk, name)
        if not callable(asked):
            return asked

        def call(path: Path, *arguments: Any, **named: Any) -> Any:
            is_within = path == self._path or self._path in path.parents
            changes_names = name in _CHANGING_NAMES or named.get("create")
            if changes_names and is_within and not self._lock.is_in_place():
                raise OSError(errno.ESTALE, "the folder is not at its path any more", str(path))
            with self._tree.reached_through(self._path, self._folder):
                return asked(path, *arguments, **named)

        return call
