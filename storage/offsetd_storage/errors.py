"""The errors of the log engine. Each error says whether a retry can help."""

from __future__ import annotations

import errno
from typing import ClassVar, Final

_NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
_NO_DESCRIPTOR: Final = frozenset((errno.EMFILE, errno.ENFILE))
_NO_FILE: Final = _NO_DESCRIPTOR | {errno.EFBIG}
# A sector, or metadata of the file system, could not be read back.
_UNREADABLE: Final = frozenset((errno.EIO, errno.ENODATA, errno.EBADMSG, errno.EUCLEAN))


def is_no_room(error: OSError) -> bool:
    """Returns whether the disk, or a quota on it, is full."""
    return error.errno in _NO_ROOM


def may_pass(error: OSError) -> bool:
    """Returns whether space, file size or descriptors were lacking. If not, the disk is broken."""
    return is_no_room(error) or error.errno in _NO_FILE


def is_no_descriptor(error: OSError) -> bool:
    """Returns whether this process, or the whole system, has too many files open."""
    return error.errno in _NO_DESCRIPTOR


def words_of(error: BaseException) -> str:
    """The text of an error for people. A system error's number is left out."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return error.strerror if error.filename is None else f"{error.strerror} ({error.filename})"


def is_unreadable(error: OSError) -> bool:
    """Returns whether a read failed because the disk has lost the data."""
    return error.errno in _UNREADABLE


class StorageError(Exception):
    """Root of the engine's errors. If it is `retriable`, the same call may succeed later."""

    retriable: ClassVar[bool] = False


class CorruptBatch(StorageError):
    """Bytes that are not a whole, valid record batch."""

    def __init__(self, reason: str, *, position: int) -> None:
        super().__init__(f"{reason} at byte {position}")
        self.reason = reason
        self.position = position


class OldMessageFormat(StorageError):
    """Messages of Kafka's formats v0 or v1 (before 0.11). They are neither read nor cleaned."""


class CorruptCheckpoint(StorageError):
    """A checkpoint file that is not in Kafka's text format."""


class JournalDamaged(StorageError):
    """The journal is broken in a part that was durable: a start would lose commits."""


class ForeignWriter(StorageError):
    """A Kafka broker wrote to the folder while our journal still held commits for it."""


class NewerFormat(StorageError):
    """The folder was written by a newer offsetd; it is left untouched."""

    @classmethod
    def of(cls, path: object, found: object, known: int) -> NewerFormat:
        """Says which file it is, both versions, and what to do."""
        return cls(
            f"{path} has format {found}, but this version of offsetd knows {known}; nothing was"
            " changed: start the newer version again, or go back as docs/upgrading.md says"
        )


class FolderLocked(StorageError):
    """Another process, offsetd or a broker, has the folder open."""


class FolderMismatch(StorageError):
    """The folder does not match the settings, or its files do not match each other."""


class PartitionQuarantined(StorageError):
    """The partition is damaged: it serves and changes nothing until an operator has acted."""


class SegmentRetired(StorageError):
    """The segment is no longer part of the log. The caller must find the offset's segment again."""

    retriable = True


class FolderChanged(StorageError):
    """A folder's files changed during a read, so its parts do not fit together."""

    retriable = True


class CleaningAborted(StorageError):
    """A round of cleaning was stopped. The log is unchanged, or partly cleaned."""

    retriable = True


class OffsetOutOfRange(StorageError):
    """An offset that is not between the log's start and its durable end."""


class PolicyViolation(StorageError):
    """The log's `cleanup.policy` does not allow the request."""


class RecordTooLarge(StorageError):
    """A batch larger than `max.message.bytes`."""


class JournalTooSmall(StorageError):
    """A batch that the log allows, but that is too large for the journal until its files grow."""

    retriable = True


class InvalidSetting(StorageError, ValueError):
    """A setting that does not exist, or a value that it cannot have."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class InvalidTimestamp(StorageError):
    """A record's timestamp is too far from the clock (Kafka's error 32, INVALID_TIMESTAMP)."""

    def __init__(self, reason: str, *, timestamp_ms: int, record: int) -> None:
        super().__init__(f"record {record} of the batch: {reason}")
        self.timestamp_ms = timestamp_ms
        self.record = record  # The record's index in the batch, from 0.


class InvalidRecord(StorageError):
    """A record that the log cannot take (Kafka's error 87, INVALID_RECORD)."""


class StorageFull(StorageError):
    """There is no room for the append. Nothing was changed."""

    retriable = True


class StorageFailed(StorageError):
    """A write or an fsync failed. Nothing more is acknowledged; the process must exit."""


class FolderGone(StorageFailed):
    """The data folder, or its lock, was moved away, deleted or replaced while it was open."""


class FilesGone(StorageFailed):
    """Files of the data folder were removed, replaced or cut while it was open."""


class DescriptorsExhausted(StorageFailed):
    """A needed file could not be opened: too many are open. The disk itself is not broken."""


def storage_failed(error: BaseException, what: str = "") -> StorageFailed:
    """Turns an error into the failure of the store. `what` says what was being done."""
    if isinstance(error, StorageFailed):
        return error
    failure, told = StorageFailed, repr(error)
    if isinstance(error, OSError):
        if error.errno == errno.ESTALE:
            failure = FolderGone
        elif error.errno == errno.ENOENT:
            failure = FilesGone
        elif is_no_descriptor(error):
            failure = DescriptorsExhausted
        told = words_of(error)
    failed = failure(f"{what}: {told}" if what else told)
    failed.__cause__ = error
    return failed
