"""The JSON in which Kafka's tools print a message, equal in every character.

Field names are Kafka's, in the order of the message. A tagged field with its default value is
omitted. Uuids are base64 for URLs without padding, and bytes are plain base64. Only control
characters, the quote and the backslash are escaped. This was checked against Kafka 4.1.1.
"""

import base64
import re
from typing import Final, cast

from offsetd_storage.offsets_topic.schemas.layout import Field, Fields, Kind, Layout, Message

_SHORT_ESCAPES: Final = {
    "\b": "b",
    "\t": "t",
    "\n": "n",
    "\f": "f",
    "\r": "r",
    '"': '"',
    "\\": "\\",
}
_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\]')

# The UTF-8 of half a surrogate pair. Java replaces it as a whole, Python replaces each byte.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


class JsonText(str):
    """Text that is JSON already. It is printed without a change."""

    __slots__ = ()


def replacing_text(raw: bytes) -> str:
    """Decodes UTF-8 as Java's `String` does, with U+FFFD for bytes that are not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub("\ufffd".encode(), raw).decode("utf-8", "replace")


def json_string(text: str) -> str:
    """The text in quotes."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def message_json(layout: Layout, message: Message) -> str:
    """The message as one JSON object, without blanks."""
    return _struct_json(layout.fields, message.fields, message.version)


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if character in _SHORT_ESCAPES:
        return "\\" + _SHORT_ESCAPES[character]
    return f"\\u{ord(character):04X}"


def _struct_json(layout: tuple[Field, ...], fields: Fields, version: int) -> str:
    members = [
        f'"{field.name}":{_value_json(field, fields[field.name], version)}'
        for field in layout
        if field.in_version(version)
        and not (field.tag is not None and fields[field.name] == field.default)
    ]
    return "{" + ",".join(members) + "}"


def _value_json(field: Field, value: object, version: int) -> str:
    if value is None:
        return "null"
    if isinstance(value, JsonText):
        return value
    match field.kind:
        case Kind.STRING:
            return json_string(cast("str", value))
        case Kind.UUID:
            return f'"{base64.urlsafe_b64encode(cast("bytes", value)).rstrip(b"=").decode()}"'
        case Kind.BYTES:
            return f'"{base64.b64encode(cast("bytes", value)).decode()}"'
        case Kind.STRUCT:
            return _struct_json(field.fields, cast("Fields", value), version)
        case Kind.ARRAY_STRUCT:
            elements = [
                _struct_json(field.fields, element, version)
                for element in cast("list[Fields]", value)
            ]
        case Kind.ARRAY_STRING:
            elements = [json_string(element) for element in cast("list[str]", value)]
        case Kind.ARRAY_INT16 | Kind.ARRAY_INT32:
            elements = [str(element) for element in cast("list[int]", value)]
        case _:
            return str(value)
    return "[" + ",".join(elements) + "]"
