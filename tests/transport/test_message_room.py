"""The room for messages that are not whole: whose connection is closed, and what waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

wire = pytest.importorskip("offsetd_wire", reason="offsetd-wire is not installed")

MIB = 1 << 20
KIB = 1 << 10


class Client:
    """A connection whose messages have brought so many bytes, by number."""

    def __init__(self) -> None:
        self.peer = "ipv4:127.0.0.1:5"
        self.held: dict[int, int] = {}
        self.is_closed = False
        self.window = 0
        self.refused: list[int] = []
        self.wire: Any = SimpleNamespace(
            held_bytes=lambda number: self.held.get(number, 0),
            give_room=lambda _: None,
            widen=lambda size: setattr(self, "window", size),
        )

    def flush_soon(self) -> None:
        pass

    def abort(self) -> None:
        self.is_closed = True

    def refuse(self, number: int, _: object) -> None:
        self.refused.append(number)


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_seconds = 1000.0
        module = wire.message_room
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now_seconds))

    def look(self, room: Any, seconds: float = 0.25) -> None:
        """Looks after its usual time, or later."""
        self.now_seconds += seconds
        room._timer.cancel()
        room._look()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def _full(clients: list[Client], count: int) -> Any:
    """A room that so many messages of each client fill, while one more waits."""
    room = wire.MessageRoom(MIB * count * len(clients), MIB)
    for client in clients:
        for number in range(count):
            room.ask(client, number, MIB)
    room.ask(clients[-1], count, MIB)
    return room


@pytest.mark.parametrize(("bytes_per_look", "closed"), [(2 * KIB, False), (KIB // 2, True)])
async def test_the_bytes_of_all_messages_of_a_connection_count_together(
    clock: Clock, bytes_per_look: int, closed: bool
) -> None:
    """As with one window for eight messages on a long way."""
    client = Client()
    room = _full([client], 8)
    for _ in range(12):
        for number in range(8):
            client.held[number] = client.held.get(number, 0) + bytes_per_look
        clock.look(room)
        if client.is_closed:
            break
    assert client.is_closed is closed


async def test_clients_are_not_slow_when_this_process_stood_still(clock: Clock) -> None:
    client = Client()
    room = _full([client], 2)
    for _ in range(6):
        clock.look(room)
        client.held[0] = client.held.get(0, 0) + 16 * KIB
    clock.look(room, 30.0)
    assert not client.is_closed
    assert not client.refused


async def test_a_window_that_had_no_room_is_widened_later(clock: Clock) -> None:
    attacker, client = Client(), Client()
    room = wire.MessageRoom(MIB, MIB)
    room.set_window(attacker, MIB)
    room.set_window(client, 64 * KIB)
    assert client.window == 0
    clock.look(room)
    assert client.window == 0
    room.set_window(attacker, 0)
    clock.look(room)
    assert client.window == 64 * KIB
