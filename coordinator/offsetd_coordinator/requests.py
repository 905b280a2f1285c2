"""The requests that shards decide on, and their replies.

Requests are checked already: `messages.validation` or the wire kernel has refused values out of
bounds. Names of groups and topics, metadata and request ids are UTF-8 bytes.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

import attrs
import numpy as np
from offsetd_storage.kernels import padded_copy

from offsetd_coordinator.kernels.columns import (
    COMMIT_COLUMNS,
    EXPECTED_OFFSET,
    EXPECTED_REVISION,
    MUST_NOT_EXIST,
    NO_PRECONDITION,
)
from offsetd_coordinator.offset_changes import (
    OffsetsChange,
    OffsetsChangedReply,
    RestoredReply,
    RestoreOffsets,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import numpy.typing as npt
    from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMetadataValue
    from offsetd_storage.offsets_topic.schemas.group_settings import Lease

    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.membership.member_requests import MemberIdentity


class Precondition(enum.IntEnum):
    """A condition that the stored offset must meet; otherwise the commit is refused."""

    NONE = NO_PRECONDITION
    EXPECTED_OFFSET = EXPECTED_OFFSET
    EXPECTED_REVISION = EXPECTED_REVISION
    MUST_NOT_EXIST = MUST_NOT_EXIST


@attrs.frozen(kw_only=True)
class OffsetEntry:
    """One partition of a commit."""

    topic: bytes
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: bytes = b""
    precondition: Precondition = Precondition.NONE
    expected: int = 0
    monotonic: bool = False
    end_offset: int = -1


@attrs.frozen(kw_only=True, eq=False)
class CommitOffsets:
    """Commits offsets of one group, all or none.

    `names` is a writable, padded buffer; it holds the group id from `group_start`, the request id
    from `request_id_start`, and the spans of `columns`. `columns` has one row for each partition,
    no partition twice, and the columns that `kernels.columns` lists under "one partition of a
    commit". `request_id` may be empty; equal ids of different groups or kinds of request are
    different. `epoch` is that of the client's lease, and `retention_ms` is how long the offsets are
    kept; in both, -1 means none. `member` is the member that commits, if the group has members.
    """

    group_id: bytes
    group_start: int
    request_id: bytes
    request_id_start: int
    names: npt.NDArray[np.uint8]
    columns: npt.NDArray[np.int64]
    reports_end_offsets: bool
    epoch: int = -1
    retention_ms: int = -1
    member: MemberIdentity | None = None

    @classmethod
    def of(
        cls,
        group_id: bytes,
        entries: Iterable[OffsetEntry],
        request_id: bytes = b"",
        *,
        epoch: int = -1,
        retention_ms: int = -1,
        member: MemberIdentity | None = None,
    ) -> CommitOffsets:
        """Makes a commit from Python values."""
        names = bytearray(group_id + request_id)
        reports_end_offsets = False
        rows = []
        for entry in entries:
            topic_start = len(names)
            names += entry.topic
            metadata_start = len(names)
            names += entry.metadata
            reports_end_offsets |= entry.end_offset >= 0
            rows.append(
                (
                    topic_start,
                    len(entry.topic),
                    entry.partition,
                    entry.offset,
                    entry.leader_epoch,
                    metadata_start,
                    len(entry.metadata),
                    entry.precondition,
                    entry.expected,
                    entry.monotonic,
                    entry.end_offset,
                )
            )
        return cls(
            group_id=group_id,
            group_start=0,
            request_id=request_id,
            request_id_start=len(group_id),
            names=padded_copy(names),
            columns=np.array(rows, np.int64).reshape(len(rows), COMMIT_COLUMNS),
            reports_end_offsets=reports_end_offsets,
            epoch=epoch,
            retention_ms=retention_ms,
            member=member,
        )

    def as_arguments(self) -> tuple[Bytes, Int64s, int, int, int, int]:
        """The arguments for kernels: the fields of `kernels.columns.Commit`."""
        return (
            self.names,
            self.columns,
            self.group_start,
            len(self.group_id),
            self.request_id_start,
            len(self.request_id),
        )


@attrs.frozen(kw_only=True)
class DeleteOffsets:
    """Deletes the offsets of `partitions` and of `topics`. A missing offset is not an error."""

    group_id: bytes
    partitions: tuple[tuple[bytes, int], ...] = ()
    topics: tuple[bytes, ...] = ()
    request_id: bytes = b""
    validate_only: bool = False
    epoch: int = -1  # The epoch of the client's lease.


@attrs.frozen(kw_only=True)
class DeleteGroup:
    """Deletes an empty group with its offsets."""

    group_id: bytes
    request_id: bytes = b""
    validate_only: bool = False


@attrs.frozen(kw_only=True)
class WriteGroup:
    """Writes the record of a classic group after a change by its members."""

    group_id: bytes
    value: GroupMetadataValue


@attrs.frozen(kw_only=True)
class EndConsumerMembers:
    """Takes members out of a KIP-848 group: their sessions ended, or an operator removes them."""

    group_id: bytes
    member_ids: tuple[str, ...]


@attrs.frozen(kw_only=True)
class AcquireGroup:
    """Takes a group's lease. `force` takes it from any holder, and if its record cannot be read."""

    group_id: bytes
    holder: str
    ttl_ms: int
    force: bool = False
    request_id: bytes = b""


@attrs.frozen(kw_only=True)
class RenewGroup:
    """Extends a lease, by its own ttl unless another is given. It writes nothing."""

    group_id: bytes
    epoch: int
    ttl_ms: int | None = None


@attrs.frozen(kw_only=True)
class ReleaseGroup:
    """Gives a lease up."""

    group_id: bytes
    epoch: int
    request_id: bytes = b""


@attrs.frozen(kw_only=True)
class UpdateGroup:
    """Sets a group's retention; a `retention_ms` of None means the server's retention."""

    group_id: bytes
    retention_ms: int | None = None
    never_expires: bool = False
    allow_missing: bool = False
    request_id: bytes = b""
    validate_only: bool = False


GroupChange = AcquireGroup | ReleaseGroup | UpdateGroup
AdministratorsChange = GroupChange | OffsetsChange | RestoreOffsets
MembersChange = WriteGroup | EndConsumerMembers
Request = CommitOffsets | DeleteOffsets | DeleteGroup | MembersChange | AdministratorsChange


@attrs.frozen(kw_only=True, eq=False)
class ExpireOffsets:
    """Writes tombstones for the keys that expired. `keys` has one after the other, up to `ends`.

    `gone` has the groups without any records left.
    """

    keys: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]
    gone: tuple[bytes, ...] = ()


class CommitReply(NamedTuple):
    """The log offset of the commit's last record."""

    last_offset: int


class DeleteOffsetsReply(NamedTuple):
    """The log offset of the last tombstone, or None; the deleted (topic, partition) pairs."""

    last_offset: int | None
    deleted: Collection[tuple[bytes, int]]


class DeleteGroupReply(NamedTuple):
    """The log offset of the last tombstone, or None; the number of the group's deleted offsets."""

    last_offset: int | None
    offset_count: int


class WriteGroupReply(NamedTuple):
    """The log offset of the group's record."""

    last_offset: int


class EndConsumerMembersReply(NamedTuple):
    """The log offset of the group's new epoch; None if none of the ids was a member any more."""

    last_offset: int | None


class LeaseReply(NamedTuple):
    """A lease, and its end by the wall clock and by the monotonic clock; -1 if it has ended.

    `is_taken` means that the lease was taken from another holder.
    """

    last_offset: int
    lease: Lease
    expire_ms: int
    deadline_ms: int = -1
    is_taken: bool = False


class ReleaseGroupReply(NamedTuple):
    """The log offset of the change."""

    last_offset: int


class UpdateGroupReply(NamedTuple):
    """The log offset of the change; None if nothing was written."""

    last_offset: int | None


GroupChangeReply = LeaseReply | ReleaseGroupReply | UpdateGroupReply
Reply = (
    CommitReply
    | DeleteOffsetsReply
    | DeleteGroupReply
    | WriteGroupReply
    | EndConsumerMembersReply
    | GroupChangeReply
    | OffsetsChangedReply
    | RestoredReply
)


class Decision(NamedTuple):
    """The decision of a shard on a request; nothing changes before `Shard.apply`.

    Exactly one of `reply` and `refusal` is set. `batch` must be appended before the reply may
    leave. It is None if there is nothing to write; the decision still depends on everything that
    the shard has replayed. Records that do not fit one batch (the tombstones of a large group) are
    in `batches` instead, each with its last offset. Append them one after the other, with nothing
    in between.
    """

    request: Request | ExpireOffsets
    reply: Reply | None
    refusal: CoordinatorError | None
    batch: bytes | None = None
    last_offset: int = -1
    max_timestamp_ms: int = -1
    batches: tuple[tuple[bytes, int], ...] = ()
    is_unchanged: bool = False
    """The commit equals what is stored already: it is accepted, and nothing is written."""

    @classmethod
    def of_batches(
        cls,
        request: Request | ExpireOffsets,
        reply: Reply,
        batches: tuple[tuple[bytes, int], ...],
        now_ms: int,
    ) -> Decision:
        """The decision to write these batches, each with its last offset. There may be none."""
        if not batches:
            return cls(request, reply, None)
        batch, last_offset = batches[-1]
        if len(batches) == 1:
            return cls(request, reply, None, batch, last_offset, now_ms)
        return cls(request, reply, None, None, last_offset, now_ms, batches)

    def steps(self) -> Iterator[Decision]:
        """Each of `batches` as a decision of its own."""
        for batch, last_offset in self.batches:
            yield self._replace(batch=batch, last_offset=last_offset, batches=())
