"""What h2spec, a conformance test of HTTP/2, says of the transport `wire`.

`make test-tools` makes the tool. It sends plain requests of HTTP, which are refused at once, so
what needs a call that lasts is here in frames by hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
from typing import TYPE_CHECKING, Final

import pytest
from deployment.tools import tool
from raw_http2 import DATA, END_HEADERS, END_STREAM, HEADERS, RawConnection, call_headers, frame
from transport.echo_server import SERVICE, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytest.importorskip("offsetd_wire", reason="offsetd-wire is not installed")

KNOWN: Final = {
    "Sends HEADERS frames that causes their advertised concurrent stream limit to be exceeded": (
        "each request is refused and over before the next one comes"
    ),
    'Sends a HEADERS frame with the "content-length" header field which does not equal the DATA'
    " frame payload length": "the request is refused before its DATA comes",
}
"""The failures of h2spec that are none, and why."""
_PROTOCOL_ERROR: Final = 1
_REFUSED_STREAM: Final = 7
_FAILURE: Final = re.compile("\u00d7 \\d+: (.+)")
_TOTAL: Final = re.compile(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed")


@pytest.mark.slow
async def test_h2spec_finds_only_what_is_known() -> None:
    h2spec = tool("h2spec")
    async with serving("wire") as port:
        process = await asyncio.create_subprocess_exec(
            *(h2spec, "-h", "127.0.0.1", "-p", str(port), "-o", "5", "-P", f"/{SERVICE}/Unary"),
            stdout=asyncio.subprocess.PIPE,
        )
        said = (await process.communicate())[0].decode()
    failures = said.partition("Failures:")[2]
    assert set(_FAILURE.findall(failures)) <= set(KNOWN), said
    total = _TOTAL.search(said)
    assert total is not None, said
    assert int(total[2]) >= 135, said


@contextlib.asynccontextmanager
async def _in_thread(
    work: Callable[[RawConnection], object], **options: int
) -> AsyncIterator[object]:
    named = tuple((f"grpc.{name}", value) for name, value in options.items())
    async with serving("wire", options=named) as port:

        def run() -> object:
            with contextlib.closing(RawConnection(f"127.0.0.1:{port}")) as connection:
                return work(connection)

        yield await asyncio.to_thread(run)


async def test_a_call_beyond_the_limit_of_streams_is_refused() -> None:
    def work(connection: RawConnection) -> object:
        for each in (1, 3, 5):
            connection.open_call(each, call_headers(f"/{SERVICE}/Unary"))
        return connection.wait_for_reset(5)

    async with _in_thread(work, max_concurrent_streams=2) as code:
        assert code == _REFUSED_STREAM


async def test_a_call_whose_content_length_is_wrong_is_reset() -> None:
    def work(connection: RawConnection) -> object:
        headers = call_headers(f"/{SERVICE}/Unary", content_length="1")
        message = struct.pack(">BI", 0, 0)
        connection.send(
            frame(HEADERS, END_HEADERS, 1, headers), frame(DATA, END_STREAM, 1, message)
        )
        return connection.wait_for_reset(1)

    async with _in_thread(work) as code:
        assert code == _PROTOCOL_ERROR
