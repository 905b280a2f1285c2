"""Conversions between values and messages, without IO: access rules."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, TypeVar

from offsetd.v1 import acl_service_pb2

from offsetd_clients.acl_values import (
    Acl,
    AclFilter,
    AclListing,
    AclOperation,
    AclPermission,
    AclVerdict,
    ChangedAcls,
    PatternType,
    ResourceType,
)
from offsetd_clients.messages.conversions import building, revision_of, several, text_of

Value = TypeVar("Value")
Word = TypeVar("Word", bound=StrEnum)


def list_acls_request(wanted: AclFilter) -> acl_service_pb2.ListAclsRequest:
    """A ListAclsRequest for the first page."""
    with building("list acls"):
        return acl_service_pb2.ListAclsRequest(filter=_filter_message(wanted))


def add_acls_request(
    acls: Iterable[Acl], *, request_id: str, validate_only: bool, reason: str
) -> acl_service_pb2.AddAclsRequest:
    """An AddAclsRequest."""
    with building("add acls"):
        return acl_service_pb2.AddAclsRequest(
            acls=[_acl_message(each) for each in _rules(acls, Acl)],
            request_id=request_id,
            validate_only=validate_only,
            reason=reason,
        )


def remove_acls_request(
    acls: Iterable[Acl | AclFilter], *, request_id: str, validate_only: bool, reason: str
) -> acl_service_pb2.RemoveAclsRequest:
    """A RemoveAclsRequest for rules, and for those that agree with a filter."""
    each = _rules(acls, Acl, AclFilter)
    with building("remove acls"):
        return acl_service_pb2.RemoveAclsRequest(
            filters=[_filter_message(one) for one in each if isinstance(one, AclFilter)],
            acls=[_acl_message(one) for one in each if not isinstance(one, AclFilter)],
            request_id=request_id,
            validate_only=validate_only,
            reason=reason,
        )


def test_acl_request(
    principal: str, operation: AclOperation, resource_type: ResourceType, name: str, host: str
) -> acl_service_pb2.TestAclRequest:
    """A TestAclRequest."""
    with building("test acl"):
        return acl_service_pb2.TestAclRequest(
            principal=text_of("principal", principal),
            host=text_of("host", host),
            operation=_operation(operation),
            resource_type=_resource_type(resource_type),
            name=text_of("name", name),
        )


def listed_acls(pages: Iterable[acl_service_pb2.ListAclsResponse]) -> AclListing:
    """The rules of all pages."""
    all_pages = list(pages)
    last = all_pages[-1]
    return AclListing(
        acls=tuple(acl_of(each) for page in all_pages for each in page.acls),
        in_force=last.in_force,
        from_file=last.from_file,
    )


def added_acls(response: acl_service_pb2.AddAclsResponse) -> ChangedAcls:
    """The rules that were added."""
    return _changed(response, response.added)


def removed_acls(response: acl_service_pb2.RemoveAclsResponse) -> ChangedAcls:
    """The rules that were removed."""
    return _changed(response, response.removed)


def verdict(response: acl_service_pb2.TestAclResponse) -> AclVerdict:
    """Whether a caller may do something, and by which rule."""
    return AclVerdict(
        allowed=response.allowed,
        acl=acl_of(response.acl) if response.HasField("acl") else None,
        is_super_user=response.is_super_user,
        in_force=response.in_force,
    )


def acl_of(message: acl_service_pb2.Acl) -> Acl:
    """A rule of an answer."""
    return Acl(
        principal=message.principal,
        host=message.host,
        permission=_word(
            message.permission, acl_service_pb2.AclPermission, AclPermission, "ACL_PERMISSION_"
        ),
        operation=_word(
            message.operation, acl_service_pb2.AclOperation, AclOperation, "ACL_OPERATION_"
        ),
        resource_type=_word(
            message.resource_type, acl_service_pb2.ResourceType, ResourceType, "RESOURCE_TYPE_"
        ),
        name=message.name,
        pattern_type=_word(
            message.pattern_type, acl_service_pb2.PatternType, PatternType, "PATTERN_TYPE_"
        ),
    )


def _rules(acls: Iterable[Value], *kinds: type[Value]) -> tuple[Value, ...]:
    if isinstance(acls, Acl | AclFilter):
        raise TypeError(f"acls: one {type(acls).__name__} where a list of them is expected")
    rules = several("acls", acls)
    for each in rules:
        if not isinstance(each, kinds):
            raise TypeError(f"acls: {each!r} is not a rule")
    return rules


def _acl_message(acl: Acl) -> acl_service_pb2.Acl:
    return acl_service_pb2.Acl(
        principal=text_of("principal", acl.principal),
        host=text_of("host", acl.host),
        permission=_permission(acl.permission),
        operation=_operation(acl.operation),
        resource_type=_resource_type(acl.resource_type),
        name=text_of("name", acl.name),
        pattern_type=_pattern_type(acl.pattern_type),
    )


def _filter_message(wanted: AclFilter) -> acl_service_pb2.AclFilter:
    return acl_service_pb2.AclFilter(
        principal=text_of("principal", wanted.principal),
        host=text_of("host", wanted.host),
        permission=None if wanted.permission is None else _permission(wanted.permission),
        operation=None if wanted.operation is None else _operation(wanted.operation),
        resource_type=(
            None if wanted.resource_type is None else _resource_type(wanted.resource_type)
        ),
        name=text_of("name", wanted.name),
        pattern_type=_pattern_type(wanted.pattern_type),
    )


def _operation(operation: AclOperation) -> Any:
    return f"ACL_OPERATION_{_name(AclOperation, operation)}"


def _permission(permission: AclPermission) -> Any:
    return f"ACL_PERMISSION_{_name(AclPermission, permission)}"


def _resource_type(resource_type: ResourceType) -> Any:
    return f"RESOURCE_TYPE_{_name(ResourceType, resource_type)}"


def _pattern_type(pattern_type: PatternType) -> Any:
    return f"PATTERN_TYPE_{_name(PatternType, pattern_type)}"


def _name(kind: type[Word], word: Word) -> str:
    """The contract's name of a word, which protobuf refuses if it is UNKNOWN.

    Raises ValueError for a text that is no word.
    """
    return kind(word).name


def _word(number: int, numbers: Any, kind: type[Word], prefix: str) -> Word:
    name = numbers.Name(number).removeprefix(prefix) if number in numbers.values() else "UNKNOWN"
    return kind.__members__.get(name, kind["UNKNOWN"])


def _changed(response: Any, acls: Iterable[acl_service_pb2.Acl]) -> ChangedAcls:
    return ChangedAcls(
        acls=tuple(map(acl_of, acls)),
        revision=revision_of(response.revision) if response.HasField("revision") else None,
        in_force=response.in_force,
    )
