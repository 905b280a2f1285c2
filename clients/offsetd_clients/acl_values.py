"""Access rules, their filters, and the answers about them: plain values, no protobuf.

The words are Kafka's, as `kafka-acls.sh` writes them.
"""

from enum import StrEnum

import attrs

from offsetd_clients.values import Revision


class AclOperation(StrEnum):
    """What a caller wants to do with a resource. UNKNOWN: a word of a newer server."""

    UNKNOWN = "Unknown"
    ALL = "All"
    READ = "Read"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"


class AclPermission(StrEnum):
    """Whether a rule allows or denies. A rule that denies wins over all that allow."""

    UNKNOWN = "Unknown"
    ALLOW = "Allow"
    DENY = "Deny"


class ResourceType(StrEnum):
    """What a rule is about."""

    UNKNOWN = "Unknown"
    GROUP = "Group"
    TOPIC = "Topic"
    CLUSTER = "Cluster"


class PatternType(StrEnum):
    """How names are compared.

    LITERAL: the whole name, or `*` for all resources. PREFIXED: the name begins with that of the
    rule. Only in filters: ANY of these, and MATCH, the rules that count for the named resource.
    """

    UNKNOWN = "unknown"
    ANY = "any"
    MATCH = "match"
    LITERAL = "literal"
    PREFIXED = "prefixed"


@attrs.frozen(kw_only=True, order=False)
class Acl:
    """An access rule: a principal, on a host, may or may not do an operation with resources.

    `principal` is `User:NAME`, or `User:*` for everyone. `host` is an IP address, `unix`, or `*`.
    `name` may be empty if the resource is the cluster.
    """

    principal: str
    host: str = "*"
    permission: AclPermission = AclPermission.ALLOW
    operation: AclOperation
    resource_type: ResourceType
    name: str = ""
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return (
            f"{self.permission} {self.principal} from {self.host}: {self.operation}"
            f" {self.resource_type} {self.pattern_type} {self.name}"
        )


@attrs.frozen(kw_only=True)
class AclFilter:
    """The rules that agree with all fields that are set. A filter without any means all rules."""

    principal: str = ""
    host: str = ""
    permission: AclPermission | None = None
    operation: AclOperation | None = None
    resource_type: ResourceType | None = None
    name: str = ""
    pattern_type: PatternType = PatternType.ANY


@attrs.frozen(kw_only=True)
class AclListing:
    """Rules, sorted by resource.

    `in_force`: the server refuses what they do not allow. `from_file`: they come from the server's
    `security.acl.file`, and calls cannot change them.
    """

    acls: tuple[Acl, ...]
    in_force: bool
    from_file: bool


@attrs.frozen(kw_only=True)
class ChangedAcls:
    """The rules that a call added or removed, sorted. Other rules that it named are not among them.

    `revision` is a position in `__offsetd_config`. It is None if nothing changed.
    """

    acls: tuple[Acl, ...]
    revision: Revision | None
    in_force: bool


@attrs.frozen(kw_only=True)
class AclVerdict:
    """Whether a caller may do something.

    `acl` is the rule that decides. It is None if the caller is a super user, or if no rule says
    anything, so that the caller may not. If rules are not `in_force`, callers may do everything.
    """

    allowed: bool
    acl: Acl | None
    is_super_user: bool
    in_force: bool
