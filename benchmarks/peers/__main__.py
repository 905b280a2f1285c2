"""`python -m benchmarks.peers`: the same work by offsetd and by what people use instead."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from offsetd_storage.kernels.registry import warm

from benchmarks.peers import fleet, fleet_tables, generators, loops, states, tables, works
from benchmarks.peers.contestants import SYSTEMS, installed
from benchmarks.peers.estimate import estimated
from benchmarks.peers.generators import Pace
from benchmarks.peers.results import Results, this_machine
from benchmarks.peers.server import Unavailable

PARTS = ("fleet", "native", "python", "transport", "load", "disk")
CALLERS = ",".join(map(str, sorted({*works.CALLERS, *works.CONNECTIONS})))
_WARM_SHARE = 0.25


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="a work is measured (3)")
    parser.add_argument("--scale", type=float, default=1.0, help="of what is kept (1.0)")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="(%(default)s)")
    parser.add_argument("--parts", default=",".join(PARTS), help="(%(default)s)")
    parser.add_argument("--callers", default=CALLERS, help="closed loops (%(default)s)")
    parser.add_argument("--works", choices=works.SIDE_BY_SIDE, default="all", help="(%(default)s)")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="whose disk holds it all")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    parser.add_argument("--markdown", type=Path, help="also write tables as Markdown")
    parser.add_argument(
        "--into", type=Path, nargs="+", default=[], help="write the fleet's tables into these pages"
    )
    parser.add_argument("--page", type=Path, help="also write a page with plots to this folder")
    parser.add_argument("--from-json", type=Path, help="show these figures, measure nothing")
    options = parser.parse_args(arguments)
    options.systems, options.parts = options.systems.split(","), options.parts.split(",")
    options.callers = [int(each) for each in options.callers.split(",")]
    options.folder = options.folder.resolve()  # Servers run in other folders.
    if unknown := {*options.systems} - {*SYSTEMS} | {*options.parts} - {*PARTS}:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    for page in options.into:  # Before the minutes that it takes to measure.
        if not fleet_tables.has_place(page):
            parser.error(f"{page} has no place for the tables of a fleet")
    return options


def measured(options: argparse.Namespace) -> Results:
    """Measures; returns the results. Raises Unavailable if the generator cannot be built."""
    results = Results(machine=this_machine(), versions={})
    generators.build()
    warm()
    systems = installed(options.systems, results)
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix=".peers-") as name:
        plan = planned(options, Path(name))
        print(f"  {estimated(systems, options.parts, plan, options.scale)}", file=sys.stderr)
        run(systems, options, plan, results)
    results.machine.update(
        works=options.works,
        rounds=options.rounds,
        seconds=options.seconds,
        scale=options.scale,
        minutes=round((time.monotonic() - begun_s) / 60, 1),
    )
    return results


def planned(options: argparse.Namespace, folder: Path) -> loops.Plan:
    """The plan for the options of the command line."""
    return loops.Plan(
        rounds=options.rounds,
        pace=Pace(seconds=options.seconds, warm_s=options.seconds * _WARM_SHARE),
        folder=folder,
        works={
            part: tuple(work for work in of_part if work.callers in options.callers)
            for part, of_part in works.SIDE_BY_SIDE[options.works].items()
        },
    )


def run(
    systems: list[str], options: argparse.Namespace, plan: loops.Plan, results: Results
) -> None:
    """Runs each requested part."""
    sizes = states.Sizes.of(options.scale)
    if "fleet" in options.parts:
        fleet.run_fleet(systems, plan, results)
    if side_by_side := [part for part in options.parts if part in ("native", "python")]:
        loops.run_side_by_side(systems, side_by_side, plan, results)
    if "transport" in options.parts:
        loops.run_transport(plan, results)
    if "load" in options.parts:
        states.run_loads(systems, sizes, rounds=plan.rounds, folder=plan.folder, results=results)
    if "disk" in options.parts:
        states.run_disk(systems, sizes, folder=plan.folder, results=results)


def main(arguments: list[str] | None = None) -> None:
    """Measures, and shows the results."""
    options = parsed(arguments)
    if options.from_json:
        results = Results.from_json(json.loads(options.from_json.read_text()))
    else:
        try:
            results = measured(options)
        except Unavailable as unavailable:
            sys.exit(str(unavailable))
    print(tables.text(results))
    if options.json:
        options.json.write_text(json.dumps(results.as_json(), indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(tables.markdown(results))
    for page in options.into:
        fleet_tables.write_into(page, results)
    if options.page:
        from benchmarks.peers.page import write_page  # noqa: PLC0415  # matplotlib, only if asked

        print(f"\n{write_page(results, options.page)}")


if __name__ == "__main__":
    main()
