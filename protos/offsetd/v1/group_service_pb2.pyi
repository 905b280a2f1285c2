import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from offsetd.v1 import history_pb2 as _history_pb2
from offsetd.v1 import offset_service_pb2 as _offset_service_pb2
from offsetd.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GroupType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUP_TYPE_UNSPECIFIED: _ClassVar[GroupType]
    GROUP_TYPE_CLASSIC: _ClassVar[GroupType]
    GROUP_TYPE_CONSUMER: _ClassVar[GroupType]

class GroupState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUP_STATE_UNSPECIFIED: _ClassVar[GroupState]
    GROUP_STATE_EMPTY: _ClassVar[GroupState]
    GROUP_STATE_PREPARING_REBALANCE: _ClassVar[GroupState]
    GROUP_STATE_COMPLETING_REBALANCE: _ClassVar[GroupState]
    GROUP_STATE_STABLE: _ClassVar[GroupState]
    GROUP_STATE_ASSIGNING: _ClassVar[GroupState]
    GROUP_STATE_RECONCILING: _ClassVar[GroupState]
    GROUP_STATE_DEAD: _ClassVar[GroupState]

class LagVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LAG_VERDICT_UNSPECIFIED: _ClassVar[LagVerdict]
    LAG_VERDICT_OK: _ClassVar[LagVerdict]
    LAG_VERDICT_WARN: _ClassVar[LagVerdict]
    LAG_VERDICT_ERR: _ClassVar[LagVerdict]
    LAG_VERDICT_STOP: _ClassVar[LagVerdict]
    LAG_VERDICT_STALL: _ClassVar[LagVerdict]
    LAG_VERDICT_REWIND: _ClassVar[LagVerdict]
GROUP_TYPE_UNSPECIFIED: GroupType
GROUP_TYPE_CLASSIC: GroupType
GROUP_TYPE_CONSUMER: GroupType
GROUP_STATE_UNSPECIFIED: GroupState
GROUP_STATE_EMPTY: GroupState
GROUP_STATE_PREPARING_REBALANCE: GroupState
GROUP_STATE_COMPLETING_REBALANCE: GroupState
GROUP_STATE_STABLE: GroupState
GROUP_STATE_ASSIGNING: GroupState
GROUP_STATE_RECONCILING: GroupState
GROUP_STATE_DEAD: GroupState
LAG_VERDICT_UNSPECIFIED: LagVerdict
LAG_VERDICT_OK: LagVerdict
LAG_VERDICT_WARN: LagVerdict
LAG_VERDICT_ERR: LagVerdict
LAG_VERDICT_STOP: LagVerdict
LAG_VERDICT_STALL: LagVerdict
LAG_VERDICT_REWIND: LagVerdict

class GroupListing(_message.Message):
    __slots__ = ("group_id", "type", "state", "protocol_type", "retention", "details", "lag_verdict", "lag")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    LAG_VERDICT_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str
    retention: _types_pb2.Retention
    details: ListedDetails
    lag_verdict: LagVerdict
    lag: int
    def __init__(self, group_id: _Optional[str] = ..., type: _Optional[_Union[GroupType, str]] = ..., state: _Optional[_Union[GroupState, str]] = ..., protocol_type: _Optional[str] = ..., retention: _Optional[_Union[_types_pb2.Retention, _Mapping]] = ..., details: _Optional[_Union[ListedDetails, _Mapping]] = ..., lag_verdict: _Optional[_Union[LagVerdict, str]] = ..., lag: _Optional[int] = ...) -> None: ...

class ListedDetails(_message.Message):
    __slots__ = ("offset_count", "member_count", "lease_holder")
    OFFSET_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASE_HOLDER_FIELD_NUMBER: _ClassVar[int]
    offset_count: int
    member_count: int
    lease_holder: str
    def __init__(self, offset_count: _Optional[int] = ..., member_count: _Optional[int] = ..., lease_holder: _Optional[str] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "states", "types", "group_id_prefix", "this_node_only", "log_partitions", "lag_verdicts", "topics", "lease_holder", "include_details", "include_lag_verdicts")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    THIS_NODE_ONLY_FIELD_NUMBER: _ClassVar[int]
    LOG_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    LAG_VERDICTS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    LEASE_HOLDER_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DETAILS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_LAG_VERDICTS_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    states: _containers.RepeatedScalarFieldContainer[GroupState]
    types: _containers.RepeatedScalarFieldContainer[GroupType]
    group_id_prefix: str
    this_node_only: bool
    log_partitions: _containers.RepeatedScalarFieldContainer[int]
    lag_verdicts: _containers.RepeatedScalarFieldContainer[LagVerdict]
    topics: _containers.RepeatedScalarFieldContainer[str]
    lease_holder: str
    include_details: bool
    include_lag_verdicts: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., states: _Optional[_Iterable[_Union[GroupState, str]]] = ..., types: _Optional[_Iterable[_Union[GroupType, str]]] = ..., group_id_prefix: _Optional[str] = ..., this_node_only: bool = ..., log_partitions: _Optional[_Iterable[int]] = ..., lag_verdicts: _Optional[_Iterable[_Union[LagVerdict, str]]] = ..., topics: _Optional[_Iterable[str]] = ..., lease_holder: _Optional[str] = ..., include_details: bool = ..., include_lag_verdicts: bool = ...) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups", "next_page_token", "unreachable_log_partitions", "cluster", "next_log_partition")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_LOG_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NEXT_LOG_PARTITION_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupListing]
    next_page_token: str
    unreachable_log_partitions: _containers.RepeatedScalarFieldContainer[int]
    cluster: _types_pb2.ClusterShare
    next_log_partition: int
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupListing, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., unreachable_log_partitions: _Optional[_Iterable[int]] = ..., cluster: _Optional[_Union[_types_pb2.ClusterShare, _Mapping]] = ..., next_log_partition: _Optional[int] = ...) -> None: ...

class GetGroupRequest(_message.Message):
    __slots__ = ("group_id", "include_offsets", "page_size", "page_token", "include_lags")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_LAGS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    include_offsets: bool
    page_size: int
    page_token: str
    include_lags: bool
    def __init__(self, group_id: _Optional[str] = ..., include_offsets: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., include_lags: bool = ...) -> None: ...

class GetGroupResponse(_message.Message):
    __slots__ = ("group", "offsets", "next_page_token", "lags")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LAGS_FIELD_NUMBER: _ClassVar[int]
    group: Group
    offsets: _containers.RepeatedCompositeFieldContainer[_offset_service_pb2.CommittedOffset]
    next_page_token: str
    lags: _containers.RepeatedCompositeFieldContainer[PartitionLag]
    def __init__(self, group: _Optional[_Union[Group, _Mapping]] = ..., offsets: _Optional[_Iterable[_Union[_offset_service_pb2.CommittedOffset, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., lags: _Optional[_Iterable[_Union[PartitionLag, _Mapping]]] = ...) -> None: ...

class PartitionLag(_message.Message):
    __slots__ = ("topic", "partition", "offset", "end_offset", "lag", "verdict")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    end_offset: int
    lag: int
    verdict: LagVerdict
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., lag: _Optional[int] = ..., verdict: _Optional[_Union[LagVerdict, str]] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("group_id", "type", "state", "protocol_type", "protocol", "generation", "leader_id", "members", "log_partition", "offset_count", "state_time", "retention", "lease", "lag_verdict")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    LOG_PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_COUNT_FIELD_NUMBER: _ClassVar[int]
    STATE_TIME_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LAG_VERDICT_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str
    protocol: str
    generation: int
    leader_id: str
    members: _containers.RepeatedCompositeFieldContainer[GroupMember]
    log_partition: int
    offset_count: int
    state_time: _timestamp_pb2.Timestamp
    retention: _types_pb2.Retention
    lease: Lease
    lag_verdict: LagVerdict
    def __init__(self, group_id: _Optional[str] = ..., type: _Optional[_Union[GroupType, str]] = ..., state: _Optional[_Union[GroupState, str]] = ..., protocol_type: _Optional[str] = ..., protocol: _Optional[str] = ..., generation: _Optional[int] = ..., leader_id: _Optional[str] = ..., members: _Optional[_Iterable[_Union[GroupMember, _Mapping]]] = ..., log_partition: _Optional[int] = ..., offset_count: _Optional[int] = ..., state_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., retention: _Optional[_Union[_types_pb2.Retention, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., lag_verdict: _Optional[_Union[LagVerdict, str]] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("holder", "epoch", "grant_time", "ttl", "expire_time")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    GRANT_TIME_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    holder: str
    epoch: int
    grant_time: _timestamp_pb2.Timestamp
    ttl: _duration_pb2.Duration
    expire_time: _timestamp_pb2.Timestamp
    def __init__(self, holder: _Optional[str] = ..., epoch: _Optional[int] = ..., grant_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GroupMember(_message.Message):
    __slots__ = ("member_id", "instance_id", "client_id", "client_host", "topics", "assignment")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    instance_id: str
    client_id: str
    client_host: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    assignment: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    def __init__(self, member_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., assignment: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class DeleteGroupRequest(_message.Message):
    __slots__ = ("group_id", "request_id", "validate_only", "reason")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    request_id: str
    validate_only: bool
    reason: str
    def __init__(self, group_id: _Optional[str] = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class DeleteGroupResponse(_message.Message):
    __slots__ = ("revision", "offset_count")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_COUNT_FIELD_NUMBER: _ClassVar[int]
    revision: _types_pb2.Revision
    offset_count: int
    def __init__(self, revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., offset_count: _Optional[int] = ...) -> None: ...

class GroupProtocol(_message.Message):
    __slots__ = ("name", "metadata")
    NAME_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    metadata: bytes
    def __init__(self, name: _Optional[str] = ..., metadata: _Optional[bytes] = ...) -> None: ...

class JoinGroupRequest(_message.Message):
    __slots__ = ("group_id", "member_id", "instance_id", "client_id", "session_timeout", "rebalance_timeout", "protocol_type", "protocols", "reason")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOLS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    instance_id: str
    client_id: str
    session_timeout: _duration_pb2.Duration
    rebalance_timeout: _duration_pb2.Duration
    protocol_type: str
    protocols: _containers.RepeatedCompositeFieldContainer[GroupProtocol]
    reason: str
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., client_id: _Optional[str] = ..., session_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., rebalance_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., protocol_type: _Optional[str] = ..., protocols: _Optional[_Iterable[_Union[GroupProtocol, _Mapping]]] = ..., reason: _Optional[str] = ...) -> None: ...

class JoinGroupResponse(_message.Message):
    __slots__ = ("member_id", "generation_id", "protocol_type", "protocol", "leader_id", "members", "skip_assignment")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SKIP_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    generation_id: int
    protocol_type: str
    protocol: str
    leader_id: str
    members: _containers.RepeatedCompositeFieldContainer[JoinedMember]
    skip_assignment: bool
    def __init__(self, member_id: _Optional[str] = ..., generation_id: _Optional[int] = ..., protocol_type: _Optional[str] = ..., protocol: _Optional[str] = ..., leader_id: _Optional[str] = ..., members: _Optional[_Iterable[_Union[JoinedMember, _Mapping]]] = ..., skip_assignment: bool = ...) -> None: ...

class JoinedMember(_message.Message):
    __slots__ = ("member_id", "instance_id", "metadata")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    instance_id: str
    metadata: bytes
    def __init__(self, member_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., metadata: _Optional[bytes] = ...) -> None: ...

class SyncGroupRequest(_message.Message):
    __slots__ = ("group_id", "member_id", "instance_id", "generation_id", "protocol_type", "protocol", "assignments")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    instance_id: str
    generation_id: int
    protocol_type: str
    protocol: str
    assignments: _containers.RepeatedCompositeFieldContainer[MemberAssignment]
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., generation_id: _Optional[int] = ..., protocol_type: _Optional[str] = ..., protocol: _Optional[str] = ..., assignments: _Optional[_Iterable[_Union[MemberAssignment, _Mapping]]] = ...) -> None: ...

class MemberAssignment(_message.Message):
    __slots__ = ("member_id", "assignment")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    assignment: bytes
    def __init__(self, member_id: _Optional[str] = ..., assignment: _Optional[bytes] = ...) -> None: ...

class SyncGroupResponse(_message.Message):
    __slots__ = ("protocol_type", "protocol", "assignment")
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    protocol_type: str
    protocol: str
    assignment: bytes
    def __init__(self, protocol_type: _Optional[str] = ..., protocol: _Optional[str] = ..., assignment: _Optional[bytes] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("group_id", "member_id", "instance_id", "generation_id")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    instance_id: str
    generation_id: int
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., generation_id: _Optional[int] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaveGroupRequest(_message.Message):
    __slots__ = ("group_id", "members")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    members: _containers.RepeatedCompositeFieldContainer[LeavingMember]
    def __init__(self, group_id: _Optional[str] = ..., members: _Optional[_Iterable[_Union[LeavingMember, _Mapping]]] = ...) -> None: ...

class LeavingMember(_message.Message):
    __slots__ = ("member_id", "instance_id", "reason")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    instance_id: str
    reason: str
    def __init__(self, member_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class LeaveGroupResponse(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[LeftMember]
    def __init__(self, members: _Optional[_Iterable[_Union[LeftMember, _Mapping]]] = ...) -> None: ...

class MemberToRemove(_message.Message):
    __slots__ = ("member_id", "instance_id")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    instance_id: str
    def __init__(self, member_id: _Optional[str] = ..., instance_id: _Optional[str] = ...) -> None: ...

class RemoveMembersRequest(_message.Message):
    __slots__ = ("group_id", "members", "all", "request_id", "validate_only", "reason")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    members: _containers.RepeatedCompositeFieldContainer[MemberToRemove]
    all: bool
    request_id: str
    validate_only: bool
    reason: str
    def __init__(self, group_id: _Optional[str] = ..., members: _Optional[_Iterable[_Union[MemberToRemove, _Mapping]]] = ..., all: bool = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class RemoveMembersResponse(_message.Message):
    __slots__ = ("revision", "members")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    revision: _types_pb2.Revision
    members: _containers.RepeatedCompositeFieldContainer[LeftMember]
    def __init__(self, revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., members: _Optional[_Iterable[_Union[LeftMember, _Mapping]]] = ...) -> None: ...

class LeftMember(_message.Message):
    __slots__ = ("member_id", "instance_id", "error")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    instance_id: str
    error: _status_pb2.Status
    def __init__(self, member_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class CloneGroupRequest(_message.Message):
    __slots__ = ("source_group_id", "target_group_id", "topics", "overwrite", "request_id", "validate_only", "reason", "source_offsets")
    SOURCE_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SOURCE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    source_group_id: str
    target_group_id: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    overwrite: bool
    request_id: str
    validate_only: bool
    reason: str
    source_offsets: _offset_service_pb2.GroupOffsets
    def __init__(self, source_group_id: _Optional[str] = ..., target_group_id: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., overwrite: bool = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., reason: _Optional[str] = ..., source_offsets: _Optional[_Union[_offset_service_pb2.GroupOffsets, _Mapping]] = ...) -> None: ...

class CloneGroupResponse(_message.Message):
    __slots__ = ("revision", "offset_count", "kept_offset_count", "changes")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_COUNT_FIELD_NUMBER: _ClassVar[int]
    KEPT_OFFSET_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    revision: _types_pb2.Revision
    offset_count: int
    kept_offset_count: int
    changes: _containers.RepeatedCompositeFieldContainer[_offset_service_pb2.OffsetChange]
    def __init__(self, revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., offset_count: _Optional[int] = ..., kept_offset_count: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[_offset_service_pb2.OffsetChange, _Mapping]]] = ...) -> None: ...

class UpdateGroupRequest(_message.Message):
    __slots__ = ("group_id", "retention", "allow_missing", "request_id", "validate_only", "reason")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    retention: _types_pb2.Retention
    allow_missing: bool
    request_id: str
    validate_only: bool
    reason: str
    def __init__(self, group_id: _Optional[str] = ..., retention: _Optional[_Union[_types_pb2.Retention, _Mapping]] = ..., allow_missing: bool = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class UpdateGroupResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: _types_pb2.Revision
    def __init__(self, revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ...) -> None: ...

class AcquireGroupRequest(_message.Message):
    __slots__ = ("group_id", "holder", "ttl", "force", "request_id", "reason")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    holder: str
    ttl: _duration_pb2.Duration
    force: bool
    request_id: str
    reason: str
    def __init__(self, group_id: _Optional[str] = ..., holder: _Optional[str] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., force: bool = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class AcquireGroupResponse(_message.Message):
    __slots__ = ("revision", "lease")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    revision: _types_pb2.Revision
    lease: Lease
    def __init__(self, revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class RenewGroupRequest(_message.Message):
    __slots__ = ("group_id", "epoch", "ttl")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    epoch: int
    ttl: _duration_pb2.Duration
    def __init__(self, group_id: _Optional[str] = ..., epoch: _Optional[int] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RenewGroupResponse(_message.Message):
    __slots__ = ("lease",)
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class ReleaseGroupRequest(_message.Message):
    __slots__ = ("group_id", "epoch", "request_id")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    epoch: int
    request_id: str
    def __init__(self, group_id: _Optional[str] = ..., epoch: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class ReleaseGroupResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: _types_pb2.Revision
    def __init__(self, revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ...) -> None: ...
