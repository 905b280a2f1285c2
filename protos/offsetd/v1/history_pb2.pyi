import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from offsetd.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OffsetEvent(_message.Message):
    __slots__ = ("group_id", "topic", "partition", "revision", "time", "committed", "deleted")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    topic: str
    partition: int
    revision: _types_pb2.Revision
    time: _timestamp_pb2.Timestamp
    committed: CommittedPosition
    deleted: DeletedPosition
    def __init__(self, group_id: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., committed: _Optional[_Union[CommittedPosition, _Mapping]] = ..., deleted: _Optional[_Union[DeletedPosition, _Mapping]] = ...) -> None: ...

class CommittedPosition(_message.Message):
    __slots__ = ("offset", "leader_epoch", "metadata", "commit_time", "expire_time")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    offset: int
    leader_epoch: int
    metadata: str
    commit_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    def __init__(self, offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., metadata: _Optional[str] = ..., commit_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DeletedPosition(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListOffsetHistoryRequest(_message.Message):
    __slots__ = ("group_id", "partitions", "from_time", "from_revision", "to_time", "to_revision", "oldest_first", "page_size", "page_token")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    FROM_TIME_FIELD_NUMBER: _ClassVar[int]
    FROM_REVISION_FIELD_NUMBER: _ClassVar[int]
    TO_TIME_FIELD_NUMBER: _ClassVar[int]
    TO_REVISION_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    from_time: _timestamp_pb2.Timestamp
    from_revision: int
    to_time: _timestamp_pb2.Timestamp
    to_revision: int
    oldest_first: bool
    page_size: int
    page_token: str
    def __init__(self, group_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., from_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., from_revision: _Optional[int] = ..., to_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., to_revision: _Optional[int] = ..., oldest_first: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListOffsetHistoryResponse(_message.Message):
    __slots__ = ("events", "next_page_token", "oldest_revision")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OLDEST_REVISION_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[OffsetEvent]
    next_page_token: str
    oldest_revision: _types_pb2.Revision
    def __init__(self, events: _Optional[_Iterable[_Union[OffsetEvent, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., oldest_revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ...) -> None: ...

class RestoreGroupRequest(_message.Message):
    __slots__ = ("group_id", "time", "revision", "force", "request_id", "validate_only", "reason")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    time: _timestamp_pb2.Timestamp
    revision: int
    force: bool
    request_id: str
    validate_only: bool
    reason: str
    def __init__(self, group_id: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revision: _Optional[int] = ..., force: bool = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class RestoreGroupResponse(_message.Message):
    __slots__ = ("revision", "changes", "restored_before")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    RESTORED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    revision: _types_pb2.Revision
    changes: _containers.RepeatedCompositeFieldContainer[RestoredOffset]
    restored_before: _types_pb2.Revision
    def __init__(self, revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[RestoredOffset, _Mapping]]] = ..., restored_before: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ...) -> None: ...

class RestoredOffset(_message.Message):
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

class WatchOffsetsRequest(_message.Message):
    __slots__ = ("group_ids", "group_id_prefix", "topics", "token", "from_oldest", "progress_interval", "until_token", "this_node_only", "log_partitions")
    GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    FROM_OLDEST_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TOKEN_FIELD_NUMBER: _ClassVar[int]
    THIS_NODE_ONLY_FIELD_NUMBER: _ClassVar[int]
    LOG_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    group_ids: _containers.RepeatedScalarFieldContainer[str]
    group_id_prefix: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    token: str
    from_oldest: bool
    progress_interval: _duration_pb2.Duration
    until_token: str
    this_node_only: bool
    log_partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, group_ids: _Optional[_Iterable[str]] = ..., group_id_prefix: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., token: _Optional[str] = ..., from_oldest: bool = ..., progress_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., until_token: _Optional[str] = ..., this_node_only: bool = ..., log_partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class WatchOffsetsResponse(_message.Message):
    __slots__ = ("events", "token", "unreachable_log_partitions", "cluster")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_LOG_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[OffsetEvent]
    token: str
    unreachable_log_partitions: _containers.RepeatedScalarFieldContainer[int]
    cluster: _types_pb2.ClusterShare
    def __init__(self, events: _Optional[_Iterable[_Union[OffsetEvent, _Mapping]]] = ..., token: _Optional[str] = ..., unreachable_log_partitions: _Optional[_Iterable[int]] = ..., cluster: _Optional[_Union[_types_pb2.ClusterShare, _Mapping]] = ...) -> None: ...
