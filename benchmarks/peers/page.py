"""Writes the results as a page with plots, with the reports of the pipeline."""

from __future__ import annotations

import re
import statistics
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from offsetd_pipeline.reports import Finding, Level, Plot, Report, Section, Table, plots
from offsetd_pipeline.reports.writing import write_report

from benchmarks.peers import tables
from benchmarks.peers.targets import SYNC, TARGETS

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.peers.results import Results
    from benchmarks.peers.works import Measured

_LEVELS = {"reached": Level.GOOD, "not reached": Level.WARNING}
# The column names of the tables. They are short, so that nine columns fit next to each other.
_COLUMNS = {
    "commits/s": "commits_a_second",
    "p50 µs": "p50_us",
    "p99 µs": "p99_us",
    "fetch µs": "fetch_p50_us",
    "server µs": "server_us",
    "load µs": "generator_us",
}
_ROUNDS_NOTE = (
    "Microseconds: latencies of a commit, the median of a fetch, and the CPU that the server and "
    "the load generator have used for a commit."
)


def write_page(results: Results, folder: Path) -> Path:
    """Writes the page, its tables as Parquet, and each plot as an SVG; returns the page's path."""
    report = as_report(results)
    page = write_report(report, folder)
    for section in report.sections:
        for part in section.parts:
            if isinstance(part, Plot):
                (folder / f"{svg_name(part.title)}.svg").write_text(part.svg)
    return page


def svg_name(title: str) -> str:
    """A plot's title as the name of a file: `native-64-callers-50-partitions`."""
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")


def as_report(results: Results) -> Report:
    """Makes a report. Targets are its findings; each part of the run is a section."""
    sections = [_loops(part, works) for part, works in results.loops.items()]
    kept = tuple(
        Plot(
            title=state.removesuffix(tables.BYTES_UNIT),  # Each bar has its own unit.
            svg=plots.bars(_medians(systems), unit="_bytes" if state.endswith("bytes") else ""),
        )
        for state, systems in results.states.items()
        if state != SYNC and _medians(systems)
    )
    if kept:
        sections.append(Section(title="Kept, and loaded again", parts=kept))
    missing = [f"left out: {name}: {reason}" for name, reason in results.left_out.items()]
    return Report(
        title="offsetd beside its peers",
        time=datetime.fromisoformat(results.machine["date"]),
        facts=_facts(results),
        findings=(
            *_judged(results),
            *(Finding(Level.NOTE, text) for text in [*missing, *results.failed]),
        ),
        sections=tuple(sections),
    )


def _facts(results: Results) -> dict[str, object]:
    facts = {name: value for name, value in results.machine.items() if name != "date"}
    syncs = results.state(SYNC, "disk")
    if syncs:
        facts[SYNC] = tables.shown(SYNC, syncs)
    return {**facts, **results.versions}


def _judged(results: Results) -> list[Finding]:
    findings = []
    for target in TARGETS:
        judged = target.judged(results)
        found = "not measured" if judged.found is None else str(judged.found)
        wanted = f"; wanted {judged.wanted}" if judged.wanted else ""
        text = f"{target.title}: {found}{wanted}"
        findings.append(Finding(_LEVELS.get(judged.verdict, Level.NOTE), text))
    return findings


def _loops(part: str, works: dict[str, dict[str, list[Measured | None]]]) -> Section:
    rows = [
        {
            "work": work,
            "contestant": name,
            "round": number,
            **{column: getattr(each, field) or None for column, field in _COLUMNS.items()},
        }
        for work, contestants in works.items()
        for name, of_rounds in contestants.items()
        for number, each in enumerate(of_rounds, 1)
        if each is not None
    ]
    rates = {
        work: {
            name: statistics.median(found)
            for name, of_rounds in contestants.items()
            if (found := [each.commits_a_second for each in of_rounds if each is not None])
        }
        for work, contestants in works.items()
    }
    drawn = [
        Plot(title=f"{part}, {work}: commits a second", svg=plots.bars(of_work))
        for work, of_work in rates.items()
        if of_work
    ]
    rounds = Table(
        name=f"rounds-{part}",
        title="Every round",
        rows=pa.Table.from_pylist(rows),
        note=_ROUNDS_NOTE,
    )
    return Section(title=tables.PARTS[part], parts=(*drawn, rounds) if rows else ())


def _medians(systems: dict[str, list[float | None]]) -> dict[str, float]:
    return {
        name: statistics.median(found)
        for name, figures in systems.items()
        if (found := [each for each in figures if each is not None])
    }
