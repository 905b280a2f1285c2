"""Peers that send without end what HTTP/2 allows: nothing of them is left, and others are served.

What a real server holds in memory meanwhile is in `tests/fault/test_wire_floods.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import flood_attacks
import grpc.aio
import pytest
from attacks import Attack
from patience import PATIENCE_SECONDS
from transport.echo_server import SERVICE, serving

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("offsetd_wire", reason="offsetd-wire is not installed")

OPTIONS = (("grpc.server_handshake_timeout_ms", 1000),)
PROGRAMS = flood_attacks.programs(f"/{SERVICE}/ServerStream", b"100000")


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", PROGRAMS)
async def test_others_are_served_and_no_task_is_left(name: str) -> None:
    servers: list[Any] = []
    async with serving("wire", options=OPTIONS, servers=servers) as port:
        tasks = len(asyncio.all_tasks())
        attack = Attack(f"127.0.0.1:{port}", 2, PROGRAMS[name], flood_attacks.connect(name))
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary(f"/{SERVICE}/Unary")
            until = asyncio.get_running_loop().time() + flood_attacks.FLOOD_SECONDS / 2
            while asyncio.get_running_loop().time() < until:
                assert await call(b"served", timeout=PATIENCE_SECONDS) == b"served"
        await asyncio.to_thread(attack.__exit__, None, None, None)
        await _until(lambda: not servers[0].connections)
        await _until(lambda: len(asyncio.all_tasks()) <= tasks)
