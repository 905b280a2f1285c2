"""Keys of `__consumer_offsets`: an int16 record type, then the key's fields."""

from typing import Final, TypeAlias

import attrs

from offsetd_storage.offsets_topic.schemas.layout import read_message, write_message
from offsetd_storage.offsets_topic.schemas.primitives import Reader, UndecodableRecord, Writer
from offsetd_storage.offsets_topic.schemas.record_layouts import KEY_LAYOUTS, RecordType

GROUP_SETTINGS: Final = 20_292
"""Our own record type. Kafka uses no number near it, and skips the records with a warning."""

OFFSET_RECORD_TYPES: Final = frozenset({RecordType.LEGACY_OFFSET_COMMIT, RecordType.OFFSET_COMMIT})

CONSUMER_GROUP_RECORD_TYPES: Final = (
    RecordType.CONSUMER_GROUP_METADATA,
    RecordType.CONSUMER_GROUP_PARTITION_METADATA,
    RecordType.CONSUMER_GROUP_MEMBER_METADATA,
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION,
)


@attrs.frozen(kw_only=True)
class OffsetKey:
    """A committed offset. `version` is the record type: 1, or 0 in logs older than Kafka 0.9."""

    group: str
    topic: str
    partition: int
    version: int = 1


@attrs.frozen(kw_only=True)
class GroupKey:
    """A classic group's metadata, type 2."""

    group: str


@attrs.frozen(kw_only=True)
class ConsumerGroupKey:
    """One of the records of a KIP-848 group.

    `member_id` is set for types 5, 7 and 8, `regular_expression` for type 16.
    """

    record_type: RecordType
    group: str
    member_id: str | None = None
    regular_expression: str | None = None


@attrs.frozen(kw_only=True)
class GroupSettingsKey:
    """The settings and the lease of a group, which is our own record type."""

    group: str


@attrs.frozen(kw_only=True)
class UnknownKey:
    """A record that offsetd keeps and counts, but does not read."""

    record_type: int


RecordKey: TypeAlias = OffsetKey | GroupKey | ConsumerGroupKey | GroupSettingsKey | UnknownKey


def decode_key(key: bytes) -> RecordKey:
    """The decoded key. Raises `UndecodableRecord` for a known type with bad bytes."""
    reader = Reader(key)
    record_type = reader.int16()
    if record_type in OFFSET_RECORD_TYPES:
        return OffsetKey(
            group=_name(reader, "group"),
            topic=_name(reader, "topic"),
            partition=reader.int32(),
            version=record_type,
        )
    if record_type == RecordType.GROUP_METADATA:
        return GroupKey(group=_name(reader, "group"))
    if record_type == GROUP_SETTINGS:
        return GroupSettingsKey(group=_name(reader, "group"))
    if record_type not in CONSUMER_GROUP_RECORD_TYPES:
        return UnknownKey(record_type=record_type)
    layout = KEY_LAYOUTS[RecordType(record_type)]
    fields = read_message(layout, reader, version=0).fields
    return ConsumerGroupKey(
        record_type=RecordType(record_type),
        group=str(fields["groupId"]),
        member_id=_text(fields.get("memberId")),
        regular_expression=_text(fields.get("regularExpression")),
    )


def encode_key(key: OffsetKey | GroupKey | ConsumerGroupKey | GroupSettingsKey) -> bytes:
    """The key's bytes, as Kafka writes them."""
    writer = Writer()
    match key:
        case OffsetKey():
            writer.int16(key.version)
            writer.string(key.group)
            writer.string(key.topic)
            writer.int32(key.partition)
        case GroupKey():
            writer.int16(RecordType.GROUP_METADATA)
            writer.string(key.group)
        case GroupSettingsKey():
            writer.int16(GROUP_SETTINGS)
            writer.string(key.group)
        case ConsumerGroupKey():
            writer.int16(key.record_type)
            fields: dict[str, object] = {
                "groupId": key.group,
                "memberId": key.member_id,
                "regularExpression": key.regular_expression,
            }
            write_message(KEY_LAYOUTS[key.record_type], fields, 0, writer)
    return writer.result()


def _name(reader: Reader, what: str) -> str:
    name = reader.string()
    if name is None:
        raise UndecodableRecord(f"{what} is null")
    return name


def _text(value: object) -> str | None:
    return None if value is None else str(value)
