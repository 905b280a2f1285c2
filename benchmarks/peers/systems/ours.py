"""offsetd with its default settings.

From Go, grpc-go is used with the code that it generates from our .proto files. There are three
clients. In `offsetd`, callers share a stream, which puts all waiting commits into one message, like
our clients. In `offsetd-stream`, they share four streams, with a message for each commit. In
`offsetd-unary`, they make calls on up to 64 connections. Fetches are calls in each case. From
Python, `AsyncOffsetClient` is used.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Self

from benchmarks.harness.bytecode import BYTECODE, with_bytecode
from benchmarks.harness.our_server import COMMAND
from benchmarks.peers.python_client import TOPIC, PythonClient
from benchmarks.peers.server import Server

if TYPE_CHECKING:
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
