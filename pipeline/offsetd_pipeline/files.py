"""The one door of the jobs to a disk of their own: reports, manifests, checkpoints.

What Spark reads and writes goes through Spark. Raises OSError.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from offsetd_clients.migration.files import LockedFile, sync_folder, write_whole

__all__ = [
    "LockedFile",
    "create_file",
    "file_bytes",
    "file_names",
    "has_program",
    "make_durable",
    "make_folder",
    "read_file",
    "remove_file",
    "remove_folder",
    "spark_path",
    "sync_folder",
    "temporary_folder",
    "write_file",
]


def has_program(name: str) -> bool:
    """Whether a program of that name is found where programs are (`PATH`), or at that path."""
    return shutil.which(name) is not None


def make_folder(folder: Path) -> None:
    """Makes a folder, and those above it, where they are not there."""
    folder.mkdir(parents=True, exist_ok=True)


def write_file(path: Path, content: bytes) -> None:
    """The file is there as a whole, durably, or as it was."""
    write_whole(path, lambda write: write(content))


def read_file(path: Path) -> bytes:
    """All of it: a certificate, a token."""
    return path.read_bytes()


def create_file(path: Path, content: bytes) -> None:
    """The file is there as a whole, durably. Raises FileExistsError where one of the name was."""
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        write_file(part, content)
        os.link(part, path)
        sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def make_durable(file: Path) -> int:
    """Of what others wrote; returns its bytes. Its folder is another matter: `sync_folder`."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def file_bytes(path: Path) -> int | None:
    """The size of a file; None: it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def file_names(folder: Path) -> list[str]:
    """Of the files and folders in a folder, sorted; none where it is not there."""
    try:
        return sorted(each.name for each in folder.iterdir())
    except FileNotFoundError:
        return []


def remove_file(path: Path) -> None:
    """Removes a file, if it is there."""
    path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Removes a folder with all that is in it, if it is there."""
    if folder.exists():
        shutil.rmtree(folder)


def spark_path(path: Path) -> str:
    """For Spark to read that path alone, wherever it runs: it takes paths for patterns."""
    return _PATTERN.sub(r"\\\g<0>", str(path.absolute()))


_PATTERN: Final = re.compile(r"[\\*?\[\]{}]")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is gone afterwards, with all that is in it."""
    with tempfile.TemporaryDirectory(prefix="offsetd-") as folder:
        yield Path(folder)
