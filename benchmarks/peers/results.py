"""What a run has found, as plain values, and as JSON."""

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
"""Of each system, a figure a round; None where it failed."""


@attrs.define(kw_only=True)
class Results:
    """Parts and works by name. What is missing is not there, and `left_out` says why."""

    machine: dict[str, Any]
    versions: dict[str, str]  # Of each system that was run.
    left_out: dict[str, str] = attrs.Factory(dict)  # Of those that were not: why.
    failed: list[str] = attrs.Factory(list)  # Rounds without a figure: which, and why.
    loops: dict[str, dict[str, dict[str, list[Measured | None]]]] = attrs.Factory(dict)
    states: dict[str, Figures] = attrs.Factory(dict)

    def measured(self, part: str, work: object, contestant: str) -> list[Measured | None]:
        """A figure for each round; none if it was not run."""
        return self.loops.get(part, {}).get(str(work), {}).get(contestant, [])

    def field(self, part: str, work: object, contestant: str, name: str) -> list[float | None]:
        """One field of each of these."""
        of_rounds = self.measured(part, work, contestant)
        return [None if each is None else getattr(each, name) for each in of_rounds]

    def state(self, name: str, system: str) -> list[float | None]:
        """The figures of a state; none if it was not looked at."""
        return self.states.get(name, {}).get(system, [])

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Results:
        """What `as_json` made."""
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
    """What figures depend on, and the load before the run."""
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
