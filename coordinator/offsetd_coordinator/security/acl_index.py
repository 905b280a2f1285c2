"""The rules, arranged so that one decision looks at few of them.

The decisions are those of Kafka's `StandardAuthorizer` (`org.apache.kafka.metadata.authorizer`):
a rule that denies wins over all that allow, and without a rule nothing is allowed.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_coordinator.security.acl import (
    ANY,
    EVERYONE,
    IMPLIED_BY,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class Decision(NamedTuple):
    """Whether something is allowed, and the rule that decided; None if no rule matches."""

    is_allowed: bool
    acl: Acl | None


_NO_RULE: Final = Decision(False, None)

_ALLOWED_BY_IMPLICATION: Final = {
    rule: tuple(asked for asked, rules in IMPLIED_BY.items() if rule in rules) for rule in Operation
}
"""The further operations that a rule allows, by the operation that it names."""


class AclIndex:
    """Decides by an unchanging set of rules. For one thread.

    A decision takes a few look-ups, and a binary search among prefixes, whatever the number of
    rules and of principals. The rules of a principal are arranged at the first question that needs
    them, so that a change of 10,000 rules does not hold up other calls.
    """

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._waiting: dict[str, list[Acl]] = {}
        self._arranged: dict[str, _Actions] = {}
        for acl in acls:
            self._waiting.setdefault(acl.principal, []).append(acl)

    def decide(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Decision:
        """Whether a caller may do this. `host` is the caller's address, without a port."""
        found = self._rules(principal, host, operation, resource_type)
        for rules in found:
            acl = rules.denied.find(name)
            if acl is not None:
                return Decision(False, acl)
        for rules in found:
            acl = rules.allowed.find(name)
            if acl is not None:
                return Decision(True, acl)
        return _NO_RULE

    def allows_all(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether a rule allows this for every name (`*`), and no rule denies it for any name."""
        found = self._rules(principal, host, operation, resource_type)
        return any(rules.allowed.every is not None for rules in found) and not any(
            rules.denied for rules in found
        )

    def _rules(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> list[_Rules]:
        """The rules for this caller and action; those for its own name and address first."""
        found = []
        for each in (principal, EVERYONE):
            if each in self._waiting:
                self._arranged[each] = _actions(self._waiting.pop(each))
            actions = self._arranged.get(each)
            hosts = None if actions is None else actions.get((operation, resource_type))
            if hosts is not None:
                found += [hosts[key] for key in (host, ANY) if key in hosts]
        return found


class _Patterns:
    """The names that some rules match. False if it is empty."""

    __slots__ = ("_prefixed", "every", "literals", "prefixes")

    def __init__(self) -> None:
        self.every: Acl | None = None
        self.literals: dict[str, Acl] = {}
        self.prefixes: list[str] = []
        """Sorted. No prefix begins with another prefix: the shorter one matches its names, too."""
        self._prefixed: dict[str, Acl] = {}

    def __bool__(self) -> bool:
        return self.every is not None or bool(self.literals) or bool(self._prefixed)

    def add(self, acl: Acl) -> None:
        """Adds a rule's name. Call `sort_prefixes` before the first question."""
        if acl.pattern is PatternType.PREFIXED:
            self._prefixed.setdefault(acl.name, acl)
        elif acl.name == ANY:
            self.every = self.every or acl
        else:
            self.literals.setdefault(acl.name, acl)

    def sort_prefixes(self) -> None:
        """Fills `prefixes` from the rules."""
        for prefix in sorted(self._prefixed):
            if not self.prefixes or not prefix.startswith(self.prefixes[-1]):
                self.prefixes.append(prefix)

    def find(self, name: str) -> Acl | None:
        """A rule that matches the name."""
        acl = self.literals.get(name)
        if acl is not None:
            return acl
        if self.every is not None:
            return self.every
        return self.find_prefix(name) if self.prefixes else None

    def find_prefix(self, name: str) -> Acl | None:
        """The rule whose prefix the name begins with.

        In sorted order, all texts between a prefix and the name begin with the prefix, and no
        other prefix does. So only the last prefix that does not sort after the name can match.
        """
        place = bisect_right(self.prefixes, name) - 1
        if place < 0 or not name.startswith(self.prefixes[place]):
            return None
        return self._prefixed[self.prefixes[place]]


class _Rules(NamedTuple):
    """What the rules for one principal and host say about one action."""

    denied: _Patterns
    allowed: _Patterns


_Actions = dict[tuple[Operation, ResourceType], dict[str, _Rules]]
"""The rules of one principal, by what is done, and by host."""


def _actions(acls: Iterable[Acl]) -> _Actions:
    actions: _Actions = {}
    for acl in acls:
        for operation in _decided_operations(acl):
            hosts = actions.setdefault((operation, acl.resource_type), {})
            rules = hosts.get(acl.host)
            if rules is None:
                rules = hosts[acl.host] = _Rules(_Patterns(), _Patterns())
            (rules.allowed if acl.permission is Permission.ALLOW else rules.denied).add(acl)
    for hosts in actions.values():
        for denied, allowed in hosts.values():
            denied.sort_prefixes()
            allowed.sort_prefixes()
    return actions


def _decided_operations(acl: Acl) -> Iterable[Operation]:
    """The operations that a rule decides on. Only a rule that allows implies others."""
    if acl.operation is Operation.ALL:
        return Operation
    if acl.permission is Permission.DENY:
        return (acl.operation,)
    return (acl.operation, *_ALLOWED_BY_IMPLICATION[acl.operation])
