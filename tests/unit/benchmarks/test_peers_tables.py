"""Tables of the benchmark beside peers: what is shown, and that what is missing is told."""

from __future__ import annotations

from benchmarks.peers import tables, targets, works
from benchmarks.peers.results import Results
from benchmarks.peers.works import Measured


def measured(commits_a_second: float) -> Measured:
    return Measured(
        commits_a_second=commits_a_second,
        p50_us=1500.0,
        p99_us=9000.0,
        fetch_p50_us=0.0,
        server_us=50.0,
        generator_us=10.0,
    )


def results() -> Results:
    work = str(works.MANY_CALLERS)
    rounds: list[Measured | None] = [measured(4000), measured(3000), None, measured(5000)]
    return Results(
        machine={
            "date": "2026-11-21T10:00:00+00:00",
            "cores": 2,
            "cpu": "a CPU",
            "kernel": "6",
            "rounds": 4,
            "seconds": 0.5,
            "scale": 0.01,
        },
        versions={"offsetd": "offsetd 1", "kafka": "Kafka 4"},
        left_out={"redis": "no redis-server: install redis-server"},
        failed=[f"native, {work}, round 3, offsetd: it stood still"],
        loops={
            "native": {work: {"offsetd": rounds, "kafka": [measured(1000)] * 4, "etcd": [None]}}
        },
        states={targets.MEMORY: {"offsetd": [3.0 * (1 << 20)], "kafka": [None]}},
    )


def test_a_row_has_the_median_and_the_spread_of_its_rounds() -> None:
    text = tables.text(results())
    row = next(line for line in text.splitlines() if line.lstrip().startswith("offsetd   "))
    assert " ".join(row.split()) == "offsetd 4,000 (3,000 to 5,000) 1.50 9.00 50.0 10.0"


def test_what_failed_and_what_is_left_out_is_told() -> None:
    text = tables.text(results())
    assert "left out: redis: no redis-server: install redis-server" in text
    assert "failed: native, 1,024 callers, 1 partition, round 3, offsetd: it stood still" in text
    assert "kafka: Kafka 4; acknowledged: in the page cache, not fsynced" in text
    assert "etcd failed" in " ".join(text.split())


def test_bytes_are_shown_as_mebibytes() -> None:
    assert tables.shown_name(targets.MEMORY).endswith(", MiB")
    assert tables.shown(targets.MEMORY, [3.0 * (1 << 20), None]) == "3 (3 to 3)"
    assert tables.shown(targets.LOAD, [3.0]) == "3 (3 to 3)"
    assert tables.shown(targets.LOAD, [None]) == "failed"


def test_each_target_has_a_line_with_what_is_wanted() -> None:
    rows = tables.target_rows(results())
    assert len(rows) == len(targets.TARGETS) + 1
    of_titles = {title: others for title, *others in rows}
    title = "native, 1,024 callers, 1 partition: offsetd over {}"
    assert of_titles[title.format("kafka")] == ["4 (3 to 5)", "≥ 2", "reached"]
    assert of_titles[title.format("etcd")] == ["-", "≥ 2", "not measured"]


def test_markdown_has_the_date_the_machine_and_a_column_for_each_contestant() -> None:
    lines = tables.markdown(results()).splitlines()
    assert lines[0] == (
        "Measured on 2026-11-21, 2 cores (a CPU), Linux 6; "
        "medians of 4 interleaved rounds of 0.5 s; only 0.01 of the offsets."
    )
    assert lines[2].endswith("| offsetd | kafka | etcd |")
    assert lines[4] == "| 1,024 callers, 1 partition | 4,000 | 1,000 | - |"


def test_columns_are_as_wide_as_their_widest() -> None:
    assert list(tables.aligned([("a", "1"), ("bcd", "23")])) == ["a     1", "bcd  23"]
