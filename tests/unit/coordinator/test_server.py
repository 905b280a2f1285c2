"""What a server checks before it starts. Its life is tested on real processes, in tests/fault."""

from __future__ import annotations

import asyncio
import resource
import socket
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest
import structlog
from offsetd.v1 import offset_service_pb2, offset_service_pb2_grpc
from offsetd_clients.calling.connection import CHANNEL_OPTIONS
from offsetd_coordinator import server, server_folder
from offsetd_coordinator.configuration.settings_consistency import journal_bytes_needed
from offsetd_coordinator.configuration.settings_sources import SettingsError, load_settings
from offsetd_coordinator.configuration.shard_settings import shard_config
from offsetd_coordinator.counters import AccessCounters
from offsetd_coordinator.membership.rebalance import MembershipConfig
from offsetd_coordinator.network.connection_limits import channel_options
from offsetd_coordinator.network.ports import listen_error
from offsetd_coordinator.runtime.flusher import FlushDefect
from offsetd_coordinator.server_security import ServerSecurity
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import StorageFailed
from offsetd_storage.log_store import LogStore

# Generated stubs have no types.
untyped_stub: Any = offset_service_pb2_grpc.OffsetServiceStub
COMMIT = offset_service_pb2.CommitOffsetsRequest(
    group_id="g", offsets=[offset_service_pb2.OffsetCommit(topic="orders", offset=1)]
)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:7171", True),
        ("127.8.9.1:7171", True),
        ("localhost:7171", True),
        ("[::1]:7171", True),
        ("unix:/run/offsetd.sock", True),
        ("0.0.0.0:7171", False),
        ("[::]:7171", False),
        ("10.0.0.1:7171", False),
        ("localhost.example.com:7171", False),
    ],
)
def test_loopback_is_known_by_its_address(address: str, expected: bool) -> None:
    assert server.is_loopback(address) is expected


async def test_a_server_without_files_of_security_looks_at_none() -> None:
    await ServerSecurity(load_settings(), AccessCounters(), lambda: 0).watch()


def test_the_pings_of_our_own_client_are_permitted() -> None:
    client, permitted = dict(CHANNEL_OPTIONS), dict(channel_options(load_settings()))
    distance_ms = permitted["grpc.http2.min_ping_interval_without_data_ms"]
    assert client["grpc.keepalive_time_ms"] > distance_ms
    assert client["grpc.keepalive_permit_without_calls"]
    assert permitted["grpc.keepalive_permit_without_calls"]


def test_the_descriptor_limit_is_raised_as_far_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"now": (100, 5000)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.update(now=new))
    server_folder.raise_descriptor_limit(partitions=50, connections=1000)
    assert limits["now"] == (3 * 50 + 1125 + 64, 5000)
    server_folder.raise_descriptor_limit(partitions=1, connections=1)
    assert limits["now"][0] == 3 * 50 + 1125 + 64
    with pytest.raises(server_folder.StartFailed, match=r"max\.connections"):
        server_folder.raise_descriptor_limit(partitions=50, connections=5000)


def test_a_write_version_and_sizes_reach_the_store_and_the_shards() -> None:
    settings = load_settings(
        assignments=[
            "offset.commit.value.version=3",
            "max.message.bytes=4096",
            "internal.offsets.topic.segment.bytes=8192",
            "journal.file.bytes=1048576",
            "group.max.size=9",
            "group.min.session.timeout.ms=7",
        ]
    )
    shard = shard_config(settings, partitions=7)
    store = server_folder.store_config(settings, threads=3)
    assert (shard.partitions, shard.offset_commit_value_version) == (7, 3)
    assert shard.message_bytes_max == store.log.message_bytes_max == 4096
    assert store.log.segment_bytes_max == 8192
    assert shard.membership == MembershipConfig(size_max=9, session_timeout_ms_min=7)
    assert (store.journal_file_bytes, store.recovery_threads) == (1 << 20, 3)


@pytest.mark.parametrize(("partitions", "message_bytes"), [(1, 1024), (50, 1024), (3, 5 << 20)])
def test_the_smallest_journal_that_is_allowed_takes_the_largest_batch(
    partitions: int, message_bytes: int
) -> None:
    sizes = [f"max.message.bytes={message_bytes}", f"offsets.topic.num.partitions={partitions}"]
    needed = journal_bytes_needed(load_settings(assignments=sizes))
    settings = load_settings(assignments=[*sizes, f"journal.file.bytes={needed}"])
    store = LogStore.open(
        SimulatedFiles(),
        Path("/offsets"),
        server_folder.store_config(settings, threads=1),
        clock=ManualClock(0),
        random=Random(1),
    )
    assert store._journal.batch_bytes_max == message_bytes
    store.abandon()
    with pytest.raises(SettingsError) as caught:
        load_settings(assignments=[*sizes, f"journal.file.bytes={needed - 1}"])
    for told in (
        f"journal.file.bytes = {needed - 1}",
        *(each.replace("=", " = ") for each in sizes),
    ):
        assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("broken", "error", "expected"),
    [
        ("open", OSError(5, "Input/output error"), server_folder.StartFailed),
        ("load", OSError(5, "Input/output error"), server_folder.StartFailed),
        ("load", ZeroDivisionError("our own mistake"), ZeroDivisionError),
    ],
)
def test_whatever_stops_a_load_ends_the_server_and_gives_port_and_folder_back(
    monkeypatch: pytest.MonkeyPatch, broken: str, error: Exception, expected: type[Exception]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    if broken == "open":
        monkeypatch.setattr(LogStore, "open", fail)
    else:
        monkeypatch.setattr(server_folder, "load", fail)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*free.getsockname())
    settings = load_settings(
        assignments=[
            f"listen.address={address}",
            "metrics.address=",
            "data.dir=/offsets",
            "offsets.topic.num.partitions=1",
            "journal.file.bytes=2097152",
        ]
    )
    files = SimulatedFiles()
    starting = server.Server(settings, files=files, clock=ManualClock(0), random=Random(1))

    async def run() -> None:
        try:
            await starting.run()
        finally:
            await starting.close_port()

    with pytest.raises(expected, match=str(error.args[-1])):
        asyncio.run(run())
    assert listen_error(address) is None
    monkeypatch.undo()
    assert not files._tree.locked


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("file", "{} is not a folder"),
        ("file/below", "{}/file is not a folder"),
        ("none/below", "{} cannot be made: "),
    ],
)
def test_a_data_folder_that_cannot_be_is_told_in_one_sentence(
    tmp_path: Path, name: str, told: str
) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / name
    settings = load_settings(
        assignments=["listen.address=127.0.0.1:0", "metrics.address=", f"data.dir={folder}"]
    )
    starting = server.Server(settings, files=OsFiles(), clock=ManualClock(0), random=Random(1))

    async def run() -> None:
        try:
            await starting.run()
        finally:
            await starting.close_port()

    with pytest.raises(server_folder.StartFailed) as caught:
        asyncio.run(run())
    whose = tmp_path if name == "file/below" else folder
    assert str(caught.value).startswith(told.format(whose))
    assert "Errno" not in str(caught.value)
    assert not starting.listening.is_set(), "told before anybody can connect"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(5, "EIO"), "the disk failed: nothing more is acknowledged"),
        (ZeroDivisionError("ours"), "a defect of the server: nothing more is acknowledged"),
    ],
)
def test_a_defect_in_a_flush_ends_the_server_like_a_failed_disk_but_is_told_as_one(
    monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(LogStore, "flush", fail)
    settings = load_settings(
        assignments=[
            "listen.address=127.0.0.1:0",
            "metrics.address=",
            "offsets.topic.num.partitions=1",
        ]
    )
    running = server.Server(
        settings, files=SimulatedFiles(), clock=ManualClock(0), random=Random(1)
    )

    async def run() -> grpc.StatusCode:
        life = asyncio.ensure_future(running.run())
        await running.listening.wait()
        async with grpc.aio.insecure_channel(running.node.address) as channel:
            stub = untyped_stub(channel)
            code = None
            while code is None:
                try:
                    await stub.CommitOffsets(COMMIT)
                    raise AssertionError("acknowledged what no flush has taken")
                except grpc.aio.AioRpcError as refused:
                    if "the server stops" in str(refused.details()):
                        code = refused.code()
            try:
                await life
            finally:
                await running.close_port()
        return code

    with structlog.testing.capture_logs() as logged, pytest.raises(StorageFailed) as ended:
        asyncio.run(run())
    assert isinstance(ended.value, FlushDefect) is isinstance(error, ZeroDivisionError)
    [line] = [each for each in logged if each["log_level"] == "error"]
    assert line["event"] == told
    assert line.get("exc_info") is (error if isinstance(ended.value, FlushDefect) else None)
