"""Kafka's model of access rules: a principal, on a host, may or may not do an operation.

The words are Kafka's (`org.apache.kafka.common.acl`, `...common.resource`), as `kafka-acls.sh`
writes them.
"""

from __future__ import annotations

import enum
import ipaddress
from typing import Final

import attrs

ANY: Final = "*"
"""As a host: every host. As a literal name: every resource of its type."""
UNIX_HOST: Final = "unix"
"""The host of callers over a Unix socket."""
USER_PREFIX: Final = "User:"
EVERYONE: Final = USER_PREFIX + ANY
ANONYMOUS: Final = USER_PREFIX + "ANONYMOUS"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of the resource type Cluster."""


class Operation(enum.Enum):
    """What a caller wants to do with a resource."""

    READ = "Read"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    ALL = "All"


class Permission(enum.Enum):
    """What a rule says. A rule that denies wins over all that allow."""

    ALLOW = "Allow"
    DENY = "Deny"


class ResourceType(enum.Enum):
    """What a rule is about."""

    GROUP = "Group"
    TOPIC = "Topic"
    CLUSTER = "Cluster"


class PatternType(enum.Enum):
    """How a rule's name is compared with the name of a resource."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


OPERATIONS_OF: Final = {
    ResourceType.GROUP: frozenset(
        {Operation.READ, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE, Operation.ALL}
    ),
    ResourceType.TOPIC: frozenset({Operation.READ, Operation.DESCRIBE, Operation.ALL}),
    ResourceType.CLUSTER: frozenset(
        {
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.ALL,
        }
    ),
}
"""The operations that mean something for a resource of each type."""

IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""Rules that allow one of these operations allow the first one, too (Kafka's `AclAuthorizer`)."""


def known_host(host: str) -> str | None:
    """A host in the form of callers' addresses. None for a text that no address can match."""
    if host in (ANY, UNIX_HOST):
        return host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


@attrs.frozen(kw_only=True)
class Acl:
    """One rule. Raises ValueError if its parts do not fit each other.

    `principal` is `User:NAME`, or `User:*` for everyone. `host` is an address without a port, or
    `*`. `name` with the pattern `literal` is the resource's whole name, or `*` for all.
    """

    principal: str
    host: str = ANY
    permission: Permission
    operation: Operation
    resource_type: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL

    def __attrs_post_init__(self) -> None:
        if not self.principal.startswith(USER_PREFIX) or self.principal == USER_PREFIX:
            raise ValueError(f"the principal {self.principal!r} is not User:NAME")
        if not self.host:
            raise ValueError("the host is empty: an address, or *")
        if not self.name:
            raise ValueError("the resource has no name")
        if self.operation not in OPERATIONS_OF[self.resource_type]:
            raise ValueError(
                f"{self.operation.value} is not an operation of {self.resource_type.value}"
            )
        if self.resource_type is ResourceType.CLUSTER and (
            self.name != CLUSTER_NAME or self.pattern is not PatternType.LITERAL
        ):
            raise ValueError(f"the cluster's name is {CLUSTER_NAME}, and its pattern is literal")

    def __str__(self) -> str:
        return (
            f"{self.permission.value} {self.principal} from {self.host}: {self.operation.value} "
            f"{self.resource_type.value} {self.pattern.value} {self.name}"
        )
