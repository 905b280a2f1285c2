"""`offsetd.properties`: the format of a data folder, its id, and its number of partitions.

It is the first file that is made in a folder and the first that is read. Its lines are
`name=value`; the last line is a checksum of the lines before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from offsetd_storage.disk.checksums import checksum
from offsetd_storage.disk.files import read_start, replace_file
from offsetd_storage.errors import FolderMismatch, NewerFormat

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from offsetd_storage.disk.files import Files

FOLDER_FORMAT_VERSION: Final = 1
PROPERTIES_NAME: Final = "offsetd.properties"
CLEAN_SHUTDOWN_NAME: Final = ".kafka_cleanshutdown"  # A broker writes it at a clean shutdown.
FOLDER_ID_BYTES: Final = 16
MARK_BYTES: Final = 8  # The mark starts each frame of the journal.
# This works without a backup, because recovery finds the end of each log in the log itself.
JOURNAL_REMEDY: Final = (
    "move offsetd.properties, offsetd-journal-* and offsetd-quarantine-* out of the folder, and"
    " start: the logs are served as they are, without what only the journal held (nothing after a"
    " clean stop)"
)
PROPERTIES_REMEDY: Final = (
    "put it back from a backup of any age, as it is written when the folder is made; without one,"
    f" {JOURNAL_REMEDY}"
)
_BYTES_MAX: Final = 65_536  # It also limits newer formats, whose version must be readable.

_FORMAT: Final = "format.version"
_FOLDER_ID: Final = "folder.id"
_FRAME_MARK: Final = "journal.frame.mark"
_JOURNAL_BEGUN: Final = "journal.begun"
_PARTITIONS: Final = "offsets.topic.num.partitions"
_ORIGIN: Final = "folder.origin"
_HERE: Final = "offsetd"
_ELSEWHERE: Final = "elsewhere"
_CHECKSUM: Final = "checksum"


def _has_length(size: int) -> list[Any]:
    return [attrs.validators.min_len(size), attrs.validators.max_len(size)]


@attrs.frozen(kw_only=True)
class FolderIdentity:
    """The values by which journal files belong to their folder."""

    folder_id: bytes = attrs.field(validator=_has_length(FOLDER_ID_BYTES))
    # It starts every frame. It is a secret, so that no client can commit bytes that look like one.
    frame_mark: bytes = attrs.field(validator=_has_length(MARK_BYTES), repr=False)


@attrs.frozen(kw_only=True)
class FolderProperties:
    """The contents of `offsetd.properties`."""

    identity: FolderIdentity
    offsets_partitions: int  # The number for `__consumer_offsets`; never changes.
    journal_begun: bool  # True since the first life began: there must be a journal.
    # True if the folder had logs when offsetd took it over, or if that is not known.
    is_from_elsewhere: bool = False


def new_properties(
    offsets_partitions: int, random: random.Random, *, is_from_elsewhere: bool = False
) -> FolderProperties:
    """The properties of a folder that becomes a folder of offsetd."""
    return FolderProperties(
        identity=FolderIdentity(
            folder_id=random.randbytes(FOLDER_ID_BYTES), frame_mark=random.randbytes(MARK_BYTES)
        ),
        offsets_partitions=offsets_partitions,
        journal_begun=False,
        is_from_elsewhere=is_from_elsewhere,
    )


def read_properties(files: Files, folder: Path) -> FolderProperties | None:
    """The folder's properties; None if it has none yet. Raises NewerFormat, FolderMismatch."""
    path = folder / PROPERTIES_NAME
    if not files.exists(path):
        return None
    content = read_start(files, path, _BYTES_MAX)
    lines = {
        name: value
        for line in content.decode("ascii", errors="replace").splitlines()
        for name, _, value in [line.partition("=")]
    }
    version = lines.get(_FORMAT, "")
    if version.isdigit() and int(version) > FOLDER_FORMAT_VERSION:
        raise NewerFormat.of(path, version, FOLDER_FORMAT_VERSION)
    body, _, _ = content.rpartition(f"{_CHECKSUM}=".encode())
    try:
        if content != _with_checksum(body):
            raise ValueError("its checksum is wrong")  # noqa: TRY301
        return FolderProperties(
            identity=FolderIdentity(
                folder_id=bytes.fromhex(lines[_FOLDER_ID]),
                frame_mark=bytes.fromhex(lines[_FRAME_MARK]),
            ),
            offsets_partitions=int(lines[_PARTITIONS]),
            journal_begun=lines[_JOURNAL_BEGUN] == "true",
            is_from_elsewhere=lines.get(_ORIGIN) != _HERE,
        )
    except KeyError as error:
        what = f"it has no line {error.args[0]}"
        raise FolderMismatch(f"{path} is damaged: {what}; {PROPERTIES_REMEDY}") from error
    except ValueError as error:
        raise FolderMismatch(f"{path} is damaged: {error}; {PROPERTIES_REMEDY}") from error


def write_properties(files: Files, folder: Path, properties: FolderProperties) -> None:
    """Replaces the folder's properties, durably."""
    lines = {
        _FORMAT: str(FOLDER_FORMAT_VERSION),
        _FOLDER_ID: properties.identity.folder_id.hex(),
        _FRAME_MARK: properties.identity.frame_mark.hex(),
        _PARTITIONS: str(properties.offsets_partitions),
        _JOURNAL_BEGUN: "true" if properties.journal_begun else "false",
        _ORIGIN: _ELSEWHERE if properties.is_from_elsewhere else _HERE,
    }
    body = "".join(f"{name}={value}\n" for name, value in lines.items()).encode()
    replace_file(files, folder / PROPERTIES_NAME, _with_checksum(body))


def _with_checksum(body: bytes) -> bytes:
    return body + f"{_CHECKSUM}={checksum(body):08x}\n".encode()
