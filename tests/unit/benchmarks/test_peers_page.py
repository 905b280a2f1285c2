"""The page of the benchmark beside peers."""

from __future__ import annotations

import pytest
from offsetd_pipeline.reports import Level, Plot, Table

from benchmarks.peers import targets, works
from benchmarks.peers.page import as_report, svg_name
from benchmarks.peers.results import Results
from benchmarks.peers.works import Measured

MEASURED = Measured(
    commits_a_second=1000.0,
    p50_us=100.0,
    p99_us=200.0,
    fetch_p50_us=0.0,
    server_us=50.0,
    generator_us=10.0,
)


def results() -> Results:
    work = str(works.MANY_CALLERS)
    return Results(
        machine={"date": "2026-11-21T10:00:00+00:00", "cores": 2},
        versions={"kafka": "Kafka 4.1.1"},
        failed=[f"native, {work}, round 2, kafka: it stood still"],
        loops={"native": {work: {"offsetd": [MEASURED], "kafka": [MEASURED, None]}}},
        states={
            targets.DISK: {"offsetd": [2.0 * (1 << 20)], "kafka": [4.0 * (1 << 20)]},
            targets.LOAD: {"kafka": [None]},
            targets.SYNC: {"disk": [100.0, 300.0, 200.0]},
        },
    )


def test_facts_are_the_machine_one_sync_and_the_versions() -> None:
    assert as_report(results()).facts == {
        "cores": 2,
        targets.SYNC: "200 (100 to 300)",
        "kafka": "Kafka 4.1.1",
    }


def test_each_target_is_a_finding_and_so_is_what_failed() -> None:
    findings = {each.text: each.level for each in as_report(results()).findings}
    work = works.MANY_CALLERS
    judged = f"native, {work}: offsetd over kafka: 1 (1 to 1); wanted ≥ 2"
    assert findings[judged] == Level.WARNING
    assert findings[
        "disk after overwrites: offsetd over kafka: 0.5 (0.5 to 0.5); wanted ≤ 0.5"
    ] == (Level.GOOD)
    assert findings[f"native, {work}, round 2, kafka: it stood still"] == Level.NOTE
    assert "the same, less what an empty server takes: kafka over offsetd: not measured" in findings


def test_a_part_has_a_plot_for_each_work_and_a_table_of_every_round_that_has_a_figure() -> None:
    native, kept = as_report(results()).sections
    plot, rounds = native.parts
    assert isinstance(plot, Plot)
    assert plot.title == f"native, {works.MANY_CALLERS}: commits a second"
    assert isinstance(rounds, Table)
    assert [row["contestant"] for row in rounds.rows.to_pylist()] == ["offsetd", "kafka"]
    assert rounds.rows.column("fetch µs").to_pylist() == [None, None]
    assert [each.title for each in kept.parts] == ["disk after 10 M overwrites of 100 k keys"]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        (
            "native, 1 caller, 1 partition: commits a second",
            "native-1-caller-1-partition-commits-a-second",
        ),
        ("one write, µs", "one-write-s"),
        ("restart, empty, s", "restart-empty-s"),
    ],
)
def test_a_plots_file_has_a_plain_name(title: str, name: str) -> None:
    assert svg_name(title) == name
