"""The coordinator's errors. Each has a public reason and says whether a retry can help.

`reason` is the name in `offsetd.v1.ErrorReason` without its prefix; `messages.statuses` turns an
error into a gRPC status. Details of one case are variables of the message, not part of its text. So
programs get everything that people read. Names of groups and topics may be UTF-8 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFLICTS_MAX = 100
"""The largest number of conflicting partitions that a refusal lists."""


class CoordinatorError(Exception):
    """Base class of the coordinator's errors. `retriable`: the same call may succeed later.

    `CoordinatorError("there is no group {group!r}", group=b"g")` reads "there is no group 'g'",
    and its `variables` are {"group": "g"}.
    """

    reason: ClassVar[str] = "INTERNAL"
    retriable: ClassVar[bool] = False
    retry_after_ms: int | None = None
    """When a caller should retry. None: the time that is usual for the reason."""

    def __init__(self, message: str, **variables: object) -> None:
        texts = _texts(variables)
        super().__init__(_filled(message, texts))
        self.variables: Mapping[str, str] = texts

    def retried_after(self, milliseconds: int) -> Self:
        """Sets the time after which a caller should retry; returns the error."""
        self.retry_after_ms = milliseconds
        return self

    def without_traces(self) -> Self:
        """Removes the tracebacks, which would keep the frames' objects alive; returns the error."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class InvalidField(CoordinatorError):
    """A field of the request breaks a rule; `field` is its path, as in `offsets[3].topic`."""

    def __init__(self, field: str, description: str, **variables: object) -> None:
        self.field = field
        self.description = _filled(description, _texts(variables))
        super().__init__(
            "{field}: {description}", **variables, field=field, description=self.description
        )


class InvalidGroupId(InvalidField):
    """A group id that is empty, too long or not UTF-8."""

    reason = "INVALID_GROUP_ID"


class InvalidTopic(InvalidField):
    """A topic that is empty, too long or not UTF-8."""

    reason = "INVALID_TOPIC"


class InvalidPartition(InvalidField):
    """A partition below 0, or named twice."""

    reason = "INVALID_PARTITION"


class InvalidOffset(InvalidField):
    """An offset below 0."""

    reason = "INVALID_OFFSET"


class InvalidLeaderEpoch(InvalidField):
    """A leader epoch below 0."""

    reason = "INVALID_LEADER_EPOCH"


class InvalidMetadata(InvalidField):
    """Metadata longer than `offset.metadata.max.bytes` UTF-16 units, or not UTF-8."""

    reason = "INVALID_METADATA"


class InvalidPrecondition(InvalidField):
    """A precondition that cannot be checked, such as a negative expected revision."""

    reason = "INVALID_PRECONDITION"


class InvalidRequestId(InvalidField):
    """A request id that is too long, or not UTF-8."""

    reason = "INVALID_REQUEST_ID"


class InvalidRequest(InvalidField):
    """A request that is wrong as a whole."""

    reason = "INVALID_REQUEST"


class InvalidPageToken(InvalidField):
    """A page token that this server did not make, or made for another request."""

    reason = "INVALID_PAGE_TOKEN"


class InvalidCommitSize(InvalidField):
    """The write does not fit one record batch of `max.message.bytes`."""

    reason = "INVALID_COMMIT_SIZE"


class InvalidConfig(InvalidField):
    """A setting that does not exist or cannot be changed, or a value that it cannot have."""

    reason = "INVALID_CONFIG"


class InvalidLease(InvalidField):
    """A holder that is empty or too long, a ttl out of bounds, or an epoch below 0."""

    reason = "INVALID_LEASE"


class InvalidRetention(InvalidField):
    """A retention that is too short, or that the record's format cannot hold."""

    reason = "INVALID_RETENTION"


class Listing:
    """A list of JSON objects that an error carries with its message, cut to those that fit.

    Its name is `list_name`.
    """

    list_name: ClassVar[str] = "partitions"
    listed: tuple[Mapping[str, object], ...] = ()


class InvalidImport(Listing, InvalidField):
    """Some lines of a file cannot be imported; each is listed as `line` and `problem`."""

    reason = "INVALID_IMPORT"
    list_name = "lines"

    def __init__(
        self,
        field: str,
        description: str,
        listed: tuple[Mapping[str, object], ...] = (),
        **variables: object,
    ) -> None:
        super().__init__(field, description, **variables)
        self.listed = listed


class GroupIdNotFound(CoordinatorError):
    """The group does not exist."""

    reason = "GROUP_ID_NOT_FOUND"


class NonEmptyGroup(CoordinatorError):
    """The group has members, and the request needs an empty group."""

    reason = "NON_EMPTY_GROUP"


class UnknownMemberId(CoordinatorError):
    """The group has members: only they may commit to it."""

    reason = "UNKNOWN_MEMBER_ID"


class EpochFenced(CoordinatorError):
    """The epoch is not that of the group's newest lease.

    The variables `holder`, `holder_epoch` and `expire_time` describe that lease, or are empty.
    """

    reason = "EPOCH_FENCED"


class LeaseHeld(CoordinatorError):
    """A writer holds the group's lease; the variables describe it, as for EpochFenced."""

    reason = "LEASE_HELD"


class GroupSubscribedToTopic(CoordinatorError):
    """A member of the group is subscribed to a topic whose offsets the request deletes."""

    reason = "GROUP_SUBSCRIBED_TO_TOPIC"


class GroupExists(CoordinatorError):
    """The request creates a group that exists already."""

    reason = "GROUP_EXISTS"


class PartitionsRefused(Listing, CoordinatorError):
    """Some partitions do not allow the request: lists `topic`, `partition`, and what is known."""

    def __init__(
        self, message: str, listed: tuple[Mapping[str, object], ...] = (), **variables: object
    ) -> None:
        super().__init__(message, **variables)
        self.listed = listed


class OffsetBoundsUnknown(PartitionsRefused):
    """The first and last offsets of some partitions are not known."""

    reason = "OFFSET_BOUNDS_UNKNOWN"


class OffsetNotCommitted(PartitionsRefused):
    """Some partitions have no offset to start from."""

    reason = "OFFSET_NOT_COMMITTED"


class PolicyViolation(CoordinatorError):
    """The topic's `cleanup.policy`, or a setting of the server, does not allow the request."""

    reason = "POLICY_VIOLATION"


@attrs.frozen(kw_only=True)
class Conflict:
    """The stored offset of a partition for which a commit expected another one.

    `offset` and `revision` are None if nothing is stored.
    """

    topic: bytes
    partition: int
    offset: int | None
    revision: int | None


class CommitConflict(CoordinatorError):
    """A commit's condition does not hold for the stored offsets.

    `conflicts` are the first `CONFLICTS_MAX`, in the request's order; `total` counts all, and is
    the message's variable `conflict_count`.
    """

    def __init__(
        self, message: str, conflicts: tuple[Conflict, ...], total: int, **variables: object
    ) -> None:
        super().__init__(message, **variables, conflict_count=total)
        self.conflicts = conflicts
        self.total = total


class OffsetConflict(CommitConflict):
    """A precondition does not hold."""

    reason = "OFFSET_CONFLICT"


class OffsetNotMonotonic(CommitConflict):
    """A monotonic commit would move an offset back."""

    reason = "OFFSET_NOT_MONOTONIC"


class CoordinatorLoadInProgress(CoordinatorError):
    """The partition is being loaded, or a large change of the group is running."""

    reason = "COORDINATOR_LOAD_IN_PROGRESS"
    retriable = True


class CoordinatorNotAvailable(CoordinatorError):
    """The server is draining, or its clock was set between a decision and its append."""

    reason = "COORDINATOR_NOT_AVAILABLE"
    retriable = True


class UnstableOffsetCommit(CoordinatorError):
    """A transaction has pending offsets for the requested partitions."""

    reason = "UNSTABLE_OFFSET_COMMIT"
    retriable = True


class NotCoordinator(CoordinatorError):
    """Another node owns the group. The variable `address` is its address, if that is known."""

    reason = "NOT_COORDINATOR"
    retriable = True


class StorageUnavailable(CoordinatorError):
    """The disk failed. It is not known whether the write happened, and the process ends."""

    reason = "STORAGE_FAILED"
    retriable = True


class RequestTooLarge(CoordinatorError):
    """The request is larger than the server takes."""

    reason = "REQUEST_TOO_LARGE"


class ResponseTooLarge(CoordinatorError):
    """The answer would exceed the server's limit."""

    reason = "RESPONSE_TOO_LARGE"


class TooManyBytesInFlight(CoordinatorError):
    """The unanswered requests of the server have reached their limit in bytes."""

    reason = "TOO_MANY_BYTES_IN_FLIGHT"
    retriable = True


class CommitRateExceeded(CoordinatorError):
    """The group makes more commits than `group.commit.rate.max`; nothing was changed."""

    reason = "COMMIT_RATE_EXCEEDED"
    retriable = True

    def __init__(self, message: str, *, retry_after_ms: int, **variables: object) -> None:
        super().__init__(message, retry_after_ms=retry_after_ms, **variables)
        self.retry_after_ms = retry_after_ms


class QuotaExceeded(CoordinatorError):
    """The caller exceeds a quota; nothing was done. The refusal is sent after `hold_seconds`."""

    reason = "QUOTA_EXCEEDED"
    retriable = True

    def __init__(
        self, message: str, *, retry_after_ms: int, hold_seconds: float = 0.0, **variables: object
    ) -> None:
        super().__init__(message, retry_after_ms=retry_after_ms, **variables)
        self.retry_after_ms = retry_after_ms
        self.hold_seconds = hold_seconds


class DiskFull(CoordinatorError):
    """There is no room for the write; nothing was changed."""

    reason = "DISK_FULL"
    retriable = True


class LogPartitionQuarantined(CoordinatorError):
    """The log partition of this group is damaged, and neither answers nor changes."""

    reason = "PARTITION_QUARANTINED"


class RecordUndecodable(CoordinatorError):
    """The stored record cannot be read. A new write of the same key replaces it."""

    reason = "RECORD_UNDECODABLE"


def undecodable_offset(group_id: bytes, topic: bytes, partition: int) -> RecordUndecodable:
    """The error for a stored offset that cannot be read."""
    return RecordUndecodable(
        "the offset of group {group!r} in {topic}:{partition} cannot be read, until it is "
        "written again",
        group=group_id,
        topic=topic,
        partition=partition,
    )


class KafkaUnavailable(CoordinatorError):
    """The Kafka cluster did not answer a question about bounds."""

    reason = "KAFKA_UNAVAILABLE"
    retriable = True


class OffsetOutOfRange(PartitionsRefused):
    """An offset is beyond the end of the log, or outside the range of its partition.

    For each partition it lists `offset`, and `earliest` and `latest` if they are known.
    """

    reason = "OFFSET_OUT_OF_RANGE"


class DeadlineSpent(CoordinatorError):
    """The deadline had passed before anything was done."""

    reason = "DEADLINE_SPENT"


def _texts(variables: Mapping[str, object]) -> dict[str, str]:
    return {
        name: value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        for name, value in variables.items()
    }


def _filled(message: str, texts: Mapping[str, str]) -> str:
    """The message with its variables filled in. Without variables the message stays as it is."""
    return message.format(**texts) if texts else message
