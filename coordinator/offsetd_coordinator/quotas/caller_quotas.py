"""What callers have used of their quotas, and what they may still use. Only the event loop uses it.

A caller may begin while its bucket has a token. Then the whole cost is taken, also if the bucket
goes below zero, so that no request is too large for ever. A bucket holds what one second brings.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from offsetd_coordinator.errors import QuotaExceeded
from offsetd_coordinator.quotas.quota_table import Entity, Limit, Quota, QuotaTable
from offsetd_coordinator.quotas.token_buckets import TokenBuckets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from offsetd_coordinator.counters import QuotaCounters

_SECOND_NS: Final = 1_000_000_000
_MS_NS: Final = 1_000_000
_BUCKETS_MAX: Final = 65_536
_CALLERS_MAX: Final = 10_000
_PAUSE_SECONDS_MAX: Final = 1.0  # After it, a changed file counts.
_COUNT_RETRY_MS: Final = 1000
_REFUSALS_PER_SECOND: Final = 20
_HOLD_SECONDS_MAX: Final = 1.0
_OF_BEGIN: Final = (Quota.CALL_RATE, Quota.REQUEST_BYTE_RATE, Quota.RESPONSE_BYTE_RATE)


class CountedConnection(Protocol):
    """The state of a connection that quotas need."""

    is_closed: bool


def still_open(connections: Iterable[CountedConnection]) -> set[CountedConnection]:
    """The connections that are not closed."""
    return {each for each in connections if not each.is_closed}


class Quotas:
    """The quotas of one server."""

    def __init__(
        self,
        table: QuotaTable,
        counters: QuotaCounters,
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.table = table
        self.counters = counters
        self.now_ns = now_ns
        self.buckets = TokenBuckets[tuple[Quota | None, Entity]](_BUCKETS_MAX)
        self.in_use: Counter[tuple[Quota, Entity]] = Counter()
        """Streams and watchers, by those that share a limit."""
        self.leases: dict[Entity, dict[bytes, int]] = {}
        """Epochs of acquired leases by group, by those that share a limit. Some may have ended."""
        self._connections: dict[Entity, set[CountedConnection]] = {}
        self._callers: dict[Entity, CallerQuotas] = {}

    def set_table(self, table: QuotaTable) -> None:
        """Puts other limits in force. What was used stays used."""
        self.table = table

    def of(self, principal: str, client_id: str) -> CallerQuotas:
        """The quotas of a caller."""
        caller = Entity(principal, client_id if self.table.names_client_ids else "")
        known = self._callers.get(caller)
        if known is None:
            if len(self._callers) >= _CALLERS_MAX:
                self._callers.clear()
            known = self._callers[caller] = CallerQuotas(self, caller)
        return known

    def callers(self) -> list[Entity]:
        """The callers. If there were very many, older ones are missing: the list was cleared."""
        return list(self._callers)

    def taken(self, limit: Limit) -> int:
        """The amount that was taken from a rate's bucket and has not flowed back."""
        return self.buckets.taken(limit[:2], self.now_ns(), interval_ns=_SECOND_NS / limit.most)

    def known_connections(self, sharers: Entity) -> Iterable[CountedConnection]:
        """The connections that were counted for those that share a limit; some may be closed."""
        return self._connections.get(sharers, ())

    def connections_of(self, sharers: Entity) -> set[CountedConnection]:
        """The connections of those that share a limit. Some may have been closed."""
        if sharers not in self._connections and len(self._connections) >= _CALLERS_MAX:
            known = ((key, still_open(each)) for key, each in self._connections.items())
            self._connections = {key: each for key, each in known if each}
        return self._connections.setdefault(sharers, set())

    def leases_of(self, sharers: Entity) -> dict[bytes, int]:
        """The leases of those that share a limit. With very many such, the oldest are forgotten."""
        if sharers not in self.leases and len(self.leases) >= _CALLERS_MAX:
            del self.leases[next(iter(self.leases))]
        return self.leases.setdefault(sharers, {})


class CallerQuotas:
    """The quotas of one caller, for as long as it calls. The limits may change meanwhile."""

    def __init__(self, quotas: Quotas, caller: Entity) -> None:
        self._quotas = quotas
        self._caller = caller
        self._table: QuotaTable | None = None
        self._known: dict[Quota, Limit] = {}

    @property
    def _limits(self) -> dict[Quota, Limit]:
        if self._table is not self._quotas.table:
            self._table = self._quotas.table
            self._known = self._table.limits_of(*self._caller)
        return self._known

    def begin_call(self, connection: CountedConnection, request_bytes: int) -> None:
        """Takes what a call costs when it arrives. Raises QuotaExceeded."""
        self.note_connection(connection)
        self.take(
            {
                Quota.CALL_RATE: 1,
                Quota.REQUEST_BYTE_RATE: request_bytes,
                Quota.RESPONSE_BYTE_RATE: 0,
            }
        )

    def begin_call_now(self, connection: CountedConnection, request_bytes: int) -> bool:
        """Does as `begin_call`; False, and nothing is taken or counted, if it would refuse.

        Also False for a connection that is not counted yet.
        """
        limit = self._limits.get(Quota.CONNECTIONS_MAX)
        if limit is not None and connection not in self._quotas.connections_of(limit.sharers):
            return False
        if not self.has_tokens(_OF_BEGIN):
            return False
        self.begin_call(connection, request_bytes)
        return True

    def undo_begin(self, request_bytes: int) -> None:
        """Gives back what `begin_call` took."""
        self.spend({Quota.CALL_RATE: -1, Quota.REQUEST_BYTE_RATE: -request_bytes})

    def has_tokens(self, quotas: Iterable[Quota]) -> bool:
        """Whether `take` would not refuse."""
        now_ns = self._quotas.now_ns()
        return not any(self._wait_ns(quota, now_ns) for quota in quotas)

    def take(self, costs: Mapping[Quota, int]) -> None:
        """Takes what a call costs. Raises QuotaExceeded if a bucket is empty; then takes nothing.

        With a cost of 0, a bucket only must not be empty.
        """
        now_ns = self._quotas.now_ns()
        for quota in costs:
            wait_ns = self._wait_ns(quota, now_ns)
            if wait_ns > 0:
                raise self._refusal(self._limits[quota], int(-(-wait_ns // _MS_NS)))
        self.spend(costs)

    def spend(self, costs: Mapping[Quota, int]) -> None:
        """Takes what has been used already."""
        now_ns = self._quotas.now_ns()
        for quota, tokens in costs.items():
            limit = self._limits.get(quota)
            if limit is not None and tokens:
                self._quotas.buckets.take(
                    limit[:2], tokens, now_ns, interval_ns=_SECOND_NS / limit.most
                )

    async def pay(self, costs: Mapping[Quota, int]) -> None:
        """Takes what has been used already, and returns once no bucket is below zero."""
        self.spend(costs)
        await self.until_paid(costs)

    async def until_paid(self, quotas: Iterable[Quota]) -> None:
        """Returns once no bucket of these quotas is below zero."""
        while (seconds := self.pause_seconds(quotas)) > 0:  # noqa: ASYNC110  Time is the event.
            await asyncio.sleep(seconds)

    def pause_seconds(self, quotas: Iterable[Quota]) -> float:
        """The seconds that a stream must pause before it asks again; 0 if it may go on.

        It must pause while a bucket is below zero.
        """
        now_ns = self._quotas.now_ns()
        wait_ns = max((self._wait_ns(quota, now_ns) for quota in quotas), default=0)
        seconds = min(wait_ns / _SECOND_NS, _PAUSE_SECONDS_MAX)
        if seconds > 0:
            self._quotas.counters.note_delay(self._caller.principal, seconds)
        return seconds

    @contextlib.contextmanager
    def one_of(self, quota: Quota) -> Iterator[None]:
        """Counts a stream or a watcher for as long as the context lasts. Raises QuotaExceeded."""
        limit, in_use = self._limits.get(quota), self._quotas.in_use
        if limit is None:
            yield
            return
        key = limit.quota, limit.sharers
        if in_use[key] >= limit.most:
            raise self._refusal(limit)
        in_use[key] += 1
        try:
            yield
        finally:
            in_use[key] -= 1
            if not in_use[key]:
                del in_use[key]

    def note_connection(self, connection: CountedConnection) -> None:
        """Counts a connection until it is closed. Raises QuotaExceeded."""
        limit = self._limits.get(Quota.CONNECTIONS_MAX)
        if limit is None:
            return
        counted = self._quotas.connections_of(limit.sharers)
        if connection in counted:
            return
        counted &= still_open(counted)
        if len(counted) >= limit.most:
            raise self._refusal(limit)
        counted.add(connection)

    def check_lease(self, group_id: bytes, is_held: Callable[[bytes, int], bool]) -> None:
        """Raises QuotaExceeded if the caller may not acquire the lease of one more group.

        `is_held` tells whether a lease of this group and epoch is still held.
        """
        limit = self._limits.get(Quota.LEASES_MAX)
        if limit is None:
            return
        held = self._quotas.leases.get(limit.sharers, {})
        if group_id in held or len(held) < limit.most:
            return
        for group, epoch in tuple(held.items()):
            if not is_held(group, epoch):
                del held[group]
        if len(held) >= limit.most:
            raise self._refusal(limit)

    def note_lease(self, group_id: bytes, epoch: int) -> None:
        """Counts a lease that the caller has acquired."""
        limit = self._limits.get(Quota.LEASES_MAX)
        if limit is not None:
            self._quotas.leases_of(limit.sharers)[group_id] = epoch

    def hold_seconds(self) -> float:
        """How long a refusal should wait before it is sent.

        The first refusals of a second leave at once. So a client that calls again at once, whatever
        it is told, costs little more than one that waits.
        """
        buckets, now_ns = self._quotas.buckets, self._quotas.now_ns()
        key, interval_ns = (None, self._caller), _SECOND_NS / _REFUSALS_PER_SECOND
        wait_ns = buckets.wait_ns(key, now_ns, interval_ns=interval_ns, depth=_REFUSALS_PER_SECOND)
        buckets.take(key, 1, now_ns, interval_ns=interval_ns)
        return min(wait_ns / _SECOND_NS, _HOLD_SECONDS_MAX)

    def _wait_ns(self, quota: Quota, now_ns: int) -> float:
        limit = self._limits.get(quota)
        if limit is None:
            return 0
        return self._quotas.buckets.wait_ns(
            limit[:2], now_ns, interval_ns=_SECOND_NS / limit.most, depth=limit.most
        )

    def _refusal(self, limit: Limit, retry_after_ms: int = _COUNT_RETRY_MS) -> QuotaExceeded:
        self._quotas.counters.note_refusal(self._caller.principal, limit.quota.value)
        return QuotaExceeded(
            "{entity} exceeds the quota {quota} = {most}",
            retry_after_ms=retry_after_ms,
            hold_seconds=self.hold_seconds(),
            entity=str(limit.sharers),
            quota=limit.quota.value,
            most=limit.most,
        )


def one_stream(quotas: CallerQuotas | None) -> contextlib.AbstractContextManager[None]:
    """Counts a stream for as long as the context lasts. Raises QuotaExceeded."""
    return contextlib.nullcontext() if quotas is None else quotas.one_of(Quota.STREAMS_MAX)
