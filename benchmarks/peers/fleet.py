"""Runs the part `fleet`: independent clients, each with a connection and one call at a time.

That is how most consumers run: one program each. No client can gather the commits of others, and
none has a second call under way. Beside the fleets, as many callers of one program share a stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.peers import loops, works
from benchmarks.peers.contestants import (
    BARE,
    OUR_TRANSPORTS,
    installed,
    native_clients,
    serving,
)
from benchmarks.peers.generators import Fleet, Native
from benchmarks.peers.results import OURS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.peers.loops import Contestant, Plan
    from benchmarks.peers.results import Results
    from benchmarks.peers.server import Server
    from benchmarks.peers.works import Work

PART: Final = "fleet"
WIRE: Final = "offsetd-wire"
GRPCIO: Final = "offsetd-grpcio"
# Callers of one program on one stream, which does not wait for more commits, or which does.
NAIVE: Final = "offsetd-naive"
GATHERING: Final = "offsetd"
# By default these allow fewer connections, or fewer from one address, than a fleet has here.
SETTINGS: Final = {
    **{name: {"max.connections": "2000"} for name in OUR_TRANSPORTS},
    "zookeeper": {"maxClientCnxns": "0"},
    "postgresql": {"max_connections": "1100"},
}


def run_fleet(systems: list[str], plan: Plan, results: Results) -> None:
    """Runs each work of a fleet, on servers that all run at the same time."""
    folder = plan.folder / PART
    folder.mkdir()
    names = servers_of(systems, results)
    with serving(names, folder, results, settings=SETTINGS) as servers:
        for name in loops.prepared(servers, results):
            servers.pop(name)
        contestants = fleets(servers)
        for work in (works.MANY_CONNECTIONS, works.MANY_PARTITIONS):
            loops.warm(contestants, work, plan, results)
        for work in plan.works[PART]:
            loops.interleave(PART, work, {**contestants, **streams(servers, work)}, plan, results)


def servers_of(systems: list[str], results: Results) -> list[str]:
    """The servers of the part: ours once for each transport that is here, and the others."""
    ours = installed(OUR_TRANSPORTS, results) if OURS in systems else []
    return [*ours, *(name for name in systems if name != OURS)]


def fleets(servers: Mapping[str, Server]) -> dict[str, Contestant]:
    """The contestants: each caller is a client of its own, without pipelines and streams."""
    clients = {name: native_clients(name)[0] for name in servers} | {BARE: "bare-unary"}
    return {
        name: loops.Contestant(server=server, generator=Fleet(client=clients[name]))
        for name, server in servers.items()
    }


def streams(servers: Mapping[str, Server], work: Work) -> dict[str, Contestant]:
    """The contestants that are not a fleet: callers of one program on one stream to ours."""
    if GRPCIO not in servers or work.callers == 1 or work.partitions > 1:
        return {}
    return {
        client: loops.Contestant(server=servers[GRPCIO], generator=Native(client=client))
        for client in (NAIVE, GATHERING)
    }
