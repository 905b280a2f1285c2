"""A real Kafka broker and its dump tool on folders with leases, retention, and commits with it."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from interop.kafka_broker import OFFSETS_TOPIC, KafkaBroker
from interop.kafka_dump import dump
from interop.served_folder import OFFSETD, ServedFolder
from offsetd_clients import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_clients import CommittedOffset, OffsetClient

    from deploy.kafka.kafka_runtime import Runtime

pytestmark = pytest.mark.kafka

GROUPS = [f"leased-{number}" for number in range(20)]
ORDERS = TopicPartition("orders", 3)
DAY = timedelta(days=1)


def write(client: OffsetClient) -> None:
    """Settings of all kinds, some of them taken back."""
    for number, group in enumerate(GROUPS):
        lease = client.acquire_group(group, f"writer-{number}", ttl=timedelta(hours=1))
        client.commit(group, {ORDERS: number}, epoch=lease.epoch, retention=DAY)
        client.update_group(group, retention="never" if number % 2 else timedelta(days=90))
        if number % 3 == 0:
            client.release_group(group, lease.epoch)
        if number % 4 == 0:
            client.update_group(group, retention=None)


def stored(client: OffsetClient) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    return client.fetch_many(GROUPS)


def test_kafkas_dump_prints_what_ours_does_and_a_broker_serves_the_offsets(
    kafka_runtime: Runtime, used_broker: KafkaBroker, tmp_path: Path
) -> None:
    served = ServedFolder(tmp_path / "data")
    with served.running() as client:
        write(client)
        before = stored(client)
        leases = {group: client.get_group(group).lease for group in GROUPS}
    for number, group in enumerate(GROUPS):
        offset = before[group][ORDERS]
        # Nothing expires where it is "never", nor while a lease is held.
        is_kept = number % 2 == 1 or number % 3 != 0
        expires = None if is_kept else offset.commit_time + DAY
        assert offset.expire_time == expires

    logs = sorted((tmp_path / "data").glob(f"{OFFSETS_TOPIC}-*/*.log"))
    names = [str(path.relative_to(tmp_path / "data")) for path in logs]
    theirs = dump(kafka_runtime, tmp_path / "data", names, "--offsets-decoder", "--deep-iteration")
    ours = subprocess.run(
        [OFFSETD, "log", "dump", "--offsets-decoder", "--data-dir", tmp_path / "data"],
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=120,
    ).stdout
    said = [line for line in theirs.stdout.splitlines() if line.startswith("|")]
    assert sorted(said) == sorted(line for line in ours.splitlines() if line.startswith("|"))
    assert sum("Unknown record type 20292" in line for line in said) >= 2 * len(GROUPS)
    commits = [line for line in said if '"topic":"orders"' in line]
    assert len(commits) == len(GROUPS)
    assert all('"version":"4"' in line for line in commits)

    broker = used_broker.copy_to(tmp_path / "broker")
    broker.take_offsets_topic(tmp_path / "data")
    with broker.running():
        for number, group in enumerate(GROUPS):
            assert broker.admin_offsets(group) == {("orders", 3): number}

    with served.running() as client:
        assert stored(client) == before
        for group, lease in leases.items():
            now = client.get_group(group).lease
            assert (now and now.epoch) == (lease and lease.epoch)
