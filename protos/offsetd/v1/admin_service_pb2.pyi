import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVER_STATE_UNSPECIFIED: _ClassVar[ServerState]
    SERVER_STATE_LOADING: _ClassVar[ServerState]
    SERVER_STATE_SERVING: _ClassVar[ServerState]
    SERVER_STATE_DRAINING: _ClassVar[ServerState]
SERVER_STATE_UNSPECIFIED: ServerState
SERVER_STATE_LOADING: ServerState
SERVER_STATE_SERVING: ServerState
SERVER_STATE_DRAINING: ServerState

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "folder_id", "node_id", "start_time", "log_partitions", "state", "group_count", "offset_count", "unknown_record_count", "undecodable_record_count", "quarantined_partitions")
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
    def __init__(self, version: _Optional[str] = ..., folder_id: _Optional[str] = ..., node_id: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., log_partitions: _Optional[int] = ..., state: _Optional[_Union[ServerState, str]] = ..., group_count: _Optional[int] = ..., offset_count: _Optional[int] = ..., unknown_record_count: _Optional[int] = ..., undecodable_record_count: _Optional[int] = ..., quarantined_partitions: _Optional[_Iterable[int]] = ...) -> None: ...

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
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class DescribeLogResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[LogPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[LogPartition, _Mapping]]] = ...) -> None: ...

class LogPartition(_message.Message):
    __slots__ = ("partition", "log_start_offset", "log_end_offset", "recovery_point", "size_bytes", "segments", "quarantine_reason")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_POINT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_REASON_FIELD_NUMBER: _ClassVar[int]
    partition: int
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    size_bytes: int
    segments: _containers.RepeatedCompositeFieldContainer[LogSegment]
    quarantine_reason: str
    def __init__(self, partition: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., recovery_point: _Optional[int] = ..., size_bytes: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[LogSegment, _Mapping]]] = ..., quarantine_reason: _Optional[str] = ...) -> None: ...

class LogSegment(_message.Message):
    __slots__ = ("base_offset", "size_bytes", "largest_time")
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LARGEST_TIME_FIELD_NUMBER: _ClassVar[int]
    base_offset: int
    size_bytes: int
    largest_time: _timestamp_pb2.Timestamp
    def __init__(self, base_offset: _Optional[int] = ..., size_bytes: _Optional[int] = ..., largest_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
