"""The checks of the machine: the file system of a folder, its room, huge pages."""

import os
from collections.abc import Iterator
from pathlib import Path

from offsetd_clients.cli.doctor.diagnosis import Check, Finding, bad, warn

MOUNTS = Path("/proc/self/mountinfo")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
GIB = 1 << 30
FREE_SHARE_MIN, FREE_BYTES_MIN = 0.05, 2 * GIB  # The smaller one counts.

# What is wrong with a kind of file system, and whether it is lost with a restart.
_GONE = ("its files are in memory: a reboot loses all offsets", "Use a folder on a disk.")
_FAR = (
    "it is a network file system: locks and fsync may not keep what they promise",
    "Use a local disk.",
)
_LAYERED = (
    "it is a layer of a container: its files go with the container",
    "Mount a volume for data.dir.",
)
KINDS = {
    "tmpfs": (warn, _GONE),
    "ramfs": (warn, _GONE),
    "nfs": (bad, _FAR),
    "nfs4": (bad, _FAR),
    "cifs": (bad, _FAR),
    "smb3": (bad, _FAR),
    "9p": (warn, _FAR),
    "fuse": (warn, _FAR),
    "overlay": (warn, _LAYERED),
}


def room(size_bytes: float) -> str:
    """Bytes for people."""
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else f"{size_bytes / 2**20:.0f} MiB"


def folder_of(folder: Path) -> Iterator[Finding]:
    """The file system of a data folder."""
    yield from file_system(folder)
    yield from free_room(folder)


def file_system(folder: Path, mounts: Path = MOUNTS) -> Iterator[Finding]:
    """Is the folder on a disk of this machine?"""
    kind = kind_of(folder, mounts)
    found = KINDS.get(kind) or KINDS.get(kind.partition(".")[0])
    if found is not None:
        grade, (what, remedy) = found
        yield grade(f"{folder} is on {kind}: {what}", remedy)


def kind_of(folder: Path, mounts: Path = MOUNTS) -> str:
    """The kind of a folder's file system, such as `ext4`; empty if it is not known."""
    best, kind = "", ""
    try:
        lines = mounts.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        fields, _, more = line.partition(" - ")
        place = fields.split(" ")[4].replace("\\040", " ")
        if len(place) >= len(best) and folder.resolve().is_relative_to(place):
            best, kind = place, more.split(" ")[0]
    return kind


def free_room(folder: Path) -> Iterator[Finding]:
    """Is there room on the folder's disk?"""
    found = os.statvfs(folder)
    free, size = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    if free < min(FREE_SHARE_MIN * size, FREE_BYTES_MIN):
        yield warn(
            f"{folder}: only {room(free)} of {room(size)} are free", "Make room, or enlarge it."
        )


def huge_pages(setting: Path = HUGE_PAGES) -> Iterator[Finding]:
    """Are huge pages given to everybody? The server's tables use single pages of large arrays."""
    try:
        is_always = "[always]" in setting.read_text()
    except OSError:
        return
    if is_always:
        yield warn(
            "transparent huge pages are always on: the server's tables take more memory",
            f"echo madvise > {setting}",
        )


MACHINE_CHECKS: dict[str, Check[Path]] = {
    "file system": file_system,
    "disk": free_room,
    "huge pages": lambda _folder: huge_pages(),
}
