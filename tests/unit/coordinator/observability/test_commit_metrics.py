"""The groups that commit most, as a scrape shows them."""

from __future__ import annotations

from offsetd_coordinator.configuration.dynamic_settings import CommitGuardConfig
from offsetd_coordinator.errors import CommitRateExceeded
from offsetd_coordinator.observability.metrics.commit_metrics import commit_families
from offsetd_coordinator.runtime.commit_guards import WINDOW_MS, CommitGuards
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector
from scrapes import Scrape, rule_problems

BEGIN_MS = 5 * WINDOW_MS


def guards_of(**config: int) -> CommitGuards:
    guards = CommitGuards()
    guards.configure(CommitGuardConfig(**config))
    return guards


def scrape(guards: CommitGuards, monotonic_ms: int) -> Scrape:
    class Families(Collector):
        def collect(self):  # type: ignore[no-untyped-def]
            return commit_families(guards, monotonic_ms=monotonic_ms)

    registry = CollectorRegistry()
    registry.register(Families())
    return Scrape.of(generate_latest(registry).decode())


def shown(guards: CommitGuards, monotonic_ms: int) -> dict[str, float]:
    family = scrape(guards, monotonic_ms).families["offsetd_group_commits_last_minute"]
    return {sample.labels["group"]: sample.value for sample in family.samples}


def test_there_are_series_of_the_top_groups_alone_and_they_go_with_them() -> None:
    guards = guards_of(top_groups_max=2)
    for group_id in ("größe", "größe", "größe", "b", "b", "c"):
        guards.admit(group_id.encode(), BEGIN_MS)
    assert shown(guards, BEGIN_MS) == {}
    assert shown(guards, BEGIN_MS + WINDOW_MS) == {"größe": 3, "b": 2}
    for group_id in (b"c", b"c", b"b", b"d", b"d"):
        guards.admit(group_id, BEGIN_MS + WINDOW_MS)
    assert shown(guards, BEGIN_MS + 2 * WINDOW_MS) == {"c": 2, "d": 2}
    assert shown(guards, BEGIN_MS + 3 * WINDOW_MS) == {}


def test_ids_that_are_cut_within_a_character_stay_apart() -> None:
    guards = guards_of()
    cut = "é" * 150, "x" + "é" * 150, "x" + "é" * 127 + "ü"
    for group_id in cut:
        guards.admit(group_id.encode(), BEGIN_MS)
    found = scrape(guards, BEGIN_MS + WINDOW_MS)
    assert list(rule_problems(found)) == []
    assert shown(guards, BEGIN_MS + WINDOW_MS) == {"é" * 128: 1, "x" + "é" * 127 + "\\xc3": 2}


def test_none_are_shown_where_none_are_asked_for() -> None:
    guards = guards_of(top_groups_max=0)
    guards.admit(b"g", BEGIN_MS)
    assert shown(guards, BEGIN_MS + WINDOW_MS) == {}


def test_refusals_and_what_was_not_written_are_counted() -> None:
    guards = guards_of(rate_max=1)
    for _ in range(3):
        try:
            guards.admit(b"g", BEGIN_MS)
        except CommitRateExceeded:
            guards.unchanged_commits += 1
    found = scrape(guards, BEGIN_MS)
    assert found.value("offsetd_commits_over_rate_total") == 2
    assert found.value("offsetd_unchanged_commits_total") == 2
