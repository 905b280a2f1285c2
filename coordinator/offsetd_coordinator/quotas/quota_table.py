"""Which limits count for a caller: the entities of quotas, and their order of precedence.

The entities and their order are those of Kafka (its documentation, "Setting quotas").
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT: Final = "*"
"""In an entity: every name that has no entity of its own. Each gets the limit for itself."""
UNLIMITED: Final = -1


class Quota(Enum):
    """A limited quantity. The value is its name in the file and in metrics."""

    CALL_RATE = "call_rate"
    COMMIT_RATE = "commit_rate"
    OFFSET_RATE = "offset_rate"
    REQUEST_BYTE_RATE = "request_byte_rate"
    RESPONSE_BYTE_RATE = "response_byte_rate"
    CONNECTIONS_MAX = "connections_max"
    STREAMS_MAX = "streams_max"
    WATCHERS_MAX = "watchers_max"
    LEASES_MAX = "leases_max"


class Entity(NamedTuple):
    """The callers for whom a quota counts. An empty name matches every caller."""

    principal: str
    client_id: str

    def __str__(self) -> str:
        parts = [self.principal, self.client_id and f"client id {self.client_id}"]
        return ", ".join(filter(None, parts)) or "callers without a client id"


class Limit(NamedTuple):
    """A limit of a caller. All callers with the same `quota` and `sharers` share what it allows."""

    quota: Quota
    sharers: Entity
    most: int
    """At once, or in a second."""


class QuotaTable:
    """The limits of each entity."""

    def __init__(self, limits: Mapping[Entity, Mapping[Quota, int]]) -> None:
        self._limits = limits
        self.names_client_ids = any(entity.client_id for entity in limits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuotaTable) and other._limits == self._limits

    __hash__ = None  # type: ignore[assignment]  # It is a value, and no key.

    def __len__(self) -> int:
        return len(self._limits)

    def limits_by_name(self) -> list[Limit]:
        """The limits of the entities that are names, and stand for no others."""
        return [
            Limit(quota, entity, most)
            for entity, limits in self._limits.items()
            for quota, most in limits.items()
            if DEFAULT not in entity and most != UNLIMITED
        ]

    def limits_of(self, principal: str, client_id: str) -> dict[Quota, Limit]:
        """The limits of a caller: for each quota, those of the first entity that has it."""
        found: dict[Quota, Limit] = {}
        for entity in _entities(principal, client_id):
            sharers = Entity(entity.principal and principal, entity.client_id and client_id)
            for quota, most in self._limits.get(entity, {}).items():
                found.setdefault(quota, Limit(quota, sharers, most))
        return {quota: limit for quota, limit in found.items() if limit.most != UNLIMITED}


def _entities(principal: str, client_id: str) -> list[Entity]:
    """The entities of a caller, the most specific first."""
    principals = (principal, DEFAULT, "")
    client_ids = (client_id, DEFAULT, "") if client_id else (DEFAULT, "")
    return [Entity(name, client) for name in principals for client in client_ids]
