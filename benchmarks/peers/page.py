"""Results as a page with plots, by the reports of the pipeline."""

from __future__ import annotations

import statistics
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from offsetd_pipeline.reports import Finding, Level, Plot, Report, Section, Table, plots
from offsetd_pipeline.reports.writing import write_report

from benchmarks.peers import tables
from benchmarks.peers.targets import TARGETS

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.peers.results import Results
    from benchmarks.peers.works import Measured

_LEVELS = {"reached": Level.GOOD, "not reached": Level.WARNING}
_FIELDS = ("commits_a_second", "p50_us", "p99_us", "fetch_p50_us", "server_us", "generator_us")


def write_page(results: Results, folder: Path) -> Path:
    """Writes the page, its tables as Parquet, and each plot as an SVG; returns the page's path."""
    report = as_report(results)
    page = write_report(report, folder)
    for section in report.sections:
        for part in section.parts:
            if isinstance(part, Plot):
                name = "".join(each if each.isalnum() else "-" for each in part.title.lower())
                (folder / f"{name}.svg").write_text(part.svg)
    return page


def as_report(results: Results) -> Report:
    """Targets are its findings; each part of the run is a section."""
    sections = [_loops(part, works) for part, works in results.loops.items()]
    kept = tuple(
        Plot(
            title=tables.shown_name(state),
            svg=plots.bars(_medians(systems), unit="_bytes" if state.endswith("bytes") else ""),
        )
        for state, systems in results.states.items()
        if _medians(systems)
    )
    if kept:
        sections.append(Section(title="Kept, and loaded again", parts=kept))
    missing = [f"left out: {name}: {reason}" for name, reason in results.left_out.items()]
    return Report(
        title="offsetd beside its peers",
        time=datetime.fromisoformat(results.machine["date"]),
        facts={**results.machine, **results.versions},
        findings=(
            *_judged(results),
            *(Finding(Level.NOTE, text) for text in [*missing, *results.failed]),
        ),
        sections=tuple(sections),
    )


def _judged(results: Results) -> list[Finding]:
    findings = []
    for target in TARGETS:
        judged = target.judged(results)
        found = "not measured" if judged.found is None else str(judged.found)
        text = f"{target.title}: {found}; wanted {judged.wanted or 'nothing'}"
        findings.append(Finding(_LEVELS.get(judged.verdict, Level.NOTE), text))
    return findings


def _loops(part: str, works: dict[str, dict[str, list[Measured | None]]]) -> Section:
    rows = [
        {
            "work": work,
            "contestant": name,
            "round": number,
            **{field: getattr(each, field) for field in _FIELDS},
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
    rounds = Table(name=f"rounds-{part}", title="Every round", rows=pa.Table.from_pylist(rows))
    return Section(title=part, parts=(*drawn, rounds) if rows else ())


def _medians(systems: dict[str, list[float | None]]) -> dict[str, float]:
    return {
        name: statistics.median(found)
        for name, figures in systems.items()
        if (found := [each for each in figures if each is not None])
    }
