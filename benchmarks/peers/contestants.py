"""The systems that run, and the clients that call each."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from benchmarks.peers.server import Server, Unavailable
from benchmarks.peers.systems import bare, etcd, kafka, ours, postgresql, redis, zookeeper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from benchmarks.peers.results import Results

SYSTEMS: dict[str, type[Server]] = {
    each.name: each
    for each in (
        ours.OffsetdServer,
        bare.BareServer,
        kafka.KafkaServer,
        etcd.EtcdServer,
        zookeeper.ZooKeeperServer,
        postgresql.PostgreSQLServer,
        redis.RedisServer,
    )
}
BARE = bare.BareServer.name
# These run only in the part `transport`.
SYNCED_BARE = bare.SyncedBareServer.name
TUNED_BARE = bare.TunedBareServer.name
_OF_TRANSPORT = {each.name: each for each in (bare.SyncedBareServer, bare.TunedBareServer)}
# These run only in the part `fleet`.
OUR_TRANSPORTS: dict[str, type[Server]] = {
    each.name: each for each in (ours.WireServer, ours.GrpcioServer)
}
# Clients of the native generator whose names differ from that of the system.
NATIVE_CLIENTS = {
    BARE: ("bare-stream", "bare-unary"),
    redis.RedisServer.name: ("redis", "redis-pipelined"),
    ours.WireServer.name: ("offsetd-unary",),
    ours.GrpcioServer.name: ("offsetd-unary",),
}


def native_clients(system: str) -> tuple[str, ...]:
    """The native generator's clients for a system. The first one also prepares it."""
    return NATIVE_CLIENTS.get(system, (system,))


def installed(names: Iterable[str], results: Results) -> list[str]:
    """The systems that can be run here. For each of the others, reports and notes the reason."""
    found = []
    for name in names:
        try:
            version = {**SYSTEMS, **OUR_TRANSPORTS}[name].find()
        except Unavailable as unavailable:
            results.left_out[name] = str(unavailable)
            print(f"  without {name}: {unavailable}", file=sys.stderr)
        else:
            found.append(name)
            if name in SYSTEMS:
                results.versions[name] = version
    return found


@contextlib.contextmanager
def serving(
    names: Iterable[str],
    folder: Path,
    results: Results,
    *,
    core: int | None = None,
    settings: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[dict[str, Server]]:
    """Runs all servers, on new folders in `folder`. A server that does not start is left out.

    `settings` are those that a part changes, by the name of the server.
    """
    kinds = {**SYSTEMS, **_OF_TRANSPORT, **OUR_TRANSPORTS}
    with contextlib.ExitStack() as stack:
        servers: dict[str, Server] = {}
        for name in names:
            server = kinds[name](folder / name, (settings or {}).get(name))
            try:
                stack.enter_context(server.running(core=core))
            except RuntimeError as failure:
                leave_out(results, name, failure)
            else:
                servers[name] = server
        yield servers


def leave_out(results: Results, name: str, failure: Exception) -> None:
    """Reports and notes that a system's later figures are missing."""
    results.left_out[name] = str(failure)
    print(f"  without {name}: {failure}", file=sys.stderr)


def new_server(name: str, folder: Path, settings: Mapping[str, str] | None = None) -> Server:
    """A system's server, which is not started."""
    return SYSTEMS[name](folder, settings)
