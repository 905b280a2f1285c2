"""The one door to the disk: what the engine asks of files, and the operating system's answer.

Every module of the engine takes a `Files` and touches the disk through nothing else, so that
tests can pass a disk that loses, tears and reorders whatever was not synced
(`offsetd_storage.simulated_files`). All sizes and positions are in bytes. Every failure of the
disk is an `OSError`, as the operating system raised it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Buffer: TypeAlias = bytes | bytearray | memoryview | npt.NDArray[np.uint8]

_FALLOC_FL_KEEP_SIZE = 1
_SYNC_FILE_RANGE_WRITE = 2
_CLOSED = 2**31 - 1  # No descriptor: EBADF, where -1 would be a ValueError to os.fsync.
_IOV_MAX = 1024  # Linux's bound on the chunks of one call.
_FLOCK = struct.Struct("@hhqqi4x")  # struct flock: type, whence, start, length, pid.
assert _FLOCK.size == 32, "struct flock is 32 bytes on 64-bit Linux"


class File(Protocol):
    """An open file. Safe to use from several threads, as positions are always given."""

    def pread(self, size: int, position: int) -> bytes:
        """`size` bytes from `position`; fewer only where the file ends."""

    def pread_into(self, buffer: npt.NDArray[np.uint8], size: int, position: int) -> int:
        """Fills `buffer[:n]` from `position` and returns n; n < `size` only where the file ends."""

    def pwrite(self, chunks: Sequence[Buffer], position: int) -> None:
        """Writes all `chunks`, one behind the other, from `position`.

        An error may come after some of the bytes were written.
        """

    def size(self) -> int:
        """The file's length; blocks reserved beyond it do not count."""

    def truncate(self, size: int) -> None:
        """Sets the length, with zeros where it grows, and gives back blocks reserved beyond it."""

    def allocate(self, position: int, size: int) -> bool:
        """Reserves blocks without changing the length, so that a write there cannot lack room.

        Raises ENOSPC. Returns False, with nothing done, on a file system that cannot reserve.
        """

    def begin_writeback(self, position: int, size: int) -> None:
        """Lets the disk begin with what was written there. Promises nothing: a later sync has less
        to wait for.
        """

    def datasync(self) -> None:
        """Puts the contents and the length on stable storage; not the file's name."""

    def sync(self) -> None:
        """Like `datasync`, and the times too."""

    def drop_cache(self) -> None:
        """Forgets cached pages that need no writing, so that reads see what the disk holds."""

    def close(self) -> None:
        """Gives the descriptor back. Calling it again does nothing."""


class FileLock(Protocol):
    """A lock that is held."""

    def release(self) -> None:
        """Gives the lock back. Calling it again does nothing."""


class Files(Protocol):
    """The file system."""

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> File:
        """Opens a file; `create` makes an empty one where there is none."""

    def exists(self, path: Path) -> bool:
        """Whether there is a file or a folder of that name."""

    def is_folder(self, path: Path) -> bool:
        """Whether there is a folder of that name."""

    def list_folder(self, path: Path) -> list[str]:
        """The names inside a folder, sorted."""

    def make_folder(self, path: Path) -> None:
        """Makes one folder. Its parent has to exist, itself must not."""

    def rename(self, source: Path, target: Path) -> None:
        """Renames within a folder, at once; a file that was at `target` is gone."""

    def unlink(self, path: Path) -> None:
        """Removes a file's name. Whoever has it open keeps it."""

    def sync_folder(self, path: Path) -> None:
        """Puts the names inside a folder on stable storage."""

    def size(self, path: Path) -> int:
        """A file's length."""

    def modified_ms(self, path: Path) -> int:
        """When a file was last written, in milliseconds since 1970, UTC."""

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """Says when a file was last written; durable with the file's next `sync`."""

    def stamp(self, path: Path) -> tuple[int, ...]:
        """What a file or folder has in common with no other, nor with itself once it has changed.

        Of a folder that is a change of its names. It says nothing of what is durable. A power cut
        may leave newer content with an old stamp, where only the times had not been written. That
        is harmless to who asks whether what it reads may be in memory alone: then nothing is.
        """

    def free_bytes(self, path: Path) -> int:
        """Room left on the file system that holds `path`."""

    def total_bytes(self, path: Path) -> int:
        """All room, taken or not, on the file system that holds `path`."""

    def read_bytes(self, path: Path) -> bytes:
        """A file's whole contents."""

    def lock(self, path: Path) -> FileLock | None:
        """Locks a file, made where missing, for this opener; None where another holds it.

        Conflicts with the `fcntl` lock that a Kafka broker holds, and with another lock taken by
        this same process.
        """


def as_memoryview(chunk: Buffer) -> memoryview:
    """The bytes of `chunk`, not copied."""
    return (chunk.data if isinstance(chunk, np.ndarray) else memoryview(chunk)).cast("B")


def read_start(files: Files, path: Path, bytes_max: int) -> bytes:
    """The first `bytes_max` bytes of a file, or all of a shorter one.

    For files that may be of any size: whoever asks for one byte too many learns whether it is.
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
        file.truncate(0)  # A crashed attempt may have left one.
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
        """`size` bytes from `position`; fewer only where the file ends."""
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
        """Fills `buffer[:n]` from `position` and returns n; n < `size` only where the file ends."""
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
        """Writes all `chunks`, one behind the other, from `position`."""
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
        """Sets the length, and gives back blocks reserved beyond it."""
        os.ftruncate(self._descriptor, size)

    def allocate(self, position: int, size: int) -> bool:
        """Reserves blocks without changing the length; raises ENOSPC. False: it cannot."""
        while _fallocate(self._descriptor, _FALLOC_FL_KEEP_SIZE, position, size) != 0:
            error = ctypes.get_errno()
            if error in (errno.EOPNOTSUPP, errno.ENOSYS):
                return False  # A full disk then shows at the write.
            if error != errno.EINTR:
                raise OSError(error, os.strerror(error))
        return True

    def begin_writeback(self, position: int, size: int) -> None:
        """Lets the disk begin with what was written there. Its errors show at the next sync."""
        _sync_file_range(self._descriptor, position, size, _SYNC_FILE_RANGE_WRITE)

    def datasync(self) -> None:
        """Puts the contents and the length on stable storage."""
        os.fdatasync(self._descriptor)

    def sync(self) -> None:
        """Like `datasync`, and the times too."""
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
    """The operating system's files (Linux)."""

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> OsFile:
        """Opens a file; `create` makes an empty one where there is none."""
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
        if create:
            flags |= os.O_CREAT
        return OsFile(os.open(path, flags, 0o644))

    def exists(self, path: Path) -> bool:
        """Whether there is a file or a folder of that name."""
        return os.path.lexists(path)

    def is_folder(self, path: Path) -> bool:
        """Whether there is a folder of that name."""
        return os.path.isdir(path)

    def list_folder(self, path: Path) -> list[str]:
        """The names inside a folder, sorted."""
        return sorted(os.listdir(path))

    def make_folder(self, path: Path) -> None:
        """Makes one folder. Its parent has to exist, itself must not."""
        os.mkdir(path, 0o755)

    def rename(self, source: Path, target: Path) -> None:
        """Renames within a folder, at once; a file that was at `target` is gone."""
        os.rename(source, target)

    def unlink(self, path: Path) -> None:
        """Removes a file's name. Whoever has it open keeps it."""
        os.unlink(path)

    def sync_folder(self, path: Path) -> None:
        """Puts the names inside a folder on stable storage."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def size(self, path: Path) -> int:
        """A file's length."""
        return os.stat(path).st_size

    def modified_ms(self, path: Path) -> int:
        """When a file was last written, in milliseconds since 1970, UTC."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """Says when a file was last written; durable with the file's next `sync`."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def stamp(self, path: Path) -> tuple[int, ...]:
        """Its inode, its length, and when it changed: the last of these nobody can set."""
        status = os.stat(path)
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def free_bytes(self, path: Path) -> int:
        """Room left, for a user without privileges, on the file system that holds `path`."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: Path) -> int:
        """All room, taken or not, on the file system that holds `path`."""
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def read_bytes(self, path: Path) -> bytes:
        """A file's whole contents."""
        file = self.open(path, read_only=True)
        try:
            return file.pread(file.size(), 0)
        finally:
            file.close()

    def lock(self, path: Path) -> OsFileLock | None:
        """Locks a file, made where missing, for this opener; None where another holds it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # An OFD lock: unlike a plain fcntl lock it conflicts within this process as well, and
            # is not dropped when some other descriptor of the same file is closed.
            request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        return OsFileLock(descriptor)


class OsFileLock:
    """A lock that lives as long as its descriptor, and so no longer than the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Gives the lock back. Calling it again does nothing."""
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)


_libc = ctypes.CDLL(None, use_errno=True)
_fallocate = _libc.fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_fallocate.restype = ctypes.c_int
_sync_file_range = _libc.sync_file_range
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_sync_file_range.restype = ctypes.c_int
