"""Quotas: entities in Kafka's order, files, buckets, counts."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from offsetd_coordinator.counters import QuotaCounters
from offsetd_coordinator.errors import QuotaExceeded
from offsetd_coordinator.quotas.caller_quotas import CallerQuotas, Quotas
from offsetd_coordinator.quotas.quota_file import InvalidQuotaFile, parse_quota_file
from offsetd_coordinator.quotas.quota_table import Entity, Quota, QuotaTable

SECOND_NS = 1_000_000_000
RATE = Quota.COMMIT_RATE
# Kafka's order, the most specific first (its documentation, "Setting quotas").
ORDER = [
    ("User:a", "app"),
    ("User:a", "*"),
    ("User:a", ""),
    ("*", "app"),
    ("*", "*"),
    ("*", ""),
    ("", "app"),
    ("", "*"),
]


class Time:
    def __init__(self) -> None:
        self.ns = 5 * SECOND_NS

    def __call__(self) -> int:
        return self.ns


def quotas(text: str, time: Time | None = None, principals_max: int = 10) -> Quotas:
    return Quotas(parse_quota_file(text), QuotaCounters(principals_max), now_ns=time or Time())


def may(caller: CallerQuotas, quota: Quota = RATE, tokens: int = 1) -> bool:
    try:
        caller.take({quota: tokens})
    except QuotaExceeded:
        return False
    return True


def burst(caller: CallerQuotas, quota: Quota = RATE) -> int:
    return sum(1 for _ in itertools.takewhile(lambda _: may(caller, quota), range(1000)))


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_specific_entity_counts_in_kafkas_order(first: int) -> None:
    limits = {Entity(*names): {RATE: place + 1} for place, names in enumerate(ORDER)}
    kept = {names: limit for place, (names, limit) in enumerate(limits.items()) if place >= first}
    assert QuotaTable(kept).limits_of("User:a", "app")[RATE].most == first + 1


def test_each_quota_is_looked_up_by_itself() -> None:
    table = QuotaTable(
        {
            Entity("User:a", ""): {Quota.STREAMS_MAX: 2},
            Entity("*", ""): {Quota.STREAMS_MAX: 9, RATE: 7},
        }
    )
    found = table.limits_of("User:a", "")
    assert {quota: limit.most for quota, limit in found.items()} == {Quota.STREAMS_MAX: 2, RATE: 7}


def test_an_unlimited_principal_is_exempt_from_the_default() -> None:
    table = parse_quota_file(
        '[[quota]]\nprincipal = "User:*"\ncommit_rate = 1\n'
        '[[quota]]\nprincipal = "User:a"\ncommit_rate = -1\n'
    )
    assert RATE not in table.limits_of("User:a", "")
    assert table.limits_of("User:b", "")[RATE].most == 1


def test_a_client_without_a_name_has_the_default_of_client_ids() -> None:
    table = parse_quota_file('[[quota]]\nclient_id = "*"\ncommit_rate = 3\n')
    assert table.limits_of("User:a", "")[RATE].most == 3


def test_callers_without_a_client_id_are_named_in_refusals() -> None:
    caller = quotas('[[quota]]\nclient_id = "*"\ncommit_rate = 1\n').of("User:a", "")
    assert burst(caller) == 1
    with pytest.raises(QuotaExceeded, match="callers without a client id exceeds"):
        caller.take({RATE: 1})


def test_a_file_of_an_editor_that_marks_utf_8_is_read() -> None:
    text = '\ufeff[[quota]]\nprincipal = "User:a"\ncommit_rate = 3\n'
    assert parse_quota_file(text.encode()).limits_of("User:a", "")[RATE].most == 3


def test_clients_of_one_principal_share_its_limit_and_others_do_not() -> None:
    of = quotas('[[quota]]\nprincipal = "User:*"\ncommit_rate = 5\n').of
    assert burst(of("User:a", "one")) == 5
    assert burst(of("User:a", "two")) == 0
    assert burst(of("User:b", "one")) == 5


def test_a_limit_of_both_is_for_each_pair() -> None:
    of = quotas('[[quota]]\nprincipal = "User:a"\nclient_id = "*"\ncommit_rate = 5\n').of
    assert burst(of("User:a", "one")) == 5
    assert burst(of("User:a", "two")) == 5


def test_a_bucket_fills_at_the_rate_and_holds_one_second() -> None:
    time = Time()
    caller = quotas('[[quota]]\nprincipal = "User:a"\ncommit_rate = 10\n', time).of("User:a", "")
    assert burst(caller) == 10
    time.ns += SECOND_NS // 2
    assert burst(caller) == 5
    time.ns += 60 * SECOND_NS
    assert burst(caller) == 10


def test_a_refusal_takes_nothing_and_says_when_a_retry_succeeds() -> None:
    time = Time()
    text = '[[quota]]\nprincipal = "User:a"\ncommit_rate = 10\noffset_rate = 1000\n'
    caller = quotas(text, time).of("User:a", "")
    caller.take({RATE: 1, Quota.OFFSET_RATE: 3000})
    with pytest.raises(QuotaExceeded) as caught:
        caller.take({RATE: 1, Quota.OFFSET_RATE: 1})
    assert caught.value.variables["quota"] == "offset_rate"
    assert caught.value.variables["entity"] == "User:a"
    assert caught.value.retry_after_ms == 2001
    assert burst(caller) == 9
    time.ns += 2001 * 1_000_000
    caller.take({RATE: 1, Quota.OFFSET_RATE: 1})


def test_a_stream_pauses_until_its_debt_is_paid() -> None:
    async def paid() -> float:
        loop = asyncio.get_running_loop()
        text = '[[quota]]\nprincipal = "User:a"\noffset_rate = 1000\n'
        real = Quotas(parse_quota_file(text), QuotaCounters(10))
        begun = loop.time()
        await real.of("User:a", "").pay({Quota.OFFSET_RATE: 1200})
        assert real.counters.delay_seconds["User:a"] > 0
        return loop.time() - begun

    assert asyncio.run(paid()) >= 0.2


def test_a_changed_file_counts_at_once_also_for_known_callers() -> None:
    all_quotas = quotas('[[quota]]\nprincipal = "User:a"\ncommit_rate = 2\n')
    caller = all_quotas.of("User:a", "")
    assert burst(caller) == 2
    all_quotas.set_table(parse_quota_file('[[quota]]\nprincipal = "User:a"\ncommit_rate = -1\n'))
    assert burst(caller) == 1000


def test_streams_are_counted_while_they_last() -> None:
    caller = quotas('[[quota]]\nprincipal = "User:a"\nstreams_max = 1\n').of("User:a", "")
    with caller.one_of(Quota.STREAMS_MAX):
        with pytest.raises(QuotaExceeded), caller.one_of(Quota.STREAMS_MAX):
            pass
        with caller.one_of(Quota.WATCHERS_MAX):
            pass
    with caller.one_of(Quota.STREAMS_MAX):
        pass


class Connection:
    is_closed = False


def test_connections_are_counted_until_they_are_closed() -> None:
    caller = quotas('[[quota]]\nprincipal = "User:a"\nconnections_max = 1\n').of("User:a", "")
    first = Connection()
    caller.note_connection(first)
    caller.note_connection(first)
    with pytest.raises(QuotaExceeded):
        caller.note_connection(Connection())
    # Something may still refer to it, like a task that one of its calls began.
    first.is_closed = True
    caller.note_connection(Connection())
    with pytest.raises(QuotaExceeded):
        caller.note_connection(Connection())


def test_leases_that_have_ended_make_room() -> None:
    caller = quotas('[[quota]]\nprincipal = "User:a"\nleases_max = 1\n').of("User:a", "")
    held = {(b"g", 1)}
    caller.check_lease(b"g", lambda *lease: lease in held)
    caller.note_lease(b"g", 1)
    caller.check_lease(b"g", lambda *lease: lease in held)
    with pytest.raises(QuotaExceeded):
        caller.check_lease(b"h", lambda *lease: lease in held)
    held.clear()
    caller.check_lease(b"h", lambda *lease: lease in held)


def test_many_refusals_are_held_for_at_most_a_second() -> None:
    caller = quotas('[[quota]]\nprincipal = "User:a"\ncommit_rate = 1\n').of("User:a", "")
    holds = [caller.hold_seconds() for _ in range(100)]
    assert holds[:20] == [0.0] * 20
    assert 0 < holds[20] < 0.2
    assert holds[-1] == 1.0


def test_metrics_name_only_so_many_principals() -> None:
    all_quotas = quotas('[[quota]]\nprincipal = "User:*"\ncommit_rate = 1\n', principals_max=2)
    for name in ("User:a", "User:b", "User:c", "User:d", "User:a"):
        caller = all_quotas.of(name, "")
        may(caller)
        may(caller)
    counters = all_quotas.counters
    assert {principal for principal, _ in counters.refusals} == {"User:a", "User:b", "other"}
    assert counters.refusals["other", "commit_rate"] == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[quotas]]", "unknown key 'quotas'"),
        ("quota = 3", "no list of tables"),
        ("[[quota]]\ncommit_rate = 1", "no `principal` and no `client_id`"),
        ('[[quota]]\nprincipal = "a"\ncommit_rate = 1', "not User:NAME"),
        ('[[quota]]\nprincipal = "User:a"', "limits nothing"),
        ('[[quota]]\nprincipal = "User:a"\ncommit_rat = 1', "did you mean commit_rate?"),
        ('[[quota]]\nprincipal = "User:a"\ncommit_rate = 0', "`commit_rate` is 0"),
        ('[[quota]]\nprincipal = "User:a"\ncommit_rate = -2', "`commit_rate` is -2"),
        ('[[quota]]\nprincipal = "User:a"\ncommit_rate = true', "`commit_rate` is true"),
        (
            '[[quota]]\nprincipal = "User:a"\ncommit_rate = 1.5',
            "`commit_rate` is 1.5: it is a whole number",
        ),
        ('[[quota]]\nclient_id = ""\ncommit_rate = 1', "`client_id` is ''"),
        ("[[quota]]\nclient_id = 3\ncommit_rate = 1", "`client_id` is a number"),
        ('[[quota]]\nclient_id = "a"\ncommit_rate = 1\n' * 2, "table 2: an earlier table"),
        ("\xff", "not TOML"),
        ('[[quota]]\nprincipal = "User:a*"\ncommit_rate = 1', "a * in a name is no pattern"),
        ('[[quota]]\nclient_id = "User:*"\ncommit_rate = 1', "a * in a name is no pattern"),
        ('[[quota]]\nclient_id = "日本"\ncommit_rate = 1', "printable ASCII"),
        ('[[quota]]\nclient_id = " x"\ncommit_rate = 1', "printable ASCII"),
        (f'[[quota]]\nclient_id = "{"x" * 257}"\ncommit_rate = 1', "at most 256"),
        (f'[[quota]]\nclient_id = "x"\ncommit_rate = {10**400}', "`commit_rate` is a number"),
    ],
)
def test_a_wrong_file_is_refused_with_its_problem(text: str, problem: str) -> None:
    with pytest.raises(InvalidQuotaFile) as caught:
        parse_quota_file(text)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
