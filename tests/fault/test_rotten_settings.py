"""A wrong bit in the log of settings: what a real server then does, says, and lets be done."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from offsetd.v1 import admin_service_pb2
from offsetd_clients import OffsetClient, RetryPolicy, TopicPartition
from server_process import ServerProcess, Stubs, poll

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "offsets.retention.check.interval.ms": 50,
    "expiry.grace.ms": 0,
    "log.initial.task.delay.ms": 0,
}
CONFIG_LOG = "__offsetd_config-0/00000000000000000000.log"
ORDERS = TopicPartition("orders", 0)
OLD = json.dumps(
    {
        "group": "kept",
        "topic": "orders",
        "partition": 0,
        "offset": 7,
        "commit_timestamp_ms": 1577836800000,
    }
)


def client_of(server: ServerProcess) -> OffsetClient:
    return OffsetClient(server.wait_until_serving().address, retry=RetryPolicy(timeout_s=60))


def offsetd(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = "from offsetd_clients.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", command, *arguments], capture_output=True, text=True, check=False
    )


def checks(server: ServerProcess) -> int:
    """Looks of the expirer that the log tells of."""
    return sum(each["event"] == "nothing expires" for each in server.events)


def import_old(server: ServerProcess) -> None:
    """An offset with a commit time of long ago."""
    options = admin_service_pb2.ImportOffsetsOptions(
        format=admin_service_pb2.OFFSET_FORMAT_JSONL, keep_commit_times=True
    )
    requests = [
        admin_service_pb2.ImportOffsetsRequest(options=options),
        admin_service_pb2.ImportOffsetsRequest(content=f"{OLD}\n".encode()),
    ]
    with server.channel() as channel:
        answer = Stubs(channel).admin.ImportOffsets(iter(requests))
    assert [each.offset_count for each in answer.groups] == [1]


@pytest.fixture
def kept_for_ever(tmp_path: Path) -> Path:
    """A folder with an old offset that is kept for ever by a setting."""
    folder = tmp_path / "data"
    with ServerProcess(folder, settings=SETTINGS) as server:
        with client_of(server) as client:
            client.update_config({"offsets.retention.minutes": "20160"})
            client.update_config({"offsets.retention.minutes": "-1"})
            import_old(server)
            assert client.fetch("kept")[ORDERS].offset == 7
        server.stop_well()
    return folder


@pytest.fixture
def rotten(kept_for_ever: Path) -> Path:
    """The same with a wrong bit in the setting."""
    log = kept_for_ever / CONFIG_LOG
    content = bytearray(log.read_bytes())
    content[len(content) // 3] ^= 1
    log.write_bytes(content)
    return kept_for_ever


def test_nothing_expires_while_settings_cannot_be_read_and_everybody_is_told(rotten: Path) -> None:
    with ServerProcess(rotten, settings=SETTINGS) as server, client_of(server) as client:
        poll(lambda: checks(server), 60, server)
        told = server.wait_for_event(
            "not all settings can be read: nothing expires, is cleaned or is deleted"
        )
        assert "--accept-default-settings" in told["remedy"]
        info = client.get_server_info()
        assert "their log is damaged" in info.settings_problem
        assert info.expiry_suspension is not None
        assert info.expiry_suspension.reason == "settings_unreadable"
        poll(lambda: not client.is_serving("offsetd.cleaner"), 60, server)
        assert client.is_serving()
        assert client.fetch("kept")[ORDERS].offset == 7
        client.commit("new", {ORDERS: 1})
        config = offsetd("admin", "config", "--changed", "--address", server.address)
        assert config.returncode == 0
        assert "not all settings can be read" in config.stderr
        status = offsetd("admin", "status", "--address", server.address)
        assert status.returncode == 1
        assert "not all settings can be read" in status.stderr
        assert server.stop() == 0
    refused = offsetd("log", "clean", "--data-dir", str(rotten), "--roll-active")
    assert refused.returncode == 1
    assert "__offsetd_config-0" in refused.stderr
    log = rotten / CONFIG_LOG
    content = bytearray(log.read_bytes())
    content[len(content) // 3] ^= 1
    log.write_bytes(content)
    with ServerProcess(rotten, settings=SETTINGS) as server, client_of(server) as client:
        assert client.get_server_info().settings_problem == ""
        assert client.fetch("kept")[ORDERS].offset == 7
        server.stop_well()


def test_who_accepts_default_settings_has_them(rotten: Path) -> None:
    accepting = ("--accept-default-settings",)
    with (
        ServerProcess(rotten, settings=SETTINGS, arguments=accepting) as server,
        client_of(server) as client,
    ):
        poll(lambda: not client.fetch("kept"), 60, server)
        assert client.get_server_info().settings_problem == ""
        status = offsetd("admin", "status", "--address", server.address)
        assert status.returncode == 1
        assert "log recreate --topic __offsetd_config" in status.stderr
        unset = ("--unset", "offsets.retention.minutes", "--address", server.address)
        refused = offsetd("admin", "config", *unset)
        assert refused.returncode == 1
        assert "PARTITION_QUARANTINED" in refused.stderr
        assert server.stop() == 0


@pytest.mark.parametrize("lost", ["folder", "log"])
def test_lost_settings_hold_everything_back_like_unreadable_ones(
    kept_for_ever: Path, tmp_path: Path, lost: str
) -> None:
    log, saved = kept_for_ever / CONFIG_LOG, tmp_path / "saved"
    missing = log.parent if lost == "folder" else log
    missing.rename(saved)
    with ServerProcess(kept_for_ever, settings=SETTINGS) as server, client_of(server) as client:
        poll(lambda: checks(server), 60, server)
        assert client.fetch("kept")[ORDERS].offset == 7
        assert "are missing" in client.get_server_info().settings_problem
        status = offsetd("admin", "status", "--address", server.address)
        assert status.returncode == 1
        assert "not all settings can be read" in status.stderr
        assert server.stop() == 0
    if missing.exists():
        missing.rmdir()
    saved.rename(missing)
    with ServerProcess(kept_for_ever, settings=SETTINGS) as server, client_of(server) as client:
        assert client.get_server_info().settings_problem == ""
        assert client.fetch("kept")[ORDERS].offset == 7
        server.stop_well()


def test_where_nothing_was_ever_set_a_lost_folder_of_settings_holds_nothing_back(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    with ServerProcess(folder, settings=SETTINGS) as server:
        server.wait_until_serving()
        server.stop_well()
    shutil.rmtree((folder / CONFIG_LOG).parent)
    with ServerProcess(folder, settings=SETTINGS) as server, client_of(server) as client:
        assert client.get_server_info().settings_problem == ""
        assert client.get_server_info().expiry_suspension is None
        server.stop_well()
