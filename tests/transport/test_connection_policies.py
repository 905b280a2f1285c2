"""What ends a connection of the transport `wire` although nobody hung up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
import pytest
from certificates import Authority
from patience import PATIENCE_SECONDS
from raw_http2 import PING, SETTINGS, RawConnection, call_headers, frame
from transport.echo_server import SERVICE, serving

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("offsetd_wire", reason="offsetd-wire is not installed")

PATH: Final = f"/{SERVICE}/Unary"
ENHANCE_YOUR_CALM: Final = 11
MADE: Final = frame(PING, 0, 0, bytes(8))


async def _raw(port: int, work: Callable[[RawConnection], Any]) -> Any:
    def run() -> Any:
        with contextlib.closing(RawConnection(f"127.0.0.1:{port}")) as connection:
            return work(connection)

    return await asyncio.to_thread(run)


def _call(connection: RawConnection, stream_id: int) -> None:
    connection.open_call(stream_id, call_headers(PATH))
    connection.send_message(stream_id, b"served", end=True)
    connection.wait_for_end(stream_id)


async def test_the_third_ping_that_comes_too_early_ends_the_connection() -> None:
    def work(connection: RawConnection) -> Any:
        connection.send(MADE * 3)
        _call(connection, 1)  # It still serves, and its answer forgives the strikes.
        connection.send(MADE * 3)
        time.sleep(0.2)
        assert not connection.is_gone(0)
        connection.send(MADE)
        told = connection.wait_for_go_away()
        assert connection.is_gone(PATIENCE_SECONDS)
        return told

    async with serving("wire", options=(("grpc.keepalive_permit_without_calls", 1),)) as port:
        assert await _raw(port, work) == (ENHANCE_YOUR_CALM, b"too_many_pings")


@pytest.mark.parametrize(
    "options",
    [
        {"http2.max_ping_strikes": 0},
        {"http2.min_ping_interval_without_data_ms": 0, "keepalive_permit_without_calls": 1},
    ],
)
async def test_pings_that_are_allowed_end_nothing(options: dict[str, int]) -> None:
    def work(connection: RawConnection) -> None:
        connection.send(MADE * 1000)
        _call(connection, 1)

    named = tuple((f"grpc.{name}", value) for name, value in options.items())
    async with serving("wire", options=named) as port:
        await _raw(port, work)


async def test_settings_that_change_too_often_end_the_connection() -> None:
    def work(connection: RawConnection) -> Any:
        connection.send(frame(SETTINGS, 0, 0) * 99)  # One came with the preface.
        _call(connection, 1)
        connection.send(frame(SETTINGS, 0, 0))
        return connection.wait_for_go_away()

    async with serving("wire") as port:
        assert await _raw(port, work) == (ENHANCE_YOUR_CALM, b"too_many_settings")


async def test_connections_do_not_all_reach_their_age_at_once() -> None:
    servers: list[Any] = []
    options = (("grpc.max_connection_age_ms", 10_000),)
    async with serving("wire", options=options, servers=servers) as port:
        with contextlib.ExitStack() as opened:
            for _ in range(20):
                opened.enter_context(contextlib.closing(RawConnection(f"127.0.0.1:{port}")))
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(servers[0].connections) < 20:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            ages = [each.age_ms_max for each in servers[0].connections]
    assert all(9_000 <= each <= 11_000 for each in ages)
    assert max(ages) - min(ages) > 100


async def test_handshakes_count_as_connections_and_end_in_time() -> None:
    authority = Authority("an authority")
    context = authority.issue("server").server_context()
    options = (
        ("grpc.max_allowed_incoming_connections", 3),
        ("grpc.server_handshake_timeout_ms", 2000),
    )
    credentials = grpc.ssl_channel_credentials(authority.pem)
    async with serving("wire", options=options, tls=context) as port:
        opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        await asyncio.sleep(0.2)
        beyond = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        assert await asyncio.to_thread(_is_ended, beyond)
        opened[0].settimeout(0.01)
        with pytest.raises(TimeoutError):
            opened[0].recv(1)
        for each in opened:
            each.settimeout(PATIENCE_SECONDS)
            assert await asyncio.to_thread(_is_ended, each)
        async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
            call = channel.unary_unary(PATH)
            assert await call(b"served", wait_for_ready=True, timeout=PATIENCE_SECONDS) == b"served"
        for each in (*opened, beyond):
            each.close()


def _is_ended(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except ConnectionError:
        return True
