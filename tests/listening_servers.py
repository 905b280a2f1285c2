"""Servers of the process that runs the test, on simulated disks, that are talked to over gRPC."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import grpc.aio
from offsetd_coordinator.configuration.settings_sources import load_settings
from offsetd_coordinator.server import Server
from offsetd_storage.clock import SystemClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class ListeningServer(NamedTuple):
    """A server that listens, be it loaded or not."""

    server: Server
    life: asyncio.Future[None]
    channel: grpc.aio.Channel


@asynccontextmanager
async def listening(*assignments: str) -> AsyncIterator[ListeningServer]:
    """A server with these settings. In the end it is stopped, and its port closed."""
    settings = load_settings(
        assignments=[
            "data.dir=/offsets",
            "listen.address=127.0.0.1:0",
            "metrics.address=",
            "logging.cleaner.file=",
            "offsets.topic.num.partitions=1",
            "journal.file.bytes=4194304",
            *assignments,
        ]
    )
    server = Server(settings, files=SimulatedFiles(), clock=SystemClock(), random=Random(1))
    life = asyncio.ensure_future(server.run())
    await server.listening.wait()
    try:
        async with grpc.aio.insecure_channel(server.node.address) as channel:
            yield ListeningServer(server, life, channel)
        server.stop()
        await asyncio.wait_for(life, PATIENCE_SECONDS)
    finally:
        life.cancel()
        await server.close_port()
