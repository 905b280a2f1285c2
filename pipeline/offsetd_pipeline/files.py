"""The one door of the jobs to a disk of their own: reports, manifests, checkpoints.

What Spark reads and writes goes through Spark. Raises OSError.
"""

from pathlib import Path

from offsetd_clients.migration.files import write_whole


def make_folder(folder: Path) -> None:
    """Makes a folder, and those above it, where they are not there."""
    folder.mkdir(parents=True, exist_ok=True)


def write_file(path: Path, content: bytes) -> None:
    """The file is there as a whole, durably, or as it was."""
    write_whole(path, lambda write: write(content))


def read_file(path: Path) -> bytes:
    """All of it: a certificate, a token."""
    return path.read_bytes()
