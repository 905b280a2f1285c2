"""Records of access rules in `__offsetd_config`. The layout is offsetd's own.

A key is the rule: an int16 version and an int8 scope, as in the key of a setting; then the resource
type, the pattern type, the operation and the permission, an int8 each, with Kafka's numbers; then
the resource's name, the principal and the host. A value is an int16 version, and nothing else. A
tombstone removes the rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.offsets_topic.schemas.primitives import Reader, UndecodableRecord, Writer

from offsetd_coordinator.configuration.config_record import (
    VERSION,
    UnknownConfigVersion,
    read_text,
)
from offsetd_coordinator.security.acl import Acl, Operation, PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeVar

    Word = TypeVar("Word", Operation, PatternType, Permission, ResourceType)

_SCOPE: Final = 2
_BEGIN: Final = bytes((0, VERSION, _SCOPE))

OPERATION_NUMBERS: Final = {
    Operation.ALL: 2,
    Operation.READ: 3,
    Operation.DELETE: 6,
    Operation.ALTER: 7,
    Operation.DESCRIBE: 8,
    Operation.CLUSTER_ACTION: 9,
    Operation.DESCRIBE_CONFIGS: 10,
    Operation.ALTER_CONFIGS: 11,
}
"""Kafka's numbers (`org.apache.kafka.common.acl.AclOperation`), which the contract has, too."""
PERMISSION_NUMBERS: Final = {Permission.DENY: 2, Permission.ALLOW: 3}
"""Kafka's `AclPermissionType`."""
RESOURCE_TYPE_NUMBERS: Final = {
    ResourceType.TOPIC: 2,
    ResourceType.GROUP: 3,
    ResourceType.CLUSTER: 4,
}
"""Kafka's `ResourceType`."""
PATTERN_TYPE_NUMBERS: Final = {PatternType.LITERAL: 3, PatternType.PREFIXED: 4}
"""Kafka's `PatternType`."""

OPERATIONS: Final = {number: word for word, number in OPERATION_NUMBERS.items()}
PERMISSIONS: Final = {number: word for word, number in PERMISSION_NUMBERS.items()}
RESOURCE_TYPES: Final = {number: word for word, number in RESOURCE_TYPE_NUMBERS.items()}
PATTERN_TYPES: Final = {number: word for word, number in PATTERN_TYPE_NUMBERS.items()}


def is_acl_key(encoded: bytes) -> bool:
    """Whether a record's key is that of a rule, of this version."""
    return encoded.startswith(_BEGIN)


def encode_acl_key(acl: Acl) -> bytes:
    """The key's bytes. Each text has at most 32,767 bytes."""
    writer = Writer()
    writer.int16(VERSION)
    writer.int8(_SCOPE)
    writer.int8(RESOURCE_TYPE_NUMBERS[acl.resource_type])
    writer.int8(PATTERN_TYPE_NUMBERS[acl.pattern])
    writer.int8(OPERATION_NUMBERS[acl.operation])
    writer.int8(PERMISSION_NUMBERS[acl.permission])
    writer.string(acl.name)
    writer.string(acl.principal)
    writer.string(acl.host)
    return writer.result()


def decode_acl_key(encoded: bytes) -> Acl:
    """The rule. Raises UnknownConfigVersion for words of a newer server, UndecodableRecord."""
    if not is_acl_key(encoded):
        raise UnknownConfigVersion("not the key of a rule")
    reader = Reader(encoded[len(_BEGIN) :])
    resource_type = _word(reader, RESOURCE_TYPES)
    pattern = _word(reader, PATTERN_TYPES)
    operation = _word(reader, OPERATIONS)
    permission = _word(reader, PERMISSIONS)
    name, principal, host = read_text(reader), read_text(reader), read_text(reader)
    if reader.remaining:
        raise UnknownConfigVersion("a rule with further fields")
    try:
        return Acl(
            principal=principal,
            host=host,
            permission=permission,
            operation=operation,
            resource_type=resource_type,
            name=name,
            pattern=pattern,
        )
    except ValueError as error:
        raise UndecodableRecord(str(error)) from error


def encode_acl_value() -> bytes:
    """The bytes of each value."""
    writer = Writer()
    writer.int16(VERSION)
    return writer.result()


def check_acl_value(encoded: bytes) -> None:
    """Raises UnknownConfigVersion for the value of a newer server, UndecodableRecord."""
    reader = Reader(encoded)
    version = reader.int16()
    if version != VERSION or reader.remaining:
        raise UnknownConfigVersion(f"a value of version {version}")


def _word(reader: Reader, words: Mapping[int, Word]) -> Word:
    number = reader.int8()
    if number not in words:
        raise UnknownConfigVersion(f"a rule with the number {number}")
    return words[number]
