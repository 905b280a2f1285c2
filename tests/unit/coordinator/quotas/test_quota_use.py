"""What is shown of quotas: whose limits, and how much of each is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import QuotaExceeded
from offsetd_coordinator.quotas.quota_table import Entity, Quota
from offsetd_coordinator.quotas.quota_use import limits_in_force, use_of
from unit.coordinator.quotas.test_caller_quotas import SECOND_NS, Time, quotas

if TYPE_CHECKING:
    from offsetd_coordinator.quotas.caller_quotas import Quotas

TABLES = """
[[quota]]
principal = "User:a"
commit_rate = 10
streams_max = 2
call_rate = -1
[[quota]]
principal = "User:*"
commit_rate = 5
[[quota]]
client_id = "app"
offset_rate = 7
[[quota]]
client_id = "*"
watchers_max = 3
"""
OF_NAMES = [
    ("", "app", "offset_rate"),
    ("User:a", "", "commit_rate"),
    ("User:a", "", "streams_max"),
]


async def shown(of: Quotas, principal: str = "") -> list[tuple[str, str, str]]:
    return sorted(await limits_in_force(of, Turns(), principal=principal))


async def in_use(of: Quotas, principal: str, client_id: str, quota: str) -> int:
    found = await limits_in_force(of, Turns(), principal="")
    return use_of(of, found[principal, client_id, quota]).in_use


async def test_limits_of_names_show_at_once_and_others_for_each_who_has_called() -> None:
    of = quotas(TABLES)
    assert await shown(of) == OF_NAMES
    of.of("User:b", "").spend({Quota.COMMIT_RATE: 1})
    of.of("User:c", "app").spend({Quota.COMMIT_RATE: 1})
    more = [("User:b", "", "commit_rate"), ("User:c", "", "commit_rate")]
    more += [("", "", "watchers_max"), ("", "app", "watchers_max")]
    assert await shown(of) == sorted([*OF_NAMES, *more])
    assert await shown(of, "User:c") == [("User:c", "", "commit_rate")]
    assert await shown(of, "User:nobody") == []


async def test_a_rate_shows_what_has_not_come_back() -> None:
    time = Time()
    of = quotas(TABLES, time)
    caller = of.of("User:a", "")
    key = "User:a", "", "commit_rate"
    assert await in_use(of, *key) == 0
    caller.spend({Quota.COMMIT_RATE: 25})
    assert await in_use(of, *key) == 25
    time.ns += SECOND_NS + 1
    assert await in_use(of, *key) == 15
    time.ns += 10 * SECOND_NS
    assert await in_use(of, *key) == 0


async def test_counts_show_what_is_open() -> None:
    of = quotas('[[quota]]\nprincipal = "User:a"\nstreams_max = 2\nleases_max = 9\n')
    caller = of.of("User:a", "")
    with caller.one_of(Quota.STREAMS_MAX), caller.one_of(Quota.STREAMS_MAX):
        assert await in_use(of, "User:a", "", "streams_max") == 2
    assert await in_use(of, "User:a", "", "streams_max") == 0
    caller.note_lease(b"g", 1)
    assert await in_use(of, "User:a", "", "leases_max") == 1


async def test_connections_that_have_closed_do_not_count() -> None:
    class Connection:
        is_closed = False

    of = quotas('[[quota]]\nprincipal = "User:a"\nconnections_max = 5\n')
    one, other = Connection(), Connection()
    for each in (one, other):
        of.of("User:a", "").note_connection(each)
    assert await in_use(of, "User:a", "", "connections_max") == 2
    one.is_closed = True
    assert await in_use(of, "User:a", "", "connections_max") == 1


async def test_refusals_and_pauses_are_those_of_the_principal() -> None:
    of = quotas(TABLES)
    caller = of.of("User:a", "")
    caller.spend({Quota.COMMIT_RATE: 100})
    with pytest.raises(QuotaExceeded):
        caller.take({Quota.COMMIT_RATE: 1})
    seconds = caller.pause_seconds([Quota.COMMIT_RATE])
    found = await limits_in_force(of, Turns(), principal="User:a")
    used = {limit.quota: use_of(of, limit) for limit in found.values()}
    assert used[Quota.COMMIT_RATE].refusals == 1
    assert used[Quota.STREAMS_MAX].refusals == 0
    assert used[Quota.COMMIT_RATE].delay_seconds == seconds > 0
    assert {limit.sharers for limit in found.values()} == {Entity("User:a", "")}


async def test_to_look_changes_nothing() -> None:
    of = quotas(TABLES)
    for key in await shown(of):
        await in_use(of, *key)
    assert (len(of.buckets), of.in_use, of.leases, of.callers()) == (0, {}, {}, [])
    assert of.counters.refusals == {}
