"""A real server under peers that send without end what HTTP/2 allows, on the transport `wire`."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import flood_attacks
import pytest
from attacks import COMMIT_PATH, FETCH_PATH, Attack, fetch, never_ended
from fault.test_attacks import (
    BUDGET_BYTES,
    LEFT_BYTES,
    MESSAGE_BYTES,
    MIB,
    OFFSETS,
    WAIT_SECONDS,
    HonestClient,
    commit,
    forget_peak,
    memory_bytes,
    sockets,
)
from raw_http2 import RawConnection
from server_process import ServerProcess, Stubs, poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytest.importorskip("offsetd_wire", reason="offsetd-wire is not installed")

SETTINGS = {
    "transport": "wire",
    "queued.max.request.bytes": BUDGET_BYTES,
    "connection.handshake.max.ms": 2000,
}
PROGRAMS = flood_attacks.programs(FETCH_PATH, fetch("large"))
BESIDE_BYTES = 64 * MIB


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("server")
    with ServerProcess(folder, settings=SETTINGS) as process:
        process.wait_until_serving()
        with process.channel() as channel:
            for first in range(0, OFFSETS, 5000):
                commit(Stubs(channel), "large", 5000, first)
        yield process


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_bounded_others_are_served_and_nothing_is_left(
    server: ServerProcess, name: str
) -> None:
    _endure(server, PROGRAMS[name], flood_attacks.connect(name))


def test_messages_of_many_connections_that_never_end_stay_within_the_budget(
    server: ServerProcess,
) -> None:
    """Without a bound they would be 6 GiB."""
    program = never_ended(COMMIT_PATH, MESSAGE_BYTES, MESSAGE_BYTES - 1, 24)
    _endure(server, program, partial(RawConnection, window=0), connections=64)


def _endure(
    server: ServerProcess,
    program: Callable[[RawConnection], None],
    connect: Callable[[str], RawConnection],
    *,
    connections: int = 4,
) -> None:
    before, sockets_before = memory_bytes(server, "VmRSS"), sockets(server)
    forget_peak(server)
    with HonestClient(server) as honest:
        with Attack(server.address, connections, program, connect):
            time.sleep(flood_attacks.FLOOD_SECONDS)
            commits = honest.commits
            poll(lambda: honest.commits > commits, WAIT_SECONDS, server)
        commits = honest.commits
        poll(lambda: honest.commits > commits, WAIT_SECONDS, server)
    grown = memory_bytes(server, "VmHWM") - before
    assert grown <= BUDGET_BYTES + BESIDE_BYTES, f"{grown >> 20} MiB"
    poll(lambda: sockets(server) <= sockets_before, WAIT_SECONDS, server)
    poll(lambda: memory_bytes(server, "VmRSS") - before <= LEFT_BYTES, WAIT_SECONDS, server)
