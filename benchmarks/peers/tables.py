"""Shows results to users: in a terminal, and in Markdown."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.harness.rounds import Spread
from benchmarks.peers.contestants import SYSTEMS
from benchmarks.peers.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.peers.results import Results
    from benchmarks.peers.works import Measured

PARTS = {
    "fleet": "A fleet: each caller has a client and a connection of its own",
    "native": "Native clients (one generator in Go)",
    "python": "Python clients",
    "transport": "Beside the bare transport, server and generator on a core each",
}
_COLUMNS = (
    "",
    "commits/s (lowest to highest)",
    "p50 ms",
    "p99 ms",
    "fetch p50 ms",
    "server CPU s/M commits",
    "generator CPU s/M",
)
BYTES_UNIT = ", bytes"
_MIB = 1 << 20


def text(results: Results) -> str:
    """All results, for a terminal."""
    return "\n".join(_lines(results))


def _lines(results: Results) -> Iterator[str]:
    for part, works in results.loops.items():
        yield from ("", PARTS[part])
        for work, contestants in works.items():
            yield from ("", f"  {work}")
            rows = [_row(name, of_rounds) for name, of_rounds in contestants.items()]
            yield from (f"    {line}" for line in aligned([_COLUMNS, *rows]))
    if results.states:
        yield from ("", "Kept, and loaded again")
    for state, systems in results.states.items():
        yield from ("", f"  {shown_name(state)}")
        rows = [(name, shown(state, figures)) for name, figures in systems.items()]
        yield from (f"    {line}" for line in aligned(rows))
    yield from ("", "What it is to show (medians of rounds)", "")
    yield from (f"    {line}" for line in aligned(target_rows(results)))
    yield from _notes(results)


def _notes(results: Results) -> Iterator[str]:
    yield ""
    for name, version in results.versions.items():
        yield f"  {name}: {version}; acknowledged: {SYSTEMS[name].acknowledged}"
    for name, reason in results.left_out.items():
        yield f"  left out: {name}: {reason}"
    for failure in results.failed:
        yield f"  failed: {failure}"
    yield "  " + ", ".join(f"{name} {value}" for name, value in results.machine.items())


def target_rows(results: Results) -> list[tuple[str, ...]]:
    """The title, the figure, the limit and the verdict of each target."""
    rows: list[tuple[str, ...]] = [("", "found", "wanted", "")]
    for target in TARGETS:
        judged = target.judged(results)
        found = "-" if judged.found is None else str(judged.found)
        rows.append((target.title, found, judged.wanted, judged.verdict))
    return rows


def aligned(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Rows as lines with columns of one width, the first to the left, others to the right."""
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    for row in listed:
        first, *others = row
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()


def _row(name: str, of_rounds: list[Measured | None]) -> tuple[str, ...]:
    found = [each for each in of_rounds if each is not None]
    if not found:
        return (name, "failed", *[""] * (len(_COLUMNS) - 2))
    rates = Spread.of([each.commits_a_second for each in found])
    fetches = [each.fetch_p50_us for each in found]
    return (
        name,
        f"{rates.median:,.0f} ({rates.lowest:,.0f} to {rates.highest:,.0f})",
        _ms([each.p50_us for each in found]),
        _ms([each.p99_us for each in found]),
        _ms(fetches) if any(fetches) else "",
        f"{statistics.median(each.server_us for each in found):,.1f}",
        f"{statistics.median(each.generator_us for each in found):,.1f}",
    )


def _ms(microseconds: list[float]) -> str:
    return f"{statistics.median(microseconds) / 1000:,.2f}"


def shown_name(state: str) -> str:
    """The shown name of a state. Bytes are shown as MiB."""
    return state.replace(BYTES_UNIT, ", MiB")


def shown(state: str, figures: list[float | None]) -> str:
    """The spread of a state's figures."""
    scale = _MIB if state.endswith(BYTES_UNIT) else 1
    found = [each / scale for each in figures if each is not None]
    return str(Spread.of(found)) if found else "failed"


def measured_text(results: Results) -> str:
    """When, where and how often it was measured."""
    machine = results.machine
    where = f"{machine['cores']} cores ({machine['cpu']}), Linux {machine['kernel']}"
    pace = f"medians of {machine['rounds']} interleaved rounds of {machine['seconds']:g} s"
    if machine["scale"] != 1:
        pace += f"; only {machine['scale']:g} of the offsets"
    return f"Measured on {machine['date'][:10]}, {where}; {pace}"


def markdown(results: Results) -> str:
    """The date, the machine and two tables, as Markdown."""
    lines = [f"{measured_text(results)}.", ""]
    for part in ("native", "python"):
        lines += _markdown_rates(part, results)
    lines += ["| what | found | target | |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in target_rows(results)[1:]]
    return "\n".join([*lines, ""])


def _markdown_rates(part: str, results: Results) -> Iterator[str]:
    works = results.loops.get(part)
    if not works:
        return
    names = list(dict.fromkeys(name for contestants in works.values() for name in contestants))
    yield f"| {PARTS[part]}, commits/s | " + " | ".join(names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    for work, contestants in works.items():
        cells = []
        for name in names:
            found = [each.commits_a_second for each in contestants.get(name, []) if each]
            cells.append(f"{statistics.median(found):,.0f}" if found else "-")
        yield f"| {work} | " + " | ".join(cells) + " |"
    yield ""
