import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TopicPartition(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class Revision(_message.Message):
    __slots__ = ("log_partition", "log_offset")
    LOG_PARTITION_FIELD_NUMBER: _ClassVar[int]
    LOG_OFFSET_FIELD_NUMBER: _ClassVar[int]
    log_partition: int
    log_offset: int
    def __init__(self, log_partition: _Optional[int] = ..., log_offset: _Optional[int] = ...) -> None: ...

class ClusterShare(_message.Message):
    __slots__ = ("log_partitions", "elsewhere")
    LOG_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    log_partitions: _containers.RepeatedScalarFieldContainer[int]
    elsewhere: _containers.RepeatedCompositeFieldContainer[NodePartitions]
    def __init__(self, log_partitions: _Optional[_Iterable[int]] = ..., elsewhere: _Optional[_Iterable[_Union[NodePartitions, _Mapping]]] = ...) -> None: ...

class NodePartitions(_message.Message):
    __slots__ = ("address", "log_partitions")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    address: str
    log_partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, address: _Optional[str] = ..., log_partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class Retention(_message.Message):
    __slots__ = ("duration", "never")
    DURATION_FIELD_NUMBER: _ClassVar[int]
    NEVER_FIELD_NUMBER: _ClassVar[int]
    duration: _duration_pb2.Duration
    never: bool
    def __init__(self, duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., never: bool = ...) -> None: ...
