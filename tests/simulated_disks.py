"""Short ways to fill simulated disks and to look at them."""

from __future__ import annotations

from pathlib import Path

from offsetd_storage.disk.simulated_files import SimulatedFiles

A = Path("/a")
B = Path("/b")
FOLDER = Path("/folder")
BLOCK = 4096


def disk_with(content: bytes, path: Path = A) -> SimulatedFiles:
    disk = SimulatedFiles()
    disk.put_durable(path, content)
    return disk


def write(disk: SimulatedFiles, content: bytes, position: int = 0, path: Path = A) -> None:
    file = disk.open(path, create=True)
    file.pwrite([content], position)
    file.close()


def contents(disk: SimulatedFiles, folder: Path = Path("/")) -> dict[str, bytes]:
    return {name: disk.read_bytes(folder / name) for name in disk.list_folder(folder)}
