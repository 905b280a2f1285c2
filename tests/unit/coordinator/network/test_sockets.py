"""Which connections a process has accepted, by what the kernel says of its descriptors."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

import pytest
from offsetd_coordinator.network.sockets import AcceptedSockets, peer_name

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["127.0.0.1", "::1"])
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with contextlib.closing(socket.create_server((request.param, 0), family=family)) as server:
        yield server


def pair(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    client = socket.create_connection(listener.getsockname()[:2])
    return client, listener.accept()[0]


def test_only_accepted_connections_of_the_port_are_told(listener: socket.socket) -> None:
    sockets = AcceptedSockets(listener.getsockname()[1])
    assert sockets.look() == []
    client, accepted = pair(listener)
    with client, accepted:
        client.sendall(b"12345")
        accepted.recv(5)
        (found,) = sockets.look()
        assert found.descriptor == accepted.fileno()
        assert found.peer == peer_name(*client.getsockname()[:2])
        assert (found.received_bytes, found.has_ended) == (5, False)
    assert sockets.look() == []


def test_connections_are_told_behind_however_many_open_files(listener: socket.socket) -> None:
    sockets = AcceptedSockets(listener.getsockname()[1])
    with contextlib.ExitStack() as opened:
        for _ in range(600):
            opened.enter_context(open(os.devnull, "rb"))
        client, accepted = pair(listener)
        opened.enter_context(client)
        opened.enter_context(accepted)
        assert [each.descriptor for each in sockets.look()] == [accepted.fileno()]


def test_a_descriptor_that_is_used_anew_is_another_connection(listener: socket.socket) -> None:
    sockets = AcceptedSockets(listener.getsockname()[1])
    client, accepted = pair(listener)
    with client, accepted:
        (before,) = sockets.look()
    client, accepted = pair(listener)
    with client, accepted:
        (after,) = sockets.look()
        assert before.number != after.number
        assert after.peer == peer_name(*client.getsockname()[:2])
        if before.descriptor == after.descriptor:
            assert not sockets.close(before)
            assert not sockets.look()[0].has_ended


def test_a_connection_is_ended_for_both_sides(listener: socket.socket) -> None:
    sockets = AcceptedSockets(listener.getsockname()[1])
    client, accepted = pair(listener)
    with client, accepted:
        (found,) = sockets.look()
        assert sockets.close(found)
        assert client.recv(1) == b""
        assert accepted.recv(1) == b""
        assert sockets.close(found)  # Once more: who waits for the socket is woken again.


def test_a_connection_that_the_client_has_reset_has_ended(listener: socket.socket) -> None:
    sockets = AcceptedSockets(listener.getsockname()[1])
    client, accepted = pair(listener)
    with accepted:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        (found,) = sockets.look()
        assert found.has_ended
        assert sockets.close(found)
