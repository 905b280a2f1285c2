"""What handlers and clients get from a transport: the same from each."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
import pytest
from patience import PATIENCE_SECONDS
from transport.echo_server import FAILED, SERVICE, TRAILER, Endings, serving

if TYPE_CHECKING:
    from collections.abc import Callable

_requires_wire = pytest.mark.skipif(
    importlib.util.find_spec("offsetd_wire") is None, reason="offsetd-wire is not installed"
)
pytestmark = pytest.mark.parametrize(
    "transport", ["grpcio", pytest.param("wire", marks=_requires_wire)]
)
_LARGE_BYTES: Final = 3_000_000


def _channel(port: int, *options: tuple[str, Any], **others: Any) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options, **others)


def _unary(channel: grpc.aio.Channel) -> Callable[..., Any]:
    return channel.unary_unary(f"/{SERVICE}/Unary")


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("size", [0, 1, 16_384, _LARGE_BYTES])
async def test_unary_messages_of_any_size_come_back(transport: str, size: int) -> None:
    async with serving(transport) as port, _channel(port) as channel:
        message = bytes(range(256)) * (size // 256) + bytes(size % 256)
        assert await _unary(channel)(message) == message


async def test_a_stream_of_answers_is_whole_and_in_order(transport: str) -> None:
    async with serving(transport) as port, _channel(port) as channel:
        call = channel.unary_stream(f"/{SERVICE}/ServerStream")(b"3000")
        numbers = [int(message[:6]) async for message in call]
        assert numbers == list(range(3000))
        assert await call.code() == grpc.StatusCode.OK


async def test_a_stream_of_requests_is_whole(transport: str) -> None:
    async with serving(transport) as port, _channel(port) as channel:
        call = channel.stream_unary(f"/{SERVICE}/ClientStream")()
        for number in range(500):
            await call.write(bytes(number))
        await call.done_writing()
        assert await call == b"500 %d" % sum(range(500))


async def test_a_stream_of_both_goes_on_while_it_is_open(transport: str) -> None:
    async with serving(transport) as port, _channel(port) as channel:
        call = channel.stream_stream(f"/{SERVICE}/Both")()
        for number in range(200):
            await call.write(b"%d" % number)
            assert await call.read() == b"%d" % number
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() == grpc.StatusCode.OK


async def test_many_calls_of_one_connection_do_not_mix(transport: str) -> None:
    options = (("grpc.max_concurrent_streams", 1000),)
    async with serving(transport, options=options) as port, _channel(port) as channel:
        messages = [b"%d" % number * (number % 50) for number in range(500)]
        assert await asyncio.gather(*map(_unary(channel), messages)) == messages


async def test_an_abort_has_its_text_and_its_metadata(transport: str) -> None:
    async with serving(transport) as port, _channel(port) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _unary(channel)(b"fail")
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert refused.value.details() == FAILED
        assert TRAILER in tuple(map(tuple, refused.value.trailing_metadata()))


async def test_a_code_ends_a_call_without_its_answer(transport: str) -> None:
    async with serving(transport) as port, _channel(port) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _unary(channel)(b"code")
        assert (refused.value.code(), refused.value.details()) == (
            grpc.StatusCode.NOT_FOUND,
            "nothing",
        )


async def test_a_defect_ends_its_call_and_no_other(transport: str) -> None:
    async with serving(transport) as port, _channel(port) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await _unary(channel)(b"defect")
        assert failed.value.code() == grpc.StatusCode.UNKNOWN
        assert await _unary(channel)(b"next") == b"next"


async def test_an_unknown_method_is_unimplemented(transport: str) -> None:
    async with serving(transport) as port, _channel(port) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(f"/{SERVICE}/Other")(b"")
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_metadata_arrives_as_text_and_as_bytes(transport: str) -> None:
    async with serving(transport) as port, _channel(port) as channel:
        sent = (("word", "a value, and more"), ("some-bin", b"\x00\x01\xff"))
        shown = (await _unary(channel)(b"metadata", metadata=sent)).decode()
        for pair in sent:
            assert repr(pair) in shown
        assert "grpc-timeout" not in shown
        assert "content-type" not in shown


async def test_a_peer_has_the_name_that_grpc_gives(transport: str) -> None:
    async with serving(transport) as port, _channel(port) as channel:
        host, _, peer_port = (await _unary(channel)(b"peer")).decode().rpartition(":")
        assert host == "ipv4:127.0.0.1"
        assert 0 < int(peer_port) < 65_536


async def test_a_deadline_is_known_to_the_handler_and_ends_the_call(transport: str) -> None:
    endings = Endings()
    async with serving(transport, endings=endings) as port, _channel(port) as channel:
        remaining = float(await _unary(channel)(b"deadline", timeout=50))
        assert 0 < remaining <= 51  # grpc rounds it up on the way.
        assert await _unary(channel)(b"deadline") == b"None"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _unary(channel)(b"wait", timeout=0.2)
        assert refused.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await _until(lambda: endings.ended == 3)


async def test_a_call_that_its_client_cancels_ends_here(transport: str) -> None:
    endings = Endings()
    async with serving(transport, endings=endings) as port, _channel(port) as channel:
        call = _unary(channel)(b"wait")
        await asyncio.sleep(0.1)
        call.cancel()
        await _until(lambda: endings.ended == 1)
        assert await _unary(channel)(b"next") == b"next"


async def test_calls_of_a_connection_that_breaks_end_here(transport: str) -> None:
    endings = Endings()
    async with serving(transport, endings=endings) as port:
        channel = _channel(port)
        calls = [asyncio.ensure_future(_unary(channel)(b"wait")) for _ in range(5)]
        await asyncio.sleep(0.2)
        await channel.close()
        await _until(lambda: endings.ended == 5)
        await asyncio.wait(calls)


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_compressed_messages_are_read(transport: str, compression: grpc.Compression) -> None:
    async with serving(transport) as port, _channel(port, compression=compression) as channel:
        message = b"again and again " * 10_000
        assert await _unary(channel)(message) == message


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
async def test_a_message_above_the_limit_is_refused(
    transport: str, compression: grpc.Compression | None
) -> None:
    options = (("grpc.max_receive_message_length", 10_000),)
    async with (
        serving(transport, options=options) as port,
        _channel(port, compression=compression) as channel,
    ):
        assert await _unary(channel)(bytes(10_000)) == bytes(10_000)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _unary(channel)(bytes(10_001))
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "larger than max" in refused.value.details()
        assert await _unary(channel)(b"next") == b"next"


async def test_answers_that_nobody_reads_wait_in_the_handler(transport: str) -> None:
    async with serving(transport) as port, _channel(port) as channel:
        call = channel.unary_stream(f"/{SERVICE}/ServerStream")(b"20000")
        assert int((await call.read())[:6]) == 0
        await asyncio.sleep(0.3)
        for number in range(1, 20_000):
            assert int((await call.read())[:6]) == number
        assert await call.read() is grpc.aio.EOF


async def test_a_client_behind_the_age_limit_connects_again(transport: str) -> None:
    options = (
        ("grpc.max_connection_age_ms", 1),
        ("grpc.max_connection_age_grace_ms", 60_000),
    )
    async with serving(transport, options=options) as port, _channel(port) as channel:
        peers = set[bytes]()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(peers) < 2:
                peers.add(await _unary(channel)(b"peer"))
                await asyncio.sleep(0.05)
