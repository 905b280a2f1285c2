"""The records of `__consumer_offsets`: key and value layouts by record type, as of Kafka 4.1.1.

A key is an int16 record type and a message of version 0; a value is an int16 version and a
message of that version. Keys are never flexible. offsetd works with types 0 to 8 and 16; the
layouts of share groups (10 to 15) and of Kafka Streams groups (17 to 23) are here for the dump.
"""

import enum
from typing import Final

from offsetd_storage.offsets_topic.schemas.layout import Field, Kind, Layout

ZERO_UUID: Final = bytes(16)


class RecordType(enum.IntEnum):
    """The int16 that starts a key. Kafka 4.1.1 uses neither 9 nor 18."""

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    SHARE_GROUP_MEMBER_METADATA = 10
    SHARE_GROUP_METADATA = 11
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = 12
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER = 13
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT = 14
    SHARE_GROUP_STATE_PARTITION_METADATA = 15
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16
    STREAMS_GROUP_METADATA = 17
    STREAMS_GROUP_MEMBER_METADATA = 19
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA = 20
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER = 21
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT = 22
    STREAMS_GROUP_TOPOLOGY = 23


def _int32(name: str, *, since: int = 0, default: int = 0) -> Field:
    return Field(name, Kind.INT32, since=since, default=default)


def _int64(name: str) -> Field:
    return Field(name, Kind.INT64)


def _string(name: str, *, since: int = 0, nullable: bool = False) -> Field:
    return Field(name, Kind.STRING, since=since, nullable=nullable)


def _bytes(name: str) -> Field:
    return Field(name, Kind.BYTES)


def _strings(name: str) -> Field:
    return Field(name, Kind.ARRAY_STRING)


def _int16s(name: str) -> Field:
    return Field(name, Kind.ARRAY_INT16)


def _structs(name: str, *fields: Field) -> Field:
    return Field(name, Kind.ARRAY_STRUCT, fields=fields)


_TOPIC_ID: Final = Field("topicId", Kind.UUID)
_PARTITIONS: Final = Field("partitions", Kind.ARRAY_INT32)


def _topic_partitions(name: str) -> Field:
    return _structs(name, _TOPIC_ID, _PARTITIONS)


def _named_topic_partitions(name: str) -> Field:
    return _structs(name, _TOPIC_ID, _string("topicName"), _PARTITIONS)


def _task_ids(name: str) -> Field:
    return _structs(name, _string("subtopologyId"), _PARTITIONS)


def _internal_topics(name: str) -> Field:
    configs = _structs("topicConfigs", _string("key"), _string("value"))
    replication = Field("replicationFactor", Kind.INT16)
    return _structs(name, _string("name"), _int32("partitions"), replication, configs)


def _key(name: str, *fields: Field) -> Layout:
    return Layout(name=f"{name}Key", fields=fields)


def _flexible(name: str, *fields: Field) -> Layout:
    return Layout(name=f"{name}Value", fields=fields, flexible_since=0)


_OFFSET_KEY: Final = (_string("group"), _string("topic"), _int32("partition"))

OFFSET_COMMIT_VALUE: Final = Layout(
    name="OffsetCommitValue",
    version_last=4,
    flexible_since=4,
    fields=(
        _int64("offset"),
        _int32("leaderEpoch", since=3, default=-1),
        _string("metadata"),
        _int64("commitTimestamp"),
        Field("expireTimestamp", Kind.INT64, since=1, until=1, default=-1),
        Field("topicId", Kind.UUID, since=4, tag=0, default=ZERO_UUID),
    ),
)

# Key type 0 has no other value version. OFFSET_COMMIT_VALUE version 0 reads the same.
LEGACY_OFFSET_COMMIT_VALUE: Final = Layout(
    name="LegacyOffsetCommitValue",
    fields=(_int64("offset"), _string("metadata"), _int64("commitTimestamp")),
)

GROUP_METADATA_VALUE: Final = Layout(
    name="GroupMetadataValue",
    version_last=4,
    flexible_since=4,
    fields=(
        _string("protocolType"),
        _int32("generation"),
        _string("protocol", nullable=True),
        _string("leader", nullable=True),
        Field("currentStateTimestamp", Kind.INT64, since=2, default=-1),
        _structs(
            "members",
            _string("memberId"),
            _string("groupInstanceId", since=3, nullable=True),
            _string("clientId"),
            _string("clientHost"),
            _int32("rebalanceTimeout", since=1, default=-1),
            _int32("sessionTimeout"),
            _bytes("subscription"),
            _bytes("assignment"),
        ),
    ),
)

_CLASSIC_MEMBER_METADATA: Final = Field(
    "classicMemberMetadata",
    Kind.STRUCT,
    tag=0,
    nullable=True,
    # Kafka omits the tag for the empty struct, and writes it for null.
    default={"sessionTimeoutMs": 0, "supportedProtocols": []},
    fields=(
        _int32("sessionTimeoutMs"),
        _structs("supportedProtocols", _string("name"), _bytes("metadata")),
    ),
)

_MEMBER_METADATA: Final = _flexible(
    "ConsumerGroupMemberMetadata",
    _string("instanceId", nullable=True),
    _string("rackId", nullable=True),
    _string("clientId"),
    _string("clientHost"),
    _strings("subscribedTopicNames"),
    _string("subscribedTopicRegex", nullable=True),
    _int32("rebalanceTimeoutMs"),
    _string("serverAssignor", nullable=True),
    _CLASSIC_MEMBER_METADATA,
)

_PARTITION_METADATA: Final = _flexible(
    "ConsumerGroupPartitionMetadata",
    _structs(
        "topics",
        _TOPIC_ID,
        _string("topicName"),
        _int32("numPartitions"),
        _structs("partitionMetadata", _int32("partition"), _strings("racks")),
    ),
)

_STREAMS_MEMBER_METADATA: Final = _flexible(
    "StreamsGroupMemberMetadata",
    _string("instanceId", nullable=True),
    _string("rackId", nullable=True),
    _string("clientId"),
    _string("clientHost"),
    _int32("rebalanceTimeoutMs"),
    _int32("topologyEpoch"),
    _string("processId"),
    Field(
        "userEndpoint",
        Kind.STRUCT,
        nullable=True,
        fields=(_string("host"), Field("port", Kind.UINT16)),
    ),
    _structs("clientTags", _string("key"), _string("value")),
)

_STREAMS_TOPOLOGY: Final = _flexible(
    "StreamsGroupTopology",
    _int32("epoch"),
    _structs(
        "subtopologies",
        _string("subtopologyId"),
        _strings("sourceTopics"),
        _strings("sourceTopicRegex"),
        _internal_topics("stateChangelogTopics"),
        _strings("repartitionSinkTopics"),
        _internal_topics("repartitionSourceTopics"),
        _structs(
            "copartitionGroups",
            _int16s("sourceTopics"),
            _int16s("sourceTopicRegex"),
            _int16s("repartitionSourceTopics"),
        ),
    ),
)

_GROUP: Final = (_string("groupId"),)
_GROUP_AND_MEMBER: Final = (_string("groupId"), _string("memberId"))

KEY_LAYOUTS: Final[dict[RecordType, Layout]] = {
    RecordType.LEGACY_OFFSET_COMMIT: _key("LegacyOffsetCommit", *_OFFSET_KEY),
    RecordType.OFFSET_COMMIT: _key("OffsetCommit", *_OFFSET_KEY),
    RecordType.GROUP_METADATA: _key("GroupMetadata", _string("group")),
    RecordType.CONSUMER_GROUP_METADATA: _key("ConsumerGroupMetadata", *_GROUP),
    RecordType.CONSUMER_GROUP_PARTITION_METADATA: _key("ConsumerGroupPartitionMetadata", *_GROUP),
    RecordType.CONSUMER_GROUP_MEMBER_METADATA: _key(
        "ConsumerGroupMemberMetadata", *_GROUP_AND_MEMBER
    ),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _key(
        "ConsumerGroupTargetAssignmentMetadata", *_GROUP
    ),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _key(
        "ConsumerGroupTargetAssignmentMember", *_GROUP_AND_MEMBER
    ),
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _key(
        "ConsumerGroupCurrentMemberAssignment", *_GROUP_AND_MEMBER
    ),
    RecordType.SHARE_GROUP_MEMBER_METADATA: _key("ShareGroupMemberMetadata", *_GROUP_AND_MEMBER),
    RecordType.SHARE_GROUP_METADATA: _key("ShareGroupMetadata", *_GROUP),
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: _key(
        "ShareGroupTargetAssignmentMetadata", *_GROUP
    ),
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: _key(
        "ShareGroupTargetAssignmentMember", *_GROUP_AND_MEMBER
    ),
    RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: _key(
        "ShareGroupCurrentMemberAssignment", *_GROUP_AND_MEMBER
    ),
    RecordType.SHARE_GROUP_STATE_PARTITION_METADATA: _key(
        "ShareGroupStatePartitionMetadata", *_GROUP
    ),
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: _key(
        "ConsumerGroupRegularExpression", _string("groupId"), _string("regularExpression")
    ),
    RecordType.STREAMS_GROUP_METADATA: _key("StreamsGroupMetadata", *_GROUP),
    RecordType.STREAMS_GROUP_MEMBER_METADATA: _key(
        "StreamsGroupMemberMetadata", *_GROUP_AND_MEMBER
    ),
    RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: _key(
        "StreamsGroupTargetAssignmentMetadata", *_GROUP
    ),
    RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: _key(
        "StreamsGroupTargetAssignmentMember", *_GROUP_AND_MEMBER
    ),
    RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: _key(
        "StreamsGroupCurrentMemberAssignment", *_GROUP_AND_MEMBER
    ),
    RecordType.STREAMS_GROUP_TOPOLOGY: _key("StreamsGroupTopology", *_GROUP),
}

VALUE_LAYOUTS: Final[dict[RecordType, Layout]] = {
    RecordType.LEGACY_OFFSET_COMMIT: LEGACY_OFFSET_COMMIT_VALUE,
    RecordType.OFFSET_COMMIT: OFFSET_COMMIT_VALUE,
    RecordType.GROUP_METADATA: GROUP_METADATA_VALUE,
    RecordType.CONSUMER_GROUP_METADATA: _flexible(
        "ConsumerGroupMetadata",
        _int32("epoch"),
        Field("metadataHash", Kind.INT64, tag=0, default=0),
    ),
    RecordType.CONSUMER_GROUP_PARTITION_METADATA: _PARTITION_METADATA,
    RecordType.CONSUMER_GROUP_MEMBER_METADATA: _MEMBER_METADATA,
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _flexible(
        "ConsumerGroupTargetAssignmentMetadata", _int32("assignmentEpoch")
    ),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _flexible(
        "ConsumerGroupTargetAssignmentMember", _topic_partitions("topicPartitions")
    ),
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _flexible(
        "ConsumerGroupCurrentMemberAssignment",
        _int32("memberEpoch"),
        _int32("previousMemberEpoch"),
        Field("state", Kind.INT8),
        _topic_partitions("assignedPartitions"),
        _topic_partitions("partitionsPendingRevocation"),
    ),
    RecordType.SHARE_GROUP_MEMBER_METADATA: _flexible(
        "ShareGroupMemberMetadata",
        _string("rackId", nullable=True),
        _string("clientId"),
        _string("clientHost"),
        _strings("subscribedTopicNames"),
    ),
    RecordType.SHARE_GROUP_METADATA: _flexible(
        "ShareGroupMetadata", _int32("epoch"), _int64("metadataHash")
    ),
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: _flexible(
        "ShareGroupTargetAssignmentMetadata", _int32("assignmentEpoch")
    ),
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: _flexible(
        "ShareGroupTargetAssignmentMember", _topic_partitions("topicPartitions")
    ),
    RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: _flexible(
        "ShareGroupCurrentMemberAssignment",
        _int32("memberEpoch"),
        _int32("previousMemberEpoch"),
        Field("state", Kind.INT8),
        _topic_partitions("assignedPartitions"),
    ),
    RecordType.SHARE_GROUP_STATE_PARTITION_METADATA: _flexible(
        "ShareGroupStatePartitionMetadata",
        _named_topic_partitions("initializingTopics"),
        _named_topic_partitions("initializedTopics"),
        _structs("deletingTopics", _TOPIC_ID, _string("topicName")),
    ),
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: _flexible(
        "ConsumerGroupRegularExpression",
        _strings("topics"),
        _int64("version"),
        _int64("timestamp"),
    ),
    RecordType.STREAMS_GROUP_METADATA: _flexible(
        "StreamsGroupMetadata", _int32("epoch"), _int64("metadataHash")
    ),
    RecordType.STREAMS_GROUP_MEMBER_METADATA: _STREAMS_MEMBER_METADATA,
    RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: _flexible(
        "StreamsGroupTargetAssignmentMetadata", _int32("assignmentEpoch")
    ),
    RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: _flexible(
        "StreamsGroupTargetAssignmentMember",
        _task_ids("activeTasks"),
        _task_ids("standbyTasks"),
        _task_ids("warmupTasks"),
    ),
    RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: _flexible(
        "StreamsGroupCurrentMemberAssignment",
        _int32("memberEpoch"),
        _int32("previousMemberEpoch"),
        Field("state", Kind.INT8),
        _task_ids("activeTasks"),
        _task_ids("standbyTasks"),
        _task_ids("warmupTasks"),
        _task_ids("activeTasksPendingRevocation"),
        _task_ids("standbyTasksPendingRevocation"),
        _task_ids("warmupTasksPendingRevocation"),
    ),
    RecordType.STREAMS_GROUP_TOPOLOGY: _STREAMS_TOPOLOGY,
}
