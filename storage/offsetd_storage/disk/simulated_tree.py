"""The file tree of a simulated disk: what a path leads to, and which files are open or locked."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from offsetd_storage.disk.simulated_disk import FileNode, FolderNode, visible_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from offsetd_storage.disk.files import File
    from offsetd_storage.disk.simulated_disk import Node


class FileTree:
    """The folders and files of one simulated disk, and the turn of the threads that use it.

    Relative paths start at the root, too. Raises OSError as a file system does.
    """

    def __init__(self, root: FolderNode) -> None:
        self.root = root
        self.turn = threading.RLock()
        self.opened: dict[File, FileNode] = {}
        self.locked: set[int] = set()  # The ids of the files that are locked.
        self._held: tuple[tuple[str, ...], FolderNode] | None = None  # See `reached_through`.

    def find(self, path: Path) -> Node | None:
        """The file or folder at a path; None if there is none."""
        node: Node = self.root
        names = names_of(path)
        if self._held is not None and names[: len(self._held[0])] == self._held[0]:
            names, node = names[len(self._held[0]) :], self._held[1]
        for name in names:
            if isinstance(node, FileNode):
                raise path_error(errno.ENOTDIR, path)
            child = node.entries.get(name)
            if child is None:
                return None
            node = child
        return node

    def existing(self, path: Path) -> Node:
        """The file or folder at a path."""
        node = self.find(path)
        if node is None:
            raise path_error(errno.ENOENT, path)
        return node

    def file(self, path: Path) -> FileNode:
        """The file at a path."""
        node = self.existing(path)
        if isinstance(node, FolderNode):
            raise path_error(errno.EISDIR, path)
        return node

    def folder(self, path: Path) -> FolderNode:
        """The folder at a path."""
        node = self.existing(path)
        if isinstance(node, FileNode):
            raise path_error(errno.ENOTDIR, path)
        return node

    def node_of(self, file: File) -> FileNode:
        """The file of an open descriptor."""
        with self.turn:
            node = self.opened.get(file)
            if node is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return node

    @contextmanager
    def reached_through(self, path: Path, folder: FolderNode) -> Iterator[None]:
        """In the block, which is one turn, a path that begins with `path` starts at `folder`."""
        with self.turn:
            before, self._held = self._held, (names_of(path), folder)
            try:
                yield
            finally:
                self._held = before

    def leads_to(self, path: Path, node: Node) -> bool:
        """Whether a path leads to this file or folder, now."""
        with self.turn, suppress(NotADirectoryError):
            return self.find(path) is node
        return False

    def files_with_room(self) -> list[FileNode]:
        """The files that take room on the disk: those with a name, and those that are open."""
        visible = {id(file): file for file in visible_files(self.root)}
        return list((visible | {id(file): file for file in self.opened.values()}).values())


def names_of(path: Path) -> tuple[str, ...]:
    """The names in a path, without the root."""
    return path.parts[1:] if path.is_absolute() else path.parts


def path_error(number: int, path: Path) -> OSError:
    """The error with this `errno`, for a path."""
    return OSError(number, os.strerror(number), str(path))
