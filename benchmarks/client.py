"""Measures an `AsyncOffsetClient` with 1,000 coroutines in a closed loop against raw streams.

The server has one core, clients and generators have another. The client is compared with the
streams of `commit_path`, which send each commit as a message without a request id; and with one raw
stream that sends the next commits of all answered callers in one message, as the client does, with
a request id for each commit. CPU is that of the whole process, in microseconds a commit.
"""

from __future__ import annotations

import asyncio
import functools
import os
import statistics
import time
from typing import TYPE_CHECKING

import attrs
from offsetd.v1 import offset_service_pb2
from offsetd_clients import AsyncOffsetClient, OffsetClient, OffsetToCommit, TopicPartition

from benchmarks import commit_path
from benchmarks.harness import http2_load, rounds
from benchmarks.harness.our_server import process_cpu_s

if TYPE_CHECKING:
    from collections.abc import Callable

COROUTINES = 1000
GROUPS = 512
SECONDS = 3.0
CALLS_OF_ONE = 2000
_STREAM = commit_path.SERVICE + "StreamCommits"
_WHERE = TopicPartition("orders", 0)
_PLACEHOLDER = "0" * 32


@attrs.frozen(kw_only=True)
class Load:
    """The figures of one measurement."""

    commits_a_second: float
    client_us: float
    server_us: float


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Ratios and figures, as medians over the rounds with their spread."""
    seconds = max(0.5, SECONDS * scale)
    own_cores = os.sched_getaffinity(0)
    server_core, *others = sorted(own_cores)
    try:
        os.sched_setaffinity(0, others[:1] or [server_core])
        with commit_path.our_process(server_core) as (address, server_pid):
            found = _compare(address, server_pid, count=rounds, seconds=seconds)
            return {**found, **_one_caller(address, count=rounds)}
    finally:
        os.sched_setaffinity(0, own_cores)


def _compare(
    address: commit_path.Address, server_pid: int, *, count: int, seconds: float
) -> dict[str, object]:
    contestants: dict[str, Callable[[], float]] = {
        "raw, a commit a message": functools.partial(_raw_streams, address, seconds),
        "raw, coalescing": functools.partial(_raw_coalescing, address, seconds),
        "client": lambda: asyncio.run(_through_client(address, seconds)),
    }
    loads = {
        name: functools.partial(_measured, contestant, server_pid, seconds)
        for name, contestant in contestants.items()
    }
    figures = rounds.interleave(loads, rounds=count)
    rates = {name: [each.commits_a_second for each in of] for name, of in figures.items()}
    found: dict[str, object] = {}
    for name in list(contestants)[:2]:
        found[f"client over {name}, ratio"] = rounds.ratios(rates["client"], rates[name])
    for name, of in figures.items():
        found[f"{name}, commits a second"] = rounds.Spread.of(rates[name])
        found[f"{name}, µs of its own a commit"] = rounds.Spread.of([each.client_us for each in of])
        found[f"{name}, µs of the server a commit"] = rounds.Spread.of(
            [each.server_us for each in of]
        )
    return found


def _measured(contestant: Callable[[], float], server_pid: int, seconds: float) -> Load:
    """Measures the rate of a contestant, and the CPU of both processes, including the warm-up."""
    own, server = time.process_time(), process_cpu_s(server_pid)
    rate = contestant()
    commits = rate * seconds * 1.25
    return Load(
        commits_a_second=rate,
        client_us=(time.process_time() - own) / commits * 1e6,
        server_us=(process_cpu_s(server_pid) - server) / commits * 1e6,
    )


def _raw_streams(address: commit_path.Address, seconds: float) -> float:
    return http2_load.stream_rate(
        address,
        _STREAM,
        commit_path.stream_messages(1),
        streams=commit_path.STREAMS,
        window=commit_path.STREAM_WINDOW,
        seconds=seconds,
        counted=True,
    )


def _raw_coalescing(address: commit_path.Address, seconds: float) -> float:
    """The rate of one raw stream with as many unanswered commits as the client has coroutines."""
    commits = [_encoded_commit(number) for number in range(COROUTINES)]
    return http2_load.coalesced_rate(
        address,
        _STREAM,
        lambda number: _fresh(commits[number]),
        callers=COROUTINES,
        streams=1,
        seconds=seconds,
    )


def _encoded_commit(number: int) -> tuple[bytes, bytes]:
    """A message with one commit: the bytes before and after its request id."""
    commit = offset_service_pb2.CommitOffsetsRequest(
        group_id=f"group-{number % GROUPS}",
        offsets=[
            offset_service_pb2.OffsetCommit(
                topic="orders", offset=1_000_000 + number, leader_epoch=7
            )
        ],
        request_id=_PLACEHOLDER,
    )
    sequenced = offset_service_pb2.SequencedCommit(sequence=number, commit=commit)
    message = offset_service_pb2.StreamCommitsRequest(commits=[sequenced])
    before, _, behind = message.SerializeToString().partition(_PLACEHOLDER.encode())
    return before, behind


def _fresh(commit: tuple[bytes, bytes]) -> bytes:
    before, behind = commit
    return before + os.urandom(16).hex().encode() + behind


async def _through_client(address: commit_path.Address, seconds: float) -> float:
    done = 0
    warm_until = time.perf_counter() + seconds / 4
    end = warm_until + seconds

    async def commit_again_and_again(client: AsyncOffsetClient, number: int) -> None:
        nonlocal done
        group_id = f"group-{number % GROUPS}"
        offsets = {_WHERE: OffsetToCommit(1_000_000 + number, leader_epoch=7)}
        while time.perf_counter() < end:
            await client.commit(group_id, offsets)
            done += 1

    async with AsyncOffsetClient("{}:{}".format(*address)) as client:
        committing = [
            asyncio.ensure_future(commit_again_and_again(client, number))
            for number in range(COROUTINES)
        ]
        await asyncio.sleep(warm_until - time.perf_counter())
        started, done = time.perf_counter(), 0
        await asyncio.gather(*committing)
        return done / (time.perf_counter() - started)


def _one_caller(address: commit_path.Address, *, count: int) -> dict[str, object]:
    """The latencies of one caller that makes one commit after the other."""
    server = "{}:{}".format(*address)
    contestants: dict[str, Callable[[], float]] = {}
    for way, stream_commits in (("stream", True), ("calls", False)):
        contestants[f"one thread, {way}, p50 µs"] = functools.partial(
            _thread_us, server, stream_commits
        )
        contestants[f"one coroutine, {way}, p50 µs"] = functools.partial(
            _coroutine_us, server, stream_commits
        )
    figures = rounds.interleave(contestants, rounds=count)
    return {name: rounds.Spread.of(of) for name, of in figures.items()}


def _thread_us(server: str, stream_commits: bool) -> float:
    latencies = []
    with OffsetClient(server, stream_commits=stream_commits) as client:
        for offset in range(CALLS_OF_ONE):
            start = time.perf_counter()
            client.commit("one", {_WHERE: offset})
            latencies.append(time.perf_counter() - start)
    return statistics.median(latencies) * 1e6


def _coroutine_us(server: str, stream_commits: bool) -> float:
    async def measure() -> list[float]:
        latencies = []
        async with AsyncOffsetClient(server, stream_commits=stream_commits) as client:
            for offset in range(CALLS_OF_ONE):
                start = time.perf_counter()
                await client.commit("one", {_WHERE: offset})
                latencies.append(time.perf_counter() - start)
        return latencies

    return statistics.median(asyncio.run(measure())) * 1e6
