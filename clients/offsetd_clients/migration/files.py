"""The one door of migrations to the disk: plans, journals, and files of offsets.

Raises OSError.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")


def write_whole(path: Path, write: Callable[[Callable[[bytes], object]], Result]) -> Result:
    """Calls `write` with what takes the file's content: it is there as a whole, durably, or not.

    Returns what `write` does.
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
    """The lines of a file, with their ends, as they are asked for."""
    with path.open("rb") as file:
        yield from file


def sync_folder(folder: Path) -> None:
    """Makes durable which files there are."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LockedFile:
    """Lines that are appended, durably, by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Made if it is not there. Raises BlockingIOError if another process has it."""
        self.path = path
        self.size = 0
        """Where the next line goes; `cut` sets it."""
        while True:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(self._descriptor, path):
                    return
            except BaseException:
                self.close()
                raise
            self.close()  # Who had it has put another in its place meanwhile.

    def close(self) -> None:
        """Lets others have it."""
        os.close(self._descriptor)

    def remove(self) -> None:
        """The file is gone; nobody else had it meanwhile."""
        self.path.unlink()

    def lines(self) -> Iterator[bytes]:
        """All lines, with their ends; the last one may have none."""
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(0)
            yield from file

    def line_at(self, position: int) -> bytes:
        """The line that begins there."""
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(position)
            return file.readline()

    def cut(self, size: int) -> None:
        """What lies behind is gone."""
        os.ftruncate(self._descriptor, size)
        self.size = size

    def replaced(self, lines: Iterable[bytes]) -> "LockedFile":
        """This file with other lines, as a whole, durably; nobody else can have it meanwhile."""
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
        """Returns where it begins. Not durable: it may be gone, or torn, after a power cut."""
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
