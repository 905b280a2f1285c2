"""offsetd and a broker take turns on one data folder."""

from collections.abc import Callable
from pathlib import Path

import pytest
from interop.kafka_broker import KafkaBroker
from interop.kafka_protocol import KafkaOffset
from interop.served_folder import ServedFolder
from interop.workload import fetch_all
from offsetd_clients import OffsetToCommit, TopicPartition

pytestmark = pytest.mark.kafka

ORDERS_0 = TopicPartition("orders", 0)
SMALL_BYTES = 1_000_000


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
