"""Surveys of the lag of all groups, and the metrics that show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd_clients.messages.lag_messages import verdict_of
from offsetd_coordinator.background.lag_survey import LagReport, LagSurvey
from offsetd_coordinator.configuration.dynamic_settings import CommitGuardConfig, ExpiryConfig
from offsetd_coordinator.configuration.lag_config import LagConfig
from offsetd_coordinator.observability.metrics.lag_metrics import lag_families
from offsetd_coordinator.state.lag_judge import LagVerdict
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector
from scrapes import Scrape, rule_problems
from serving_nodes import ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW_MS = 600_000
LABELS = ("consumergroup", "group", "verdict", "topic", "partition")


def configure(serving: ServingNode, **config: object) -> None:
    lag = LagConfig(**{"window_ms": WINDOW_MS} | config)  # type: ignore[arg-type]
    serving.runtime.configure(CommitGuardConfig(), ExpiryConfig(), lag)


async def commit(
    serving: ServingNode, group_id: str, offset: int, end: int, **where: object
) -> None:
    place = {"topic": "orders", "partition": 0} | where
    await serving.commit_offsets(group_id, {"offset": offset, "end_offset": end} | place)


async def survey(serving: ServingNode) -> LagReport:
    return await LagSurvey(serving.runtime).survey()


def scrape(report: LagReport) -> Scrape:
    class Families(Collector):
        def collect(self):  # type: ignore[no-untyped-def]
            return lag_families(report)

    registry = CollectorRegistry()
    registry.register(Families())
    found = Scrape.of(generate_latest(registry).decode())
    assert list(rule_problems(found)) == []
    return found


def values(found: Scrape, name: str) -> Mapping[tuple[str, ...], float]:
    return {
        tuple(each.labels[label] for label in LABELS if label in each.labels): each.value
        for each in found.families[name].samples
    }


async def test_all_groups_are_counted_by_their_verdict() -> None:
    async with serving_node() as serving:
        configure(serving)
        for minute in range(10):
            serving.clock.advance(60_000)
            for number in range(12):
                await commit(serving, f"good-{number}", minute, minute)
            await commit(serving, "slow", minute, minute * 2 + 1)
            await commit(serving, "stalled", 5, minute + 6)
            await commit(serving, "stalled", minute, minute, partition=1)
        await serving.commit("silent", 3)
        report = await survey(serving)
        found = scrape(report)
        assert values(found, "offsetd_groups_by_verdict") == {
            ("OK",): 12,
            ("WARN",): 1,
            ("ERR",): 1,
        }
        assert values(found, "offsetd_partitions_by_verdict") == {
            ("OK",): 13,
            ("WARN",): 1,
            ("STOP",): 0,
            ("STALL",): 1,
            ("REWIND",): 0,
        }
        serving.clock.advance(WINDOW_MS)
        stopped = (await survey(serving)).partitions
    assert stopped[LagVerdict.STOP] == 2
    assert values(found, "offsetd_group_lag_records") == {}
    assert report.shown == ()
    assert report.left_out == 0


async def test_the_first_groups_that_fit_are_shown_whole_and_the_others_are_counted() -> None:
    async with serving_node() as serving:
        configure(serving, partitions_max=5)
        for group_id, partitions in (("d", 1), ("b", 4), ("a", 3), ("c", 2), ("e", 1)):
            await serving.commit(group_id, 1, partitions=partitions)
        report = await survey(serving)
        assert [(each.group_id, len(each.partitions)) for each in report.shown] == [
            (b"a", 3),
            (b"c", 2),
        ]
        assert report.left_out == 3
        assert await survey(serving) == report._replace(seconds=pytest.approx(0, abs=60))
        configure(serving, partitions_max=0)
        assert (await survey(serving)).shown == ()


async def test_many_groups_are_shown_in_the_order_of_their_ids() -> None:
    async with serving_node() as serving:
        configure(serving, partitions_max=7)
        for number in range(60):
            await serving.commit(f"g{number:02}", 1)
        report = await survey(serving)
    assert [each.group_id.decode() for each in report.shown] == [f"g{n:02}" for n in range(7)]
    assert report.left_out == 53


async def test_lag_offsets_and_verdicts_have_series_of_our_names() -> None:
    async with serving_node() as serving:
        configure(serving, partitions_max=100)
        await commit(serving, "größe", 5, 9)
        await serving.commit("größe", 8, topic="silent")
        found = scrape(await survey(serving))
    assert values(found, "offsetd_group_lag_records") == {("größe", "orders", "0"): 4}
    assert values(found, "offsetd_group_committed_offset") == {
        ("größe", "orders", "0"): 5,
        ("größe", "silent", "0"): 8,
    }
    assert values(found, "offsetd_group_verdict") == {("größe",): 1}
    assert values(found, "offsetd_group_members") == {("größe",): 0}
    assert values(found, "offsetd_lag_groups_left_out") == {(): 0}
    assert not [name for name in found.families if name.startswith("kafka_")]


async def test_kafka_exporters_names_and_labels_are_there_if_they_are_asked_for() -> None:
    async with serving_node() as serving:
        configure(serving, partitions_max=100, compatibility="kafka_exporter")
        await commit(serving, "g", 5, 9)
        await commit(serving, "g", 7, 17, partition=1)
        await commit(serving, "g", 1, 3, topic="other")
        await serving.commit("g", 8, topic="silent")
        found = scrape(await survey(serving))
    sample = found.families["kafka_consumergroup_lag"].samples[0]
    assert sample.labels == {"consumergroup": "g", "topic": "orders", "partition": "0"}
    assert values(found, "kafka_consumergroup_lag") == {
        ("g", "orders", "0"): 4,
        ("g", "orders", "1"): 10,
        ("g", "other", "0"): 2,
    }
    assert values(found, "kafka_consumergroup_lag_sum") == {("g", "orders"): 14, ("g", "other"): 2}
    assert values(found, "kafka_consumergroup_current_offset_sum") == {
        ("g", "orders"): 12,
        ("g", "other"): 1,
        ("g", "silent"): 8,
    }
    assert len(values(found, "kafka_consumergroup_current_offset")) == 4
    assert values(found, "kafka_consumergroup_members") == {("g",): 0}


async def test_with_verdicts_off_the_lag_is_still_shown() -> None:
    async with serving_node() as serving:
        configure(serving, partitions_max=100, window_ms=0)
        await commit(serving, "g", 5, 9)
        report = await survey(serving)
    assert values(scrape(report), "offsetd_group_lag_records") == {("g", "orders", "0"): 4}
    assert values(scrape(report), "offsetd_group_verdict") == {}
    assert not any(report.groups.values())


def test_a_verdict_of_a_newer_server_is_none_to_the_client() -> None:
    assert [str(verdict_of(number)) for number in (0, 1, 4, 99)] == ["None", "OK", "STOP", "None"]
