"""A real broker opens a folder in which members of KIP-848 went, and a group became classic."""

import shutil
import time
from pathlib import Path

import pytest
from interop.kafka_broker import KafkaBroker
from interop.served_folder import ServedFolder
from offsetd_clients import GroupState, MemberToRemove, TopicPartition
from offsetd_storage.offsets_topic.placement import partition_of

pytestmark = pytest.mark.kafka

GROUP = "modern-workers"
END = 74  # Here the first of its two members left.
ORDERS = TopicPartition("orders", 1)
READS_ORDERS = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")
S_MAX = 60


def folder_with_members(golden: Path, folder: Path) -> Path:
    shutil.copytree(golden / "data", folder)
    partition = folder / f"__consumer_offsets-{partition_of(GROUP, 50)}"
    [log] = partition.glob("*.log")
    content, at = log.read_bytes(), 0
    while int.from_bytes(content[at : at + 8]) < END:
        at += 12 + int.from_bytes(content[at + 8 : at + 12])
    log.write_bytes(content[:at])
    for pattern in ("*.index", "*.timeindex", "*.snapshot"):
        for path in partition.glob(pattern):
            path.unlink()
    (folder / "recovery-point-offset-checkpoint").unlink()
    return folder


@pytest.mark.parametrize("becomes_classic", [False, True])
def test_the_broker_loads_the_group_empty(
    golden: Path, used_broker: KafkaBroker, tmp_path: Path, *, becomes_classic: bool
) -> None:
    served = ServedFolder(
        folder_with_members(golden, tmp_path / "data"),
        settings=(
            "group.consumer.session.timeout.ms=1000",
            "group.initial.rebalance.delay.ms=0",
            "offsets.topic.num.partitions=50",
        ),
    )
    with served.running() as client:
        deadline = time.monotonic() + S_MAX
        while client.get_group(GROUP).state is not GroupState.EMPTY:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        client.commit(GROUP, {ORDERS: 7})
        if becomes_classic:
            joined = client.join_group(GROUP, {"range": READS_ORDERS}, session_timeout_s=30.0)
            member = joined.membership
            client.sync_group(member, {member.member_id: b""})
            client.leave_group(GROUP, [MemberToRemove(member_id=member.member_id)])
    broker = used_broker.copy_to(tmp_path / "broker")
    broker.take_offsets_topic(served.data_folder)
    with broker.running():
        group = broker.groups()[GROUP]
        assert (group.type, group.state) == (
            "CLASSIC" if becomes_classic else "CONSUMER",
            "EMPTY",
        )
        assert broker.offsets([GROUP])[GROUP]["orders", 1].offset == 7
    assert "Failed to load" not in broker.log_text()
