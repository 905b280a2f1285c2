"""Conversions of offsets to messages and back. These run most often, so they must be fast."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, SupportsIndex

from google.protobuf.timestamp_pb2 import Timestamp
from offsetd.v1 import offset_service_pb2

from offsetd_clients.messages.conversions import (
    building,
    checked_partition,
    partition_messages,
    partitions_of,
    revision_of,
    several,
    text_of,
)
from offsetd_clients.messages.varints import varint
from offsetd_clients.values import (
    CommittedOffset,
    DeletedOffsets,
    OffsetToCommit,
    TopicPartition,
    whole,
)


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, SupportsIndex | OffsetToCommit],
    *,
    request_id: str,
    epoch: SupportsIndex | None = None,
    retention: timedelta | None = None,
) -> offset_service_pb2.CommitOffsetsRequest:
    """A CommitOffsetsRequest. A plain number is an offset without conditions."""
    if not isinstance(offsets, Mapping):
        raise TypeError("offsets: a mapping from TopicPartition to offset is expected")
    with building("commit"):
        request = offset_service_pb2.CommitOffsetsRequest(
            group_id=text_of("group_id", group_id),
            request_id=request_id,
            epoch=None if epoch is None else whole(epoch),
            retention=retention,
        )
        add = request.offsets.add  # Appending a message that was made separately would copy it.
        for topic_partition, to_commit in offsets.items():
            if type(topic_partition) is not TopicPartition:
                checked_partition(topic_partition)
            if type(topic_partition.topic) is not str:
                text_of("topic", topic_partition.topic)
            if isinstance(to_commit, OffsetToCommit):
                add(**_conditional(topic_partition, to_commit))
                continue
            message = add()
            message.topic = topic_partition.topic
            message.partition = topic_partition.partition
            message.offset = to_commit if type(to_commit) is int else whole(to_commit)
        return request


def _conditional(topic_partition: TopicPartition, to_commit: OffsetToCommit) -> dict[str, Any]:
    """The fields of an offset with conditions."""
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "offset": to_commit.offset,
        "leader_epoch": to_commit.leader_epoch,
        "metadata": to_commit.metadata,
        "expected_offset": to_commit.expected_offset,
        "expected_revision": to_commit.expected_revision,
        # The encoding would contain a False, but not a None.
        "must_not_exist": to_commit.must_not_exist or None,
        "monotonic": to_commit.monotonic,
        "end_offset": to_commit.end_offset,
    }


def sequenced_commit(sequence: int, commit: bytes) -> bytes:
    """A commit, encoded as a field of a StreamCommitsRequest, which consists of such fields only.

    `commit` is a serialised CommitOffsetsRequest. Building the message from messages would copy
    each.
    """
    head = b"\x08" + varint(sequence) + b"\x12" + varint(len(commit))  # Fields 1 and 2.
    return b"\x0a" + varint(len(head) + len(commit)) + head + commit


def traceparent_field(traceparent: str) -> bytes:
    """A span, encoded as a field of a StreamCommitsRequest."""
    encoded = traceparent.encode()
    return b"\x12" + varint(len(encoded)) + encoded  # Field 2.


def fetch_request(
    selections: Mapping[str, Sequence[TopicPartition]], *, require_stable: bool
) -> offset_service_pb2.FetchOffsetsRequest:
    """A FetchOffsetsRequest for groups and their partitions; without partitions, for all."""
    with building("fetch"):
        return offset_service_pb2.FetchOffsetsRequest(
            groups=[
                offset_service_pb2.GroupSelection(
                    group_id=text_of("group_id", group_id),
                    partitions=partition_messages(partitions),
                )
                for group_id, partitions in selections.items()
            ],
            require_stable=require_stable,
        )


def delete_offsets_request(
    group_id: str,
    *,
    partitions: Iterable[TopicPartition],
    topics: Iterable[str],
    epoch: SupportsIndex | None,
    request_id: str,
    validate_only: bool,
    reason: str,
) -> offset_service_pb2.DeleteOffsetsRequest:
    """A DeleteOffsetsRequest, by partition and by whole topic."""
    with building("delete offsets"):
        return offset_service_pb2.DeleteOffsetsRequest(
            group_id=text_of("group_id", group_id),
            partitions=partition_messages(several("partitions", partitions)),
            topics=several("topics", topics),
            epoch=None if epoch is None else whole(epoch),
            request_id=request_id,
            validate_only=validate_only,
            reason=reason,
        )


def fetched_offsets(
    response: offset_service_pb2.FetchOffsetsResponse,
) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    """The stored offsets by group and partition. Every requested group has an entry."""
    return {group.group_id: stored_offsets(group) for group in response.groups}


def stored_offsets(
    group: offset_service_pb2.GroupOffsets,
) -> dict[TopicPartition, CommittedOffset]:
    """The stored offsets of a group, by partition."""
    return {
        _topic_partition(offset.topic, offset.partition): _committed_offset(offset)
        for offset in group.offsets
    }


# The same partitions are fetched many times. A lookup takes a quarter of the time of a
# construction.
_topic_partition = functools.lru_cache(maxsize=4096)(TopicPartition)


def _committed_offset(message: offset_service_pb2.CommittedOffset) -> CommittedOffset:
    has = message.HasField
    expire_time = message.expire_time if has("expire_time") else None
    commit_time = message.commit_time
    return CommittedOffset(
        offset=message.offset,
        leader_epoch=message.leader_epoch if has("leader_epoch") else None,
        metadata=message.metadata,
        commit_time=_time(commit_time.seconds, commit_time.nanos),
        expire_time=(
            None if expire_time is None else _time(expire_time.seconds, expire_time.nanos)
        ),
        revision=message.revision,
        end_offset=message.end_offset if has("end_offset") else None,
    )


@functools.lru_cache(maxsize=1024)  # All offsets of a commit have the same time.
def _time(seconds: int, nanos: int) -> datetime:
    return Timestamp(seconds=seconds, nanos=nanos).ToDatetime(tzinfo=UTC)


def deleted_offsets(response: offset_service_pb2.DeleteOffsetsResponse) -> DeletedOffsets:
    """The deleted offsets."""
    return DeletedOffsets(
        partitions=partitions_of(response.deleted),
        revision=revision_of(response.revision) if response.HasField("revision") else None,
    )
