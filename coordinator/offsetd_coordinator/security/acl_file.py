"""The file of rules (`security.acl.file`): TOML, with a table `[[acl]]` for each set of rules.

    [[acl]]
    principal = "User:alice"          # or principals = ["User:alice", "User:bob"]
    allow = ["Read", "Describe"]      # or deny; the operations are Kafka's
    group_prefix = "billing-"         # or group, topic, topic_prefix, or cluster = true
    host = "10.0.0.1"                 # or hosts; left out: every address

`"*"` is every group or topic, every host, and in `"User:*"` every principal. There are no other
patterns.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from offsetd_coordinator.security.acl import (
    ANY,
    CLUSTER_NAME,
    OPERATIONS_OF,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    known_host,
)
from offsetd_coordinator.security.toml_tables import (
    listed,
    read_principal,
    shown,
    suggestion,
    tables_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ACLS_MAX: Final = 100_000
"""The most rules of one file: tables multiply principals, operations and hosts."""

_PERMISSIONS: Final = {"allow": Permission.ALLOW, "deny": Permission.DENY}
_RESOURCES: Final = {
    "group": (ResourceType.GROUP, PatternType.LITERAL),
    "group_prefix": (ResourceType.GROUP, PatternType.PREFIXED),
    "topic": (ResourceType.TOPIC, PatternType.LITERAL),
    "topic_prefix": (ResourceType.TOPIC, PatternType.PREFIXED),
    "cluster": (ResourceType.CLUSTER, PatternType.LITERAL),
}
_KEYS: Final = (
    *("principal", "principals", "host", "hosts"),
    *_PERMISSIONS,
    *_RESOURCES,
)
_OPERATIONS: Final = {operation.value: operation for operation in Operation}


class InvalidAclFile(ValueError):
    """The content is not a file of rules. The message is one line and names the table."""


class _Resource(NamedTuple):
    resource_type: ResourceType
    pattern: PatternType
    name: str


def parse_acl_file(content: bytes | str, name: str = "") -> tuple[Acl, ...]:
    """The rules of a file's content, in its order; none twice. Raises InvalidAclFile.

    `name` is the file's name, for messages. A key that is not known is an error: a table with
    `hots` would be for every host.
    """
    try:
        return _acls(content)
    except ValueError as error:
        raise InvalidAclFile(f"{name}: {error}" if name else str(error)) from None


def _acls(content: bytes | str) -> tuple[Acl, ...]:
    acls: dict[Acl, None] = {}
    for number, table in enumerate(tables_of(content, "acl"), 1):
        try:
            acls.update(dict.fromkeys(itertools.islice(_table_acls(table), ACLS_MAX + 1)))
        except ValueError as error:
            raise ValueError(f"table {number}: {error}") from None
        if len(acls) > ACLS_MAX:
            raise ValueError(f"table {number}: the file has more than {ACLS_MAX:,} rules")
    return tuple(acls)


def _table_acls(table: Any) -> Iterable[Acl]:
    """The rules of one table: its lists, multiplied. Raises ValueError."""
    if not isinstance(table, dict):
        raise ValueError("expected a table, `[[acl]]`")  # noqa: TRY004  # One error for all flaws.
    if unknown := table.keys() - set(_KEYS):
        word = min(unknown)
        raise ValueError(f"unknown key {shown(word)}{suggestion(word, _KEYS)}")
    principals = [read_principal(each) for each in _one_or_more(table, "principal", "principals")]
    hosts = [_host(each) for each in _one_or_more(table, "host", "hosts", default=ANY)]
    resource = _resource(table)
    permission, operations = _permission(table, resource.resource_type)
    return (
        Acl(
            principal=principal,
            host=host,
            permission=permission,
            operation=operation,
            resource_type=resource.resource_type,
            name=resource.name,
            pattern=resource.pattern,
        )
        for principal, host, operation in itertools.product(principals, hosts, operations)
    )


def _one_or_more(
    table: Mapping[str, Any], one: str, several: str, *, default: str | None = None
) -> list[str]:
    """The texts of a key in the singular, or of the same key in the plural."""
    if one in table and several in table:
        raise ValueError(f"it has both `{one}` and `{several}`")
    if several in table:
        return _texts(table, several)
    value = table.get(one, default)
    if value is None:
        raise ValueError(f"`{one}` is missing")
    if not isinstance(value, str):
        raise ValueError(f"`{one}` is {shown(value)}, not a string")  # noqa: TRY004
    return [value]


def _texts(table: Mapping[str, Any], key: str) -> list[str]:
    values = table[key]
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise ValueError(f"`{key}` is no list of strings")
    if not values:
        raise ValueError(f"`{key}` is empty")
    return values


def _host(host: str) -> str:
    """A host in the form of callers' addresses. A rule with another text would never match."""
    known = known_host(host)
    if known is None:
        raise ValueError(f"host {shown(host)} is not an IP address, `unix`, or *")
    return known


def _resource(table: Mapping[str, Any]) -> _Resource:
    keys = [key for key in _RESOURCES if key in table]
    if len(keys) != 1:
        found = f"it has {listed(keys, 'and')}" if keys else "no resource"
        raise ValueError(f"{found}: give one of {listed(_RESOURCES, 'or')}")
    key, value = keys[0], table[keys[0]]
    resource_type, pattern = _RESOURCES[key]
    if resource_type is ResourceType.CLUSTER:
        if value is not True:
            raise ValueError(f"`{key}` is {shown(value)}: it must be true, or be left out")
        return _Resource(resource_type, pattern, CLUSTER_NAME)
    if not isinstance(value, str) or not value:
        raise ValueError(f"`{key}` is {shown(value)}, not a name")
    if ANY in value and (value != ANY or pattern is PatternType.PREFIXED):
        prefix = value.partition(ANY)[0]
        hint = f'{resource_type.value.lower()}_prefix = "{prefix}"' if prefix else "the name *"
        raise ValueError(f"`{key}` is {shown(value)}: a * in a name is no pattern; use {hint}")
    return _Resource(resource_type, pattern, value)


def _permission(
    table: Mapping[str, Any], resource_type: ResourceType
) -> tuple[Permission, list[Operation]]:
    keys = [key for key in _PERMISSIONS if key in table]
    if len(keys) != 1:
        raise ValueError("it has both `allow` and `deny`" if keys else "no `allow` and no `deny`")
    words = {each.value for each in OPERATIONS_OF[resource_type]}
    operations = []
    for word in _texts(table, keys[0]):
        if word not in _OPERATIONS:
            raise ValueError(
                f"`{keys[0]}` has {shown(word)}, which is no operation{suggestion(word, words)}"
            )
        if word not in words:
            raise ValueError(
                f"`{keys[0]}` has {word}, which is no operation of {resource_type.value}: that has"
                f" {listed(sorted(words), 'and')}"
            )
        operations.append(_OPERATIONS[word])
    return _PERMISSIONS[keys[0]], operations
