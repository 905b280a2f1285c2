"""A server on a broker's folder with members of KIP-848: sessions end, or they are removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from offsetd_clients import (
    GroupNotFound,
    GroupState,
    GroupType,
    MemberToRemove,
    OffsetClient,
    OffsetdError,
    TopicPartition,
)
from offsetd_storage.offsets_topic.placement import partition_of
from server_process import ServerProcess, poll

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1.1" / "data"
GROUP = "modern-workers"
END = 74  # Here the first of its two members left.
WAIT_S = 120
ORDERS = TopicPartition("orders", 1)
READS_ORDERS = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As the broker would have left it, had it stopped before the members did."""
    folder = shutil.copytree(GOLDEN, tmp_path / "data")
    partition = folder / f"__consumer_offsets-{partition_of(GROUP, 50)}"
    [log] = partition.glob("*.log")
    content = log.read_bytes()
    at = 0
    while int.from_bytes(content[at : at + 8]) < END:
        at += 12 + int.from_bytes(content[at + 8 : at + 12])
    log.write_bytes(content[:at])
    for index in (*partition.glob("*.index"), *partition.glob("*.timeindex")):
        index.unlink()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (folder / name).unlink(missing_ok=True)
    return folder


def serve(folder: Path, session_ms: int) -> ServerProcess:
    settings = {
        "group.consumer.session.timeout.ms": session_ms,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 50,  # Only those with records are kept here.
    }
    return ServerProcess(folder, settings=settings)


def state(client: OffsetClient) -> GroupState:
    return client.get_group(GROUP).state


def test_after_their_session_the_group_is_free_and_stays_so(folder: Path) -> None:
    with serve(folder, 2000) as server, OffsetClient(server.wait_until_serving().address) as client:
        poll(lambda: state(client) is GroupState.EMPTY, WAIT_S)
        client.commit(GROUP, {ORDERS: 7})
        assert client.get_group(GROUP).type is GroupType.CONSUMER
        server.stop_well()
    with serve(folder, 600_000) as server:
        with OffsetClient(server.wait_until_serving().address) as client:
            assert state(client) is GroupState.EMPTY
            assert client.fetch(GROUP)[ORDERS].offset == 7
            first = client.join_group(GROUP, {"range": READS_ORDERS}, session_timeout_s=30.0)
            client.sync_group(first.membership, {first.membership.member_id: b""})
            assert client.get_group(GROUP).type is GroupType.CLASSIC
            assert client.fetch(GROUP)[ORDERS].offset == 7
            client.leave_group(GROUP, [MemberToRemove(member_id=first.membership.member_id)])
            client.delete_group(GROUP)
            with pytest.raises(GroupNotFound):
                client.get_group(GROUP)
        server.stop_well()


def test_an_operator_need_not_wait_for_the_session(folder: Path) -> None:
    with serve(folder, 600_000) as server:
        with OffsetClient(server.wait_until_serving().address) as client:
            members = client.get_group(GROUP).members
            assert len(members) == 2
            with pytest.raises(OffsetdError):
                client.commit(GROUP, {ORDERS: 7})
            assert client.remove_members(GROUP, None).revision is not None
            assert state(client) is GroupState.EMPTY
            client.commit(GROUP, {ORDERS: 7})
        server.stop_well()
