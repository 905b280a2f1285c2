"""`offsetd serve` where a port is taken."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import pytest
from offsetd.v1 import offset_service_pb2
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = offset_service_pb2.CommitOffsetsRequest(
    group_id="billing", offsets=[offset_service_pb2.OffsetCommit(topic="orders", offset=42)]
)


@pytest.mark.parametrize("setting", ["listen.address", "metrics.address"])
@pytest.mark.parametrize("level", [None, "1"], ids=["by hand", "by make"])
def test_a_port_that_is_taken_is_told_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, level: str | None
) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}  # Without a kernel in it.
    monkeypatch.delenv("MAKELEVEL", raising=False)  # These tests may be run by make, too.
    environment |= {} if level is None else {"MAKELEVEL": level}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "{}:{}".format(*taken.getsockname())
        folder = tmp_path / "data"
        with ServerProcess(folder, settings={setting: address}, environment=environment) as second:
            assert second.wait_for_exit() == 1
            [line] = second.lines
    assert f"cannot listen on {address} ({setting}): Address already in use." in line
    option = "--listen " if setting == "listen.address" else f"--set {setting}="
    port = int(line.rpartition(":")[2].rstrip("'\n"))
    assert port > taken_port(address)
    words = f"{option}127.0.0.1:{port}"
    if level:  # The whole command, with its other options.
        assert f"make serve ARGS='--set data.dir={folder} " in line
        assert line.rstrip().endswith(f" {words}'")
        assert line.count(address) == 1, "only as what is taken"
    else:
        assert f"add {words}" in line
    assert not folder.exists()


def taken_port(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_a_metrics_port_that_nobody_asked_for_is_no_reason_not_to_serve(tmp_path: Path) -> None:
    with socket.socket() as taken:
        # Where another server's metrics are, this fails, and the port is taken all the same.
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", 9464))
            taken.listen()
        with (
            ServerProcess(tmp_path, settings={"metrics.address": None}) as server,
            server.wait_until_serving().channel() as channel,
        ):
            Stubs(channel).offsets.CommitOffsets(COMMIT)
            [event] = [event for event in server.events if event["event"].startswith("metrics")]
            assert event["level"] == "warning"
            assert event["address"] == "127.0.0.1:9464"
            assert "metrics.address=" in event["remedy"]
            server.stop_well()
