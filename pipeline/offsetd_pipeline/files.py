"""The jobs' only access to local files: reports, manifests, checkpoints.

Spark's own reads and writes go through Spark. Raises OSError.
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

from offsetd_clients.migration.durable_files import LockedFile, sync_folder, write_whole

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
    """Whether a program of that name is in `PATH`, or exists at that path."""
    return shutil.which(name) is not None


def make_folder(folder: Path) -> None:
    """Creates a folder and its parents if they do not exist."""
    folder.mkdir(parents=True, exist_ok=True)


def write_file(path: Path, content: bytes) -> None:
    """Replaces a file as a whole, durably, or leaves it unchanged."""
    write_whole(path, lambda write: write(content))


def read_file(path: Path) -> bytes:
    """The content of a file: a certificate, a token."""
    return path.read_bytes()


def create_file(path: Path, content: bytes) -> None:
    """Creates a whole file, durably. Raises FileExistsError if the name exists."""
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        write_file(part, content)
        os.link(part, path)
        sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def make_durable(file: Path) -> int:
    """Makes a file durable that others wrote; returns its size in bytes.

    It does not sync the folder: `sync_folder` does that.
    """
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def file_bytes(path: Path) -> int | None:
    """The size of a file in bytes; None if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def file_names(folder: Path) -> list[str]:
    """The sorted names of files and folders in a folder; empty if it does not exist."""
    try:
        return sorted(each.name for each in folder.iterdir())
    except FileNotFoundError:
        return []


def remove_file(path: Path) -> None:
    """Removes a file if it exists."""
    path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Removes a folder with its content if it exists."""
    if folder.exists():
        shutil.rmtree(folder)


def spark_path(path: Path) -> str:
    """A URI with which Spark reads exactly this path, on any node.

    Spark treats paths as patterns.
    """
    return _PATTERN.sub(r"\\\g<0>", str(path.absolute()))


_PATTERN: Final = re.compile(r"[\\*?\[\]{}]")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed afterwards, with its content."""
    with tempfile.TemporaryDirectory(prefix="offsetd-") as folder:
        yield Path(folder)
