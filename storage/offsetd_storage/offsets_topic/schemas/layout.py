"""A small language for Kafka's message layouts, with functions that read and write them.

A `Layout` lists the fields of one message, each with the versions that have it, as Kafka's
message definitions do. The typed values of this package, which the coordinator uses, and the dump,
which prints the fields under Kafka's names, use the same layouts.

Messages are read as Kafka's generated message classes (4.1.1) read them: bytes after the last field
are ignored; unknown tagged fields are kept; null for a field that may not be null is an error.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import attrs

from offsetd_storage.offsets_topic.schemas.primitives import (
    UUID_BYTES,
    Reader,
    UndecodableRecord,
    UnknownValueVersion,
    Writer,
    strict_text,
)

Fields: TypeAlias = dict[str, object]

VERSION_MAX: Final = 32767


class Kind(enum.Enum):
    """The type of a field."""

    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    INT64 = "int64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"
    STRUCT = "struct"
    ARRAY_INT16 = "[]int16"
    ARRAY_INT32 = "[]int32"
    ARRAY_STRING = "[]string"
    ARRAY_STRUCT = "[]struct"


@attrs.frozen
class Field:
    """One field under Kafka's name. With a `tag` it is a tagged field, omitted if it is `default`.

    `since` and `until` are the first and the last version that have the field. In other versions,
    reading returns `default`. `fields` describes the struct, or the array's elements.
    """

    name: str
    kind: Kind
    fields: tuple["Field", ...] = attrs.field(default=(), kw_only=True)
    since: int = attrs.field(default=0, kw_only=True)
    until: int = attrs.field(default=VERSION_MAX, kw_only=True)
    tag: int | None = attrs.field(default=None, kw_only=True)
    nullable: bool = attrs.field(default=False, kw_only=True)
    default: object = attrs.field(default=None, kw_only=True)

    def in_version(self, version: int) -> bool:
        """Returns whether a message of this version has the field."""
        return self.since <= version <= self.until


@attrs.frozen(kw_only=True)
class Layout:
    """The fields of a message in its versions 0 to `version_last`."""

    name: str
    fields: tuple[Field, ...]
    version_last: int = 0
    flexible_since: int = VERSION_MAX

    def is_flexible(self, version: int) -> bool:
        """Returns whether the version has compact lengths and tag sections."""
        return version >= self.flexible_since


@attrs.frozen(kw_only=True)
class Message:
    """A decoded message: Kafka's field names in Kafka's order, and unknown tags."""

    version: int
    fields: Fields
    unknown_tags: Mapping[int, bytes]


def read_versioned(
    layout: Layout, encoded: bytes, *, text: Callable[[bytes], str] = strict_text
) -> Message:
    """Reads an int16 version and a message of that version: the form of every record value.

    Raises:
        UnknownValueVersion: the version is not one of the layout's.
        UndecodableRecord: the bytes do not follow the layout.
    """
    reader = Reader(encoded, text=text)
    version = reader.int16()
    if not 0 <= version <= layout.version_last:
        raise UnknownValueVersion(f"{layout.name} has no version {version}")
    return read_message(layout, reader, version)


def read_message(layout: Layout, reader: Reader, version: int) -> Message:
    """Reads a message of a known version. Raises `UndecodableRecord`."""
    flexible = layout.is_flexible(version)
    fields, unknown_tags = _read_struct(layout.fields, reader, version, flexible=flexible)
    return Message(version=version, fields=fields, unknown_tags=unknown_tags)


def write_versioned(layout: Layout, fields: Fields, version: int) -> bytes:
    """An int16 version and the message. Fields that the version does not have are omitted."""
    assert 0 <= version <= layout.version_last, "the version is one of the layout's"
    writer = Writer()
    writer.int16(version)
    write_message(layout, fields, version, writer)
    return writer.result()


def write_message(layout: Layout, fields: Fields, version: int, writer: Writer) -> None:
    """Writes the message without its version."""
    _write_struct(layout.fields, fields, writer, version, flexible=layout.is_flexible(version))


def _read_struct(
    layout: tuple[Field, ...], reader: Reader, version: int, *, flexible: bool
) -> tuple[Fields, Mapping[int, bytes]]:
    values: Fields = {}
    for field in layout:
        if field.tag is not None or not field.in_version(version):
            values[field.name] = field.default
            continue
        value = _read_value(field, reader, version, flexible=flexible)
        if value is None and not field.nullable:
            raise UndecodableRecord(f"{field.name} is null")
        values[field.name] = value
    if not flexible:
        return values, {}
    tags = reader.tagged_fields()
    for field in layout:
        if field.tag is None or not field.in_version(version) or field.tag not in tags:
            continue
        tagged = reader.nested(tags.pop(field.tag))
        values[field.name] = _read_tagged(field, tagged, version)
    return values, tags


def _read_tagged(field: Field, reader: Reader, version: int) -> object:
    # Kafka writes a null struct as a varint 0 if it is tagged, else as an int8 -1.
    if field.kind is Kind.STRUCT and field.nullable:
        if reader.unsigned_varint() == 0:
            return None
        return _read_struct(field.fields, reader, version, flexible=True)[0]
    value = _read_value(field, reader, version, flexible=True)
    if value is None and not field.nullable:
        raise UndecodableRecord(f"{field.name} is null")
    return value


def _read_value(field: Field, reader: Reader, version: int, *, flexible: bool) -> object:
    match field.kind:
        case Kind.INT8:
            return reader.int8()
        case Kind.INT16:
            return reader.int16()
        case Kind.UINT16:
            return reader.uint16()
        case Kind.INT32:
            return reader.int32()
        case Kind.INT64:
            return reader.int64()
        case Kind.UUID:
            return reader.uuid()
        case Kind.STRING:
            return reader.string(compact=flexible)
        case Kind.BYTES:
            return reader.byte_string(compact=flexible)
        case Kind.STRUCT:
            if field.nullable and reader.int8() < 0:
                return None
            return _read_struct(field.fields, reader, version, flexible=flexible)[0]
        case Kind.ARRAY_INT16 | Kind.ARRAY_INT32 | Kind.ARRAY_STRING | Kind.ARRAY_STRUCT:
            return _read_array(field, reader, version, flexible=flexible)


def _read_array(
    field: Field, reader: Reader, version: int, *, flexible: bool
) -> list[object] | None:
    length = reader.array_length(compact=flexible)
    if length is None:
        return None
    if field.kind is Kind.ARRAY_INT32:
        return [reader.int32() for _ in range(length)]
    if field.kind is Kind.ARRAY_STRUCT:
        return [
            _read_struct(field.fields, reader, version, flexible=flexible)[0] for _ in range(length)
        ]
    if field.kind is Kind.ARRAY_INT16:
        return [reader.int16() for _ in range(length)]
    strings: list[object] = []
    for _ in range(length):
        string = reader.string(compact=flexible)
        if string is None:
            raise UndecodableRecord(f"an element of {field.name} is null")
        strings.append(string)
    return strings


def _write_struct(
    layout: tuple[Field, ...], values: Fields, writer: Writer, version: int, *, flexible: bool
) -> None:
    tags: dict[int, bytes] = {}
    for field in layout:
        if not field.in_version(version):
            continue
        value = values[field.name]
        if field.tag is None:
            _write_value(field, value, writer, version, flexible=flexible)
        elif value != field.default:
            tags[field.tag] = _tagged_bytes(field, value, version)
    if flexible:
        writer.tagged_fields(tags)


def _tagged_bytes(field: Field, value: object, version: int) -> bytes:
    writer = Writer()
    if field.kind is Kind.STRUCT and field.nullable:
        writer.unsigned_varint(0 if value is None else 1)
        if value is not None:
            _write_struct(field.fields, _fields(value), writer, version, flexible=True)
    else:
        _write_value(field, value, writer, version, flexible=True)
    return writer.result()


def _write_value(
    field: Field, value: object, writer: Writer, version: int, *, flexible: bool
) -> None:
    assert value is not None or field.nullable, f"{field.name} may not be null"
    match field.kind:
        case Kind.INT8 | Kind.INT16 | Kind.UINT16 | Kind.INT32 | Kind.INT64:
            assert isinstance(value, int), f"{field.name} is a number"
            getattr(writer, field.kind.value)(value)
        case Kind.UUID:
            assert isinstance(value, bytes), f"{field.name} is bytes"
            assert len(value) == UUID_BYTES, "a uuid is 16 bytes"
            writer.raw(value)
        case Kind.STRING:
            assert value is None or isinstance(value, str), f"{field.name} is text"
            writer.string(value, compact=flexible)
        case Kind.BYTES:
            assert value is None or isinstance(value, bytes), f"{field.name} is bytes"
            writer.byte_string(value, compact=flexible)
        case Kind.STRUCT:
            if field.nullable:
                writer.int8(-1 if value is None else 1)
            if value is not None:
                _write_struct(field.fields, _fields(value), writer, version, flexible=flexible)
        case Kind.ARRAY_INT16 | Kind.ARRAY_INT32 | Kind.ARRAY_STRING | Kind.ARRAY_STRUCT:
            _write_array(field, value, writer, version, flexible=flexible)


def _write_array(
    field: Field, value: object, writer: Writer, version: int, *, flexible: bool
) -> None:
    assert value is None or isinstance(value, list), f"{field.name} is a list"
    writer.array_length(None if value is None else len(value), compact=flexible)
    for element in value or ():
        match field.kind:
            case Kind.ARRAY_INT16:
                writer.int16(element)
            case Kind.ARRAY_INT32:
                writer.int32(element)
            case Kind.ARRAY_STRING:
                writer.string(element, compact=flexible)
            case _:
                _write_struct(field.fields, _fields(element), writer, version, flexible=flexible)


def _fields(value: object) -> Fields:
    assert isinstance(value, dict), "a struct is given as a dict"
    return value
