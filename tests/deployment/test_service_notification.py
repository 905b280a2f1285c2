"""A server tells the service manager that it serves: sd_notify(3)."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from server_process import START_SECONDS_MAX, ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.single_server


@pytest.mark.parametrize("abstract", [False, True])
def test_ready_is_said_when_calls_are_taken(tmp_path: Path, abstract: bool) -> None:
    name = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messages:
        messages.bind("\0" + name if abstract else name)
        messages.settimeout(START_SECONDS_MAX)
        environment = {"NOTIFY_SOCKET": "@" + name if abstract else name}
        with ServerProcess(tmp_path / "data", environment=environment) as server:
            assert messages.recv(100) == b"READY=1"
            with OffsetClient(server.address) as client:
                client.commit("billing", {TopicPartition("orders", 0): 42})


def test_a_server_serves_also_if_nobody_takes_the_message(tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "nobody")}
    with ServerProcess(tmp_path / "data", environment=environment) as server:
        server.wait_until_serving()
        warned = server.wait_for_event(
            "cannot tell the service manager that the server serves:"
            " [Errno 2] No such file or directory"
        )
        assert warned["level"] == "warning"
        server.stop_well()
