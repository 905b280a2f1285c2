"""A server with a history that is worth looking at: groups, members, a lease, audited changes."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from offsetd_clients.assignors import Subscription
from offsetd_clients.consumer_protocol import encode_assignment, encode_subscription

if TYPE_CHECKING:
    from pathlib import Path

    from server_process import ServerProcess

PLOTTED: Final = "billing-invoices"
LEASED: Final = "mail-sender"
JOINED: Final = "reports-live"
DELETED_PARTITION: Final = 11
COMMITS: Final = 60
_STEP_SECONDS = 0.02
GROUPS: Final = 120
_TEAMS: Final = ("billing", "search", "mail", "reports")
_SUBJECTS: Final = ("orders", "payments", "clicks", "returns", "stock", "prices")


def fill(address: str) -> None:
    """Makes the history. The numbers are those of a formula, so each run shows the same."""
    with OffsetClient(address) as client:
        for number in range(GROUPS):
            team, subject = _TEAMS[number % 4], _SUBJECTS[number // 4 % 6]
            offsets = {
                TopicPartition(subject, partition): OffsetToCommit(
                    (number * 7919 + partition * 104_729) % 900_000,
                    end_offset=900_000 + number if number % 5 else None,
                )
                for partition in range(1 + number % 6)
            }
            client.commit_soon(f"{team}-{subject}-{number:03}", offsets)
        for step in range(COMMITS):
            client.commit(PLOTTED, _plotted_commit(step))
            time.sleep(_STEP_SECONDS)  # So that the plot has a shape.
        client.flush()
        client.delete_offsets(
            PLOTTED,
            [TopicPartition("orders", DELETED_PARTITION)],
            reason="the topic is smaller now",
        )
        client.commit(LEASED, {TopicPartition("mails", 0): OffsetToCommit(420, end_offset=421)})
        _join(client)
        client.acquire_group(LEASED, "sender-2", ttl=timedelta(hours=1))
        client.update_group(PLOTTED, retention=timedelta(days=30), reason="audit of the quarter")


def _join(client: OffsetClient) -> None:
    """A member whose session outlives the tests."""
    topics = encode_subscription(Subscription(topics=("clicks",)))
    joined = client.join_group(
        JOINED, {"range": topics}, client_id="reporter-7", session_timeout_s=1800
    )
    read = encode_assignment(TopicPartition("clicks", each) for each in range(3))
    client.sync_group(joined.membership, {joined.membership.member_id: read})
    offsets = {TopicPartition("clicks", each): OffsetToCommit(50) for each in range(3)}
    client.commit(JOINED, offsets, membership=joined.membership)


def _plotted_commit(step: int) -> dict[TopicPartition, OffsetToCommit]:
    return {
        TopicPartition("orders", partition): OffsetToCommit(
            10_000 + step * 137 + step * step + partition * 11,
            metadata=f"worker-{partition % 3}",
            end_offset=10_300 + step * 138 + step * step + partition * 11,
        )
        for partition in range(DELETED_PARTITION + 1)
    }


def served(folder: Path, **settings: object) -> ServerProcess:
    """A server on a folder, filled."""
    from server_process import ServerProcess

    settings = {"group.initial.rebalance.delay.ms": 0, **settings}
    server = ServerProcess(folder, settings=settings).wait_until_serving()
    fill(server.address)
    return server
