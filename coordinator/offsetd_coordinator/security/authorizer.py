"""Decides what callers may do, by rules that can change, and remembers its decisions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_coordinator.security.acl_index import AclIndex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsetd_coordinator.security.acl import Acl, Operation, ResourceType

CACHE_BYTES_MAX: Final = 32 << 20
"""The memory that remembered decisions may take, estimated."""
_ENTRY_BYTES: Final = 300
"""An entry without its texts: its place in the dict (twice, while it grows), tuple and numbers."""

_EVERY_NAME: Final = 0

_Key = tuple[str, str, int, int, str | int]


class Explanation(NamedTuple):
    """Whether something is allowed, and why: by which rule, or because of `super.users`.

    `acl` is None for a super user, and if no rule matches.
    """

    is_allowed: bool
    acl: Acl | None
    is_super_user: bool


class Authorizer:
    """Rules and super users. For one thread.

    A super user may do everything, even against a rule that denies, as in Kafka. Decisions are
    remembered until the rules change. `version` grows with each change.
    """

    def __init__(
        self, *, super_users: frozenset[str] = frozenset(), acls: Iterable[Acl] = ()
    ) -> None:
        self.version = 0
        self._super_users = super_users
        self._acls = tuple(acls)
        self._index = AclIndex(self._acls)
        self._known: dict[_Key, bool] = {}
        self._known_bytes = 0

    @property
    def acls(self) -> tuple[Acl, ...]:
        """The rules, in the order in which they were set."""
        return self._acls

    def set_acls(self, acls: Iterable[Acl]) -> None:
        """Puts these rules in the place of all former ones."""
        self._acls = tuple(acls)
        self._index = AclIndex(self._acls)
        self._forget()
        self.version += 1

    def allows(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether a caller may do this. `host` is the caller's address, without a port."""
        # Members of an enum live for ever, and hashing an id is faster than `Enum.__hash__`.
        key = principal, host, id(operation), id(resource_type), name
        known = self._known.get(key)
        if known is None:
            known = self.explain(principal, host, operation, resource_type, name).is_allowed
            self._remember(key, known)
        return known

    def explain(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Explanation:
        """What `allows` says, and why."""
        if principal in self._super_users:
            return Explanation(True, None, True)
        decision = self._index.decide(principal, host, operation, resource_type, name)
        return Explanation(decision.is_allowed, decision.acl, False)

    def allows_all(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether a rule allows this for every name (`*`), and no rule denies it for any name.

        If so, a question for each name can be left out.
        """
        key = principal, host, id(operation), id(resource_type), _EVERY_NAME
        known = self._known.get(key)
        if known is None:
            known = principal in self._super_users or self._index.allows_all(
                principal, host, operation, resource_type
            )
            self._remember(key, known)
        return known

    def _remember(self, key: _Key, is_allowed: bool) -> None:
        """Callers choose names, so the memory is bounded, not only the number of decisions."""
        principal, host, _, _, name = key
        size_bytes = _ENTRY_BYTES + sum(map(sys.getsizeof, (principal, host, name)))
        if size_bytes > CACHE_BYTES_MAX - self._known_bytes:
            self._forget()
        if size_bytes <= CACHE_BYTES_MAX:
            self._known[key] = is_allowed
            self._known_bytes += size_bytes

    def _forget(self) -> None:
        self._known.clear()
        self._known_bytes = 0
