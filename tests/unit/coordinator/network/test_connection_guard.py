"""Which connections are closed, by what was received of them and what calls have taken."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from offsetd_coordinator.calls.connections import Answer, AnswerBudget, Connections
from offsetd_coordinator.network.connection_guard import (
    BEGUN_BYTES_MIN,
    ConnectionGuard,
    ConnectionLimits,
)
from offsetd_coordinator.network.sockets import Socket
from structlog.testing import capture_logs

# Of a call: frames' headers, the path, what opens windows. Seen with grpc-python: 60 to 110.
WIRE_BYTES_BESIDE = 110


class Call:
    """What the counts ask of a call."""

    def __init__(self, peer: str, token: str) -> None:
        self._peer = peer
        self._metadata = [("authorization", token)]

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> list[tuple[str, str]]:
        return self._metadata


@pytest.fixture
def connections() -> Connections:
    return Connections(AnswerBudget(1 << 20))


@pytest.fixture
def guard(connections: Connections) -> Any:
    limits = ConnectionLimits(
        connections_max=3, accepted_max=5, begun_bytes_max=256 << 10, unread_ms_max=30_000
    )
    return ConnectionGuard(connections, 0, limits)


def sockets(received: dict[str, int]) -> dict[str, Socket]:
    return {peer: Socket(0, 1, peer, size, False) for peer, size in received.items()}


def answer_of(connections: Connections, peer: str) -> Answer:
    call: Any = Call(peer, "")
    return Answer(connections.answers, connections.open_call(call))


def begun_too_much(guard: Any, received: dict[str, int]) -> list[str]:
    guard._note_begun(sockets(received), 0.0)
    return [peer for _, peer in guard._begun_too_much()]


@pytest.mark.parametrize("token_bytes", [0, 700, 7000])
def test_no_healthy_connection_is_closed_however_long_it_lives(
    guard: Any, connections: Connections, token_bytes: int
) -> None:
    """Metadata of more than 4 KiB are sent in full with each call."""
    chance = random.Random(token_bytes)
    calls = [Call(f"ipv4:127.0.0.1:{port}", "x" * token_bytes) for port in range(8)]
    received = dict.fromkeys((call.peer() for call in calls), 0)
    for number in range(20_000):
        call = chance.choice(calls)
        size = chance.randrange(200)
        received[call.peer()] += size + token_bytes + WIRE_BYTES_BESIDE
        connection = connections.open_call(call)  # type: ignore[arg-type]
        connection.note_message(call, size)  # type: ignore[arg-type]
        connection.hold_answer(100_000)
        received[call.peer()] += 3 * 13
        connection.let_go_answer()
        connection.end_call()
        if not number % 500:
            assert begun_too_much(guard, received) == []


def test_a_stream_s_messages_do_not_count_its_metadata_again(
    guard: Any, connections: Connections
) -> None:
    """Else a stream of small messages would hide what its connection begins beside."""
    stream: Any = Call("stream", "x" * 7000)
    connection = connections.open_call(stream)
    connection.note_stream(stream)
    for _ in range(100):
        connection.note_streamed(20)
    begun = 500_000
    received = {"stream": 7000 + 100 * 20 + begun}
    assert begun_too_much(guard, received) == ["stream"]


def test_what_is_begun_and_never_ended_is_closed_the_largest_first(
    guard: Any, connections: Connections
) -> None:
    healthy: Any = Call("ipv4:127.0.0.1:1", "")
    connections.open_call(healthy).note_message(healthy, 500_000)
    received = {"ipv4:127.0.0.1:1": 500_100, "large": 300_000, "small": 100_000, "tiny": 10_000}
    assert begun_too_much(guard, received) == ["large"]


def test_many_connections_that_have_begun_a_little_are_closed_too(guard: Any) -> None:
    received = {f"{number}": BEGUN_BYTES_MIN for number in range(6)}
    assert len(begun_too_much(guard, received)) == 2


def test_calls_whose_message_does_not_come_count_as_begun(
    guard: Any, connections: Connections
) -> None:
    call: Any = Call("many", "")
    connections.open_call(call).begun_calls = 20
    assert begun_too_much(guard, {"many": 100, "one": 100}) == ["many"]


def test_who_never_made_a_call_gives_way_first_then_the_longest_idle(
    guard: Any, connections: Connections
) -> None:
    peers = ["calls", "reads", "idle long", "idle", "silent"]
    for peer in peers[:4]:
        connection = connections.open_call(Call(peer, ""))  # type: ignore[arg-type]
        if peer != "calls":
            connection.end_call()
    connections.find("reads").hold_answer(10)  # type: ignore[union-attr]
    connections.find("idle long").idle_seconds = 1.0  # type: ignore[union-attr]
    connections.find("idle").idle_seconds = 2.0  # type: ignore[union-attr]
    open_now = sockets(dict.fromkeys(peers, 0))
    guard._note_begun(open_now, 3.0)
    assert guard._too_many(open_now) == [("silent", "silent"), ("idle", "idle long")]
    for peer in ("silent", "idle long"):
        del open_now[peer]
    assert guard._too_many(open_now) == []


def test_who_is_used_never_gives_way(guard: Any, connections: Connections) -> None:
    peers = ["a", "b", "c", "d", "e"]
    for peer in peers:
        connections.open_call(Call(peer, ""))  # type: ignore[arg-type]
    open_now = sockets(dict.fromkeys(peers, 0))
    guard._note_begun(open_now, 0.0)
    assert guard._too_many(open_now) == []


async def test_who_reads_nothing_ends_sooner_where_others_wait_for_room(
    guard: Any, connections: Connections
) -> None:
    unread = answer_of(connections, "unread")
    unread.send(1 << 10)
    began = connections.find("unread").unread_seconds  # type: ignore[union-attr]
    assert list(guard._unread_too_long(began + 29)) == []
    assert list(guard._unread_too_long(began + 31)) == [("unread", "unread")]
    other = answer_of(connections, "other")
    waiting = asyncio.create_task(other.reserve(1 << 20))
    await asyncio.sleep(0)
    assert list(guard._unread_too_long(began + 0.5)) == []
    assert list(guard._unread_too_long(began + 1.5)) == [("unread", "unread")]
    waiting.cancel()


async def test_who_reads_nothing_ends_sooner_where_half_is_used(
    guard: Any, connections: Connections
) -> None:
    for peer, size in (("small", 1 << 10), ("large", 300 << 10)):
        answer_of(connections, peer).send(size)
    began = connections.find("large").unread_seconds  # type: ignore[union-attr]
    assert list(guard._unread_too_long(began + 1.5)) == [("unread", "large")]


def test_that_new_connections_are_refused_is_logged_once_a_minute(guard: Any) -> None:
    with capture_logs() as lines:
        guard._tell_if_full(4, 100.0)
        assert lines == [], "one more is accepted, and closed for a newer one"
        guard._tell_if_full(5, 101.0)
        guard._tell_if_full(5, 160.0)
        assert len(lines) == 1
        guard._tell_if_full(5, 161.5)
    assert len(lines) == 2
    assert lines[0]["event"] == "new connections are refused: all open ones have calls"
    assert (lines[0]["connections"], lines[0]["limit"]) == (5, 3)
