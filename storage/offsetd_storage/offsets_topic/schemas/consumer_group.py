"""The values of a KIP-848 group's records, types 3 to 8 and 16, as of Kafka 4.1.1.

offsetd keeps these groups and shows them; it does not run their protocol. It writes only type 3:
the epoch that begins after members have left.
Every `decode` ignores unknown tags, and raises `UnknownValueVersion` for a newer version and
`UndecodableRecord` for bytes that do not follow the version.
"""

from typing import Final, Self, TypeAlias, cast

import attrs

from offsetd_storage.offsets_topic.schemas.layout import Fields, read_versioned, write_versioned
from offsetd_storage.offsets_topic.schemas.record_layouts import VALUE_LAYOUTS, RecordType


@attrs.frozen(kw_only=True)
class TopicIdPartitions:
    """Partitions of a topic that is named by its 16-byte id."""

    topic_id: bytes
    partitions: tuple[int, ...]


@attrs.frozen(kw_only=True)
class ConsumerGroupMetadataValue:
    """Type 3. `metadata_hash` is 0 if the writer was older than Kafka 4.1."""

    epoch: int
    metadata_hash: int

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads version 0."""
        fields = _read(RecordType.CONSUMER_GROUP_METADATA, value)
        return cls(
            epoch=cast("int", fields["epoch"]), metadata_hash=cast("int", fields["metadataHash"])
        )

    def encode(self) -> bytes:
        """Writes version 0."""
        fields: Fields = {"epoch": self.epoch, "metadataHash": self.metadata_hash}
        return write_versioned(VALUE_LAYOUTS[RecordType.CONSUMER_GROUP_METADATA], fields, 0)


@attrs.frozen(kw_only=True)
class TopicMetadata:
    """The group's last metadata of a subscribed topic. `racks` maps a partition to its racks."""

    topic_id: bytes
    topic: str
    partitions: int
    racks: dict[int, tuple[str, ...]]


@attrs.frozen(kw_only=True)
class ConsumerGroupPartitionMetadataValue:
    """Type 4, which Kafka 4.1 replaced by the metadata hash of type 3."""

    topics: tuple[TopicMetadata, ...]

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads version 0."""
        fields = _read(RecordType.CONSUMER_GROUP_PARTITION_METADATA, value)
        return cls(topics=tuple(_topic_metadata(topic) for topic in _structs(fields["topics"])))


@attrs.frozen(kw_only=True)
class ClassicProtocol:
    """An assignment protocol that a member of the classic protocol supports, and its bytes."""

    name: str
    metadata: bytes


@attrs.frozen(kw_only=True)
class ClassicMemberMetadata:
    """The metadata of a member that joined a KIP-848 group by the classic protocol."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


@attrs.frozen(kw_only=True)
class ConsumerGroupMemberMetadataValue:
    """Type 5: a member's subscription. `classic` is None for a member of the new protocol."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMemberMetadata | None

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads version 0."""
        fields = _read(RecordType.CONSUMER_GROUP_MEMBER_METADATA, value)
        return cls(
            instance_id=cast("str | None", fields["instanceId"]),
            rack_id=cast("str | None", fields["rackId"]),
            client_id=cast("str", fields["clientId"]),
            client_host=cast("str", fields["clientHost"]),
            subscribed_topics=tuple(cast("list[str]", fields["subscribedTopicNames"])),
            subscribed_regex=cast("str | None", fields["subscribedTopicRegex"]),
            rebalance_timeout_ms=cast("int", fields["rebalanceTimeoutMs"]),
            server_assignor=cast("str | None", fields["serverAssignor"]),
            classic=_classic_member(cast("Fields | None", fields["classicMemberMetadata"])),
        )


@attrs.frozen(kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    """Type 6: the group epoch for which the target assignment was computed."""

    assignment_epoch: int

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads version 0."""
        fields = _read(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, value)
        return cls(assignment_epoch=cast("int", fields["assignmentEpoch"]))


@attrs.frozen(kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue:
    """Type 7: the target assignment of a member."""

    topic_partitions: tuple[TopicIdPartitions, ...]

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads version 0."""
        fields = _read(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, value)
        return cls(topic_partitions=_topic_partitions(fields["topicPartitions"]))


@attrs.frozen(kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    """Type 8: the present assignment of a member. `state` is Kafka's number: 0 is stable, 1 must
    revoke, 2 waits for partitions that other members still own, 127 is unknown."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: tuple[TopicIdPartitions, ...]
    pending_revocation: tuple[TopicIdPartitions, ...]

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads version 0."""
        fields = _read(RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, value)
        return cls(
            member_epoch=cast("int", fields["memberEpoch"]),
            previous_member_epoch=cast("int", fields["previousMemberEpoch"]),
            state=cast("int", fields["state"]),
            assigned=_topic_partitions(fields["assignedPartitions"]),
            pending_revocation=_topic_partitions(fields["partitionsPendingRevocation"]),
        )


@attrs.frozen(kw_only=True)
class ConsumerGroupRegularExpressionValue:
    """Type 16: the topics that a member's regular expression matched at `timestamp_ms`."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads version 0."""
        fields = _read(RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION, value)
        return cls(
            topics=tuple(cast("list[str]", fields["topics"])),
            version=cast("int", fields["version"]),
            timestamp_ms=cast("int", fields["timestamp"]),
        )


ConsumerGroupValue: TypeAlias = (
    ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)

_VALUES: Final[dict[RecordType, type[ConsumerGroupValue]]] = {
    RecordType.CONSUMER_GROUP_METADATA: ConsumerGroupMetadataValue,
    RecordType.CONSUMER_GROUP_PARTITION_METADATA: ConsumerGroupPartitionMetadataValue,
    RecordType.CONSUMER_GROUP_MEMBER_METADATA: ConsumerGroupMemberMetadataValue,
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: (
        ConsumerGroupTargetAssignmentMetadataValue
    ),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: ConsumerGroupTargetAssignmentMemberValue,
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: ConsumerGroupCurrentMemberAssignmentValue,
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: ConsumerGroupRegularExpressionValue,
}


def decode_consumer_group_value(record_type: RecordType, value: bytes) -> ConsumerGroupValue:
    """The value of a record whose key is a `ConsumerGroupKey` of `record_type`."""
    return _VALUES[record_type].decode(value)


def _read(record_type: RecordType, value: bytes) -> Fields:
    return read_versioned(VALUE_LAYOUTS[record_type], value).fields


def _structs(value: object) -> list[Fields]:
    return cast("list[Fields]", value)


def _topic_partitions(value: object) -> tuple[TopicIdPartitions, ...]:
    return tuple(
        TopicIdPartitions(
            topic_id=cast("bytes", topic["topicId"]),
            partitions=tuple(cast("list[int]", topic["partitions"])),
        )
        for topic in _structs(value)
    )


def _topic_metadata(fields: Fields) -> TopicMetadata:
    return TopicMetadata(
        topic_id=cast("bytes", fields["topicId"]),
        topic=cast("str", fields["topicName"]),
        partitions=cast("int", fields["numPartitions"]),
        racks={
            cast("int", partition["partition"]): tuple(cast("list[str]", partition["racks"]))
            for partition in _structs(fields["partitionMetadata"])
        },
    )


def _classic_member(fields: Fields | None) -> ClassicMemberMetadata | None:
    if fields is None or not fields["supportedProtocols"]:
        return None
    return ClassicMemberMetadata(
        session_timeout_ms=cast("int", fields["sessionTimeoutMs"]),
        supported_protocols=tuple(
            ClassicProtocol(
                name=cast("str", protocol["name"]), metadata=cast("bytes", protocol["metadata"])
            )
            for protocol in _structs(fields["supportedProtocols"])
        ),
    )
