from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StreamBackupRequest(_message.Message):
    __slots__ = ("held_digests", "bytes_per_second_max")
    HELD_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_MAX_FIELD_NUMBER: _ClassVar[int]
    held_digests: bytes
    bytes_per_second_max: int
    def __init__(self, held_digests: _Optional[bytes] = ..., bytes_per_second_max: _Optional[int] = ...) -> None: ...

class StreamBackupResponse(_message.Message):
    __slots__ = ("head", "chunk")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    head: BackupHead
    chunk: BackupChunk
    def __init__(self, head: _Optional[_Union[BackupHead, _Mapping]] = ..., chunk: _Optional[_Union[BackupChunk, _Mapping]] = ...) -> None: ...

class BackupHead(_message.Message):
    __slots__ = ("moment_ms", "server_version", "folder_id", "log_partitions", "is_from_elsewhere", "cluster_id", "logs", "other_addresses")
    MOMENT_MS_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    FOLDER_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    IS_FROM_ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    OTHER_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    moment_ms: int
    server_version: str
    folder_id: str
    log_partitions: int
    is_from_elsewhere: bool
    cluster_id: str
    logs: _containers.RepeatedCompositeFieldContainer[BackupLog]
    other_addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, moment_ms: _Optional[int] = ..., server_version: _Optional[str] = ..., folder_id: _Optional[str] = ..., log_partitions: _Optional[int] = ..., is_from_elsewhere: bool = ..., cluster_id: _Optional[str] = ..., logs: _Optional[_Iterable[_Union[BackupLog, _Mapping]]] = ..., other_addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class BackupLog(_message.Message):
    __slots__ = ("topic", "partition", "start_offset", "end_offset", "exact_from_offset", "segments")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    EXACT_FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    exact_from_offset: int
    segments: _containers.RepeatedCompositeFieldContainer[BackupSegment]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., exact_from_offset: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[BackupSegment, _Mapping]]] = ...) -> None: ...

class BackupSegment(_message.Message):
    __slots__ = ("base_offset", "size_bytes")
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    base_offset: int
    size_bytes: int
    def __init__(self, base_offset: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class BackupChunk(_message.Message):
    __slots__ = ("digest", "content")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    content: bytes
    def __init__(self, digest: _Optional[bytes] = ..., content: _Optional[bytes] = ...) -> None: ...
