"""The metadata of members of a classic group of protocol type "consumer".

The group coordinator does not change these bytes. A subscription has the topics that a member
reads, and an assignment has its partitions. The bytes are an int16 version and a message that is
never flexible. A version above 3 is read as 3: Kafka promises that newer versions only add fields
at the end.
"""

from typing import Final, cast

import attrs

from offsetd_storage.offsets_topic.schemas.layout import Field, Fields, Kind, Layout, read_message
from offsetd_storage.offsets_topic.schemas.primitives import Reader, UndecodableRecord

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_TOPIC_PARTITIONS: Final = (
    Field("topic", Kind.STRING),
    Field("partitions", Kind.ARRAY_INT32),
)

SUBSCRIPTION: Final = Layout(
    name="ConsumerProtocolSubscription",
    version_last=3,
    fields=(
        Field("topics", Kind.ARRAY_STRING),
        Field("userData", Kind.BYTES, nullable=True),
        Field("ownedPartitions", Kind.ARRAY_STRUCT, since=1, default=(), fields=_TOPIC_PARTITIONS),
        Field("generationId", Kind.INT32, since=2, default=-1),
        Field("rackId", Kind.STRING, since=3, nullable=True),
    ),
)

ASSIGNMENT: Final = Layout(
    name="ConsumerProtocolAssignment",
    version_last=3,
    fields=(
        Field("assignedPartitions", Kind.ARRAY_STRUCT, fields=_TOPIC_PARTITIONS),
        Field("userData", Kind.BYTES, nullable=True),
    ),
)


@attrs.frozen(kw_only=True)
class TopicPartitions:
    """Partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


@attrs.frozen(kw_only=True)
class Subscription:
    """The topics that a member wants to read, and the partitions that it owned when it joined.

    The owned partitions are empty in version 0.
    """

    topics: tuple[str, ...]
    user_data: bytes | None
    owned_partitions: tuple[TopicPartitions, ...]
    generation_id: int
    rack_id: str | None


@attrs.frozen(kw_only=True)
class Assignment:
    """The partitions that the group's leader assigned to a member."""

    assigned_partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None


def decode_subscription(encoded: bytes) -> Subscription:
    """A member's subscription. Raises `UndecodableRecord`."""
    fields = _read(SUBSCRIPTION, encoded)
    return Subscription(
        topics=tuple(cast("list[str]", fields["topics"])),
        user_data=cast("bytes | None", fields["userData"]),
        owned_partitions=_topic_partitions(fields["ownedPartitions"]),
        generation_id=cast("int", fields["generationId"]),
        rack_id=cast("str | None", fields["rackId"]) or None,
    )


def decode_assignment(encoded: bytes) -> Assignment:
    """A member's assignment. Raises `UndecodableRecord`."""
    fields = _read(ASSIGNMENT, encoded)
    return Assignment(
        assigned_partitions=_topic_partitions(fields["assignedPartitions"]),
        user_data=cast("bytes | None", fields["userData"]),
    )


def _read(layout: Layout, encoded: bytes) -> Fields:
    reader = Reader(encoded)
    version = reader.int16()
    if version < 0:
        raise UndecodableRecord(f"{layout.name} has no version {version}")
    return read_message(layout, reader, min(version, layout.version_last)).fields


def _topic_partitions(value: object) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(
            topic=cast("str", topic["topic"]),
            partitions=tuple(cast("list[int]", topic["partitions"])),
        )
        for topic in cast("list[Fields]", value)
    )
