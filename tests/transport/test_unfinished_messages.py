"""Messages that have begun and are not whole: what they hold is bounded, and all can end."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from typing import TYPE_CHECKING, Any, Final

import flood_attacks
import grpc
import grpc.aio
import pytest
from attacks import Attack, never_ended
from patience import PATIENCE_SECONDS
from raw_http2 import RawConnection, call_headers
from transport.echo_server import SERVICE, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

wire = pytest.importorskip("offsetd_wire", reason="offsetd-wire is not installed")

MIB: Final = 1 << 20
MESSAGE_BYTES: Final = 2 * MIB
ROOM_BYTES: Final = 5 * MIB
PART_BYTES: Final = 16_384
PATH: Final = f"/{SERVICE}/Unary"
SLOW = {
    "trickled": flood_attacks.trickled(PATH, MESSAGE_BYTES),
    "stopped": never_ended(PATH, MESSAGE_BYTES, MESSAGE_BYTES - 1, 24),
}


class Room:
    """A room for messages, the most that it held, and the peers that were closed for it."""

    def __init__(self) -> None:
        self.held_max = 0
        self.closed: list[str] = []
        self.own: Any = wire.MessageRoom(
            ROOM_BYTES // 2,
            ROOM_BYTES // 2,
            on_change=self._note,
            on_closed=self.closed.extend,
        )

    def _note(self, size: int) -> None:
        self.held_max = max(self.held_max, size)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def _opened(room: Room) -> AsyncIterator[tuple[int, grpc.aio.Channel]]:
    options = (("grpc.max_concurrent_streams", 128),)
    async with (
        serving("wire", options=options, room=room.own) as port,
        grpc.aio.insecure_channel(
            f"127.0.0.1:{port}", options=(("grpc.max_receive_message_length", -1),)
        ) as channel,
    ):
        yield port, channel
        await _until(lambda: not room.own.bytes_held)


async def test_large_messages_take_turns_and_all_are_whole() -> None:
    room = Room()
    async with _opened(room) as (_, channel):
        messages = [bytes([each]) * MESSAGE_BYTES for each in range(24)]
        call = channel.unary_unary(PATH)
        answers = await asyncio.gather(*(call(each, timeout=120) for each in messages))
        assert answers == messages
    assert MESSAGE_BYTES < room.held_max <= ROOM_BYTES
    assert not room.closed


async def test_large_messages_of_many_connections_take_turns() -> None:
    room = Room()
    async with _opened(room) as (port, _), contextlib.AsyncExitStack() as opened:
        channels = [
            await opened.enter_async_context(
                grpc.aio.insecure_channel(
                    f"127.0.0.1:{port}",
                    options=(
                        ("grpc.use_local_subchannel_pool", 1),
                        ("grpc.max_receive_message_length", -1),
                    ),
                )
            )
            for _ in range(8)
        ]
        messages = [bytes([each]) * MESSAGE_BYTES for each in range(16)]
        calls = [
            channels[each % 8].unary_unary(PATH)(message, timeout=120)
            for each, message in enumerate(messages)
        ]
        assert await asyncio.gather(*calls) == messages
    assert room.held_max <= ROOM_BYTES


@pytest.mark.parametrize("name", SLOW)
async def test_who_begins_messages_and_never_ends_them_gives_way(name: str) -> None:
    room = Room()
    async with _opened(room) as (port, channel):
        attack = Attack(f"127.0.0.1:{port}", 4, SLOW[name])
        try:
            await _until(lambda: room.held_max > 0)
            call = channel.unary_unary(PATH)
            for _ in range(3):
                assert await call(b"small", timeout=PATIENCE_SECONDS) == b"small"
                large = bytes(MESSAGE_BYTES)
                assert await call(large, timeout=PATIENCE_SECONDS) == large
        finally:
            await asyncio.to_thread(attack.__exit__, None, None, None)
    assert room.closed
    assert room.held_max <= ROOM_BYTES


async def test_a_message_without_room_is_refused_in_the_end() -> None:
    room = Room()
    room.own = wire.MessageRoom(MESSAGE_BYTES // 2)
    async with _opened(room) as (_, channel):
        call = channel.unary_unary(PATH)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(bytes(MESSAGE_BYTES), timeout=PATIENCE_SECONDS)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "no room for this one" in str(refused.value.details())
        assert await call(b"small") == b"small"


async def test_a_message_that_has_waited_too_long_is_refused() -> None:
    """Another one has all the room, and arrives slowly, but as fast as it must."""
    room = Room()
    room.own = wire.MessageRoom(MESSAGE_BYTES + 5, MESSAGE_BYTES)

    def send_slowly(connection: RawConnection) -> None:
        connection.open_call(1, call_headers(PATH))
        connection.send_part(1, struct.pack(">BI", 0, MESSAGE_BYTES))
        for _ in range(MESSAGE_BYTES // PART_BYTES):
            assert connection.wait_for_room(1, PART_BYTES, PATIENCE_SECONDS)
            connection.send_part(1, bytes(PART_BYTES))
            time.sleep(0.1)

    async with _opened(room) as (port, channel):
        with contextlib.closing(RawConnection(f"127.0.0.1:{port}")) as connection:
            sending = asyncio.create_task(asyncio.to_thread(send_slowly, connection))
            await _until(lambda: room.own.bytes_held > MESSAGE_BYTES)
            began = time.monotonic()
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await channel.unary_unary(PATH)(bytes(MESSAGE_BYTES), timeout=PATIENCE_SECONDS)
            assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert time.monotonic() - began > 10
            await sending


async def test_a_message_is_refused_if_waiting_would_stop_those_that_have_room() -> None:
    room = Room()
    room.own = wire.MessageRoom(MESSAGE_BYTES + 5, 0)
    async with _opened(room) as (_, channel):
        call = channel.unary_unary(PATH)

        async def code() -> grpc.StatusCode:
            try:
                assert len(await call(bytes(MESSAGE_BYTES), timeout=PATIENCE_SECONDS))
            except grpc.aio.AioRpcError as error:
                return error.code()
            return grpc.StatusCode.OK

        codes = set(await asyncio.gather(*(code() for _ in range(12))))
        assert codes == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}


async def test_streams_that_no_handler_reads_do_not_block_their_connection() -> None:
    """Each holds a window of its own; the connection's window grows with what waits."""
    room = Room()
    async with _opened(room) as (_, channel):
        streams = [channel.stream_unary(f"/{SERVICE}/Pause")() for _ in range(16)]
        writing = [asyncio.ensure_future(_write(each)) for each in streams]
        await asyncio.sleep(0.3)
        call = channel.unary_unary(PATH)
        for size in (10, 100_000):
            assert await call(bytes(size), timeout=PATIENCE_SECONDS) == bytes(size)
        assert 0 < room.held_max <= ROOM_BYTES
        for each in streams:
            each.cancel()
        await asyncio.gather(*writing, return_exceptions=True)


async def _write(stream: Any) -> None:
    for _ in range(100):
        await stream.write(bytes(10_000))
