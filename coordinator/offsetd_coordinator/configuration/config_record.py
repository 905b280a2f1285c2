"""Records of `__offsetd_config` that have one dynamic setting each. The layout is offsetd's own.

A key is an int16 version, an int8 scope, the topic (empty for the server) and the setting's name.
A value is an int16 version and the text that an operator wrote. A tombstone removes the setting.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from offsetd_storage.offsets_topic.schemas.primitives import Reader, UndecodableRecord, Writer

VERSION: Final = 0
_SERVER: Final = 0
_TOPIC: Final = 1


class ConfigKey(NamedTuple):
    """A setting of the server (`topic` is None), or of one topic."""

    topic: str | None
    name: str

    def __str__(self) -> str:
        return self.name if self.topic is None else f"{self.name} of {self.topic}"


class UnknownConfigVersion(UndecodableRecord):
    """A key or a value of a newer version: it is kept, but not used."""


def encode_config_key(key: ConfigKey) -> bytes:
    """The key's bytes. Each text has at most 32,767 bytes."""
    writer = Writer()
    writer.int16(VERSION)
    writer.int8(_SERVER if key.topic is None else _TOPIC)
    writer.string(key.topic or "")
    writer.string(key.name)
    return writer.result()


def decode_config_key(encoded: bytes) -> ConfigKey:
    """The key. Raises UnknownConfigVersion for another version or scope, UndecodableRecord."""
    reader = Reader(encoded)
    version = reader.int16()
    if version != VERSION:
        raise UnknownConfigVersion(f"a key of version {version}")
    scope = reader.int8()
    if scope not in (_SERVER, _TOPIC):
        raise UnknownConfigVersion(f"a key of scope {scope}")
    topic, name = read_text(reader), read_text(reader)
    return ConfigKey(None if scope == _SERVER else topic, name)


def encode_config_value(text: str) -> bytes:
    """The value's bytes. The text has at most 32,767 bytes."""
    writer = Writer()
    writer.int16(VERSION)
    writer.string(text)
    return writer.result()


def decode_config_value(encoded: bytes) -> str:
    """The text of a value. Raises UnknownConfigVersion, UndecodableRecord."""
    reader = Reader(encoded)
    version = reader.int16()
    if version != VERSION:
        raise UnknownConfigVersion(f"a value of version {version}")
    return read_text(reader)


def read_text(reader: Reader) -> str:
    """A text that is not null. Raises UndecodableRecord."""
    text = reader.string()
    if text is None:
        raise UndecodableRecord("a text is null")
    return text
