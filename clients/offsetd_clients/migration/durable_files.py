"""The only file access of migrations: plans, journals, and files of offsets.

Raises OSError.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")


def write_whole(path: Path, write: Callable[[Callable[[bytes], object]], Result]) -> Result:
    """Writes a file durably as a whole, or not at all.

    Calls `write` with a function that takes the file's content. Returns the result of `write`.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as out:
            result = write(out.write)
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
        sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)
    return result


def read_lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file, with their line ends."""
    with path.open("rb") as file:
        yield from file


def sync_folder(folder: Path) -> None:
    """Makes the entries of a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LockedFile:
    """A file to which one process at a time durably appends lines."""

    def __init__(self, path: Path) -> None:
        """Creates the file if it does not exist.

        Raises BlockingIOError if another process holds it.
        """
        self.path = path
        self.size = 0
        """The position of the next line. `cut` sets it."""
        while True:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(self._descriptor, path):
                    return
            except BaseException:
                self.close()
                raise
            self.close()  # The previous holder has replaced the file.

    def close(self) -> None:
        """Releases the file for others."""
        os.close(self._descriptor)

    def remove(self) -> None:
        """Removes the file while it is held."""
        self.path.unlink()

    def lines(self) -> Iterator[bytes]:
        """All lines, with their line ends; the last line may have none."""
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(0)
            yield from file

    def line_at(self, position: int) -> bytes:
        """The line that begins at `position`."""
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(position)
            return file.readline()

    def cut(self, size: int) -> None:
        """Cuts the file at `size`."""
        os.ftruncate(self._descriptor, size)
        self.size = size

    def replaced(self, lines: Iterable[bytes]) -> "LockedFile":
        """Durably replaces the file by one with other lines, and returns it.

        The lock is held all the time.
        """
        part = LockedFile(self.path.with_name(f"{self.path.name}.part"))
        try:
            part.cut(0)
            for line in lines:
                part.append(line, is_durable=False)
            os.fsync(part._descriptor)
            part.path.replace(self.path)
            part.path = self.path
            sync_folder(self.path.parent)
        except BaseException:
            part.close()
            raise
        self.close()
        return part

    def append(self, line: bytes, *, is_durable: bool = True) -> int:
        """Appends a line; returns its position.

        If it is not durable, a power failure may lose or tear the line.
        """
        position = self.size
        written = 0
        while written < len(line):
            written += os.pwrite(self._descriptor, line[written:], position + written)
        if is_durable:
            os.fsync(self._descriptor)
        self.size += len(line)
        return position


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
