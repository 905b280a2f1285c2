"""What can go wrong in the log engine. Each error knows whether trying again can help."""

from __future__ import annotations

import errno
from typing import ClassVar, Final

_NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
# A sector, or what a file system keeps in one, that does not come back as it was written.
_UNREADABLE: Final = frozenset((errno.EIO, errno.ENODATA, errno.EBADMSG, errno.EUCLEAN))


def is_no_room(error: OSError) -> bool:
    """Whether the disk, or a quota on it, is full."""
    return error.errno in _NO_ROOM


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


class RecordTooLarge(StorageError):
    """A batch larger than `max.message.bytes`."""


class StorageFull(StorageError):
    """No room for the append; nothing was changed."""

    retriable = True


class StorageFailed(StorageError):
    """A write or an fsync failed. Nothing more is acknowledged; the process has to exit."""
