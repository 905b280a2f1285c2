"""The part `fleet` of the benchmark beside peers: its servers, clients, tables and pages."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from patience import PATIENCE_SECONDS

from benchmarks.peers import __main__ as command
from benchmarks.peers import contestants, fleet, fleet_tables, server, targets, works
from benchmarks.peers.generators import Fleet, Native
from benchmarks.peers.results import Results
from benchmarks.peers.systems import ours
from benchmarks.peers.works import Measured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.peers.server import Server

ROOT = Path(__file__).parents[3]
MANY = works.Work(callers=1000, partitions=1)
ROW = "64 programs, a connection each, 1 partition a commit"
PAGE = f"""# A page

<!-- begin: fleet-tables -->
<!-- end: fleet-tables -->

Between.

<!-- begin: fleet-targets -->
| old |
<!-- end: fleet-targets -->

| what | offsetd | others |
|---|---|---|
| {ROW} | - | - |
| another | 1 | 2 |
"""


def measured(commits_a_second: float) -> Measured:
    return Measured(
        commits_a_second=commits_a_second,
        p50_us=1500.0,
        p99_us=9000.0,
        fetch_p50_us=0.0,
        server_us=50.4,
        generator_us=10.0,
    )


def results(rates: Mapping[str, float]) -> Results:
    """Results of one round, with the same rates in each work of 64 and 1,000 connections."""
    of_work: dict[str, list[Measured | None]] = {
        name: [measured(rate)] for name, rate in rates.items()
    }
    return Results(
        machine={
            "date": "2026-11-28T10:00:00+00:00",
            "cores": 2,
            "cpu": "a CPU",
            "kernel": "6",
            "rounds": 1,
            "seconds": 0.5,
            "scale": 1,
            "load_before": (0.25, 0.0, 0.0),
        },
        versions={},
        left_out={"redis": "no redis-server: install redis-server"},
        loops={"fleet": {str(works.MANY_CONNECTIONS): of_work, str(MANY): of_work}},
    )


FOUND = results({"bare": 6000, "offsetd-grpcio": 5000.4, "kafka": 11000, "etcd": 13000})


def test_tables_have_what_was_measured_and_why_a_column_is_missing() -> None:
    lines = fleet_tables.tables_text(FOUND).splitlines()
    assert lines[0] == (
        "Measured on 2026-11-28, 2 cores (a CPU), Linux 6; medians of 1 interleaved rounds of "
        "0.5 s; the load was 0.2 before."
    )
    assert "Without Redis: no redis-server: install redis-server." in lines
    assert "| commits/s | offsetd, grpc.aio | Kafka | etcd | bare grpc.aio |" in lines
    assert "| 64 connections, 1 partition | 5,000 | 11,000 | 13,000 | 6,000 |" in lines
    assert "| 1,000 connections, 1 partition | 50 | 50 | 50 | 50 |" in lines
    assert "| 1,000 connections, 1 partition: p99 | 9.00 | 9.00 | 9.00 | 9.00 |" in lines
    assert not [line for line in lines if line.startswith("| 256 ")]


def test_our_native_transport_stands_first_where_it_was_measured() -> None:
    found = results({"offsetd-grpcio": 5000, "offsetd-wire": 21000, "offsetd-naive": 15000})
    text = fleet_tables.tables_text(found)
    assert "| commits/s | offsetd, wire | offsetd, grpc.aio |" in text
    assert "| 64 callers, 1 partition | 21,000 | 5,000 | 15,000 |" in text


def test_tables_are_written_into_their_places_and_nothing_else_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    fleet_tables.write_into(page, FOUND)
    written = page.read_text()
    between = f"<!-- begin: fleet-tables -->\n\n{fleet_tables.tables_text(FOUND)}\n\n<!-- end"
    assert between in written
    assert fleet_tables.targets_text(FOUND) in written
    assert "| old |" not in written
    assert f"| {ROW} | grpc.aio 5,000 commits/s | etcd 13,000, Kafka 11,000 |" in written
    assert written.startswith("# A page\n\n")
    assert "\n\nBetween.\n\n" in written
    assert written.endswith("| another | 1 | 2 |\n")
    fleet_tables.write_into(page, FOUND)
    assert page.read_text() == written


def test_a_page_without_a_place_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n")
    for each in (page, tmp_path / "missing.md"):
        with pytest.raises(SystemExit):
            command.parsed(["--into", str(each)])
        assert f"{each} has no place for the tables of a fleet" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["README.md", "docs/performance.md", "docs/guides/beside-other-systems.md"]
)
def test_our_pages_have_places(name: str) -> None:
    assert fleet_tables.has_place(ROOT / name)


def test_results_without_a_fleet_are_not_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(SystemExit, match="no fleet was measured"):
        fleet_tables.write_into(page, attrs.evolve(FOUND, loops={}))
    assert page.read_text() == PAGE


def test_a_fleet_has_its_own_numbers_of_connections() -> None:
    plan = command.planned(command.parsed([]), Path("unused"))
    assert [(each.callers, each.partitions) for each in plan.works["fleet"]] == [
        *((1, 1), (64, 1), (256, 1), (1000, 1)),
        *((64, 50), (256, 50), (1000, 50)),
    ]
    assert {each.callers for each in plan.works["native"]} == {1, 64, 1024}


@pytest.mark.parametrize("is_there", [False, True])
def test_ours_runs_once_for_each_transport(
    is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "has_wire", lambda: is_there)
    found = Results(machine={}, versions={})
    names = fleet.servers_of(["offsetd", "bare"], found)
    if is_there:
        assert names == ["offsetd-wire", "offsetd-grpcio", "bare"]
        assert "transport=wire" in ours.WireServer(tmp_path).command()
        assert "transport=grpcio" in ours.GrpcioServer(tmp_path).command()
    else:
        assert names == ["offsetd-grpcio", "bare"]
        assert "is not installed" in found.left_out["offsetd-wire"]
        assert not [each for each in ours.GrpcioServer(tmp_path).command() if "transport" in each]


def test_servers_take_as_many_connections_as_a_fleet_has(tmp_path: Path) -> None:
    made = {
        name: kind(tmp_path / name, fleet.SETTINGS.get(name))
        for name, kind in {**contestants.SYSTEMS, **contestants.OUR_TRANSPORTS}.items()
    }
    assert "max.connections=2000" in made["offsetd-grpcio"].command()
    made["zookeeper"].folder.mkdir()
    made["zookeeper"].make()
    assert "maxClientCnxns=0\n" in (made["zookeeper"].folder / "zoo.cfg").read_text()
    assert made["postgresql"].settings == {"max_connections": "1100"}


def test_each_fleet_is_of_clients_that_combine_nothing(tmp_path: Path) -> None:
    servers: dict[str, Server] = {
        name: kind(tmp_path / name)
        for name, kind in {**contestants.SYSTEMS, **contestants.OUR_TRANSPORTS}.items()
        if name != "offsetd"
    }
    generators = {name: each.generator for name, each in fleet.fleets(servers).items()}
    assert generators == {
        "offsetd-wire": Fleet(client="offsetd-unary"),
        "offsetd-grpcio": Fleet(client="offsetd-unary"),
        "bare": Fleet(client="bare-unary"),
        **{name: Fleet(client=name) for name in targets.PEERS},
    }
    beside = fleet.streams(servers, works.MANY_CONNECTIONS)
    assert {name: each.generator for name, each in beside.items()} == {
        name: Native(client=name) for name in ("offsetd-naive", "offsetd")
    }
    assert fleet.streams(servers, works.MANY_PARTITIONS) == {}


def test_less_than_a_tick_of_a_process_counts() -> None:
    with subprocess.Popen(["sleep", "3600"]) as process:
        try:
            folder = Path(f"/proc/{process.pid}")
            deadline_s = time.monotonic() + PATIENCE_SECONDS
            while not server.cpu_s_of(folder):  # It may not have run yet.
                assert time.monotonic() < deadline_s
                time.sleep(0.01)
        finally:
            process.kill()
