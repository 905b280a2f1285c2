"""The simulated disk: `Files` over memory that can lose power, run full and fail.

It judges every claim of durability: what was not synced can be lost, torn and reordered by a power
cut (`crash_states`), survives the death of the process (`kill`), and is silently given up by a sync
that failed. Explorers inspect it before each operation (`before_operation`).
"""

from __future__ import annotations

import errno
import itertools
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from offsetd_storage.clock import Clock, ManualClock
from offsetd_storage.disk.files import Buffer, as_memoryview
from offsetd_storage.disk.simulated_crashes import crashed_roots, root_without_pending
from offsetd_storage.disk.simulated_disk import (
    BLOCK_BYTES,
    AddName,
    Content,
    FileNode,
    FolderNode,
    MoveName,
    NameChange,
    RemoveName,
    SetSize,
    Write,
    blocks_of,
    copied_root,
    fitting_bytes,
    visible_files,
)
from offsetd_storage.disk.simulated_faults import Fault, Operation, OperationKind
from offsetd_storage.disk.simulated_lock import SimulatedLock
from offsetd_storage.disk.simulated_tree import FileTree, names_of, path_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from random import Random

    import numpy as np
    import numpy.typing as npt

_UNBOUNDED_FREE_BYTES = 1 << 50


class SimulatedFiles:
    """A disk in memory, with an empty root folder; relative paths start there too.

    Each call is one step: threads take turns, and `before_operation` runs in its caller's turn.
    """

    def __init__(self, *, sector_bytes: int = 512, clock: Clock | None = None) -> None:
        self.sector_bytes = sector_bytes
        self.clock: Clock = clock or ManualClock()
        self.operations = 0  # Changes of the disk attempted so far.
        # Called before each of them. If it raises, the operation does not happen, as after a kill.
        self.before_operation: Callable[[SimulatedFiles, Operation], None] | None = None
        self.faults: list[Fault] = []
        # The space for contents, which use whole blocks. Names need no space.
        self.capacity_bytes: int | None = None
        self._tree = FileTree(FolderNode({}))
        self._stamps = itertools.count(1)

    def crash_states(
        self, *, exhaustive_pending_max: int = 3, samples: int, random: Random
    ) -> Iterator[SimulatedFiles]:
        """The disks that a power cut at this moment may leave, each once, independent of this one.

        The moment is that of the call, not of the iteration. On those disks nothing is pending,
        open or locked, and no fault is set. First comes the disk without any pending change, then
        the one with all. If at most `exhaustive_pending_max` changes are pending, all subsets
        follow, then all subsets with one write torn, or `samples` of those at random. With more
        pending changes, `samples` of all outcomes follow, chosen at random.
        """
        with self._tree.turn:
            for file in visible_files(self._tree.root):
                file.durable.digest()  # Later crash states of this disk know the digest, too.
            root = copied_root(self._tree.root)
        crashed = crashed_roots(
            root,
            sector_bytes=self.sector_bytes,
            exhaustive_pending_max=exhaustive_pending_max,
            samples=samples,
            random=random,
        )
        return (self._with_root(one) for one in crashed)

    def power_cut(self) -> SimulatedFiles:
        """The disk after a power cut that lost everything unsynced."""
        with self._tree.turn:
            return self._with_root(root_without_pending(self._tree.root))

    def kill(self) -> SimulatedFiles:
        """The disk after the death of the process: reads still see unsynced pages.

        There are no locks, open files or faults on it; the space of removed open files is free.
        """
        with self._tree.turn:
            return self._with_root(copied_root(self._tree.root))

    def put_durable(self, path: Path, content: bytes) -> None:
        """Puts a file and its folders there, as if they had always been there. Not counted."""
        with self._tree.turn:
            folder = self._tree.root
            for name in names_of(path)[:-1]:
                child = folder.entries.get(name) or FolderNode({}, stamp=next(self._stamps))
                assert isinstance(child, FolderNode), f"{name} in {path} is a file"
                folder.durable[name] = folder.entries[name] = child
                folder = child
            file = FileNode(Content(content), self.clock.now_ms(), stamp=next(self._stamps))
            folder.stamp = next(self._stamps)
            folder.durable[path.name] = folder.entries[path.name] = file

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> SimulatedFile:
        """Opens a file; `create` makes an empty one if there is none."""
        with self._tree.turn:
            if create and self._tree.find(path) is None:
                self._create(path)
            return SimulatedFile(self, self._tree.file(path), path, read_only=read_only)

    def exists(self, path: Path) -> bool:
        """Whether there is a file or a folder of that name."""
        with self._tree.turn, suppress(NotADirectoryError):
            return self._tree.find(path) is not None
        return False

    def is_folder(self, path: Path) -> bool:
        """Whether there is a folder of that name."""
        with self._tree.turn, suppress(NotADirectoryError):
            return isinstance(self._tree.find(path), FolderNode)
        return False

    def list_folder(self, path: Path) -> list[str]:
        """The names inside a folder, sorted."""
        with self._tree.turn:
            return sorted(self._tree.folder(path).entries)

    def make_folder(self, path: Path) -> None:
        """Makes one folder. Its parent must exist, and the folder must not exist."""
        with self._tree.turn:
            parent = self._tree.folder(path.parent)
            if self._tree.find(path) is not None:
                raise path_error(errno.EEXIST, path)
            self._begin(OperationKind.MAKE_FOLDER, path)
            made = FolderNode({}, stamp=next(self._stamps))
            self._change_names(parent, AddName(path.name, made))

    def rename(self, source: Path, target: Path) -> None:
        """Renames within a folder, in one step; a file that was at `target` is gone."""
        with self._tree.turn:
            folder = self._tree.folder(source.parent)
            if self._tree.folder(target.parent) is not folder:
                raise path_error(errno.EXDEV, target)  # The engine does not need it.
            node, replaced = self._tree.existing(source), self._tree.find(target)
            if isinstance(replaced, FolderNode) and replaced is not node:
                raise path_error(errno.EISDIR, target)
            if isinstance(node, FolderNode) and isinstance(replaced, FileNode):
                raise path_error(errno.ENOTDIR, target)
            self._begin(OperationKind.RENAME, source, target=target)
            self._change_names(folder, MoveName(source.name, target.name, node))
            node.stamp = next(self._stamps)
            if isinstance(node, FileNode):
                node.path = target

    def unlink(self, path: Path) -> None:
        """Removes a file's name. An open file keeps its contents."""
        with self._tree.turn:
            file = self._tree.file(path)
            self._begin(OperationKind.UNLINK, path)
            self._change_names(self._tree.folder(path.parent), RemoveName(path.name, file))

    def remove_folder(self, path: Path) -> None:
        """Removes a folder, which must be empty."""
        with self._tree.turn:
            folder = self._tree.folder(path)
            if folder.entries:
                raise path_error(errno.ENOTEMPTY, path)
            self._begin(OperationKind.REMOVE_FOLDER, path)
            self._change_names(self._tree.folder(path.parent), RemoveName(path.name, folder))

    def sync_folder(self, path: Path) -> None:
        """Makes the names inside a folder durable.

        If a fault makes the sync fail, the names stay pending, and a later sync makes them durable:
        after a failed sync, a file system may drop unsynced pages, but not names.
        """
        with self._tree.turn:
            folder = self._tree.folder(path)
            self._begin(OperationKind.SYNC_FOLDER, path)
            folder.sync()

    def may_write(self, path: Path) -> bool:
        """Whether there is a folder: a simulated one has no owner."""
        return self.is_folder(path)

    def owner(self, path: Path) -> int:
        """Root, for all files."""
        with self._tree.turn:
            self._tree.file(path)
            return 0

    def size(self, path: Path) -> int:
        """A file's length."""
        with self._tree.turn:
            return len(self._tree.file(path).cached)

    def modified_ms(self, path: Path) -> int:
        """The time at which a file was last written, by the disk's clock."""
        with self._tree.turn:
            return self._tree.file(path).modified_ms

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """Sets the time of a file's last write. This is not an operation, and is never lost."""
        with self._tree.turn:
            file = self._tree.file(path)
            file.modified_ms, file.stamp = modified_ms, next(self._stamps)

    def stamp(self, path: Path) -> tuple[int, ...]:
        """A number that no other file has. It is another number after the file's next change."""
        with self._tree.turn:
            return (self._tree.existing(path).stamp,)

    def free_bytes(self, path: Path) -> int:
        """The free space, in bytes."""
        with self._tree.turn:
            total_bytes = self.total_bytes(path)
            used_bytes = 0 if self.capacity_bytes is None else self._used_bytes()
            return max(0, total_bytes - used_bytes)

    def total_bytes(self, path: Path) -> int:
        """The whole space, free or not, in bytes."""
        with self._tree.turn:
            self._tree.existing(path)
            return _UNBOUNDED_FREE_BYTES if self.capacity_bytes is None else self.capacity_bytes

    def read_bytes(self, path: Path) -> bytes:
        """A file's whole contents."""
        with closing(self.open(path, read_only=True)) as file:
            return file.pread(file.size(), 0)

    def lock(self, path: Path) -> SimulatedLock | None:
        """Locks a file and makes it if it is missing; None if another opener holds the lock."""
        with self._tree.turn:
            if self._tree.find(path) is None:
                self._create(path)
            file = self._tree.file(path)
            is_held, folder = id(file) in self._tree.locked, self._tree.folder(path.parent)
            return None if is_held else SimulatedLock(self, self._tree, path, folder, file)

    def _announce(
        self,
        kind: OperationKind,
        path: Path,
        *,
        position: int = 0,
        size: int = 0,
        target: Path | None = None,
    ) -> Fault | None:
        """Announces and counts an operation. Returns the fault that hits it, if any."""
        if self.before_operation is not None:
            operation = Operation(
                number=self.operations,
                kind=kind,
                path=path,
                target=target,
                position=position,
                size=size,
            )
            self.before_operation(self, operation)
        self.operations += 1
        return self._fault(kind, path)

    def _begin(
        self,
        kind: OperationKind,
        path: Path,
        *,
        position: int = 0,
        size: int = 0,
        target: Path | None = None,
    ) -> None:
        """Announces and counts an operation. A fault prevents it completely."""
        fault = self._announce(kind, path, position=position, size=size, target=target)
        if fault is not None:
            raise path_error(fault.errno, path)

    def _fault(self, kind: OperationKind, path: Path) -> Fault | None:
        striking = [fault for fault in self.faults if fault.strikes(kind, path)]
        return striking[0] if striking else None

    def _create(self, path: Path) -> None:
        folder = self._tree.folder(path.parent)
        self._begin(OperationKind.CREATE, path)
        file = FileNode(Content(), self.clock.now_ms(), stamp=next(self._stamps))
        self._change_names(folder, AddName(path.name, file))

    def _change_names(self, folder: FolderNode, change: NameChange) -> None:
        folder.change(self.operations, change)
        folder.stamp = next(self._stamps)

    def _used_bytes(self) -> int:
        return BLOCK_BYTES * sum(file.blocks.bit_count() for file in self._tree.files_with_room())

    def _fitting_bytes(self, file: FileNode, position: int, size: int) -> int:
        """The number of bytes of a write at `position` for which there is space."""
        if self.capacity_bytes is None or not blocks_of(position, size) & ~file.blocks:
            return size
        free_blocks = max(0, self.capacity_bytes - self._used_bytes()) // BLOCK_BYTES
        return fitting_bytes(file, position, size, free_blocks)

    def _with_root(self, root: FolderNode) -> SimulatedFiles:
        files = SimulatedFiles(sector_bytes=self.sector_bytes, clock=self.clock)
        files.capacity_bytes = self.capacity_bytes
        files._tree.root = root
        files._stamps = itertools.count(next(self._stamps))
        return files


class SimulatedFile:
    """An open file of a simulated disk."""

    def __init__(
        self, files: SimulatedFiles, node: FileNode, path: Path, *, read_only: bool
    ) -> None:
        self._files = files
        self._node = node
        self._read_only = read_only
        self._closed = False
        node.path = path
        files._tree.opened[self] = node

    @property
    def _path(self) -> Path:
        return self._node.path

    def pread(self, size: int, position: int) -> bytes:
        """`size` bytes from `position`; fewer only at the end of the file."""
        with self._files._tree.turn:
            self._check_open()
            fault = self._files._fault(OperationKind.READ, self._path)
            if fault is not None:
                raise path_error(fault.errno, self._path)
            return self._node.cached.read(size, position)

    def pread_into(self, buffer: npt.NDArray[np.uint8], size: int, position: int) -> int:
        """Fills `buffer[:n]` from `position` and returns n; n < `size` only at the file's end."""
        target = buffer.data[:size]
        assert len(target) == size, "the buffer is smaller than the read"
        read = self.pread(size, position)
        target[: len(read)] = read
        return len(read)

    def pwrite(self, chunks: Sequence[Buffer], position: int) -> None:
        """Writes all `chunks`, one after the other, from `position`. This is one operation.

        On a full disk, the bytes that fit are written before ENOSPC is raised.
        """
        chunk = b"".join(as_memoryview(one) for one in chunks)
        files, node = self._files, self._node
        with files._tree.turn:
            self._check_open(writing=True)
            fault = files._announce(
                OperationKind.WRITE, self._path, position=position, size=len(chunk)
            )
            wanted = len(chunk) if fault is None else min(len(chunk), fault.written_bytes)
            written = files._fitting_bytes(node, position, wanted)
            if written:
                node.blocks |= blocks_of(position, written)
                change = Write(position, chunk[:written])
                node.change(files.operations, change, files.clock.now_ms())
                node.stamp = next(files._stamps)
            if fault is not None:
                raise path_error(fault.errno, self._path)
            if written < len(chunk):
                raise path_error(errno.ENOSPC, self._path)

    def size(self) -> int:
        """The file's length."""
        with self._files._tree.turn:
            self._check_open()
            return len(self._node.cached)

    def truncate(self, size: int) -> None:
        """Sets the length, adds zeros if it grows, and frees blocks that are reserved beyond it."""
        files, node = self._files, self._node
        with files._tree.turn:
            self._check_open()
            if self._read_only:
                raise path_error(errno.EINVAL, self._path)
            files._begin(OperationKind.TRUNCATE, self._path, size=size)
            node.blocks &= blocks_of(0, size)
            node.change(files.operations, SetSize(size), files.clock.now_ms())
            node.stamp = next(files._stamps)

    def allocate(self, position: int, size: int) -> bool:
        """Reserves blocks without changing the length: all, or none and ENOSPC.

        A reservation beyond the length does not survive a power cut.
        """
        files, node = self._files, self._node
        with files._tree.turn:
            self._check_open(writing=True)
            files._begin(OperationKind.ALLOCATE, self._path, position=position, size=size)
            if files._fitting_bytes(node, position, size) < size:
                raise path_error(errno.ENOSPC, self._path)
            node.blocks |= blocks_of(position, size)
            return True

    def begin_writeback(self, position: int, size: int) -> None:
        """Does nothing: pending changes may be on the disk or not, at any time."""

    def datasync(self) -> None:
        """Makes the contents and the length durable, but not the file's name.

        If a fault makes it fail, the writes since the last sync are given up: reads see them until
        `drop_cache`, and later syncs succeed without them.
        """
        files, node = self._files, self._node
        with files._tree.turn:
            self._check_open()
            fault = files._announce(OperationKind.SYNC, self._path)
            if fault is not None:
                node.fail_sync(fault.synced_writes)
                raise path_error(fault.errno, self._path)
            node.sync()

    def sync(self) -> None:
        """Makes the contents and the length durable, as `datasync` does."""
        self.datasync()

    def drop_cache(self) -> None:
        """Forgets clean pages, also those that a failed sync gave up."""
        with self._files._tree.turn:
            self._check_open()
            self._node.drop_cache()

    def close(self) -> None:
        """Gives the descriptor back. Calling it again does nothing."""
        with self._files._tree.turn:
            self._closed = True
            self._files._tree.opened.pop(self, None)

    def _check_open(self, *, writing: bool = False) -> None:
        if self._closed or (writing and self._read_only):
            raise path_error(errno.EBADF, self._path)
