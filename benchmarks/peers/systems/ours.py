"""offsetd with its default settings.

From Go, grpc-go is used with the code that it generates from our .proto files. There are four
clients. In `offsetd`, callers share a stream, which puts all waiting commits into one message, like
our clients. In `offsetd-naive`, they share a stream that sends what waits, and never waits for
more. In `offsetd-stream`, they share four streams, with a message for each commit. In
`offsetd-unary`, they make calls on up to 64 connections. Fetches are calls in each case. From
Python, `AsyncOffsetClient` is used.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Self

from benchmarks.harness.bytecode import BYTECODE, with_bytecode
from benchmarks.harness.our_server import COMMAND
from benchmarks.peers.python_client import TOPIC, PythonClient
from benchmarks.peers.server import Server, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from offsetd_clients import AsyncOffsetClient


class OffsetdServer(Server):
    """`offsetd serve` of this checkout."""

    name = "offsetd"
    acknowledged = "fsynced"

    @classmethod
    def find(cls) -> str:
        return f"offsetd {version('offsetd')}"

    def environment(self) -> dict[str, str]:
        return with_bytecode(BYTECODE)

    def command(self) -> list[str]:
        command = [sys.executable, "-c", COMMAND, "serve", "--listen", self.address]
        command += ["--data-dir", str(self.folder / "offsets")]
        for name, value in {"metrics.address": "", **self.settings}.items():
            command += ["--set", f"{name}={value}"]
        return command


class GrpcioServer(OffsetdServer):
    """`offsetd serve` on grpc.aio, also where the native transport is installed."""

    name = "offsetd-grpcio"

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        transport = {"transport": "grpcio"} if has_wire() else {}  # Without it there is no other.
        super().__init__(folder, {**transport, **(settings or {})})


class WireServer(OffsetdServer):
    """`offsetd serve` on the native transport, the extra `wire`."""

    name = "offsetd-wire"

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, {"transport": "wire", **(settings or {})})

    @classmethod
    def find(cls) -> str:
        if not has_wire():
            raise Unavailable("the native transport, the package offsetd-wire, is not installed")
        return super().find()


def has_wire() -> bool:
    """Whether the native transport is installed."""
    return find_spec("offsetd_wire") is not None


class OffsetdClient(PythonClient):
    """Our own client."""

    def __init__(self, client: AsyncOffsetClient) -> None:
        self._client = client

    @classmethod
    async def connect(cls, address: str, callers: int) -> Self:
        from offsetd_clients import AsyncOffsetClient

        return cls(AsyncOffsetClient(address))

    async def commit(self, caller: int, group: str, partitions: int, offset: int) -> None:
        from offsetd_clients import TopicPartition

        offsets = {TopicPartition(TOPIC, each): offset for each in range(partitions)}
        await self._client.commit(group, offsets)

    async def fetch(self, caller: int, group: str, partitions: int) -> list[int]:
        return [each.offset for each in (await self._client.fetch(group)).values()]

    async def close(self) -> None:
        await self._client.close()
