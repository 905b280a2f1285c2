"""Filters of access rules, and the order in which rules are listed. Pure."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_coordinator.configuration.acl_record import (
    OPERATION_NUMBERS,
    PATTERN_TYPE_NUMBERS,
    PERMISSION_NUMBERS,
    RESOURCE_TYPE_NUMBERS,
)
from offsetd_coordinator.security.acl import ANY, PatternType

if TYPE_CHECKING:
    from offsetd_coordinator.security.acl import Acl, Operation, Permission, ResourceType


class PatternFilter(enum.Enum):
    """How a filter compares names. The numbers are Kafka's and the contract's."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


_PATTERN_TYPES: Final = {
    PatternFilter.LITERAL: PatternType.LITERAL,
    PatternFilter.PREFIXED: PatternType.PREFIXED,
}


@attrs.frozen(kw_only=True)
class AclFilter:
    """Selects the rules that agree with all fields that are set (not None).

    With `PatternFilter.MATCH`, `name` is that of a resource, and the filter means the rules that
    count for it. With the others, it is the name in the rule.
    """

    principal: str | None = None
    host: str | None = None
    permission: Permission | None = None
    operation: Operation | None = None
    resource_type: ResourceType | None = None
    name: str | None = None
    pattern: PatternFilter = PatternFilter.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether a rule is meant, as `ResourcePatternFilter` of Kafka decides for names."""
        return (
            self.resource_type in (None, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (None, acl.operation)
            and self.permission in (None, acl.permission)
            and self._matches_resource(acl)
        )

    def _matches_resource(self, acl: Acl) -> bool:
        if acl.pattern is not _PATTERN_TYPES.get(self.pattern, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern is not PatternFilter.MATCH:
            return False
        if acl.pattern is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name == ANY


def acl_order(acl: Acl) -> tuple[int, str, int, str, str, int, int]:
    """The key by which rules are sorted: by resource, principal, host, and what they say."""
    return (
        RESOURCE_TYPE_NUMBERS[acl.resource_type],
        acl.name,
        PATTERN_TYPE_NUMBERS[acl.pattern],
        acl.principal,
        acl.host,
        OPERATION_NUMBERS[acl.operation],
        PERMISSION_NUMBERS[acl.permission],
    )
