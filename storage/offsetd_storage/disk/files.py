"""All access to the disk: the file operations that the engine uses, and those of Linux.

Every module of the engine takes a `Files` and touches the disk through nothing else, so that tests
can pass a disk that loses, tears and reorders all that was not synced
(`offsetd_storage.disk.simulated_files`). All sizes and positions are in bytes. Every failure of the
disk is an `OSError`, as the operating system raised it.
"""

from __future__ import annotations

import copy
import errno
import fcntl
import os
import stat
import struct
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from offsetd_storage.disk.system_calls import allocate_blocks, begin_writeback

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Self

Buffer: TypeAlias = bytes | bytearray | memoryview | npt.NDArray[np.uint8]

_CLOSED = 2**31 - 1  # Not a descriptor: gives EBADF. With -1, os.fsync raises ValueError.
_IOV_MAX = 1024  # Linux's bound on the chunks of one call.
_FLOCK = struct.Struct("@hhqqi4x")  # struct flock: type, whence, start, length, pid.
assert _FLOCK.size == 32, "struct flock is 32 bytes on 64-bit Linux"


class File(Protocol):
    """An open file. Several threads may use it, because every call has a position."""

    def pread(self, size: int, position: int) -> bytes:
        """`size` bytes from `position`; fewer only at the end of the file."""

    def pread_into(self, buffer: npt.NDArray[np.uint8], size: int, position: int) -> int:
        """Fills `buffer[:n]` from `position` and returns n; n < `size` only at the file's end."""

    def pwrite(self, chunks: Sequence[Buffer], position: int) -> None:
        """Writes all `chunks`, one after the other, from `position`.

        An error may come after some of the bytes were written.
        """

    def size(self) -> int:
        """The file's length; blocks reserved beyond it do not count."""

    def truncate(self, size: int) -> None:
        """Sets the length, adds zeros if it grows, and frees blocks that are reserved beyond it."""

    def allocate(self, position: int, size: int) -> bool:
        """Reserves blocks without changing the length, so that a write there cannot lack room.

        Raises ENOSPC. Returns False, with nothing done, on a file system that cannot reserve.
        """

    def begin_writeback(self, position: int, size: int) -> None:
        """Starts to write a range to the disk, so that a later sync is short. Promises nothing."""

    def datasync(self) -> None:
        """Puts the contents and the length on stable storage; not the file's name."""

    def sync(self) -> None:
        """Puts the contents, the length and the times on stable storage; not the file's name."""

    def drop_cache(self) -> None:
        """Forgets cached pages that need no writing, so that reads see what the disk holds."""

    def close(self) -> None:
        """Gives the descriptor back. Calling it again does nothing."""


class FileLock(Protocol):
    """A lock that is held on a file, and with it the folder that the file lies in."""

    @property
    def files(self) -> Files:
        """The same files, but the lock's folder is reached by its descriptor.

        A path into the folder leads to the folder that was locked, even if it was moved, and never
        to another folder at its path. Unless the lock `is_in_place`, no file is made, renamed or
        removed there: ESTALE. Do not use them after the release.
        """

    def is_in_place(self) -> bool:
        """Whether the paths lead to what was locked. If not, another process may lock there."""

    def leads_to(self, path: Path, file: File) -> bool:
        """Whether a path within the folder leads to a file that is open."""

    def release(self) -> None:
        """Gives the lock back. Calling it again does nothing."""


class Files(Protocol):
    """The file system."""

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> File:
        """Opens a file; `create` makes an empty one if there is none."""

    def exists(self, path: Path) -> bool:
        """Whether there is a file or a folder of that name."""

    def is_folder(self, path: Path) -> bool:
        """Whether there is a folder of that name."""

    def list_folder(self, path: Path) -> list[str]:
        """The names inside a folder, sorted."""

    def make_folder(self, path: Path) -> None:
        """Makes one folder. Its parent must exist, and the folder must not exist."""

    def rename(self, source: Path, target: Path) -> None:
        """Renames within a folder, in one step; a file that was at `target` is gone."""

    def unlink(self, path: Path) -> None:
        """Removes a file's name. Processes that have it open keep the file."""

    def remove_folder(self, path: Path) -> None:
        """Removes a folder, which must be empty."""

    def sync_folder(self, path: Path) -> None:
        """Puts the names inside a folder on stable storage."""

    def may_write(self, path: Path) -> bool:
        """Whether this process may make files in a folder, as far as that can be known."""

    def owner(self, path: Path) -> int:
        """The id of the user that a file belongs to."""

    def size(self, path: Path) -> int:
        """A file's length."""

    def modified_ms(self, path: Path) -> int:
        """The time at which a file was last written, in milliseconds since 1970, UTC."""

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """Sets the time of a file's last write; durable with the file's next `sync`."""

    def stamp(self, path: Path) -> tuple[int, ...]:
        """A value that no other file or folder has. It is another value after a change.

        A folder changes when its names change. The stamp says nothing of durability. A power cut
        may leave newer content with an old stamp, if only the times were not written. That is
        harmless: after a power cut, everything that is read is on the disk.
        """

    def free_bytes(self, path: Path) -> int:
        """Room left on the file system that holds `path`."""

    def total_bytes(self, path: Path) -> int:
        """All room, taken or not, on the file system that holds `path`."""

    def read_bytes(self, path: Path) -> bytes:
        """A file's whole contents."""

    def lock(self, path: Path) -> FileLock | None:
        """Locks a file and makes it if it is missing; None if another opener holds the lock.

        Conflicts with the `fcntl` lock that a Kafka broker holds, and with another lock taken by
        this same process.
        """


def as_memoryview(chunk: Buffer) -> memoryview:
    """The bytes of `chunk`, not copied."""
    return (chunk.data if isinstance(chunk, np.ndarray) else memoryview(chunk)).cast("B")


def read_start(files: Files, path: Path, bytes_max: int) -> bytes:
    """The first `bytes_max` bytes of a file, or all of a shorter one.

    For files of any size. To check that a file is not too large, ask for one byte more.
    """
    file = files.open(path, read_only=True)
    try:
        return file.pread(min(file.size(), bytes_max), 0)
    finally:
        file.close()


def replace_file(files: Files, path: Path, content: bytes) -> None:
    """Puts `content` at `path` so that a crash leaves either the old contents or the new ones.

    Kafka's procedure for its checkpoints: `<path>.tmp`, sync, rename, sync the folder.
    """
    temporary = path.with_name(path.name + ".tmp")
    file = files.open(temporary, create=True)
    try:
        file.truncate(0)  # A crashed attempt may have left a file.
        file.pwrite([content], 0)
        file.sync()  # Contents first: a name must never point at unsynced bytes.
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_folder(path.parent)


class OsFile:
    """A file descriptor of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def pread(self, size: int, position: int) -> bytes:
        """`size` bytes from `position`; fewer only at the end of the file."""
        chunk = os.pread(self._descriptor, size, position)
        if len(chunk) == size or not chunk:
            return chunk
        chunks = [chunk]
        done = len(chunk)
        while done < size and (chunk := os.pread(self._descriptor, size - done, position + done)):
            chunks.append(chunk)
            done += len(chunk)
        return b"".join(chunks)

    def pread_into(self, buffer: npt.NDArray[np.uint8], size: int, position: int) -> int:
        """Fills `buffer[:n]` from `position` and returns n; n < `size` only at the file's end."""
        target = buffer.data[:size]
        assert len(target) == size, "the buffer is smaller than the read"
        done = 0
        while done < size:
            read = os.preadv(self._descriptor, [target[done:]], position + done)
            if read == 0:
                break
            done += read
        return done

    def pwrite(self, chunks: Sequence[Buffer], position: int) -> None:
        """Writes all `chunks`, one after the other, from `position`."""
        waiting = [as_memoryview(chunk) for chunk in chunks if len(chunk)]
        first = 0
        while first < len(waiting):
            written = os.pwritev(self._descriptor, waiting[first : first + _IOV_MAX], position)
            if written == 0:
                raise OSError(errno.EIO, "the disk took no bytes")
            position += written
            while first < len(waiting) and written >= len(waiting[first]):
                written -= len(waiting[first])
                first += 1
            if written:
                waiting[first] = waiting[first][written:]

    def size(self) -> int:
        """The file's length."""
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        """Sets the length, and frees blocks that are reserved beyond it."""
        os.ftruncate(self._descriptor, size)

    def allocate(self, position: int, size: int) -> bool:
        """Reserves blocks without changing the length; raises ENOSPC. Returns False if unable."""
        return allocate_blocks(self._descriptor, position, size)

    def begin_writeback(self, position: int, size: int) -> None:
        """Starts to write a range to the disk. The next sync raises its errors."""
        begin_writeback(self._descriptor, position, size)

    def datasync(self) -> None:
        """Puts the contents and the length on stable storage."""
        os.fdatasync(self._descriptor)

    def sync(self) -> None:
        """Puts the contents, the length and the times on stable storage."""
        os.fsync(self._descriptor)

    def drop_cache(self) -> None:
        """Forgets cached pages that need no writing."""
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Gives the descriptor back. Calling it again does nothing."""
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)


class OsFiles:
    """The operating system's files (Linux).

    The files of a lock appear in errors by their path inside of the locked folder.
    """

    _locked: OsFileLock | None = None  # Set in the files of a lock, to reach its folder.
    _file_mode = 0o644  # Without what the umask takes.
    _folder_mode = 0o755

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> OsFile:
        """Opens a file; `create` makes an empty one if there is none."""
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
        if create:
            flags |= os.O_CREAT
        name, folder = self._place(path, changes_names=create)
        return OsFile(os.open(name, flags, self._file_mode, dir_fd=folder))

    def exists(self, path: Path) -> bool:
        """Whether there is a file or a folder of that name."""
        name, folder = self._place(path)
        with suppress(OSError):
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            return True
        return False

    def is_folder(self, path: Path) -> bool:
        """Whether there is a folder of that name."""
        with suppress(OSError):
            return stat.S_ISDIR(self._status(path).st_mode)
        return False

    def list_folder(self, path: Path) -> list[str]:
        """The names inside a folder, sorted."""
        with self._opened_folder(path) as descriptor:
            return sorted(os.listdir(descriptor))

    def make_folder(self, path: Path) -> None:
        """Makes one folder. Its parent must exist, and the folder must not exist."""
        name, folder = self._place(path, changes_names=True)
        os.mkdir(name, self._folder_mode, dir_fd=folder)

    def rename(self, source: Path, target: Path) -> None:
        """Renames within a folder, in one step; a file that was at `target` is gone."""
        name, folder = self._place(source, changes_names=True)
        new_name, new_folder = self._place(target)
        os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)

    def unlink(self, path: Path) -> None:
        """Removes a file's name. Processes that have it open keep the file."""
        name, folder = self._place(path, changes_names=True)
        os.unlink(name, dir_fd=folder)

    def remove_folder(self, path: Path) -> None:
        """Removes a folder, which must be empty."""
        name, folder = self._place(path, changes_names=True)
        os.rmdir(name, dir_fd=folder)

    def sync_folder(self, path: Path) -> None:
        """Puts the names inside a folder on stable storage."""
        with self._opened_folder(path) as descriptor:
            os.fsync(descriptor)

    def may_write(self, path: Path) -> bool:
        """Whether its mode, its owner and its mount let this process make files in it."""
        name, folder = self._place(path)
        return os.access(name, os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True)

    def owner(self, path: Path) -> int:
        """The id of the user that a file belongs to."""
        return self._status(path).st_uid

    def size(self, path: Path) -> int:
        """A file's length."""
        return self._status(path).st_size

    def modified_ms(self, path: Path) -> int:
        """The time at which a file was last written, in milliseconds since 1970, UTC."""
        return self._status(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """Sets the time of a file's last write; durable with the file's next `sync`."""
        name, folder = self._place(path)
        os.utime(name, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000), dir_fd=folder)

    def stamp(self, path: Path) -> tuple[int, ...]:
        """Its inode, its length, and its change time, which no program can set."""
        status = self._status(path)
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def free_bytes(self, path: Path) -> int:
        """Room left, for a user without privileges, on the file system that holds `path`."""
        status = self._file_system(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: Path) -> int:
        """All room, taken or not, on the file system that holds `path`."""
        status = self._file_system(path)
        return status.f_blocks * status.f_frsize

    def read_bytes(self, path: Path) -> bytes:
        """A file's whole contents."""
        with closing(self.open(path, read_only=True)) as file:
            return file.pread(file.size(), 0)

    def lock(self, path: Path) -> OsFileLock | None:
        """Locks a file and makes it if it is missing; None if another opener holds the lock."""
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        descriptor = _CLOSED
        try:
            descriptor = os.open(
                path.name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644, dir_fd=folder
            )
            # An OFD lock: unlike a plain fcntl lock it conflicts within this process as well, and
            # is not dropped when some other descriptor of the same file is closed.
            request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
        except OSError as error:
            os.close(folder)
            if descriptor == _CLOSED:
                raise
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        return OsFileLock(self, path, folder=folder, file=descriptor)

    def _of_lock(self, lock: OsFileLock) -> Self:
        within = copy.copy(self)
        within._locked = lock
        return within

    def _place(self, path: Path, *, changes_names: bool = False) -> tuple[Path | str, int | None]:
        """A path for system calls, and the folder that it starts from; None for the usual one.

        Raises ESTALE if `changes_names` and the locked folder is not at its path any more.
        """
        if self._locked is None or (name := self._locked.name_within(path)) is None:
            return path, None
        if changes_names and not self._locked.is_in_place():
            raise OSError(errno.ESTALE, "the folder is not at its path any more", str(path))
        return name, self._locked.folder

    def _status(self, path: Path) -> os.stat_result:
        name, folder = self._place(path)
        return os.stat(name, dir_fd=folder)

    def _file_system(self, path: Path) -> os.statvfs_result:
        name, folder = self._place(path)
        if folder is None or name == ".":  # This needs no free descriptor.
            return os.statvfs(name if folder is None else folder)
        descriptor = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=folder)
        try:
            return os.statvfs(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _opened_folder(self, path: Path) -> Iterator[int]:
        """A descriptor of its own: threads that share one also share the position of a listing."""
        name, folder = self._place(path)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class OsFileLock:
    """A lock that lives as long as its descriptor, and so no longer than the process."""

    def __init__(self, files: OsFiles, path: Path, *, folder: int, file: int) -> None:
        """`folder` and `file` are descriptors, which the lock owns and closes."""
        self.folder = folder
        self._file = file
        self._path = path
        self._folder_path = str(path.parent)
        self._prefix = os.path.join(self._folder_path, "")
        self.files = files._of_lock(self)

    def name_within(self, path: Path) -> str | None:
        """A path, relative to the locked folder; None if it leads elsewhere."""
        text = str(path)
        if text.startswith(self._prefix):
            return text[len(self._prefix) :]
        return "." if text == self._folder_path else None

    def is_in_place(self) -> bool:
        """Whether the paths of the folder and of the file still lead to what was locked."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return os.path.samestat(
                os.stat(self._folder_path), os.fstat(self.folder)
            ) and os.path.samestat(os.stat(self._path), os.fstat(self._file))
        return False

    def leads_to(self, path: Path, file: File) -> bool:
        """Whether a path within the folder leads to a file that is open."""
        assert isinstance(file, OsFile)
        with suppress(FileNotFoundError, NotADirectoryError):
            return os.path.samestat(self.files._status(path), os.fstat(file._descriptor))
        return False

    def release(self) -> None:
        """Gives the lock back. Calling it again does nothing."""
        descriptors = self.folder, self._file
        self.folder = self._file = _CLOSED
        for descriptor in descriptors:
            if descriptor != _CLOSED:
                os.close(descriptor)
