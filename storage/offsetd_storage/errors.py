"""The errors of the log engine. Each error knows whether a retry can help."""

from __future__ import annotations

import errno
from typing import ClassVar, Final

_NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
_NO_DESCRIPTOR: Final = frozenset((errno.EMFILE, errno.ENFILE))
_NO_FILE: Final = _NO_DESCRIPTOR | {errno.EFBIG}
# A sector, or what a file system keeps in one, that does not come back as it was written.
_UNREADABLE: Final = frozenset((errno.EIO, errno.ENODATA, errno.EBADMSG, errno.EUCLEAN))


def is_no_room(error: OSError) -> bool:
    """Whether the disk, or a quota on it, is full."""
    return error.errno in _NO_ROOM


def may_pass(error: OSError) -> bool:
    """Whether it was room, file size or descriptors that lacked; else the disk is broken."""
    return is_no_room(error) or error.errno in _NO_FILE


def is_no_descriptor(error: OSError) -> bool:
    """Whether this process, or the whole system, has too many files open."""
    return error.errno in _NO_DESCRIPTOR


def words_of(error: BaseException) -> str:
    """What an error says, for people. An error of the system is told without its number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return error.strerror if error.filename is None else f"{error.strerror} ({error.filename})"


def is_unreadable(error: OSError) -> bool:
    """Whether a read failed because the disk has lost what was asked for."""
    return error.errno in _UNREADABLE


class StorageError(Exception):
    """Root of the engine's errors. `retriable`: the same call may succeed later."""

    retriable: ClassVar[bool] = False


class CorruptBatch(StorageError):
    """Bytes that are not a whole, valid record batch."""

    def __init__(self, reason: str, *, position: int) -> None:
        super().__init__(f"{reason} at byte {position}")
        self.reason = reason
        self.position = position


class OldMessageFormat(StorageError):
    """Messages of Kafka's formats v0 or v1, from before 0.11: they are neither read nor cleaned."""


class CorruptCheckpoint(StorageError):
    """A checkpoint file that is not in Kafka's text format."""


class JournalDamaged(StorageError):
    """The journal is broken where it is known to have been durable: starting would lose commits."""


class ForeignWriter(StorageError):
    """A Kafka broker wrote to the folder while our journal still held commits for it."""


class NewerFormat(StorageError):
    """The folder was written by a newer offsetd; it is left untouched."""


class FolderLocked(StorageError):
    """Another process, offsetd or a broker, has the folder open."""


class FolderMismatch(StorageError):
    """The folder is not what the settings or its own files say it is."""


class PartitionQuarantined(StorageError):
    """The partition is damaged: it neither answers nor changes until an operator has seen to it."""


class SegmentRetired(StorageError):
    """Another segment holds, or nothing does any more, what this one held: look it up again."""

    retriable = True


class FolderChanged(StorageError):
    """A folder's files changed while they were read: what was read does not go together."""

    retriable = True


class CleaningAborted(StorageError):
    """A round of cleaning was told to stop; the log is as it was, or partly cleaned."""

    retriable = True


class OffsetOutOfRange(StorageError):
    """An offset that is not between the log's start and its durable end."""


class PolicyViolation(StorageError):
    """What was asked for does not go with the log's `cleanup.policy`."""


class RecordTooLarge(StorageError):
    """A batch larger than `max.message.bytes`."""


class JournalTooSmall(StorageError):
    """A batch that the log takes, and the journal not yet: its files are about to grow."""

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
        self.record = record  # Its place in the batch, from 0.


class InvalidRecord(StorageError):
    """A record that the log cannot take (Kafka's error 87, INVALID_RECORD)."""


class StorageFull(StorageError):
    """No room for the append; nothing was changed."""

    retriable = True


class StorageFailed(StorageError):
    """A write or an fsync failed. Nothing more is acknowledged; the process has to exit."""


class FolderGone(StorageFailed):
    """The data folder, or its lock, was moved away, deleted or replaced while it was open."""


class FilesGone(StorageFailed):
    """Files of the data folder were removed, replaced or cut while it was open."""


class DescriptorsExhausted(StorageFailed):
    """A file that is needed could not be opened: too many are open. The disk itself is well."""


def storage_failed(error: BaseException, what: str = "") -> StorageFailed:
    """The failure of the store that an error is; `what` says what was being done."""
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
