"""Each versioned file of a data folder, as a version after this one would have written it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.expiry.uptime_marker import LAST_UP_NAME
from offsetd_storage.disk.checksums import checksum

if TYPE_CHECKING:
    from collections.abc import Callable

_VERSION_BYTES = slice(8, 12)  # Of the journal, and of a quarantine file; behind it their checksum.


def newer_binary(content: bytes) -> bytes:
    """The version and its checksum as in a header of the journal."""
    assert content.startswith(b"offsetd")
    version = int.from_bytes(content[_VERSION_BYTES]) + 1
    prefix = content[:8] + version.to_bytes(4)
    return prefix + checksum(prefix).to_bytes(4) + content[16:]


def newer_lines(content: bytes) -> bytes:
    """`format.version` of lines `name=value` with a checksum in the last one."""
    body = content.rpartition(b"checksum=")[0]
    version = int(body.partition(b"format.version=")[2].partition(b"\n")[0])
    body = body.replace(b"format.version=%d" % version, b"format.version=%d" % (version + 1))
    return body + f"checksum={checksum(body):08x}\n".encode()


def newer_checkpoint(content: bytes) -> bytes:
    """The first line of a checkpoint."""
    version, _, entries = content.partition(b"\n")
    return b"%d\n" % (int(version) + 1) + entries


# A pattern of names, and what makes the file newer.
NEWER_FILES: dict[str, Callable[[bytes], bytes]] = {
    "offsetd.properties": newer_lines,
    LAST_UP_NAME: newer_lines,
    "offsetd-journal-0": newer_binary,
    "offsetd-journal-1": newer_binary,
    "offsetd-quarantine-__consumer_offsets-1": newer_binary,
    "recovery-point-offset-checkpoint": newer_checkpoint,
    "log-start-offset-checkpoint": newer_checkpoint,
    "cleaner-offset-checkpoint": newer_checkpoint,
    "__consumer_offsets-2/leader-epoch-checkpoint": newer_checkpoint,
    "__consumer_offsets-2/offsetd.segments": newer_lines,
}
