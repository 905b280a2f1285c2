"""The results of a run, as plain values, and as JSON."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks.peers.works import Measured

OURS: Final = "offsetd"
Figures = dict[str, list[float | None]]
"""For each system, a figure a round; None if the round failed."""


@attrs.define(kw_only=True)
class Results:
    """The results by the names of parts and works. `left_out` says why systems are missing."""

    machine: dict[str, Any]
    versions: dict[str, str]  # The version of each system that was run.
    left_out: dict[str, str] = attrs.Factory(dict)  # The reason for each system that was not run.
    failed: list[str] = attrs.Factory(list)  # The rounds without a figure, with the reason.
    loops: dict[str, dict[str, dict[str, list[Measured | None]]]] = attrs.Factory(dict)
    states: dict[str, Figures] = attrs.Factory(dict)

    def measured(self, part: str, work: object, contestant: str) -> list[Measured | None]:
        """A figure for each round; empty if the contestant was not run."""
        return self.loops.get(part, {}).get(str(work), {}).get(contestant, [])

    def field(self, part: str, work: object, contestant: str, name: str) -> list[float | None]:
        """One field of each figure of `measured`."""
        of_rounds = self.measured(part, work, contestant)
        return [None if each is None else getattr(each, name) for each in of_rounds]

    def state(self, name: str, system: str) -> list[float | None]:
        """The figures of a state; empty if it was not measured."""
        return self.states.get(name, {}).get(system, [])

    def as_json(self) -> dict[str, Any]:
        """The results as plain values for JSON."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Results:
        """Results from the values that `as_json` made."""
        loops = {
            part: {
                work: {
                    contestant: [None if each is None else Measured(**each) for each in of_rounds]
                    for contestant, of_rounds in contestants.items()
                }
                for work, contestants in works.items()
            }
            for part, works in values["loops"].items()
        }
        return cls(**{**values, "loops": loops})


def this_machine() -> dict[str, Any]:
    """The properties of the machine that figures depend on, and its load before the run."""
    cpus = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpus[0] if cpus else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": os.getloadavg(),
    }
