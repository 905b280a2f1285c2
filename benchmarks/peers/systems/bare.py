"""A bare `grpc.aio` server: the limit of the transport.

It takes the same messages as ours, parses none, stores nothing, and answers with prepared bytes of
the size of our answers. The untuned server shows the speed of a Python program that uses this gRPC
library. The tuned one has the one gRPC setting of `offsetd serve`: no server with this library can
handle single messages faster.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from offsetd_coordinator.commands.serve import GRPC_READS_ITSELF

from benchmarks.harness.bytecode import BYTECODE, with_bytecode
from benchmarks.peers.server import Server

_PROGRAM = Path(__file__).parents[1] / "bare_server.py"


class BareServer(Server):
    """Runs `bare_server.py`, on uvloop like ours."""

    name = "bare"
    acknowledged = "nothing is kept"
    is_durable = False

    @classmethod
    def find(cls) -> str:
        return f"grpcio {version('grpcio')}"

    def environment(self) -> dict[str, str]:
        return with_bytecode(BYTECODE)

    def command(self) -> list[str]:
        return [sys.executable, str(_PROGRAM), str(self.port)]


class SyncedBareServer(BareServer):
    """A bare server that makes one write and one `fdatasync` for each call."""

    name = "bare-synced"
    acknowledged = "some bytes are written and fsynced, and never read"

    def command(self) -> list[str]:
        return [*super().command(), "synced"]


class TunedBareServer(BareServer):
    """A bare server with the gRPC setting of our server."""

    name = "bare-tuned"

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **dict([GRPC_READS_ITSELF])}
