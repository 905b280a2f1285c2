"""The tables of the part `fleet` as Markdown, and the pages that have a place for them.

A page marks a place with two comments, `<!-- begin: fleet-tables -->` and `<!-- end: fleet-tables
-->`. A table of the README has rows of the fleet, which are found by their first cell.
"""

from __future__ import annotations

import re
import statistics
import sys
from typing import TYPE_CHECKING, Final

from benchmarks.peers import tables, targets, works
from benchmarks.peers.fleet import GATHERING, GRPCIO, NAIVE, PART, WIRE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from benchmarks.peers.results import Results
    from benchmarks.peers.works import Work

HEADS: Final = {
    WIRE: "offsetd, wire",
    GRPCIO: "offsetd, grpc.aio",
    "kafka": "Kafka",
    "redis": "Redis",
    "etcd": "etcd",
    "zookeeper": "ZooKeeper",
    "postgresql": "PostgreSQL",
    "bare": "bare grpc.aio",
}
_STREAMS: Final = {
    NAIVE: "one stream, sends what waits",
    GATHERING: "one stream, gathers",
}
_README_WORKS: Final = {
    f"{connections:,} programs, a connection each, 1 partition a commit": works.Work(
        callers=connections, partitions=1
    )
    for connections in (64, 1000)
}


def tables_text(results: Results) -> str:
    """When and where it was measured, rates, CPU, and the streams beside it."""
    machine = results.machine
    busy = f"the load was {machine['load_before'][0]:.1f} before"
    lines = [f"{tables.measured_text(results)}; {busy}.", ""]
    lines += [
        f"Without {HEADS.get(name, name)}: {reason}.\n" for name, reason in results.left_out.items()
    ]
    rates = {named(work): _figures(results, work, targets.RATE, 1) for work in works.FLEET}
    lines += [*_rows("commits/s", HEADS, rates), ""]
    cpu = {named(work): _figures(results, work, "server_us", 1) for work in works.FLEET}
    lines += [*_rows("server CPU for one commit, µs", HEADS, cpu), ""]
    waits = {
        f"{named(work)}: {what}": _figures(results, work, field, 1000)
        for work in (works.ONE, works.Work(callers=1000, partitions=1))
        for what, field in (("p50", "p50_us"), ("p99", "p99_us"))
    }
    lines += [*_rows("a call takes, ms", HEADS, waits, digits=2), ""]
    lines += _streams_rows(results)
    return "\n".join(lines)


def _streams_rows(results: Results) -> list[str]:
    heads = {
        name: f"a connection each, {HEADS[name].partition(', ')[2]}" for name in (WIRE, GRPCIO)
    }
    of_works = {
        f"{work.callers:,} callers, 1 partition": _figures(results, work, targets.RATE, 1)
        for work in works.FLEET
        if work.callers > 1 and work.partitions == 1
    }
    return list(_rows("offsetd, commits/s", {**heads, **_STREAMS}, of_works))


def named(work: Work) -> str:
    """The work's name in a fleet, where each caller has a connection."""
    return str(work).replace("caller", "connection")


def _figures(results: Results, work: Work, field: str, unit: int) -> Callable[[str], float | None]:
    def median(name: str) -> float | None:
        found = [each for each in results.field(PART, work, name, field) if each is not None]
        return statistics.median(found) / unit if found else None

    return median


def _rows(
    what: str,
    heads: dict[str, str],
    of_works: dict[str, Callable[[str], float | None]],
    *,
    digits: int = 0,
) -> Iterator[str]:
    """A Markdown table, without the columns and rows that have no figure."""
    cells = {
        row: {name: found for name in heads if (found := figure(name)) is not None}
        for row, figure in of_works.items()
    }
    shown = [name for name in heads if any(name in of_row for of_row in cells.values())]
    yield f"| {what} | " + " | ".join(heads[name] for name in shown) + " |"
    yield "|---" * (len(shown) + 1) + "|"
    for row, of_row in cells.items():
        if of_row:
            told = [f"{of_row[name]:,.{digits}f}" if name in of_row else "-" for name in shown]
            yield f"| {row} | " + " | ".join(told) + " |"


def targets_text(results: Results) -> str:
    """The ratios of the fleet, and their limits."""
    rows = [row for row in tables.target_rows(results)[1:] if row[0].startswith(targets.FLEET)]
    lines = ["| what | found | target | |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


_PLACES: Final = {"fleet-tables": tables_text, "fleet-targets": targets_text}


def has_place(page: Path) -> bool:
    """Whether tables or rows of the fleet belong into the page."""
    text = page.read_text() if page.is_file() else ""
    return any(_place(name).search(text) for name in _PLACES) or any(
        f"| {row} |" in text for row in _README_WORKS
    )


def write_into(page: Path, results: Results) -> None:
    """Writes the tables and rows into each of their places in the page."""
    if PART not in results.loops:
        sys.exit(f"{page} stays as it is: no fleet was measured")
    text = page.read_text()
    for name, made in _PLACES.items():
        if found := _place(name).search(text):
            before, after = text[: found.start(1)], text[found.end(1) :]
            text = f"{before}\n{made(results)}\n\n{after}"
    lines = [_readme_row(line, results) for line in text.splitlines()]
    page.write_text("\n".join(lines) + "\n")


def _place(name: str) -> re.Pattern[str]:
    return re.compile(f"<!-- begin: {name} -->\n(.*?)<!-- end: {name} -->", re.DOTALL)


def _readme_row(line: str, results: Results) -> str:
    title = line.removeprefix("| ").partition(" |")[0]
    if title not in _README_WORKS:
        return line
    figure = _figures(results, _README_WORKS[title], targets.RATE, 1)
    found = {name: rate for name in HEADS if (rate := figure(name)) is not None}
    ours = [name for name in (WIRE, GRPCIO) if name in found]
    fastest_first = sorted(
        (name for name in found if name not in {*ours, "bare"}), key=lambda name: -found[name]
    )
    cells = [
        ", ".join(f"{HEADS[name].partition(', ')[2]} {found[name]:,.0f}" for name in ours),
        ", ".join(f"{HEADS[name]} {found[name]:,.0f}" for name in fastest_first),
    ]
    return f"| {title} | {cells[0]} commits/s | {cells[1]} |"
