"""Access rules and their filters: messages to checked values, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from offsetd.v1 import acl_service_pb2

from offsetd_coordinator.configuration.acl_filter import AclFilter, PatternFilter
from offsetd_coordinator.configuration.acl_record import (
    OPERATION_NUMBERS,
    OPERATIONS,
    PATTERN_TYPE_NUMBERS,
    PATTERN_TYPES,
    PERMISSION_NUMBERS,
    PERMISSIONS,
    RESOURCE_TYPE_NUMBERS,
    RESOURCE_TYPES,
)
from offsetd_coordinator.errors import InvalidRequest
from offsetd_coordinator.messages import validation
from offsetd_coordinator.security.acl import (
    ANY,
    CLUSTER_NAME,
    OPERATIONS_OF,
    USER_PREFIX,
    Acl,
    Operation,
    PatternType,
    ResourceType,
    known_host,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeVar

    Word = TypeVar("Word")

PRINCIPAL_BYTES_MAX: Final = 1024

_PATTERN_FILTERS: Final = {each.value: each for each in PatternFilter}


class AccessQuestion(NamedTuple):
    """Whether a caller may do something. `host` is empty if no rule names the caller's address."""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str


def read_acl(message: acl_service_pb2.Acl, field: str) -> Acl:
    """A rule. Raises InvalidRequest, InvalidGroupId, InvalidTopic for the first wrong field."""
    resource_type = _word(message.resource_type, RESOURCE_TYPES, f"{field}.resource_type")
    pattern = PatternType.LITERAL
    if message.pattern_type != acl_service_pb2.PATTERN_TYPE_UNSPECIFIED:
        pattern = _word(message.pattern_type, PATTERN_TYPES, f"{field}.pattern_type")
    try:
        return Acl(
            principal=_principal(message.principal, f"{field}.principal"),
            host=_host(message.host or ANY, f"{field}.host"),
            permission=_word(message.permission, PERMISSIONS, f"{field}.permission"),
            operation=_word(message.operation, OPERATIONS, f"{field}.operation"),
            resource_type=resource_type,
            name=_name(resource_type, message.name, f"{field}.name"),
            pattern=pattern,
        )
    except ValueError as error:
        raise InvalidRequest(field, "{why}", why=error) from error


def read_filter(message: acl_service_pb2.AclFilter, field: str) -> AclFilter:
    """A filter. Raises InvalidRequest for a number that the contract does not have."""
    host = message.host or None
    return AclFilter(
        principal=message.principal or None,
        host=None if host is None else known_host(host) or host,
        permission=_word_or_none(message.permission, PERMISSIONS, f"{field}.permission"),
        operation=_word_or_none(message.operation, OPERATIONS, f"{field}.operation"),
        resource_type=_word_or_none(
            message.resource_type, RESOURCE_TYPES, f"{field}.resource_type"
        ),
        name=message.name or None,
        pattern=_word_or_none(message.pattern_type, _PATTERN_FILTERS, f"{field}.pattern_type")
        or PatternFilter.ANY,
    )


def read_question(request: acl_service_pb2.TestAclRequest) -> AccessQuestion:
    """What TestAcl asks. Raises InvalidRequest, InvalidGroupId, InvalidTopic."""
    resource_type = _word(request.resource_type, RESOURCE_TYPES, "resource_type")
    operation = _word(request.operation, OPERATIONS, "operation")
    if operation is Operation.ALL or operation not in OPERATIONS_OF[resource_type]:
        raise InvalidRequest(
            "operation",
            "{operation} is not an operation that a caller does with a {resource_type}",
            operation=operation.value,
            resource_type=resource_type.value,
        )
    principal = _principal(request.principal, "principal")
    host = _host(request.host, "host") if request.host else ""
    if ANY in (principal.removeprefix(USER_PREFIX), host):
        raise InvalidRequest("principal", "name one caller, not all of them")
    name = _name(resource_type, request.name, "name")
    return AccessQuestion(principal, host, operation, resource_type, name)


def acl_message(acl: Acl) -> acl_service_pb2.Acl:
    """A rule as a message."""
    numbers: dict[str, Any] = {  # The contract's numbers are Kafka's.
        "permission": PERMISSION_NUMBERS[acl.permission],
        "operation": OPERATION_NUMBERS[acl.operation],
        "resource_type": RESOURCE_TYPE_NUMBERS[acl.resource_type],
        "pattern_type": PATTERN_TYPE_NUMBERS[acl.pattern],
    }
    return acl_service_pb2.Acl(principal=acl.principal, host=acl.host, name=acl.name, **numbers)


def audited_acl(acl: Acl) -> dict[str, str]:
    """A rule as the audit log has it, in Kafka's words."""
    return {
        "principal": acl.principal,
        "host": acl.host,
        "permission": acl.permission.value,
        "operation": acl.operation.value,
        "resource_type": acl.resource_type.value,
        "name": acl.name,
        "pattern_type": acl.pattern.value,
    }


def _word(number: int, words: Mapping[int, Word], field: str) -> Word:
    if number not in words:
        raise InvalidRequest(field, "missing, or {number}, which is not known", number=number)
    return words[number]


def _word_or_none(number: int, words: Mapping[int, Word], field: str) -> Word | None:
    return None if number == 0 else _word(number, words, field)


def _principal(principal: str, field: str) -> str:
    if not principal.startswith(USER_PREFIX) or principal == USER_PREFIX:
        raise InvalidRequest(field, "{principal!r} is not User:NAME", principal=principal)
    if (size_bytes := len(principal.encode())) > PRINCIPAL_BYTES_MAX:
        raise InvalidRequest(
            field,
            "{size_bytes} bytes of UTF-8, more than {bytes_max}",
            size_bytes=size_bytes,
            bytes_max=PRINCIPAL_BYTES_MAX,
        )
    return principal


def _host(host: str, field: str) -> str:
    """A host in the form of callers' addresses. A rule with another text would never match."""
    known = known_host(host)
    if known is None:
        raise InvalidRequest(field, "{host!r} is not an IP address, `unix`, or *", host=host)
    return known


def _name(resource_type: ResourceType, name: str, field: str) -> str:
    if resource_type is ResourceType.CLUSTER:
        return name or CLUSTER_NAME
    if not name:
        raise InvalidRequest(field, "the resource has no name")
    if resource_type is ResourceType.GROUP:
        validation.read_group_id(name, field)
    else:
        validation.read_topic(name, field)
    return name
