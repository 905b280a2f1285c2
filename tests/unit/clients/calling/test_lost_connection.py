"""offsetd_clients.calling.connection: a connection whose other end is gone, and says nothing."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from offsetd.v1 import offset_service_pb2, types_pb2
from offsetd_clients import OffsetClient, RetryPolicy, TopicPartition
from offsetd_clients.calling.connection import CHANNEL_OPTIONS
from offsetd_clients.sync import transport

COMMITTED = offset_service_pb2.CommitOffsetsResponse(
    revision=types_pb2.Revision(log_partition=12, log_offset=7)
)


@attrs.define(eq=False)
class Road:
    """A way to a server. What lies on it can go dead: it takes everything and passes nothing on."""

    server_address: str
    address: str = attrs.field(init=False)
    connections: int = 0
    _dead: set[socket.socket] = attrs.field(factory=set)
    _sockets: list[socket.socket] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self._sockets.append(listener)
        self.address = "{}:{}".format(*listener.getsockname())
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def go_dead(self) -> None:
        """For all connections there are now. New ones live."""
        self._dead.update(self._sockets)

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listener: socket.socket) -> None:
        host, _, port = self.server_address.rpartition(":")
        with contextlib.suppress(OSError):  # Closed: the test is over.
            while True:
                near, _ = listener.accept()
                far = socket.create_connection((host, int(port)))
                self.connections += 1
                self._sockets += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while carried := source.recv(65_536):
                if source not in self._dead:
                    target.sendall(carried)
            if source not in self._dead:
                target.shutdown(socket.SHUT_WR)


@pytest.fixture
def road(fake_server: Any) -> Iterator[Road]:
    road = Road(fake_server.address)
    yield road
    road.close()


def test_a_connection_that_went_dead_is_replaced_within_the_call(
    fake_server: Any, road: Road, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client's own options, only that less patience is spent.
    quicker = ("grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms")
    options = [(name, 500 if name in quicker else value) for name, value in CHANNEL_OPTIONS]
    monkeypatch.setattr(transport, "CHANNEL_OPTIONS", options)
    fake_server.will_answer("CommitOffsets", COMMITTED, COMMITTED)
    offsets = {TopicPartition("orders", 0): 1}
    with OffsetClient(road.address, retry=RetryPolicy(timeout_s=40)) as client:
        client.commit("g", offsets)
        road.go_dead()
        client.commit("g", offsets)
    assert road.connections == 2


def test_a_dead_connection_is_noticed_while_there_is_time_for_another_try() -> None:
    options = dict(CHANNEL_OPTIONS)
    noticed_ms = options["grpc.keepalive_time_ms"] + options["grpc.keepalive_timeout_ms"]
    assert noticed_ms / 1000 < RetryPolicy().timeout_s
