import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from offsetd.v1 import offset_service_pb2 as _offset_service_pb2
from offsetd.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LogPartitionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_PARTITION_STATE_UNSPECIFIED: _ClassVar[LogPartitionState]
    LOG_PARTITION_STATE_LOADING: _ClassVar[LogPartitionState]
    LOG_PARTITION_STATE_SERVING: _ClassVar[LogPartitionState]
    LOG_PARTITION_STATE_FAILED: _ClassVar[LogPartitionState]

class ServerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVER_STATE_UNSPECIFIED: _ClassVar[ServerState]
    SERVER_STATE_LOADING: _ClassVar[ServerState]
    SERVER_STATE_SERVING: _ClassVar[ServerState]
    SERVER_STATE_DRAINING: _ClassVar[ServerState]

class CleaningState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLEANING_STATE_UNSPECIFIED: _ClassVar[CleaningState]
    CLEANING_STATE_IDLE: _ClassVar[CleaningState]
    CLEANING_STATE_IN_PROGRESS: _ClassVar[CleaningState]
    CLEANING_STATE_ABORTED: _ClassVar[CleaningState]
    CLEANING_STATE_PAUSED: _ClassVar[CleaningState]

class ConfigSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONFIG_SOURCE_UNSPECIFIED: _ClassVar[ConfigSource]
    CONFIG_SOURCE_DYNAMIC_TOPIC: _ClassVar[ConfigSource]
    CONFIG_SOURCE_STATIC_TOPIC: _ClassVar[ConfigSource]
    CONFIG_SOURCE_TOPIC_DEFAULT: _ClassVar[ConfigSource]
    CONFIG_SOURCE_DYNAMIC_SERVER: _ClassVar[ConfigSource]
    CONFIG_SOURCE_STATIC_SERVER: _ClassVar[ConfigSource]
    CONFIG_SOURCE_DEFAULT: _ClassVar[ConfigSource]
    CONFIG_SOURCE_FLOOR: _ClassVar[ConfigSource]

class OffsetFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OFFSET_FORMAT_UNSPECIFIED: _ClassVar[OffsetFormat]
    OFFSET_FORMAT_KAFKA_CSV: _ClassVar[OffsetFormat]
    OFFSET_FORMAT_RPK: _ClassVar[OffsetFormat]
    OFFSET_FORMAT_KAFKA_UTILS_JSON: _ClassVar[OffsetFormat]
    OFFSET_FORMAT_JSONL: _ClassVar[OffsetFormat]
LOG_PARTITION_STATE_UNSPECIFIED: LogPartitionState
LOG_PARTITION_STATE_LOADING: LogPartitionState
LOG_PARTITION_STATE_SERVING: LogPartitionState
LOG_PARTITION_STATE_FAILED: LogPartitionState
SERVER_STATE_UNSPECIFIED: ServerState
SERVER_STATE_LOADING: ServerState
SERVER_STATE_SERVING: ServerState
SERVER_STATE_DRAINING: ServerState
CLEANING_STATE_UNSPECIFIED: CleaningState
CLEANING_STATE_IDLE: CleaningState
CLEANING_STATE_IN_PROGRESS: CleaningState
CLEANING_STATE_ABORTED: CleaningState
CLEANING_STATE_PAUSED: CleaningState
CONFIG_SOURCE_UNSPECIFIED: ConfigSource
CONFIG_SOURCE_DYNAMIC_TOPIC: ConfigSource
CONFIG_SOURCE_STATIC_TOPIC: ConfigSource
CONFIG_SOURCE_TOPIC_DEFAULT: ConfigSource
CONFIG_SOURCE_DYNAMIC_SERVER: ConfigSource
CONFIG_SOURCE_STATIC_SERVER: ConfigSource
CONFIG_SOURCE_DEFAULT: ConfigSource
CONFIG_SOURCE_FLOOR: ConfigSource
OFFSET_FORMAT_UNSPECIFIED: OffsetFormat
OFFSET_FORMAT_KAFKA_CSV: OffsetFormat
OFFSET_FORMAT_RPK: OffsetFormat
OFFSET_FORMAT_KAFKA_UTILS_JSON: OffsetFormat
OFFSET_FORMAT_JSONL: OffsetFormat

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "folder_id", "node_id", "start_time", "log_partitions", "state", "group_count", "offset_count", "unknown_record_count", "undecodable_record_count", "quarantined_partitions", "expiry_suspension", "clock_offset", "settings_problem", "problems", "other_addresses", "cluster_id", "flush_count", "stopped_cleanly", "disk", "counts_hidden")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FOLDER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    LOG_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GROUP_COUNT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNDECODABLE_RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_SUSPENSION_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    OTHER_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    FLUSH_COUNT_FIELD_NUMBER: _ClassVar[int]
    STOPPED_CLEANLY_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    COUNTS_HIDDEN_FIELD_NUMBER: _ClassVar[int]
    version: str
    folder_id: str
    node_id: str
    start_time: _timestamp_pb2.Timestamp
    log_partitions: int
    state: ServerState
    group_count: int
    offset_count: int
    unknown_record_count: int
    undecodable_record_count: int
    quarantined_partitions: _containers.RepeatedScalarFieldContainer[int]
    expiry_suspension: ExpirySuspension
    clock_offset: _duration_pb2.Duration
    settings_problem: str
    problems: _containers.RepeatedScalarFieldContainer[str]
    other_addresses: _containers.RepeatedScalarFieldContainer[str]
    cluster_id: str
    flush_count: int
    stopped_cleanly: bool
    disk: DiskRoom
    counts_hidden: bool
    def __init__(self, version: _Optional[str] = ..., folder_id: _Optional[str] = ..., node_id: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., log_partitions: _Optional[int] = ..., state: _Optional[_Union[ServerState, str]] = ..., group_count: _Optional[int] = ..., offset_count: _Optional[int] = ..., unknown_record_count: _Optional[int] = ..., undecodable_record_count: _Optional[int] = ..., quarantined_partitions: _Optional[_Iterable[int]] = ..., expiry_suspension: _Optional[_Union[ExpirySuspension, _Mapping]] = ..., clock_offset: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., settings_problem: _Optional[str] = ..., problems: _Optional[_Iterable[str]] = ..., other_addresses: _Optional[_Iterable[str]] = ..., cluster_id: _Optional[str] = ..., flush_count: _Optional[int] = ..., stopped_cleanly: bool = ..., disk: _Optional[_Union[DiskRoom, _Mapping]] = ..., counts_hidden: bool = ...) -> None: ...

class DiskRoom(_message.Message):
    __slots__ = ("total_bytes", "free_bytes")
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    total_bytes: int
    free_bytes: int
    def __init__(self, total_bytes: _Optional[int] = ..., free_bytes: _Optional[int] = ...) -> None: ...

class DescribeClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeClusterResponse(_message.Message):
    __slots__ = ("cluster_id", "node_id", "nodes", "partitions", "replication", "problems")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    node_id: str
    nodes: _containers.RepeatedCompositeFieldContainer[ClusterNode]
    partitions: _containers.RepeatedCompositeFieldContainer[ClusterPartition]
    replication: ClusterReplication
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cluster_id: _Optional[str] = ..., node_id: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[ClusterNode, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[ClusterPartition, _Mapping]]] = ..., replication: _Optional[_Union[ClusterReplication, _Mapping]] = ..., problems: _Optional[_Iterable[str]] = ...) -> None: ...

class ClusterNode(_message.Message):
    __slots__ = ("node_id", "address", "log_partitions")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    address: str
    log_partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node_id: _Optional[str] = ..., address: _Optional[str] = ..., log_partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class ClusterPartition(_message.Message):
    __slots__ = ("log_partition", "node_id", "state", "epoch", "copy_lag")
    LOG_PARTITION_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COPY_LAG_FIELD_NUMBER: _ClassVar[int]
    log_partition: int
    node_id: str
    state: LogPartitionState
    epoch: int
    copy_lag: int
    def __init__(self, log_partition: _Optional[int] = ..., node_id: _Optional[str] = ..., state: _Optional[_Union[LogPartitionState, str]] = ..., epoch: _Optional[int] = ..., copy_lag: _Optional[int] = ...) -> None: ...

class ClusterReplication(_message.Message):
    __slots__ = ("topic", "replication_factor", "min_insync_replicas")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    MIN_INSYNC_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    replication_factor: int
    min_insync_replicas: int
    def __init__(self, topic: _Optional[str] = ..., replication_factor: _Optional[int] = ..., min_insync_replicas: _Optional[int] = ...) -> None: ...

class ExpirySuspension(_message.Message):
    __slots__ = ("reason", "end_time", "remaining")
    REASON_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    reason: str
    end_time: _timestamp_pb2.Timestamp
    remaining: _duration_pb2.Duration
    def __init__(self, reason: _Optional[str] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., remaining: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class FindCoordinatorRequest(_message.Message):
    __slots__ = ("group_id",)
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    def __init__(self, group_id: _Optional[str] = ...) -> None: ...

class FindCoordinatorResponse(_message.Message):
    __slots__ = ("log_partition", "node_id", "address")
    LOG_PARTITION_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    log_partition: int
    node_id: str
    address: str
    def __init__(self, log_partition: _Optional[int] = ..., node_id: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class DescribeLogRequest(_message.Message):
    __slots__ = ("partitions", "topic")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedScalarFieldContainer[int]
    topic: str
    def __init__(self, partitions: _Optional[_Iterable[int]] = ..., topic: _Optional[str] = ...) -> None: ...

class DescribeLogResponse(_message.Message):
    __slots__ = ("partitions", "topic")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[LogPartition]
    topic: str
    def __init__(self, partitions: _Optional[_Iterable[_Union[LogPartition, _Mapping]]] = ..., topic: _Optional[str] = ...) -> None: ...

class LogPartition(_message.Message):
    __slots__ = ("partition", "log_start_offset", "log_end_offset", "recovery_point", "size_bytes", "segments", "quarantine_reason", "cleaning", "blocked_retention")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_POINT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_REASON_FIELD_NUMBER: _ClassVar[int]
    CLEANING_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_RETENTION_FIELD_NUMBER: _ClassVar[int]
    partition: int
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    size_bytes: int
    segments: _containers.RepeatedCompositeFieldContainer[LogSegment]
    quarantine_reason: str
    cleaning: LogCleaning
    blocked_retention: BlockedRetention
    def __init__(self, partition: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., recovery_point: _Optional[int] = ..., size_bytes: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[LogSegment, _Mapping]]] = ..., quarantine_reason: _Optional[str] = ..., cleaning: _Optional[_Union[LogCleaning, _Mapping]] = ..., blocked_retention: _Optional[_Union[BlockedRetention, _Mapping]] = ...) -> None: ...

class LogSegment(_message.Message):
    __slots__ = ("base_offset", "size_bytes", "largest_time")
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LARGEST_TIME_FIELD_NUMBER: _ClassVar[int]
    base_offset: int
    size_bytes: int
    largest_time: _timestamp_pb2.Timestamp
    def __init__(self, base_offset: _Optional[int] = ..., size_bytes: _Optional[int] = ..., largest_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class LogCleaning(_message.Message):
    __slots__ = ("state", "first_dirty_offset", "first_uncleanable_offset", "last_stable_offset", "clean_bytes", "cleanable_bytes", "dirty_ratio", "oldest_dirty_age", "overdue", "delete_horizon_time", "uncleanable", "last_round")
    STATE_FIELD_NUMBER: _ClassVar[int]
    FIRST_DIRTY_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FIRST_UNCLEANABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CLEAN_BYTES_FIELD_NUMBER: _ClassVar[int]
    CLEANABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIRTY_RATIO_FIELD_NUMBER: _ClassVar[int]
    OLDEST_DIRTY_AGE_FIELD_NUMBER: _ClassVar[int]
    OVERDUE_FIELD_NUMBER: _ClassVar[int]
    DELETE_HORIZON_TIME_FIELD_NUMBER: _ClassVar[int]
    UNCLEANABLE_FIELD_NUMBER: _ClassVar[int]
    LAST_ROUND_FIELD_NUMBER: _ClassVar[int]
    state: CleaningState
    first_dirty_offset: int
    first_uncleanable_offset: int
    last_stable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    dirty_ratio: float
    oldest_dirty_age: _duration_pb2.Duration
    overdue: _duration_pb2.Duration
    delete_horizon_time: _timestamp_pb2.Timestamp
    uncleanable: UncleanablePartition
    last_round: CleaningRound
    def __init__(self, state: _Optional[_Union[CleaningState, str]] = ..., first_dirty_offset: _Optional[int] = ..., first_uncleanable_offset: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., clean_bytes: _Optional[int] = ..., cleanable_bytes: _Optional[int] = ..., dirty_ratio: _Optional[float] = ..., oldest_dirty_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., overdue: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., delete_horizon_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., uncleanable: _Optional[_Union[UncleanablePartition, _Mapping]] = ..., last_round: _Optional[_Union[CleaningRound, _Mapping]] = ...) -> None: ...

class UncleanablePartition(_message.Message):
    __slots__ = ("reason", "is_damaged", "failures_in_row", "first_failure_time", "last_failure_time", "next_retry_time")
    REASON_FIELD_NUMBER: _ClassVar[int]
    IS_DAMAGED_FIELD_NUMBER: _ClassVar[int]
    FAILURES_IN_ROW_FIELD_NUMBER: _ClassVar[int]
    FIRST_FAILURE_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_FAILURE_TIME_FIELD_NUMBER: _ClassVar[int]
    NEXT_RETRY_TIME_FIELD_NUMBER: _ClassVar[int]
    reason: str
    is_damaged: bool
    failures_in_row: int
    first_failure_time: _timestamp_pb2.Timestamp
    last_failure_time: _timestamp_pb2.Timestamp
    next_retry_time: _timestamp_pb2.Timestamp
    def __init__(self, reason: _Optional[str] = ..., is_damaged: bool = ..., failures_in_row: _Optional[int] = ..., first_failure_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_failure_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_retry_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CleaningRound(_message.Message):
    __slots__ = ("start_time", "duration", "first_dirty_offset", "end_offset", "bytes_before", "bytes_after", "records_before", "records_after", "segments_before", "segments_after", "map_utilization", "is_partial")
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    FIRST_DIRTY_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTES_BEFORE_FIELD_NUMBER: _ClassVar[int]
    BYTES_AFTER_FIELD_NUMBER: _ClassVar[int]
    RECORDS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_AFTER_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_AFTER_FIELD_NUMBER: _ClassVar[int]
    MAP_UTILIZATION_FIELD_NUMBER: _ClassVar[int]
    IS_PARTIAL_FIELD_NUMBER: _ClassVar[int]
    start_time: _timestamp_pb2.Timestamp
    duration: _duration_pb2.Duration
    first_dirty_offset: int
    end_offset: int
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int
    segments_before: int
    segments_after: int
    map_utilization: float
    is_partial: bool
    def __init__(self, start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., first_dirty_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., bytes_before: _Optional[int] = ..., bytes_after: _Optional[int] = ..., records_before: _Optional[int] = ..., records_after: _Optional[int] = ..., segments_before: _Optional[int] = ..., segments_after: _Optional[int] = ..., map_utilization: _Optional[float] = ..., is_partial: bool = ...) -> None: ...

class BlockedRetention(_message.Message):
    __slots__ = ("base_offset", "timestamp", "blocked_until_time", "held_segments", "held_bytes")
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    HELD_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_FIELD_NUMBER: _ClassVar[int]
    base_offset: int
    timestamp: _timestamp_pb2.Timestamp
    blocked_until_time: _timestamp_pb2.Timestamp
    held_segments: int
    held_bytes: int
    def __init__(self, base_offset: _Optional[int] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., blocked_until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., held_segments: _Optional[int] = ..., held_bytes: _Optional[int] = ...) -> None: ...

class CompactLogRequest(_message.Message):
    __slots__ = ("topic", "partitions", "roll_active", "request_id", "validate_only", "reason")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ROLL_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    roll_active: bool
    request_id: str
    validate_only: bool
    reason: str
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., roll_active: bool = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class CompactLogResponse(_message.Message):
    __slots__ = ("partitions", "revision")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[CompactedPartition]
    revision: _types_pb2.Revision
    def __init__(self, partitions: _Optional[_Iterable[_Union[CompactedPartition, _Mapping]]] = ..., revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ...) -> None: ...

class CompactedPartition(_message.Message):
    __slots__ = ("partition", "round", "failure")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    partition: int
    round: CleaningRound
    failure: str
    def __init__(self, partition: _Optional[int] = ..., round: _Optional[_Union[CleaningRound, _Mapping]] = ..., failure: _Optional[str] = ...) -> None: ...

class RetryPartitionRequest(_message.Message):
    __slots__ = ("topic", "partition", "request_id", "validate_only", "reason")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    request_id: str
    validate_only: bool
    reason: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class RetryPartitionResponse(_message.Message):
    __slots__ = ("uncleanable", "revision")
    UNCLEANABLE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    uncleanable: UncleanablePartition
    revision: _types_pb2.Revision
    def __init__(self, uncleanable: _Optional[_Union[UncleanablePartition, _Mapping]] = ..., revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ...) -> None: ...

class DeleteRecordsRequest(_message.Message):
    __slots__ = ("topic", "partition", "offset", "end", "request_id", "validate_only", "reason")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    end: bool
    request_id: str
    validate_only: bool
    reason: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., end: bool = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class DeleteRecordsResponse(_message.Message):
    __slots__ = ("log_start_offset", "deleted_bytes", "revision")
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELETED_BYTES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    log_start_offset: int
    deleted_bytes: int
    revision: _types_pb2.Revision
    def __init__(self, log_start_offset: _Optional[int] = ..., deleted_bytes: _Optional[int] = ..., revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ...) -> None: ...

class ConfigSetting(_message.Message):
    __slots__ = ("name", "value", "default_value", "source", "unit", "description", "is_dynamic", "allowed_values", "problem")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_VALUE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    IS_DYNAMIC_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_VALUES_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    default_value: str
    source: ConfigSource
    unit: str
    description: str
    is_dynamic: bool
    allowed_values: str
    problem: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., default_value: _Optional[str] = ..., source: _Optional[_Union[ConfigSource, str]] = ..., unit: _Optional[str] = ..., description: _Optional[str] = ..., is_dynamic: bool = ..., allowed_values: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class DescribeConfigRequest(_message.Message):
    __slots__ = ("topic", "names")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topic: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeConfigResponse(_message.Message):
    __slots__ = ("settings",)
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    settings: _containers.RepeatedCompositeFieldContainer[ConfigSetting]
    def __init__(self, settings: _Optional[_Iterable[_Union[ConfigSetting, _Mapping]]] = ...) -> None: ...

class UpdateConfigRequest(_message.Message):
    __slots__ = ("topic", "set", "remove", "request_id", "validate_only", "reason")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    topic: str
    set: _containers.ScalarMap[str, str]
    remove: _containers.RepeatedScalarFieldContainer[str]
    request_id: str
    validate_only: bool
    reason: str
    def __init__(self, topic: _Optional[str] = ..., set: _Optional[_Mapping[str, str]] = ..., remove: _Optional[_Iterable[str]] = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class UpdateConfigResponse(_message.Message):
    __slots__ = ("revision", "settings")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    revision: _types_pb2.Revision
    settings: _containers.RepeatedCompositeFieldContainer[ConfigSetting]
    def __init__(self, revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., settings: _Optional[_Iterable[_Union[ConfigSetting, _Mapping]]] = ...) -> None: ...

class ExportOffsetsRequest(_message.Message):
    __slots__ = ("format", "group_ids", "group_id_prefix", "topics", "this_node_only", "log_partitions", "names_group")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    THIS_NODE_ONLY_FIELD_NUMBER: _ClassVar[int]
    LOG_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    NAMES_GROUP_FIELD_NUMBER: _ClassVar[int]
    format: OffsetFormat
    group_ids: _containers.RepeatedScalarFieldContainer[str]
    group_id_prefix: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    this_node_only: bool
    log_partitions: _containers.RepeatedScalarFieldContainer[int]
    names_group: bool
    def __init__(self, format: _Optional[_Union[OffsetFormat, str]] = ..., group_ids: _Optional[_Iterable[str]] = ..., group_id_prefix: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., this_node_only: bool = ..., log_partitions: _Optional[_Iterable[int]] = ..., names_group: bool = ...) -> None: ...

class ExportOffsetsResponse(_message.Message):
    __slots__ = ("content", "cluster", "completed_log_partition")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_LOG_PARTITION_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    cluster: _types_pb2.ClusterShare
    completed_log_partition: int
    def __init__(self, content: _Optional[bytes] = ..., cluster: _Optional[_Union[_types_pb2.ClusterShare, _Mapping]] = ..., completed_log_partition: _Optional[int] = ...) -> None: ...

class ImportOffsetsRequest(_message.Message):
    __slots__ = ("options", "content")
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    options: ImportOffsetsOptions
    content: bytes
    def __init__(self, options: _Optional[_Union[ImportOffsetsOptions, _Mapping]] = ..., content: _Optional[bytes] = ...) -> None: ...

class ImportOffsetsOptions(_message.Message):
    __slots__ = ("format", "group_id", "request_id", "validate_only", "reason", "keep_commit_times", "is_unaudited")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    KEEP_COMMIT_TIMES_FIELD_NUMBER: _ClassVar[int]
    IS_UNAUDITED_FIELD_NUMBER: _ClassVar[int]
    format: OffsetFormat
    group_id: str
    request_id: str
    validate_only: bool
    reason: str
    keep_commit_times: bool
    is_unaudited: bool
    def __init__(self, format: _Optional[_Union[OffsetFormat, str]] = ..., group_id: _Optional[str] = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., reason: _Optional[str] = ..., keep_commit_times: bool = ..., is_unaudited: bool = ...) -> None: ...

class ImportOffsetsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[ImportedGroup]
    def __init__(self, groups: _Optional[_Iterable[_Union[ImportedGroup, _Mapping]]] = ...) -> None: ...

class ImportedGroup(_message.Message):
    __slots__ = ("group_id", "offset_count", "revision", "error", "replaced_offset_count", "changes")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_COUNT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REPLACED_OFFSET_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    offset_count: int
    revision: _types_pb2.Revision
    error: _status_pb2.Status
    replaced_offset_count: int
    changes: _containers.RepeatedCompositeFieldContainer[_offset_service_pb2.OffsetChange]
    def __init__(self, group_id: _Optional[str] = ..., offset_count: _Optional[int] = ..., revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., replaced_offset_count: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[_offset_service_pb2.OffsetChange, _Mapping]]] = ...) -> None: ...

class ListAuditEventsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "methods", "group_id", "start_time", "end_time", "principal")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    METHODS_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    methods: _containers.RepeatedScalarFieldContainer[str]
    group_id: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    principal: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., methods: _Optional[_Iterable[str]] = ..., group_id: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., principal: _Optional[str] = ...) -> None: ...

class ListAuditEventsResponse(_message.Message):
    __slots__ = ("events", "next_page_token", "node_id", "other_addresses")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    OTHER_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[AuditEvent]
    next_page_token: str
    node_id: str
    other_addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, events: _Optional[_Iterable[_Union[AuditEvent, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., node_id: _Optional[str] = ..., other_addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class AuditEvent(_message.Message):
    __slots__ = ("revision", "time", "method", "topic", "what", "reason", "request_id", "peer", "principal")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    revision: _types_pb2.Revision
    time: _timestamp_pb2.Timestamp
    method: str
    topic: str
    what: str
    reason: str
    request_id: str
    peer: str
    principal: str
    def __init__(self, revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., method: _Optional[str] = ..., topic: _Optional[str] = ..., what: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., peer: _Optional[str] = ..., principal: _Optional[str] = ...) -> None: ...

class DescribeQuotasRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "principal")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    principal: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., principal: _Optional[str] = ...) -> None: ...

class DescribeQuotasResponse(_message.Message):
    __slots__ = ("quotas", "next_page_token", "in_force")
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    quotas: _containers.RepeatedCompositeFieldContainer[QuotaUse]
    next_page_token: str
    in_force: bool
    def __init__(self, quotas: _Optional[_Iterable[_Union[QuotaUse, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., in_force: bool = ...) -> None: ...

class QuotaUse(_message.Message):
    __slots__ = ("principal", "client_id", "quota", "limit", "in_use", "refusal_count", "delay")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    IN_USE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    principal: str
    client_id: str
    quota: str
    limit: int
    in_use: int
    refusal_count: int
    delay: _duration_pb2.Duration
    def __init__(self, principal: _Optional[str] = ..., client_id: _Optional[str] = ..., quota: _Optional[str] = ..., limit: _Optional[int] = ..., in_use: _Optional[int] = ..., refusal_count: _Optional[int] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
