"""What a scrape of a server says."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import yaml
from memory_cluster import MemoryDirectory
from memory_commit_log import MemoryTopic
from memory_nodes import MemoryNode
from offsetd_coordinator.background.lag_survey import LagReport, LagSurvey
from offsetd_coordinator.calls.admission import Admission
from offsetd_coordinator.counters import CallCounters, ClusterCounters, QuotaCounters
from offsetd_coordinator.node import Node
from offsetd_coordinator.observability.cleaner_log import CleanerLog
from offsetd_coordinator.observability.metrics.collector import ServerCollector, registry_of
from offsetd_coordinator.runtime.node_directory import ClusterReport
from offsetd_coordinator.shard.shard import Shard
from offsetd_storage.clock import ManualClock
from offsetd_storage.maintenance.upkeep import Upkeep, UpkeepConfig
from offsetd_storage.topic_partition import TopicPartition
from prometheus_client import generate_latest
from scrapes import Scrape, rule_problems
from serving_nodes import WAIT_SECONDS, ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

REPOSITORY = Path(__file__).parents[4]
RULES = REPOSITORY / "deploy" / "prometheus-rules.yml"
GUIDE = REPOSITORY / "docs" / "guides" / "metrics.md"


class ScrapedNode:
    """A node with its upkeep, and the collector that looks at both."""

    def __init__(self, serving: ServingNode) -> None:
        self.serving = serving
        serving.clock.advance(60_000)
        self.cleaner_log = CleanerLog(None)
        self.counters = CallCounters()
        self.upkeep = Upkeep(
            serving.store,
            Path("/data"),
            UpkeepConfig(),
            files=serving.files,
            clock=serving.clock,
            random=Random(1),
            on_failed=serving.failures.append,
            on_round=self.cleaner_log.note_round,
        )
        serving.runtime.upkeep = self.upkeep
        serving.node.lag_survey = LagSurvey(serving.runtime)
        serving.node.lag_survey.report = LagReport(Counter(), Counter())
        self.collector = ServerCollector(
            serving.node, Admission(1 << 20), self.counters, self.cleaner_log, serving.clock
        )
        self.collector.load_seconds = 1.5
        self._registry = registry_of(self.collector)

    def scrape(self) -> Scrape:
        return Scrape.of(generate_latest(self._registry).decode())

    async def clean(self, partition: int) -> None:
        """Rolls and cleans one log."""
        topic_partition = TopicPartition("__consumer_offsets", partition)
        rounds = self.cleaner_log.totals.rounds
        self.serving.clock.advance(1)  # What was written in this very millisecond stays.
        future = self.upkeep.cleaner.compact([topic_partition], rolls_active=True)[topic_partition]
        assert await asyncio.wait_for(asyncio.wrap_future(future), WAIT_SECONDS) is not None
        async with asyncio.timeout(WAIT_SECONDS):
            while self.cleaner_log.totals.rounds == rounds:  # noqa: ASYNC110  Another thread's.
                await asyncio.sleep(0.005)


@contextmanager
def scraped(serving: ServingNode) -> Iterator[ScrapedNode]:
    node = ScrapedNode(serving)
    node.upkeep.cleaner.start()
    try:
        yield node
    finally:
        node.upkeep.stop()


async def test_what_is_scraped_keeps_prometheus_rules() -> None:
    async with serving_node() as serving:
        with scraped(serving) as node:
            node.counters.method("CommitOffsets").note(0, 0.001)
            await serving.commit("g", 1)
            await node.clean(serving.runtime.partition_of(b"g"))
            assert list(rule_problems(node.scrape())) == []


def test_the_rules_find_what_breaks_them() -> None:
    bad = Scrape.of(
        "# TYPE offsetd_wait_ms gauge\noffsetd_wait_ms 1\n"
        "# HELP offsetd_seconds_waited Waits.\n# TYPE offsetd_seconds_waited gauge\n"
        "# HELP offsetd_calls_total Calls.\n# TYPE offsetd_calls_total gauge\n"
        '# HELP offsetd_groups Groups.\n# TYPE offsetd_groups gauge\noffsetd_groups{group="g"} 1\n'
    )
    assert list(rule_problems(bad)) == [
        "offsetd_wait_ms: no HELP",
        "offsetd_wait_ms: Prometheus's units are seconds, bytes and ratios",
        "offsetd_seconds_waited: its unit is not last",
        "offsetd_calls_total: a suffix of another type",
        "offsetd_groups: labels ['group']",
    ]


async def test_commits_groups_and_flushes_show() -> None:
    async with serving_node() as serving:
        with scraped(serving) as node:
            partition = str(serving.runtime.partition_of(b"g"))
            log = f"__consumer_offsets-{partition}"
            before = node.scrape()
            assert before.value("offsetd_offsets", partition=partition) == 0
            await serving.commit("g", 1, partitions=3)
            after = node.scrape()
    assert after.value("offsetd_offsets", partition=partition) == 3
    assert after.value("offsetd_groups", partition=partition) == 1
    assert after.value("offsetd_log_end_offset", partition=log) == 3
    assert after.value("offsetd_flush_waiting_batches") == 0
    journal_bytes = sum(serving.store.journal_size._journal.sizes_bytes)
    assert after.value("offsetd_journal_size_bytes") == journal_bytes > 0
    for name in ("offsetd_flush_duration_seconds", "offsetd_journal_fsync_duration_seconds"):
        assert after.value(f"{name}_count") > before.value(f"{name}_count")
        assert after.value(f"{name}_sum") > 0
    assert after.value("offsetd_serving") == 1
    assert after.value("offsetd_load_seconds") == 1.5


async def test_watchers_show() -> None:
    async with serving_node() as serving:
        with scraped(serving) as node:
            node.counters.watches.watchers = 2
            node.counters.watches.cut_off = 3
            scrape = node.scrape()
    assert scrape.value("offsetd_watchers") == 2
    assert scrape.value("offsetd_watchers_cut_off_total") == 3


async def test_a_round_of_the_cleaner_shows() -> None:
    async with serving_node() as serving:
        with scraped(serving) as node:
            partition = serving.runtime.partition_of(b"g")
            log = f"__consumer_offsets-{partition}"
            for value in range(10):
                await serving.commit("g", value)
            before = node.scrape()
            await node.clean(partition)
            after = node.scrape()
    assert before.value("offsetd_cleaner_rounds_total") == 0
    assert before.value("offsetd_log_dirty_bytes", partition=log) > 0
    assert after.value("offsetd_cleaner_rounds_total") == 1
    assert after.value("offsetd_cleaner_read_messages_total") == 10
    assert 0 < after.value("offsetd_cleaner_recopy_ratio") < 1
    assert after.value("offsetd_cleaner_max_buffer_utilization_ratio") > 0
    assert after.value("offsetd_cleaner_dead_threads") == 0
    assert after.value("offsetd_cleaner_threads") == 1
    assert after.value("offsetd_cleaner_uncleanable_partitions") == 0


async def test_each_task_of_the_scheduler_shows() -> None:
    async with serving_node() as serving:
        with scraped(serving) as node:
            families = node.scrape().families
    tasks = {sample.labels["task"] for sample in families["offsetd_task_runs"].samples}
    assert tasks >= {
        "kafka-log-retention",
        "kafka-log-flusher",
        "kafka-recovery-point-checkpoint",
        "kafka-log-start-offset-checkpoint",
        "kafka-delete-logs",
    }


async def test_a_scrape_walks_no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Shard) -> None:
        raise AssertionError("it walks all groups")

    monkeypatch.setattr(Shard, "counters", refuse)
    async with serving_node() as serving:
        with scraped(serving) as node:
            assert node.scrape().value("offsetd_quarantined_partitions") == 0


def test_a_scrape_lets_the_loop_go_on_after_each_family() -> None:
    pauses: list[float] = []
    node = Node(node_id="n", address="a:1", start_ms=0)
    collector = ServerCollector(
        node, Admission(1), CallCounters(), CleanerLog(None), ManualClock(), sleep=pauses.append
    )
    assert len(list(collector.collect())) == len(pauses) > 5


async def test_series_are_bounded_whatever_clients_send() -> None:
    async with serving_node(partitions=50) as serving:
        with scraped(serving) as node:
            for number in range(200):
                await serving.commit(f"group {number}", 1, topic=f"topic-{number}")
            samples = sum(len(family.samples) for family in node.scrape().families.values())
    assert samples < 50 * 20 + 500


def test_while_the_log_loads_a_scrape_says_so() -> None:
    node = Node(node_id="n", address="a:1", start_ms=0)
    collector = ServerCollector(node, Admission(1), CallCounters(), CleanerLog(None), ManualClock())
    scrape = Scrape.of(generate_latest(registry_of(collector)).decode())
    assert scrape.value("offsetd_serving") == 0
    assert "offsetd_load_seconds" not in {
        sample.name for sample in scrape.families["offsetd_load_seconds"].samples
    }
    assert scrape.value("process_start_time_seconds") > 0
    assert "python_info" in scrape.sample_names


async def test_the_work_of_a_node_in_its_cluster_shows() -> None:
    topic, directory = MemoryTopic(4), MemoryDirectory()
    node = MemoryNode(topic, (0, 1, 2), directory=directory)
    other = MemoryNode(topic, (3,), name="n2", directory=directory)
    directory.members = [node, other]
    node.release(0)
    node.log.damage_partition(1)
    counters = node.node.cluster_counters = ClusterCounters()
    node.node.cluster_report = lambda: ClusterReport(copy_lags={3: 7})
    counters.taken_partitions, counters.lost_partitions = 5, 1
    counters.transaction_retries, counters.producer_replacements = 9, 2
    counters.takeover_durations.note(0.5)
    collector = ServerCollector(
        node.node, Admission(1), CallCounters(), CleanerLog(None), ManualClock()
    )
    scrape = Scrape.of(generate_latest(registry_of(collector)).decode())
    assert list(rule_problems(scrape)) == []
    states = {"serving": 1, "released": 2, "failed": 1, "loading": 0}
    for state, count in states.items():
        assert scrape.value("offsetd_cluster_partitions", state=state) == count
    lagging = scrape.value("offsetd_cluster_copy_lag_records", partition="__consumer_offsets-3")
    expected = {
        "log_partitions": 4,
        "nodes": 2,
        "taken_partitions_total": 5,
        "lost_partitions_total": 1,
        "transaction_retries_total": 9,
        "producer_replacements_total": 2,
        "takeover_duration_seconds_sum": 0.5,
    }
    assert {each: scrape.value(f"offsetd_cluster_{each}") for each in expected} == expected
    assert lagging == 7


async def test_a_single_server_has_no_metrics_of_a_cluster() -> None:
    async with serving_node() as serving:
        with scraped(serving) as node:
            assert not [each for each in node.scrape().sample_names if "_cluster_" in each]


async def test_the_guide_lists_every_metric() -> None:
    listed = re.findall(r"^\| `(offsetd_\w+)`", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    async with serving_node() as serving:
        serving.node.cluster_counters = ClusterCounters()
        with scraped(serving) as node:
            node.counters.access.quotas = QuotaCounters(principals_max=1)
            families = node.scrape().families.values()
    names = [
        family.name + ("_total" if family.type == "counter" else "")
        for family in families
        if family.name.startswith("offsetd_")
    ]
    assert sorted(listed) == sorted(names)


async def test_every_metric_that_an_alert_names_exists() -> None:
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({alert["alert"] for alert in alerts}) == len(alerts) > 0
    async with serving_node() as serving:
        serving.node.cluster_counters = ClusterCounters()
        with scraped(serving) as node:
            existing = node.scrape().sample_names
    for alert in alerts:
        assert alert["labels"]["severity"] in ("critical", "warning")
        assert alert["annotations"]["summary"]
        named = set(re.findall(r"\boffsetd_\w+", alert["expr"]))
        assert named, f"{alert['alert']} looks at nothing of ours"
        assert named <= existing, alert["alert"]
