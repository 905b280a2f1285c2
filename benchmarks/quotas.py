"""Measures the commits of well-behaved callers beside one that asks for ten times its quota.

The others commit at a fixed rate; their latencies count from the time at which a commit was due.
The one beside them makes calls of all kinds, and a stream of commits, whatever it is told. `alone`
is without it; `without quotas` shows what it does unlimited. The servers have a core; the
others have another one, and the one beside them gets what they leave of it.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
from offsetd.v1 import offset_service_pb2
from security.secured_server import METHODS, request_of

from benchmarks.commit_path import SERVICE
from benchmarks.harness.commit_latency import commit_p99_ms
from benchmarks.harness.compared_servers import pin, two_cores
from benchmarks.harness.our_server import serving
from benchmarks.harness.rounds import Spread, interleave, ratios

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS: Final = 20.0
CALL_RATE: Final = 20
COMMIT_RATE: Final = 200
RESPONSE_BYTE_RATE: Final = 100_000
OVERLOAD: Final = 10
OTHERS_RATE: Final = 400
_CLIENT_ID: Final = "overload"
_QUOTAS: Final = f"""
[[quota]]
client_id = "{_CLIENT_ID}"
call_rate = {CALL_RATE}
commit_rate = {COMMIT_RATE}
response_byte_rate = {RESPONSE_BYTE_RATE}
"""
_KINDS: Final = (
    *("CommitOffsets", "FetchOffsets", "ListGroups", "GetGroup", "ListOffsetHistory"),
    *("FetchBounds", "DescribeLog", "GetServerInfo", "ExportOffsets", "WatchOffsets"),
    *("UpdateGroup", "ListAuditEvents", "ResetOffsets", "CloneGroup", "ImportOffsets"),
)


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Milliseconds of the others' commits, and the ratios of their p99. `scale` is of the time."""
    seconds = max(2.0, SECONDS * scale)
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as name:
        folder = Path(name)
        quotas = folder / "quotas.toml"
        quotas.write_text(_QUOTAS)
        with (
            two_cores() as core,
            serving(folder / "limited", f"security.quotas.file={quotas}") as limited,
            serving(folder / "unlimited") as unlimited,
        ):
            for each in (limited, unlimited):
                pin(each.process.pid, core)
            figures = interleave(
                {
                    "alone": lambda: _p99_ms(limited.address, seconds),
                    "beside overload": lambda: _p99_beside_ms(limited.address, seconds),
                    "alone, without quotas": lambda: _p99_ms(unlimited.address, seconds),
                    "beside overload, without quotas": lambda: _p99_beside_ms(
                        unlimited.address, seconds
                    ),
                },
                rounds=rounds,
            )
    shown: dict[str, object] = {
        f"others' commit, p99, {name}, ms": Spread.of(each) for name, each in figures.items()
    }
    alone, beside, alone_without, beside_without = figures.values()
    shown["p99 beside overload / alone"] = ratios(beside, alone)
    shown["p99 beside overload / alone, without quotas"] = ratios(beside_without, alone_without)
    return shown


def _p99_ms(address: str, seconds: float) -> float:
    return commit_p99_ms(address, commits_per_second=OTHERS_RATE, seconds=seconds)


def _p99_beside_ms(address: str, seconds: float) -> float:
    with _overload(address):
        return _p99_ms(address, seconds)


@contextmanager
def _overload(address: str) -> Iterator[None]:
    """A caller of ten times its quota, in a process of its own, once it calls."""
    command = ["nice", "-n", "19", sys.executable, "-m", "benchmarks.quotas", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "calling\n"
        yield
    finally:
        process.terminate()
        process.wait()


async def _call_for_ever(address: str) -> None:
    """Calls of all kinds at ten times the quota, and a stream at ten times its rate of commits."""
    metadata = (("client-id", _CLIENT_ID),)
    async with grpc.aio.insecure_channel(address) as channel:
        streaming = asyncio.create_task(_stream_for_ever(channel, metadata))
        print("calling", flush=True)
        calls: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for number in itertools.count():
            await asyncio.sleep(begun + number / (OVERLOAD * CALL_RATE) - loop.time())
            if len(calls) < OVERLOAD * CALL_RATE:
                call = asyncio.create_task(_call(channel, _KINDS[number % len(_KINDS)], metadata))
                calls.add(call)
                call.add_done_callback(calls.discard)
        await streaming


async def _call(channel: grpc.aio.Channel, method: str, metadata: Any) -> None:
    descriptor = METHODS[method]
    kind = (
        f"{'stream' if descriptor.client_streaming else 'unary'}_"
        f"{'stream' if descriptor.server_streaming else 'unary'}"
    )
    callee = getattr(channel, kind)(f"/{descriptor.containing_service.full_name}/{method}")
    request = request_of(method).SerializeToString()
    try:
        sent = iter([request]) if descriptor.client_streaming else request
        answer = callee(sent, metadata=metadata, timeout=10)
        if descriptor.server_streaming:
            await answer.read()
            answer.cancel()
        else:
            await answer
    except (grpc.RpcError, asyncio.CancelledError):
        pass  # A refusal: it calls again, whatever it was told.


async def _stream_for_ever(channel: grpc.aio.Channel, metadata: Any) -> None:
    call = channel.stream_stream(f"{SERVICE}StreamCommits")(metadata=metadata)

    async def read() -> None:
        while await call.read() is not grpc.aio.EOF:
            pass

    reading = asyncio.create_task(read())
    for sequence in itertools.count(1):
        request = offset_service_pb2.StreamCommitsRequest()
        request.commits.add(sequence=sequence).commit.CopyFrom(request_of("CommitOffsets"))
        await call.write(request.SerializeToString())
        await asyncio.sleep(1 / (OVERLOAD * COMMIT_RATE))
    await reading


if __name__ == "__main__":
    asyncio.run(_call_for_ever(sys.argv[1]))
