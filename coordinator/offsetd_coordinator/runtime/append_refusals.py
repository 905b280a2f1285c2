"""Errors for callers if the store refuses a batch. Then nothing has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.errors import (
    InvalidTimestamp,
    JournalTooSmall,
    PartitionQuarantined,
    RecordTooLarge,
    StorageFull,
    is_no_room,
)

from offsetd_coordinator.errors import (
    CoordinatorError,
    CoordinatorNotAvailable,
    DiskFull,
    InvalidCommitSize,
    LogPartitionQuarantined,
)

if TYPE_CHECKING:
    from offsetd_storage.errors import StorageError
    from offsetd_storage.topic_partition import TopicPartition


def append_refusal(error: StorageError, log_partition: int) -> CoordinatorError | None:
    """The refusal for an error of `LogStore.append`; None for a mistake of our own."""
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
