"""offsetd and a broker take turns on one data folder."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from interop.kafka_broker import OFFSETS_TOPIC, KafkaBroker
from interop.kafka_protocol import KafkaOffset
from interop.served_folder import ServedFolder
from interop.workload import fetch_all
from log_commands import offsetd_log
from offsetd_clients import OffsetToCommit, TopicPartition
from offsetd_storage.disk.disk_space import RESERVE_NAME
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint
from offsetd_storage.folder.cleaner_checkpoint import (
    CHECKSUM_ENTRY,
    CLEANER_CHECKPOINT,
    read_first_dirty,
)

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=2)]

ORDERS_0 = TopicPartition("orders", 0)
SMALL_BYTES = 1_000_000
# A round of the broker's cleaner comes every 15 seconds.
ROUND_S_MAX = 120
ROLLED_S = 1.1
NO_LAG = ("--set", "request.id.window.ms=0", "--set", "history.ms=0")


@pytest.fixture
def broker(used_broker: KafkaBroker, tmp_path: Path) -> KafkaBroker:
    """Stopped, and with one group, `first`."""
    return used_broker.copy_to(tmp_path / "broker")


def offset_of(offset: int, metadata: str) -> dict[tuple[str, int], KafkaOffset]:
    return {("orders", 0): KafkaOffset(offset=offset, leader_epoch=None, metadata=metadata)}


def contents(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Each file's size, time of change, and bytes if they are few: an index may be 10 MiB of zeros.

    Without the lock, which has to be taken before anything can be found out.
    """
    return {
        str(path.relative_to(folder)): (
            path.stat().st_size,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.stat().st_size < SMALL_BYTES else b"",
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def test_what_either_wrote_is_there_for_the_other(
    broker: KafkaBroker, serve: Callable[[Path], ServedFolder]
) -> None:
    server = serve(broker.data_folder)
    with server.running() as client:
        client.commit("ours", {ORDERS_0: OffsetToCommit(1, metadata="ours 1")})
        client.commit("both", {ORDERS_0: OffsetToCommit(1, metadata="ours 1")})
        client.delete_group("first")
    with broker.running():
        assert set(broker.groups()) == {"ours", "both"}
        assert broker.offsets(["ours", "both"]) == {
            "ours": offset_of(1, "ours 1"),
            "both": offset_of(1, "ours 1"),
        }
        broker.commit("both", offset_of(2, "broker 2"))
        broker.commit("broker", offset_of(2, "broker 2"))
    # As in the log: librdkafka ends metadata with a NUL.
    expected = {
        "ours": offset_of(1, "ours 1"),
        "both": offset_of(2, "broker 2\0"),
        "broker": offset_of(2, "broker 2\0"),
    }
    with server.running() as client:
        assert fetch_all(client) == expected
        client.commit("both", {ORDERS_0: OffsetToCommit(3, metadata="ours 3")})
    expected["both"] = offset_of(3, "ours 3")
    with server.running() as client:
        assert fetch_all(client) == expected
    with broker.running():
        assert set(broker.groups()) == set(expected)
        assert broker.offsets(["both"]) == {"both": offset_of(3, "ours 3")}


@pytest.mark.parametrize("broker_ends", ["stopped", "killed"])
def test_a_broker_that_ran_after_offsetd_was_killed_is_refused(
    broker: KafkaBroker, serve: Callable[[Path], ServedFolder], broker_ends: str
) -> None:
    """The journal still holds commits, and the broker wrote other records at their offsets."""
    server = serve(broker.data_folder)
    client = server.start()
    client.commit("ours", {ORDERS_0: 1})
    server.kill()
    client.close()
    with broker.running():
        broker.commit("ours", offset_of(2, "broker 2"))
        if broker_ends == "killed":
            broker.kill()
    assert (broker.data_folder / ".kafka_cleanshutdown").exists() == (broker_ends == "stopped")
    before = contents(broker.data_folder)
    said = server.refusal()
    assert "while the journal still held commits" in said
    assert "Traceback" not in said
    assert contents(broker.data_folder) == before, "a refusal touches nothing"


def test_offsetd_starts_again_after_a_kill_when_no_broker_ran_in_between(
    broker: KafkaBroker, serve: Callable[[Path], ServedFolder]
) -> None:
    server = serve(broker.data_folder)
    client = server.start()
    client.commit("ours", {ORDERS_0: 1})
    server.kill()
    client.close()
    with server.running() as client:
        assert client.fetch("ours")[ORDERS_0].offset == 1


def cleaned(folder: Path) -> int:
    """Cleans the offsets' topic in a stopped folder; returns the sum of its first dirty offsets."""
    path = folder / CLEANER_CHECKPOINT
    outcome = offsetd_log("clean", "--data-dir", str(folder), "--roll-active", *NO_LAG)
    assert outcome.code == 0, outcome.err
    entries = read_offset_checkpoint(OsFiles(), path)
    assert list(entries)[-1] == CHECKSUM_ENTRY
    first_dirty = read_first_dirty(OsFiles(), path)
    return sum(offset for each, offset in first_dirty.items() if each.topic == OFFSETS_TOPIC)


def test_a_broker_goes_on_cleaning_where_our_cleaner_ended(
    broker: KafkaBroker, serve: Callable[[Path], ServedFolder]
) -> None:
    folder = broker.data_folder
    path = folder / CLEANER_CHECKPOINT
    server = serve(folder)
    with server.running() as client:
        for value in range(50):
            client.commit("ours", {ORDERS_0: OffsetToCommit(value, metadata="ours")})
    ours = cleaned(folder)
    assert ours >= 50
    reserve = (folder / RESERVE_NAME).stat()
    assert reserve.st_blocks * 512 >= reserve.st_size > 0
    with broker.running():
        assert broker.offsets(["ours"]) == {"ours": offset_of(49, "ours")}
        settings = {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.001"}
        broker.set_topic(OFFSETS_TOPIC, settings)
        deadline_s = time.monotonic() + ROUND_S_MAX
        value = 50
        # It has rewritten the file, without an entry that is of no log of its.
        while CHECKSUM_ENTRY in read_offset_checkpoint(OsFiles(), path):
            assert time.monotonic() < deadline_s, broker.log_text()[-4000:]
            broker.commit("ours", offset_of(value, "broker"))
            value += 1
            time.sleep(ROLLED_S)
        assert broker.offsets(["ours"])["ours"][("orders", 0)].offset == value - 1
    theirs = read_first_dirty(OsFiles(), path)
    assert sum(theirs.values()) > ours
    assert (folder / RESERVE_NAME).stat().st_ino == reserve.st_ino
    with server.running() as client:
        assert client.fetch("ours")[ORDERS_0].offset == value - 1
        client.commit("ours", {ORDERS_0: value})
    assert cleaned(folder) > sum(theirs.values())
    with server.running() as client:
        assert client.fetch("ours")[ORDERS_0].offset == value
