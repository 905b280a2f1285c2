"""Rates on the overview: from counters that grow, and begin anew."""

from __future__ import annotations

from datetime import UTC, datetime

from offsetd_clients.admin_values import LogPartition
from offsetd_clients.values import ServerInfo, ServerState
from offsetd_clients.web.pages.rates import AGE_S_MAX, SAMPLES_MAX, Rates
from promised import promised_by

promised = promised_by("docs/guides/web.md")


def server(flushes: int | None, *, started: int = 0) -> ServerInfo:
    return ServerInfo(
        version="1",
        folder_id="f",
        node_id="a",
        start_time=datetime.fromtimestamp(started, UTC),
        log_partitions=1,
        state=ServerState.SERVING,
        group_count=0,
        offset_count=0,
        unknown_record_count=0,
        undecodable_record_count=0,
        quarantined_partitions=(),
        flush_count=flushes,
    )


def log(end: int, partition: int = 0) -> LogPartition:
    return LogPartition(
        partition=partition,
        log_start_offset=0,
        log_end_offset=end,
        recovery_point=0,
        size_bytes=0,
        segments=(),
        quarantine_reason="",
        cleaning=None,
        blocked_retention=None,
    )


def test_one_sample_has_no_rate_and_two_have_one() -> None:
    rates = Rates()
    assert rates.noted([server(10)], [log(100)], 0.0) == []
    records, flushes = rates.noted([server(30)], [log(150)], 10.0)
    assert (records.newest, flushes.newest) == (5.0, 2.0)
    assert records.points == "0.0,1.0 240.0,1.0"
    records, flushes = rates.noted([server(30)], [log(250)], 20.0)
    assert (records.newest, records.largest, flushes.newest, flushes.largest) == (10, 10, 0, 2)
    assert records.points == "0.0,18.0 120.0,18.0 240.0,1.0"


def test_a_server_that_began_anew_and_a_partition_that_moved_count_as_nothing() -> None:
    rates = Rates()
    rates.noted([server(1000)], [log(100), log(7, 1)], 0.0)
    rates.noted([server(1010)], [log(110), log(7, 1)], 10.0)
    (records,) = rates.noted([server(3, started=5)], [log(120)], 20.0)[:1]
    assert records.newest == 1.0
    _, flushes = rates.noted([server(13, started=5)], [log(130)], 30.0)
    assert (flushes.newest, flushes.largest) == (1.0, 1.0)
    records, _ = rates.noted([server(13, started=5)], [log(50)], 40.0)  # It was restored.
    assert records.newest == 0.0


def test_an_older_server_has_no_flushes_and_many_samples_are_forgotten() -> None:
    rates = Rates()
    for number in range(3 * SAMPLES_MAX):
        lines = rates.noted([server(None)], [log(number)], 5.0 * number)
    assert [each.name for each in lines] == ["Records written a second"]
    assert lines[0].span_s == 5.0 * (SAMPLES_MAX - 1)


@promised("It forgets counts that are older than 10 minutes.")
def test_counts_of_long_ago_are_forgotten_when_somebody_looks_again() -> None:
    rates = Rates()
    rates.noted([server(0)], [log(0)], 0.0)
    records, _ = rates.noted([server(0)], [log(60)], AGE_S_MAX)
    assert records.span_s == AGE_S_MAX == 600
    records, _ = rates.noted([server(0)], [log(90)], AGE_S_MAX + 3)
    assert (records.span_s, records.newest) == (3.0, 10.0)
    assert rates.noted([server(0)], [log(99)], 5 * AGE_S_MAX) == []


def test_pages_that_renew_themselves_at_once_are_one_sample() -> None:
    rates = Rates()
    rates.noted([server(0)], [log(0)], 0.0)
    assert rates.noted([server(9)], [log(9)], 0.001) == []
