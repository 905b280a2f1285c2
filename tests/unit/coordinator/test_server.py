"""What a server checks before it starts. Its life is tested on real processes, in tests/fault."""

from __future__ import annotations

import asyncio
import resource
import socket
from random import Random

import pytest
from offsetd_coordinator import server
from offsetd_coordinator.settings import load_settings
from offsetd_storage.clock import ManualClock
from offsetd_storage.log_store import LogStore
from offsetd_storage.simulated_files import SimulatedFiles


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


def test_a_port_that_is_taken_is_told_with_its_reason() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "{}:{}".format(*taken.getsockname())
        with pytest.raises(server.StartFailed, match="in use"):
            server.check_port_is_free(address)
    server.check_port_is_free(address)


@pytest.mark.parametrize(
    "address", ["no.such.host.invalid:7171", "127.0.0.1:seventy", "203.0.113.1:7171", "7171"]
)
def test_an_address_that_cannot_be_listened_on_is_one_clear_line(address: str) -> None:
    with pytest.raises(server.StartFailed) as caught:
        server.check_port_is_free(address)
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_descriptor_limit_is_raised_as_far_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"now": (100, 5000)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.update(now=new))
    server.raise_descriptor_limit(partitions=50, connections=1000)
    assert limits["now"] == (3 * 50 + 1000 + 64, 5000)
    server.raise_descriptor_limit(partitions=1, connections=1)
    assert limits["now"][0] == 3 * 50 + 1000 + 64
    with pytest.raises(server.StartFailed, match=r"max\.connections"):
        server.raise_descriptor_limit(partitions=50, connections=5000)


def test_a_write_version_and_sizes_reach_the_store_and_the_shards() -> None:
    settings = load_settings(
        assignments=[
            "offset.commit.value.version=3",
            "max.message.bytes=4096",
            "offsets.topic.segment.bytes=8192",
            "journal.file.bytes=1048576",
        ]
    )
    shard = server.shard_config(settings, partitions=7)
    store = server.store_config(settings, threads=3)
    assert (shard.partitions, shard.offset_commit_value_version) == (7, 3)
    assert shard.message_bytes_max == store.log.message_bytes_max == 4096
    assert store.log.segment_bytes_max == 8192
    assert (store.journal_file_bytes, store.recovery_threads) == (1 << 20, 3)


@pytest.mark.parametrize(
    ("broken", "error", "expected"),
    [
        ("open", OSError(5, "Input/output error"), server.StartFailed),
        ("load", OSError(5, "Input/output error"), server.StartFailed),
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
        monkeypatch.setattr(server, "load", fail)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*free.getsockname())
    settings = load_settings(
        assignments=[
            f"listen.address={address}",
            "data.dir=/offsets",
            "offsets.topic.num.partitions=1",
            "journal.file.bytes=1048576",
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
    server.check_port_is_free(address)
    monkeypatch.undo()
    assert not files._locked
