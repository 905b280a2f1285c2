"""`offsetd.closed`: what the files were like when all of them were durable, and closed.

A start syncs what it is going to rest on, and reads the journal from the disk to its last byte, as
a process that died may have left pages that were never written. After a close in order there are
none, but only as long as the files are those that were closed: a folder that was copied since is
in the page cache alone. So the last thing that a close writes is the stamp of each file
(`Files.stamp`), which no other file has, nor the same one once it has changed. What has its stamp
still is durable, whatever happened to the rest.

Lines `name=digest`, of the journal and of each log by the name of its folder; the last one is a
checksum. A mark that is missing, unreadable or old costs the start some time, and nothing else.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.disk.checksums import checksum
from offsetd_storage.disk.files import read_start, replace_file
from offsetd_storage.errors import may_pass
from offsetd_storage.journal.journal import JOURNAL_NAMES
from offsetd_storage.recovery.swap_recovery import segment_file_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.partition_log import PartitionLog

CLOSED_MARK_NAME: Final = "offsetd.closed"
_JOURNAL: Final = "journal"
_CHECKSUM: Final = "checksum"
_DIGEST_BYTES: Final = 16
_BYTES_MAX: Final = 1 << 24


@attrs.frozen(kw_only=True)
class ClosedMark:
    """What the last close in order left, if it is known; else nothing is as it was."""

    digests: Mapping[str, str]

    def has_journal(self, files: Files, folder: Path) -> bool:
        """Whether the journal is the one that was closed, and durable."""
        return self._has(_JOURNAL, files, [folder / name for name in JOURNAL_NAMES])

    def has_log(self, files: Files, log_folder: Path) -> bool:
        """Whether a partition's folder has the segments that were closed, durable and no others."""
        names = segment_file_names(files.list_folder(log_folder))
        paths = [log_folder, *(log_folder / name for name in names)]
        return self._has(log_folder.name, files, paths)

    def _has(self, name: str, files: Files, paths: Iterable[Path]) -> bool:
        with suppress(FileNotFoundError):
            return self.digests.get(name) == _digest(files, paths)
        return False


def write_closed_mark(files: Files, folder: Path, logs: Iterable[PartitionLog]) -> None:
    """Marks the folder of a store whose journal and logs were closed just now. Raises OSError.

    On a full disk, or without descriptors, there is no mark, or an old one, which nothing equals
    that was touched since.
    """
    digests = {_JOURNAL: _digest(files, [folder / name for name in JOURNAL_NAMES])}
    for log in logs:
        paths = (path for segment in log.segments for path in segment.paths(""))
        digests[log.folder.name] = _digest(files, [log.folder, *paths])
    body = "".join(f"{name}={digest}\n" for name, digest in digests.items()).encode()
    try:
        replace_file(files, folder / CLOSED_MARK_NAME, _with_checksum(body))
    except OSError as error:
        if not may_pass(error):
            raise


def read_closed_mark(files: Files, folder: Path) -> ClosedMark:
    """The mark of a folder; one that says nothing where there is none that can be read whole."""
    try:
        content = read_start(files, folder / CLOSED_MARK_NAME, _BYTES_MAX)
    except OSError:
        return ClosedMark(digests={})
    body, _, _ = content.rpartition(f"{_CHECKSUM}=".encode())
    if content != _with_checksum(body):
        return ClosedMark(digests={})
    lines = (line.partition("=") for line in body.decode().splitlines())
    return ClosedMark(digests={name: digest for name, _, digest in lines})


def _with_checksum(body: bytes) -> bytes:
    return body + f"{_CHECKSUM}={checksum(body):08x}\n".encode()


def _digest(files: Files, paths: Iterable[Path]) -> str:
    """Equal for files of the same names that have not changed. Raises OSError."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name, stamp in sorted((path.name, files.stamp(path)) for path in paths):
        digest.update(f"{name}={stamp}\n".encode())
    return digest.hexdigest()
