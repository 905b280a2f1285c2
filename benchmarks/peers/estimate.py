"""Roughly estimates the time of a run, from measurements on 2 cores. It is reported before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.peers.contestants import BARE, native_clients
from benchmarks.peers.states import LOADED_OFFSETS, OVERWRITES, WAIT_S

if TYPE_CHECKING:
    from benchmarks.peers.loops import Plan

# The time of a measurement in addition to its warm-up and its measured time: the program's start,
# its connections, late answers.
_CALL_S = {"fleet": 0.9, "native": 0.6, "python": 2.0}
_FLEET_START_S = 60.0  # All servers, the nodes of ZooKeeper, and the warm-up.
_TRANSPORT_CALLS = 8  # In a round: four works of two servers.
# A server's start to its first answer and its stop, and the offsets that it takes in a second.
_RESTART_S = {"kafka": 9.0, "zookeeper": 3.0, "offsetd": 3.0}
_RESTART_S_ELSE = 1.5
_OFFSETS_A_SECOND = {"redis": 600_000, "offsetd": 300_000, "etcd": 40_000}
_OFFSETS_A_SECOND_ELSE = 100_000


@attrs.frozen(kw_only=True)
class Estimate:
    """The estimated seconds, by the part of the run."""

    parts: dict[str, float]

    def __str__(self) -> str:
        of_parts = ", ".join(f"{part} {_minutes(took_s)}" for part, took_s in self.parts.items())
        return f"about {_minutes(sum(self.parts.values()))} minutes: {of_parts}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f}" if seconds >= 60 else "less than 1"


def estimated(systems: list[str], parts: list[str], plan: Plan, scale: float) -> Estimate:
    """The estimate for these parts and systems."""
    keeping = [name for name in systems if name != BARE]
    restarts_s = sum(_RESTART_S.get(name, _RESTART_S_ELSE) for name in keeping)
    offset_s = sum(1 / _OFFSETS_A_SECOND.get(name, _OFFSETS_A_SECOND_ELSE) for name in keeping)
    call_s = {part: plan.pace.seconds + plan.pace.warm_s + more for part, more in _CALL_S.items()}
    found = {
        "fleet": _calls("fleet", systems, plan) * plan.rounds * call_s["fleet"] + _FLEET_START_S,
        "native": _calls("native", systems, plan) * plan.rounds * call_s["native"],
        "python": _calls("python", systems, plan) * plan.rounds * call_s["python"],
        "transport": _TRANSPORT_CALLS * (plan.rounds + 1) * call_s["native"],
        "load": 2 * (plan.rounds + 1) * restarts_s + LOADED_OFFSETS * scale * offset_s,
        "disk": restarts_s + OVERWRITES * scale * offset_s + WAIT_S * min(1.0, scale),
    }
    return Estimate(parts={part: found[part] for part in parts})


def _calls(part: str, systems: list[str], plan: Plan) -> int:
    """The number of measurements in a round."""
    count = 0
    for name in systems:
        clients = {"native": len(native_clients(name)), "fleet": 1}.get(part, int(name != BARE))
        of_works = [work for work in plan.works[part] if not (work.fetch and name == BARE)]
        count += clients * len(of_works)
    return count
