"""A server tells the service manager that it serves: sd_notify(3)."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from patience import PATIENCE_SECONDS
from server_process import START_SECONDS_MAX, ServerProcess, poll

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.single_server


def is_readable(messages: socket.socket) -> bool:
    return bool(select.select([messages], [], [], 0)[0])


def warnings(server: ServerProcess) -> list[str]:
    return [each["event"] for each in server.events if "service manager" in each["event"]]


def is_told(messages: socket.socket, server: ServerProcess) -> bool:
    return is_readable(messages) or bool(warnings(server))


def serves(server: ServerProcess) -> bool:
    return any(each["event"] == "serving" for each in server.events)


@pytest.mark.parametrize("abstract", [False, True])
def test_ready_is_said_when_calls_are_taken(tmp_path: Path, abstract: bool) -> None:
    name = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messages:
        messages.bind("\0" + name if abstract else name)
        messages.setblocking(False)
        environment = {"NOTIFY_SOCKET": "@" + name if abstract else name}
        with ServerProcess(tmp_path / "data", environment=environment) as server:
            poll(lambda: is_told(messages, server) or serves(server), START_SECONDS_MAX, server)
            poll(lambda: is_told(messages, server), PATIENCE_SECONDS, server)
            assert messages.recv(100) == b"READY=1"
            with OffsetClient(server.address) as client:
                client.commit("billing", {TopicPartition("orders", 0): 42})


def test_nothing_is_said_while_a_node_waits_for_its_brokers(tmp_path: Path) -> None:
    name = f"{tmp_path}/notify"
    nobody = {"cluster.bootstrap.servers": "127.0.0.1:1"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messages:
        messages.bind(name)
        messages.setblocking(False)
        environment = {"NOTIFY_SOCKET": name}
        with ServerProcess(tmp_path / "data", settings=nobody, environment=environment) as server:
            server.wait_for_event("listening")
            with pytest.raises(BlockingIOError):
                messages.recv(100)


def test_a_server_serves_also_if_nobody_takes_the_message(tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "nobody")}
    with ServerProcess(tmp_path / "data", environment=environment) as server:
        server.wait_until_serving()
        poll(lambda: warnings(server), PATIENCE_SECONDS, server)
        assert "No such file or directory" in warnings(server)[0]
        server.stop_well()
