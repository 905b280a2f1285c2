"""Errors for callers if the store refuses a batch or fails, and why a server stops by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.errors import (
    DescriptorsExhausted,
    FilesGone,
    FolderGone,
    InvalidTimestamp,
    JournalTooSmall,
    PartitionQuarantined,
    RecordTooLarge,
    StorageFailed,
    StorageFull,
    is_no_room,
)

from offsetd_coordinator.errors import (
    CoordinatorError,
    CoordinatorNotAvailable,
    DiskFull,
    InvalidCommitSize,
    LogPartitionQuarantined,
    StorageUnavailable,
)
from offsetd_coordinator.runtime.commit_log import NodeFenced, OutcomeUnknown
from offsetd_coordinator.runtime.flusher import FlushDefect

if TYPE_CHECKING:
    from offsetd_storage.errors import StorageError
    from offsetd_storage.topic_partition import TopicPartition

# The first entry that fits is used: the cause, and the state of acknowledged changes.
_ENDINGS: Final[tuple[tuple[type[StorageFailed], str, str], ...]] = (
    (
        NodeFenced,
        "the node was fenced: another process has its node.id, or the cluster's topic is gone",
        "the cluster has all that was acknowledged",
    ),
    (
        OutcomeUnknown,
        "the brokers do not say whether a transaction was committed",
        "the cluster has all that was acknowledged, and perhaps what was not",
    ),
    (
        FlushDefect,
        "a defect of the server",
        "its log shows it, and nothing that may be lost was acknowledged",
    ),
    (
        FolderGone,
        "the data folder was moved away, deleted or replaced while the server ran",
        "all that was acknowledged went to the folder that the server had opened",
    ),
    (
        FilesGone,
        "files of the data folder were removed or replaced while the server ran",
        "what was acknowledged is in the segments that are still there, and perhaps not in others",
    ),
    (
        DescriptorsExhausted,
        "too many files are open: raise the limit (ulimit -n), or lower max.connections",
        "the disk is well, and nothing that may be lost was acknowledged",
    ),
    (StorageFailed, "the disk failed", "nothing that it may have lost was acknowledged"),
)


def append_refusal(error: StorageError, log_partition: int) -> CoordinatorError | None:
    """The refusal for an error of `LogStore.append`; None for a mistake of our own.

    Nothing has changed then.
    """
    if isinstance(error, StorageFull):
        cause = error.__cause__
        if isinstance(cause, OSError) and not is_no_room(cause):
            return CoordinatorNotAvailable("nothing was written: {cause}", cause=error)
        return DiskFull("the disk is full: nothing was written")
    if isinstance(error, RecordTooLarge):
        return InvalidCommitSize("offsets", "{cause}", cause=error)
    if isinstance(error, JournalTooSmall | InvalidTimestamp):
        # The timestamp is a moment old. So it is invalid only if the bound is tiny or the clock was
        # set.
        return CoordinatorNotAvailable("nothing was written: {cause}", cause=error)
    if isinstance(error, PartitionQuarantined):
        return LogPartitionQuarantined(
            "log partition {log_partition} is damaged: {cause}",
            log_partition=log_partition,
            cause=error,
        )
    return None


def quarantined_own_log(topic_partition: TopicPartition, damage: object) -> LogPartitionQuarantined:
    """The refusal of a call that needs the settings' log or the audit log, which is damaged."""
    return LogPartitionQuarantined(
        "the log of {topic} is damaged: {cause}; stop the server, and restore the log from a copy"
        " or recreate it: offsetd log recreate --topic {topic}",
        topic=topic_partition.topic,
        cause=damage,
    )


def what_happened(error: StorageFailed) -> str:
    """A short description of the cause, without the error's own text."""
    return next(what for kind, what, _ in _ENDINGS if isinstance(error, kind))


def unavailable(error: StorageFailed) -> StorageUnavailable:
    """The error for one caller. Each gets a new one, because a shared one collects tracebacks."""
    return StorageUnavailable(
        "{why}, the server stops: {cause}", why=what_happened(error), cause=error
    )


def last_words(error: StorageFailed) -> str:
    """The last line that a server prints."""
    what, holds = next(told for kind, *told in _ENDINGS if isinstance(error, kind))
    return f"{what}; {holds}: {error}"
