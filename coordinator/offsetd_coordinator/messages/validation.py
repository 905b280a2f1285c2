"""Validation of requests: messages to checked values. The rules of shared fields are only here.

Like Kafka, this module counts the lengths of topics (249) and metadata in UTF-16 units. Stored
values must fit Kafka's schemas: the length of a name's UTF-8 form fits an int16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from offsetd_coordinator.errors import (
    InvalidCommitSize,
    InvalidGroupId,
    InvalidLeaderEpoch,
    InvalidLease,
    InvalidMetadata,
    InvalidOffset,
    InvalidPartition,
    InvalidPrecondition,
    InvalidRequest,
    InvalidRequestId,
    InvalidTopic,
)
from offsetd_coordinator.kernels.wire.field_length_limits import (
    GROUP_ID_BYTES_MAX,
    METADATA_BYTES_MAX,
    REQUEST_ID_BYTES_MAX,
    TOPIC_UNITS_MAX,
)
from offsetd_coordinator.messages import field_counts
from offsetd_coordinator.requests import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    OffsetEntry,
    Precondition,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from offsetd.v1 import group_service_pb2, offset_service_pb2

    from offsetd_coordinator.cooperative_scheduling import Turns
    from offsetd_coordinator.membership.member_requests import MemberIdentity

REASON_UNITS_MAX: Final = 1024
BYTES_PARSED_AT_ONCE: Final = 64 * 1024
# A record batch's header, and the smallest record of an offset: names of one byte, no metadata.
BATCH_BYTES_MIN: Final = 61
RECORD_BYTES_MIN: Final = 39

_BELOW_0: Final = "{value} is below 0"
_TOO_MANY_BYTES: Final = "{size_bytes} bytes of UTF-8, more than {bytes_max}"
_LONG_METADATA: Final = "{units} UTF-16 units, more than offset.metadata.max.bytes ({units_max})"
_TOO_MANY_UNITS: Final = "{units} UTF-16 units, more than {units_max}"

AnyRequest = TypeVar("AnyRequest", bound=Message)


class NamesPartition(Protocol):
    """Any message that names a partition."""

    @property
    def topic(self) -> str:
        """The topic's name."""

    @property
    def partition(self) -> int:
        """The partition's number."""


def parse(message_class: type[AnyRequest], message: bytes) -> AnyRequest:
    """Parses a message.

    Raises InvalidRequest if the bytes are not such a message, a text is not UTF-8, or a field
    repeats too often.
    """
    try:
        if len(message) > BYTES_PARSED_AT_ONCE:
            field_counts.check_encoded(message_class, message)
        parsed = message_class.FromString(message)
    except (DecodeError, field_counts.Unreadable) as error:
        raise _malformed(message_class) from error
    field_counts.check_parsed(parsed)
    return parsed


async def parse_in_turns(
    message_class: type[AnyRequest], message: bytes, turns: Turns
) -> AnyRequest:
    """Calls `parse` in turns of the event loop, for messages that may name very many partitions."""
    if len(message) <= BYTES_PARSED_AT_ONCE:
        return parse(message_class, message)
    parsed, parsed_end = message_class(), 0
    counts = field_counts.EncodedCounts(message_class)
    try:
        async for number, end in turns.each(field_counts.encoded_fields(message)):
            counts.note(number)
            if end - parsed_end > BYTES_PARSED_AT_ONCE:
                # Protobuf merges concatenated parts of a message as if they came together.
                parsed.MergeFromString(message[parsed_end:end])
                parsed_end = end
        parsed.MergeFromString(message[parsed_end:])
    except (DecodeError, field_counts.Unreadable) as error:
        raise _malformed(message_class) from error
    field_counts.check_parsed(parsed)
    return parsed


def _malformed(message_class: type[Message]) -> InvalidRequest:
    return InvalidRequest(
        "request",
        "not a valid {message_type}: malformed, or text that is not UTF-8",
        message_type=message_class.DESCRIPTOR.name,
    )


def commit_offsets(
    request: offset_service_pb2.CommitOffsetsRequest,
    *,
    metadata_units_max: int,
    message_bytes_max: int,
    member: MemberIdentity | None = None,
    retention_ms: int = -1,
) -> CommitOffsets:
    """The checked commit. Raises the Invalid… error of the first field that breaks a rule."""
    group_id = written_group_id(request.group_id)
    request_id = read_request_id(request.request_id)
    if not request.offsets:
        raise InvalidRequest("offsets", "a commit needs at least one offset")
    if len(request.offsets) > offsets_fitting(message_bytes_max):
        raise InvalidCommitSize(
            "offsets",
            "the record batch exceeds max.message.bytes ({bytes_max}); offsets: {offset_count}",
            offset_count=len(request.offsets),
            bytes_max=message_bytes_max,
        )
    entries = [
        _offset_entry(offset, f"offsets[{index}]", metadata_units_max)
        for index, offset in enumerate(request.offsets)
    ]
    seen: set[tuple[bytes, int]] = set()
    for index, entry in enumerate(entries):
        _refuse_seen(seen, (entry.topic, entry.partition), f"offsets[{index}]")
    epoch = _epoch_of_writer(request)
    if member is not None and epoch >= 0:
        raise InvalidRequest("epoch", "a member commits by its generation")
    return CommitOffsets.of(
        group_id, entries, request_id, epoch=epoch, retention_ms=retention_ms, member=member
    )


def offsets_fitting(message_bytes_max: int) -> int:
    """An upper bound of the number of offsets that fit a record batch of that size."""
    return max(0, message_bytes_max - BATCH_BYTES_MIN) // RECORD_BYTES_MIN


async def delete_offsets(
    request: offset_service_pb2.DeleteOffsetsRequest, turns: Turns
) -> DeleteOffsets:
    """The checked deletion of offsets. Raises the errors of `commit_offsets`."""
    check_reason(request.reason)
    if not request.partitions and not request.topics:
        raise InvalidRequest("partitions", "name at least one partition or topic")
    return DeleteOffsets(
        group_id=written_group_id(request.group_id),
        partitions=tuple(
            [each async for each in turns.each(topic_partitions(request.partitions, "partitions"))]
        ),
        topics=await read_topics(request.topics, turns),
        request_id=read_request_id(request.request_id),
        validate_only=request.validate_only,
        epoch=_epoch_of_writer(request),
    )


def delete_group(request: group_service_pb2.DeleteGroupRequest) -> DeleteGroup:
    """The checked deletion of a group. Raises the errors of `commit_offsets`."""
    check_reason(request.reason)
    return DeleteGroup(
        group_id=read_group_id(request.group_id, "group_id"),
        request_id=read_request_id(request.request_id),
        validate_only=request.validate_only,
    )


def topic_partitions(
    partitions: Iterable[NamesPartition], field: str
) -> Iterator[tuple[bytes, int]]:
    """Yields the named partitions one by one, each checked.

    Raises InvalidTopic and InvalidPartition. A partition that is named twice is invalid.
    """
    seen: set[tuple[bytes, int]] = set()
    for index, named in enumerate(partitions):
        checked = (
            read_topic(named.topic, f"{field}[{index}].topic"),
            _partition(named.partition, f"{field}[{index}]"),
        )
        _refuse_seen(seen, checked, f"{field}[{index}]")
        yield checked


def read_group_id(group_id: str, field: str) -> bytes:
    """A group id to read or delete. It may be empty, as in Kafka: a broker's log may have one.

    Raises InvalidGroupId.
    """
    encoded = group_id.encode()
    if len(encoded) > GROUP_ID_BYTES_MAX:
        raise InvalidGroupId(
            field, _TOO_MANY_BYTES, size_bytes=len(encoded), bytes_max=GROUP_ID_BYTES_MAX
        )
    return encoded


def written_group_id(group_id: str) -> bytes:
    """A group id to write. Raises InvalidGroupId."""
    if not group_id:
        raise InvalidGroupId("group_id", "empty")
    return read_group_id(group_id, "group_id")


def read_request_id(request_id: str) -> bytes:
    """A request id, which may be empty. Raises InvalidRequestId."""
    encoded = request_id.encode()
    if len(encoded) > REQUEST_ID_BYTES_MAX:
        raise InvalidRequestId(
            "request_id", _TOO_MANY_BYTES, size_bytes=len(encoded), bytes_max=REQUEST_ID_BYTES_MAX
        )
    return encoded


def check_reason(reason: str) -> None:
    """Raises InvalidRequest for a reason that is too long."""
    if (units := utf16_units(reason)) > REASON_UNITS_MAX:
        raise InvalidRequest("reason", _TOO_MANY_UNITS, units=units, units_max=REASON_UNITS_MAX)


def read_topic(topic: str, field: str) -> bytes:
    """A topic's name. Raises InvalidTopic."""
    if not topic:
        raise InvalidTopic(field, "empty")
    if (units := utf16_units(topic)) > TOPIC_UNITS_MAX:
        raise InvalidTopic(field, _TOO_MANY_UNITS, units=units, units_max=TOPIC_UNITS_MAX)
    return topic.encode()


async def read_topics(topics: Iterable[str], turns: Turns) -> tuple[bytes, ...]:
    """The names in a field `topics`. Raises InvalidTopic."""
    named = turns.each(enumerate(topics))
    return tuple([read_topic(topic, f"topics[{place}]") async for place, topic in named])


def _partition(partition: int, field: str) -> int:
    if partition < 0:
        raise InvalidPartition(f"{field}.partition", _BELOW_0, value=partition)
    return partition


def read_leader_epoch(
    offset: offset_service_pb2.OffsetCommit | offset_service_pb2.CommittedOffset, field: str
) -> int:
    """The leader epoch of an offset; -1 if it has none. Raises InvalidLeaderEpoch."""
    if not offset.HasField("leader_epoch"):
        return -1
    if offset.leader_epoch < 0:
        raise InvalidLeaderEpoch(f"{field}.leader_epoch", _BELOW_0, value=offset.leader_epoch)
    return offset.leader_epoch


def _refuse_seen(seen: set[tuple[bytes, int]], partition: tuple[bytes, int], field: str) -> None:
    if partition in seen:
        raise InvalidPartition(
            f"{field}.partition",
            "{topic}:{partition} is named twice",
            topic=partition[0],
            partition=partition[1],
        )
    seen.add(partition)


def _offset_entry(
    commit: offset_service_pb2.OffsetCommit, field: str, metadata_units_max: int
) -> OffsetEntry:
    if commit.offset < 0:
        raise InvalidOffset(f"{field}.offset", _BELOW_0, value=commit.offset)
    end_offset = -1
    if commit.HasField("end_offset"):
        end_offset = commit.end_offset
        if end_offset < 0:
            raise InvalidOffset(f"{field}.end_offset", _BELOW_0, value=end_offset)
    precondition, expected = _precondition(commit, field)
    return OffsetEntry(
        topic=read_topic(commit.topic, f"{field}.topic"),
        partition=_partition(commit.partition, field),
        offset=commit.offset,
        leader_epoch=read_leader_epoch(commit, field),
        metadata=read_metadata(commit.metadata, f"{field}.metadata", metadata_units_max),
        precondition=precondition,
        expected=expected,
        monotonic=commit.monotonic,
        end_offset=end_offset,
    )


def read_metadata(metadata: str, field: str, units_max: int) -> bytes:
    """The metadata of an offset. Raises InvalidMetadata."""
    encoded = metadata.encode()
    if (units := utf16_units(metadata)) > units_max:
        raise InvalidMetadata(field, _LONG_METADATA, units=units, units_max=units_max)
    if len(encoded) > METADATA_BYTES_MAX:
        raise InvalidMetadata(
            field, _TOO_MANY_BYTES, size_bytes=len(encoded), bytes_max=METADATA_BYTES_MAX
        )
    return encoded


def _precondition(commit: offset_service_pb2.OffsetCommit, field: str) -> tuple[Precondition, int]:
    named = commit.WhichOneof("precondition")
    if named is None:
        return Precondition.NONE, 0
    if named == "must_not_exist":
        if not commit.must_not_exist:
            raise InvalidPrecondition(f"{field}.must_not_exist", "it must be true if it is set")
        return Precondition.MUST_NOT_EXIST, 0
    expected: int = getattr(commit, named)
    if expected < 0:
        raise InvalidPrecondition(f"{field}.{named}", _BELOW_0, value=expected)
    if named == "expected_offset":
        return Precondition.EXPECTED_OFFSET, expected
    return Precondition.EXPECTED_REVISION, expected


def _epoch_of_writer(
    request: offset_service_pb2.CommitOffsetsRequest | offset_service_pb2.DeleteOffsetsRequest,
) -> int:
    return lease_epoch(request.epoch) if request.HasField("epoch") else -1


def lease_epoch(epoch: int) -> int:
    """The epoch of a lease. Raises InvalidLease."""
    if epoch < 0:
        raise InvalidLease("epoch", _BELOW_0, value=epoch)
    return epoch


def utf16_units(text: str) -> int:
    """The length of a text in UTF-16 units, as Kafka counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
