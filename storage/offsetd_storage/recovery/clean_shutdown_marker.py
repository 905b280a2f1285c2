"""The file `offsetd.closed`: the stamps of all files when they were closed, all of them durable.

A start syncs everything that it relies on, and reads the journal from the disk to its last byte,
because a process that died may have left pages that were never written. A clean close leaves no
such pages. But this is true only for the files that were closed. The bytes of a copied folder may
be only in the page cache. So a close ends by writing the stamp of each file (`Files.stamp`).
No other file has the same stamp, and a change gives a file a new stamp. A file that still has its
stamp is durable, even if other files were changed.

The lines are `name=digest`: one for the journal, and one for each log (its folder). The last
line is a checksum. If the marker is missing, unreadable or old, the start only takes longer.
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
class CleanShutdownMarker:
    """The digests of the stamps at the last clean close; empty if they are not known."""

    digests: Mapping[str, str]

    def has_journal(self, files: Files, folder: Path) -> bool:
        """Returns whether the journal is unchanged since the close, and so durable."""
        return self._has(_JOURNAL, files, [folder / name for name in JOURNAL_NAMES])

    def has_log(self, files: Files, log_folder: Path) -> bool:
        """Returns whether a log has exactly the closed segments, unchanged and so durable."""
        names = segment_file_names(files.list_folder(log_folder))
        paths = [log_folder, *(log_folder / name for name in names)]
        return self._has(log_folder.name, files, paths)

    def _has(self, name: str, files: Files, paths: Iterable[Path]) -> bool:
        with suppress(FileNotFoundError):
            return self.digests.get(name) == _digest(files, paths)
        return False


def write_marker(files: Files, folder: Path, logs: Iterable[PartitionLog]) -> None:
    """Writes the mark of a store whose journal and logs were just closed. Raises OSError.

    If the disk is full, or no descriptor is free, there is no mark, or an old one. An old mark
    matches no file that has changed since.
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


def read_marker(files: Files, folder: Path) -> CleanShutdownMarker:
    """The mark of a folder. It is empty if it is missing, damaged or unreadable."""
    try:
        content = read_start(files, folder / CLOSED_MARK_NAME, _BYTES_MAX)
    except OSError:
        return CleanShutdownMarker(digests={})
    body, _, _ = content.rpartition(f"{_CHECKSUM}=".encode())
    if content != _with_checksum(body):
        return CleanShutdownMarker(digests={})
    lines = (line.partition("=") for line in body.decode().splitlines())
    return CleanShutdownMarker(digests={name: digest for name, _, digest in lines})


def _with_checksum(body: bytes) -> bytes:
    return body + f"{_CHECKSUM}={checksum(body):08x}\n".encode()


def _digest(files: Files, paths: Iterable[Path]) -> str:
    """A digest that is equal only for the same files, unchanged. Raises OSError."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name, stamp in sorted((path.name, files.stamp(path)) for path in paths):
        digest.update(f"{name}={stamp}\n".encode())
    return digest.hexdigest()
