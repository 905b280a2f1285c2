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
# Clients of the native generator whose names differ from that of the system.
NATIVE_CLIENTS = {
    BARE: ("bare-stream", "bare-unary"),
    redis.RedisServer.name: ("redis", "redis-pipelined"),
}


def native_clients(system: str) -> tuple[str, ...]:
    """The native generator's clients for a system. The first one also prepares it."""
    return NATIVE_CLIENTS.get(system, (system,))


def installed(names: Iterable[str], results: Results) -> list[str]:
    """The systems that can be run here. For each of the others, reports and notes the reason."""
    found = []
    for name in names:
        try:
            results.versions[name] = SYSTEMS[name].find()
        except Unavailable as unavailable:
            results.left_out[name] = str(unavailable)
            print(f"  without {name}: {unavailable}", file=sys.stderr)
        else:
            found.append(name)
    return found


@contextlib.contextmanager
def serving(
    names: Iterable[str], folder: Path, results: Results, *, core: int | None = None
) -> Iterator[dict[str, Server]]:
    """Runs all servers, on new folders in `folder`. A server that does not start is left out."""
    with contextlib.ExitStack() as stack:
        servers: dict[str, Server] = {}
        for name in names:
            server = (_OF_TRANSPORT.get(name) or SYSTEMS[name])(folder / name)
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
