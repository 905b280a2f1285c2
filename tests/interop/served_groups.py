"""A server with a group that has a member, one that has a lease, and nothing else."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from interop.served_folder import ServedFolder
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_clients.assignors import Subscription
from offsetd_clients.consumer_protocol import assignments_by, encode_subscription

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = ("group.initial.rebalance.delay.ms=0", "history.ms=3600000", "node.id=n1")


@contextmanager
def serving_groups(data_folder: Path) -> Iterator[ServedFolder]:
    """`archive` has a lease and an offset, `readers` a static member and one of two offsets."""
    server = ServedFolder(data_folder, settings=SETTINGS)
    with server.running() as client:
        lease = client.acquire_group("archive", "host-1", reason="nightly")
        client.commit("archive", {TopicPartition("files", 0): 3}, epoch=lease.epoch)
        _join_readers(client)
        yield server


def _join_readers(client: OffsetClient) -> None:
    subscription = encode_subscription(Subscription(topics=["orders"]))
    joined = client.join_group(
        "readers", {"range": subscription}, client_id="app", instance_id="host-1"
    )
    client.sync_group(joined.membership, assignments_by(joined, partition_counts={"orders": 2}))
    where = TopicPartition("orders", 1)
    client.commit("readers", {where: 4}, membership=joined.membership)
