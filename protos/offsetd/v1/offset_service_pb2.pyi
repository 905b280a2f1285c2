import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from offsetd.v1 import history_pb2 as _history_pb2
from offsetd.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OffsetCommit(_message.Message):
    __slots__ = ("topic", "partition", "offset", "leader_epoch", "metadata", "expected_offset", "expected_revision", "must_not_exist", "monotonic", "end_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    MUST_NOT_EXIST_FIELD_NUMBER: _ClassVar[int]
    MONOTONIC_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    expected_offset: int
    expected_revision: int
    must_not_exist: bool
    monotonic: bool
    end_offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., metadata: _Optional[str] = ..., expected_offset: _Optional[int] = ..., expected_revision: _Optional[int] = ..., must_not_exist: bool = ..., monotonic: bool = ..., end_offset: _Optional[int] = ...) -> None: ...

class CommitOffsetsRequest(_message.Message):
    __slots__ = ("group_id", "offsets", "request_id", "generation_id", "member_id", "instance_id", "epoch", "retention")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetCommit]
    request_id: str
    generation_id: int
    member_id: str
    instance_id: str
    epoch: int
    retention: _duration_pb2.Duration
    def __init__(self, group_id: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[OffsetCommit, _Mapping]]] = ..., request_id: _Optional[str] = ..., generation_id: _Optional[int] = ..., member_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., epoch: _Optional[int] = ..., retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CommitOffsetsResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: _types_pb2.Revision
    def __init__(self, revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ...) -> None: ...

class StreamCommitsRequest(_message.Message):
    __slots__ = ("commits", "traceparent")
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    commits: _containers.RepeatedCompositeFieldContainer[SequencedCommit]
    traceparent: str
    def __init__(self, commits: _Optional[_Iterable[_Union[SequencedCommit, _Mapping]]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class SequencedCommit(_message.Message):
    __slots__ = ("sequence", "commit")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    commit: CommitOffsetsRequest
    def __init__(self, sequence: _Optional[int] = ..., commit: _Optional[_Union[CommitOffsetsRequest, _Mapping]] = ...) -> None: ...

class StreamCommitsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[CommitResult]
    def __init__(self, results: _Optional[_Iterable[_Union[CommitResult, _Mapping]]] = ...) -> None: ...

class CommitResult(_message.Message):
    __slots__ = ("sequence", "committed", "error")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    committed: CommitOffsetsResponse
    error: _status_pb2.Status
    def __init__(self, sequence: _Optional[int] = ..., committed: _Optional[_Union[CommitOffsetsResponse, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class FetchOffsetsRequest(_message.Message):
    __slots__ = ("groups", "require_stable")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_STABLE_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupSelection]
    require_stable: bool
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupSelection, _Mapping]]] = ..., require_stable: bool = ...) -> None: ...

class GroupSelection(_message.Message):
    __slots__ = ("group_id", "partitions")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    def __init__(self, group_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class FetchOffsetsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupOffsets]
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupOffsets, _Mapping]]] = ...) -> None: ...

class GroupOffsets(_message.Message):
    __slots__ = ("group_id", "offsets", "log_partition")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    LOG_PARTITION_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    offsets: _containers.RepeatedCompositeFieldContainer[CommittedOffset]
    log_partition: int
    def __init__(self, group_id: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[CommittedOffset, _Mapping]]] = ..., log_partition: _Optional[int] = ...) -> None: ...

class CommittedOffset(_message.Message):
    __slots__ = ("topic", "partition", "offset", "leader_epoch", "metadata", "commit_time", "expire_time", "revision", "end_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    revision: int
    end_offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., metadata: _Optional[str] = ..., commit_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revision: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class DeleteOffsetsRequest(_message.Message):
    __slots__ = ("group_id", "partitions", "topics", "request_id", "validate_only", "reason", "epoch")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    topics: _containers.RepeatedScalarFieldContainer[str]
    request_id: str
    validate_only: bool
    reason: str
    epoch: int
    def __init__(self, group_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., topics: _Optional[_Iterable[str]] = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., reason: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class DeleteOffsetsResponse(_message.Message):
    __slots__ = ("revision", "deleted")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    revision: _types_pb2.Revision
    deleted: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    def __init__(self, revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., deleted: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class ResetOffsetsRequest(_message.Message):
    __slots__ = ("group_id", "partitions", "topics", "offset", "shift_by", "earliest", "latest", "current", "time", "duration", "explicit", "bounds", "force", "request_id", "validate_only", "reason")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SHIFT_BY_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    EXPLICIT_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    topics: _containers.RepeatedScalarFieldContainer[str]
    offset: int
    shift_by: int
    earliest: bool
    latest: bool
    current: bool
    time: _timestamp_pb2.Timestamp
    duration: _duration_pb2.Duration
    explicit: ExplicitOffsets
    bounds: _containers.RepeatedCompositeFieldContainer[PartitionBounds]
    force: bool
    request_id: str
    validate_only: bool
    reason: str
    def __init__(self, group_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., topics: _Optional[_Iterable[str]] = ..., offset: _Optional[int] = ..., shift_by: _Optional[int] = ..., earliest: bool = ..., latest: bool = ..., current: bool = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., explicit: _Optional[_Union[ExplicitOffsets, _Mapping]] = ..., bounds: _Optional[_Iterable[_Union[PartitionBounds, _Mapping]]] = ..., force: bool = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class ExplicitOffsets(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[ExplicitOffset]
    def __init__(self, offsets: _Optional[_Iterable[_Union[ExplicitOffset, _Mapping]]] = ...) -> None: ...

class ExplicitOffset(_message.Message):
    __slots__ = ("topic", "partition", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class PartitionBounds(_message.Message):
    __slots__ = ("topic", "partition", "earliest", "latest")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    earliest: int
    latest: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., earliest: _Optional[int] = ..., latest: _Optional[int] = ...) -> None: ...

class FetchBoundsRequest(_message.Message):
    __slots__ = ("partitions", "topics")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., topics: _Optional[_Iterable[str]] = ...) -> None: ...

class FetchBoundsResponse(_message.Message):
    __slots__ = ("bounds",)
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    bounds: _containers.RepeatedCompositeFieldContainer[PartitionBounds]
    def __init__(self, bounds: _Optional[_Iterable[_Union[PartitionBounds, _Mapping]]] = ...) -> None: ...

class ResetOffsetsResponse(_message.Message):
    __slots__ = ("revision", "changes", "reported_end_count", "unknown_end_count")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    REPORTED_END_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_END_COUNT_FIELD_NUMBER: _ClassVar[int]
    revision: _types_pb2.Revision
    changes: _containers.RepeatedCompositeFieldContainer[OffsetChange]
    reported_end_count: int
    unknown_end_count: int
    def __init__(self, revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[OffsetChange, _Mapping]]] = ..., reported_end_count: _Optional[int] = ..., unknown_end_count: _Optional[int] = ...) -> None: ...

class OffsetChange(_message.Message):
    __slots__ = ("topic", "partition", "offset_before", "offset_after", "revision")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BEFORE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_AFTER_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset_before: int
    offset_after: int
    revision: _types_pb2.Revision
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset_before: _Optional[int] = ..., offset_after: _Optional[int] = ..., revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ...) -> None: ...
