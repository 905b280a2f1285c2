"""The use of each limit that is in force, for administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_coordinator.quotas.caller_quotas import still_open
from offsetd_coordinator.quotas.quota_table import Limit, Quota

if TYPE_CHECKING:
    from offsetd_coordinator.cooperative_scheduling import Turns
    from offsetd_coordinator.quotas.caller_quotas import Quotas

_COUNTED: Final = (Quota.STREAMS_MAX, Quota.WATCHERS_MAX)
Key = tuple[str, str, str]


class QuotaUse(NamedTuple):
    """A limit, and what is used of it now."""

    limit: Limit
    in_use: int
    refusals: int
    delay_seconds: float


async def limits_in_force(quotas: Quotas, turns: Turns, *, principal: str) -> dict[Key, Limit]:
    """The limits of all who are named in the file or have called, by principal, client id, name.

    With a principal, only its limits.
    """
    found: dict[Key, Limit] = {}
    table = quotas.table

    def note(limit: Limit) -> None:
        if principal in ("", limit.sharers.principal):
            found[(*limit.sharers, limit.quota.value)] = limit

    async for limit in turns.each(table.limits_by_name()):
        note(limit)
    async for caller in turns.each(quotas.callers()):
        for limit in table.limits_of(*caller).values():
            note(limit)
    return found


def use_of(quotas: Quotas, limit: Limit) -> QuotaUse:
    """The present use of a limit."""
    principal, counters = limit.sharers.principal, quotas.counters
    return QuotaUse(
        limit,
        _in_use(quotas, limit),
        counters.refusals[principal, limit.quota.value],
        counters.delay_seconds.get(principal, 0.0),
    )


def _in_use(quotas: Quotas, limit: Limit) -> int:
    if limit.quota in _COUNTED:
        return quotas.in_use[limit.quota, limit.sharers]
    if limit.quota is Quota.CONNECTIONS_MAX:
        return len(still_open(quotas.known_connections(limit.sharers)))
    if limit.quota is Quota.LEASES_MAX:
        return len(quotas.leases.get(limit.sharers, ()))
    return quotas.taken(limit)
