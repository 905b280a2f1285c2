"""Errors for callers when the store takes no batch. Nothing has changed then."""

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
    """The refusal for what `LogStore.append` raised; None where it is our own mistake."""
    if isinstance(error, StorageFull):
        cause = error.__cause__
        if isinstance(cause, OSError) and not is_no_room(cause):
            return CoordinatorNotAvailable("nothing was written: {cause}", cause=error)
        return DiskFull("the disk is full: nothing was written")
    if isinstance(error, RecordTooLarge):
        return InvalidCommitSize("offsets", "{cause}", cause=error)
    if isinstance(error, JournalTooSmall | InvalidTimestamp):
        # A timestamp was this clock's a moment ago, so only a bound next to nothing, or a clock
        # that was set, gets here.
        return CoordinatorNotAvailable("nothing was written: {cause}", cause=error)
    if isinstance(error, PartitionQuarantined):
        return LogPartitionQuarantined(
            "log partition {log_partition} is damaged: {cause}",
            log_partition=log_partition,
            cause=error,
        )
    return None


def quarantined_own_log(topic_partition: TopicPartition, damage: object) -> LogPartitionQuarantined:
    """The refusal of what needs a damaged log of the settings or of the audit."""
    return LogPartitionQuarantined(
        "the log of {topic} is damaged: {cause}; stop the server, and restore the log from a copy"
        " or recreate it: offsetd log recreate --topic {topic}",
        topic=topic_partition.topic,
        cause=damage,
    )
