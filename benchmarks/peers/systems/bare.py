"""A bare `grpc.aio` server: the limit of the transport.

It takes the same messages as ours, looks at none, keeps nothing, and answers with ready-made bytes
of the size that ours answers with. As it comes, it is what a program in Python gets that says gRPC
through that library; tuned, with the one setting of gRPC that `offsetd serve` makes, none can be
faster message by message.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from offsetd_coordinator.commands.serve import GRPC_READS_ITSELF

from benchmarks.bytecode import BYTECODE, with_bytecode
from benchmarks.peers.server import Server

_PROGRAM = Path(__file__).parents[1] / "bare_server.py"


class BareServer(Server):
    """The program beside, on uvloop as ours is."""

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
    """The same, with one write and one `fdatasync` a call, and nothing else."""

    name = "bare-synced"
    acknowledged = "some bytes are written and fsynced, and never read"

    def command(self) -> list[str]:
        return [*super().command(), "synced"]


class TunedBareServer(BareServer):
    """The same, with the setting of gRPC that ours makes for itself."""

    name = "bare-tuned"

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **dict([GRPC_READS_ITSELF])}
