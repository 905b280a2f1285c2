"""A real ext4 on a loop device, whose power can be cut and whose disk can be too small."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_WITHOUT_FLUSHING_THE_LOG = 2


class Volume:
    """A mounted ext4; its contents are under `folder`."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.image = image
        self.folder = folder

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self.image), str(self.folder))

    def unmount(self) -> None:
        _run("umount", str(self.folder))

    def shut_down(self) -> None:
        """What the disk has is all that stays, and every write and sync fails from now on."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_FLUSHING_THE_LOG))
        os.close(descriptor)

    def cut_power(self) -> None:
        """Drops everything that is not on the disk, and comes back."""
        self.shut_down()
        self.unmount()
        self.mount()


@contextlib.contextmanager
def mounted_ext4(
    folder: Path, *, size_bytes: int = 64 << 20, disk_bytes: int | None = None
) -> Iterator[Volume]:
    """An empty ext4 of `size_bytes`; with `disk_bytes`, on a disk that has only so many.

    Skips the test where that cannot be had.
    """
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("needs root and mkfs.ext4")
    disk, mounted = folder / "disk", folder / "mounted"
    disk.mkdir()
    mounted.mkdir()
    with contextlib.ExitStack() as stack:
        if disk_bytes is not None:
            _run_or_skip("mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "tmpfs", str(disk))
            # Lazily: the kernel may still be giving the loop device back.
            stack.callback(_run, "umount", "--lazy", str(disk))
        volume = Volume(disk / "image", mounted)
        with volume.image.open("wb") as image:
            image.truncate(size_bytes)
        _run("mkfs.ext4", "-q", "-F", "-J", "size=1", str(volume.image))
        _run_or_skip("mount", "-o", "loop", str(volume.image), str(mounted))
        stack.callback(_run, "umount", "--lazy", str(mounted))  # Also where a file was left open.
        yield volume


def fill(path: Path) -> None:
    """A file that takes all the room that its file system has."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 16, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
        with contextlib.suppress(OSError):
            os.fsync(file.fileno())


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _run_or_skip(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{' '.join(command[:3])}: {done.stderr.strip()}")
