"""Commits over streams that break, stall, refuse and answer in any order: none is lost or undone.

A bare server draws what it does to each message. It remembers request ids, as ours does, so what is
applied is applied once; what it has told last is what the client's caller was told.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from chance import seed_of
from fake_server import EitherClient, FakeServer, abort, outcome, serving
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from offsetd.v1 import offset_service_pb2, types_pb2
from offsetd_clients import (
    AsyncOffsetClient,
    OffsetClient,
    OffsetConflict,
    OffsetToCommit,
    RetryPolicy,
    Revision,
    TopicPartition,
)
from offsetd_clients.calling import commit_queue

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 40 if os.environ.get("OFFSETD_NIGHTLY") else 4
COMMITS = 300
GROUPS = 7
WHERE = TopicPartition("t", 0)
WAIT_S = 120


class DrawnServer:
    """Takes commits as a list, by group; each once."""

    def __init__(
        self, chance: random.Random, addresses: list[str], own: int, *, is_busy: bool
    ) -> None:
        """`is_busy`: some commits are to come again later."""
        self.applied: dict[str, list[int]] = {}
        self.log: dict[str, int] = {}
        self._chance = chance
        self._lock = threading.Lock()
        self._addresses = addresses
        self._own = own
        self._is_busy = is_busy

    def answer(self, messages: Iterator[Any], context: Any) -> Iterator[Any]:
        if self._chance.random() < 0.1:
            abort(context, self._end())
        held: list[Any] = []
        for message in messages:
            drawn = self._chance.random()
            if drawn < 0.03:
                abort(context, self._end())  # Nothing of it is applied.
            results = list(map(self.take, message.commits))
            if drawn < 0.06:
                abort(context, self._end())  # All of it is, and nobody is told.
            if drawn < 0.08:
                return
            if drawn < 0.12:
                time.sleep(0.02)
            held += results
            if self._chance.random() < 0.8 or len(held) > 50:
                self._chance.shuffle(held)
                yield offset_service_pb2.StreamCommitsResponse(results=held)
                held = []
            elif self._chance.random() < 0.1:
                over = threading.Event()  # It stalls.
                if context.add_callback(over.set):
                    over.wait(WAIT_S)
                return
        yield offset_service_pb2.StreamCommitsResponse(results=held)

    def take(self, sequenced: Any) -> Any:
        commit = sequenced.commit
        result = offset_service_pb2.CommitResult(sequence=sequenced.sequence)
        owner = sum(commit.group_id.encode()) % len(self._addresses)
        if owner != self._own:
            details = {"address": self._addresses[owner]}
            result.error.CopyFrom(refusal(Code.UNAVAILABLE, "NOT_COORDINATOR", details))
        elif self._is_busy and self._chance.random() < 0.02:
            result.error.CopyFrom(refusal(Code.RESOURCE_EXHAUSTED, "DISK_FULL", retry_ms=5))
        elif commit.offsets[0].HasField("expected_offset"):
            result.error.CopyFrom(refusal(Code.ABORTED, "OFFSET_CONFLICT"))
        else:
            with self._lock:
                if commit.request_id not in self.log:
                    self.log[commit.request_id] = len(self.log)
                    offsets = self.applied.setdefault(commit.group_id, [])
                    offsets.append(commit.offsets[0].offset)
                at = types_pb2.Revision(log_offset=self.log[commit.request_id])
            result.committed.revision.CopyFrom(at)
        return result

    def _end(self) -> Status:
        code = self._chance.choice((Code.UNAVAILABLE, Code.INTERNAL, Code.CANCELLED))
        return Status(code=code, message="drawn")


def refusal(
    code: int, reason: str, details: dict[str, str] | None = None, retry_ms: int | None = None
) -> Status:
    status = Status(code=code, message="drawn")
    status.details.add().Pack(ErrorInfo(reason=reason, domain="offsetd", metadata=details or {}))
    if retry_ms is not None:
        retry = RetryInfo()
        retry.retry_delay.FromMilliseconds(retry_ms)
        status.details.add().Pack(retry)
    return status


def draw(
    server: FakeServer, seed: int, addresses: list[str], own: int = 0, *, is_busy: bool
) -> DrawnServer:
    drawn = DrawnServer(random.Random(f"{seed} {own}"), addresses, own, is_busy=is_busy)
    server.answer_stream = drawn.answer

    def alone(request: Any) -> Any:
        result = drawn.take(offset_service_pb2.SequencedCommit(commit=request))
        return result.error if result.HasField("error") else result.committed

    server.answer_each = alone
    return drawn


@pytest.mark.parametrize("kind", [OffsetClient, AsyncOffsetClient])
@pytest.mark.parametrize("round_", range(ROUNDS))
async def test_each_commit_has_one_outcome_and_it_is_true(kind: Any, round_: int) -> None:
    seed = seed_of(round_)
    chance = random.Random(seed)
    policy = RetryPolicy(timeout_s=WAIT_S, try_timeout_s=0.3, wait_initial_s=0.001, wait_max_s=0.01)
    with serving() as first, serving() as second:
        addresses = [first.address, second.address]
        drawn = [
            draw(each, seed, addresses, own, is_busy=True)
            for own, each in enumerate((first, second))
        ]
        async with EitherClient(kind(first.address, retry=policy)) as client:
            futures = []
            for offset in range(COMMITS):
                group = f"g{chance.randrange(GROUPS)}"
                wrong = chance.random() < 0.05
                to_commit = OffsetToCommit(offset, expected_offset=1) if wrong else offset
                future = await client.commit_soon(group, {WHERE: to_commit})
                futures.append((group, offset, wrong, future))
                if chance.random() < 0.05:
                    await asyncio.sleep(chance.random() * 0.01)
            async with asyncio.timeout(WAIT_S):
                told = [await settled(future) for *_, future in futures]
    applied = {**drawn[0].applied, **drawn[1].applied}
    wanted: dict[str, list[int]] = {}
    for (group, offset, wrong, _), result in zip(futures, told, strict=True):
        assert isinstance(result, OffsetConflict if wrong else Revision), result
        if not wrong:
            wanted.setdefault(group, []).append(offset)
    assert {group: sorted(offsets) for group, offsets in applied.items()} == wanted


@pytest.mark.parametrize("kind", [OffsetClient, AsyncOffsetClient])
@pytest.mark.parametrize("round_", range(ROUNDS))
async def test_commits_are_applied_in_the_order_in_which_they_were_handed_in(
    kind: Any, round_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that are too large for a stream."""
    monkeypatch.setattr(commit_queue, "COMMIT_BYTES_MAX", 200)
    seed = seed_of(round_)
    chance = random.Random(seed)
    policy = RetryPolicy(timeout_s=WAIT_S, try_timeout_s=0.3, wait_initial_s=0.001, wait_max_s=0.01)
    with serving() as server:
        drawn = draw(server, seed, [server.address], is_busy=False)
        async with EitherClient(kind(server.address, retry=policy)) as client:
            futures = []
            for offset in range(COMMITS):
                metadata = "x" * 200 if chance.random() < 0.03 else ""
                to_commit = OffsetToCommit(offset, metadata=metadata)
                futures.append(await client.commit_soon("g", {WHERE: to_commit}))
            async with asyncio.timeout(WAIT_S):
                told = [await outcome(each) for each in futures]
    assert drawn.applied == {"g": [*range(COMMITS)]}
    assert [each.log_offset for each in told] == [*range(COMMITS)]


async def settled(future: Any) -> Any:
    try:
        return await outcome(future)
    except OffsetConflict as error:
        return error
