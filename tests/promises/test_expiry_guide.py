"""What the guide on expiry promises, on a real server with retentions of a few seconds."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_clients.assignors import Subscription
from offsetd_clients.consumer_protocol import assignments_by, encode_subscription
from promised import promised_by
from scrapes import Scrape
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from promises.conftest import Told

promised = promised_by("docs/guides/expiry.md")

P0: Final = TopicPartition("orders", 0)
OTHER: Final = TopicPartition("other", 0)
SHORT: Final = timedelta(seconds=1)
LONG: Final = timedelta(days=1)
SECONDS_MAX: Final = 120
SETTINGS: Final = {
    "offsets.retention.check.interval.ms": 100,
    "group.initial.rebalance.delay.ms": 0,
    "history.ms": None,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", settings=SETTINGS) as process:
        yield process.wait_until_serving()


def topics(client: OffsetClient, group: str) -> set[str]:
    return {where.topic for where in client.fetch(group)}


@promised(
    "simple (no member ever joined) | one retention after its commit",
    "its lease is held, or its retention is set to never | never",
    "A group's own retention (`UpdateGroup`) overrides the server's. A retention that was given "
    "with a commit (`retention`) overrides both.",
    "When the last offset of an empty group expires, the group and its settings are removed, too.",
    "Each group that lost offsets is in the [audit log]",
)
def test_what_goes_and_what_stays(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    plain, own, never, leased, commits, kept = (
        f"{group}-{name}" for name in ("plain", "own", "never", "leased", "commits", "kept")
    )
    client.commit(plain, {P0: 1})
    for each in (own, never, leased, kept):
        client.commit(each, {P0: 1})
    lease = client.acquire_group(leased, "host-1", ttl=timedelta(minutes=10))
    client.update_group(leased, retention=SHORT)
    client.update_group(own, retention=SHORT)
    client.update_group(never, retention="never")
    client.commit(commits, {P0: 1}, retention=SHORT)
    client.commit(commits, {OTHER: 1})
    client.update_group(kept, retention=SHORT)
    client.commit(kept, {P0: 2}, retention=LONG)
    poll(lambda: not client.fetch(own) and topics(client, commits) == {"other"}, SECONDS_MAX)
    left = {listing.group_id for listing in client.list_groups()}
    assert own not in left
    assert {plain, never, leased, commits, kept} <= left
    assert all(topics(client, each) == {"orders"} for each in (plain, never, leased, kept))
    for each in (own, commits):
        audited = offsetd(f"admin audit --group {each} -o jsonl").rows
        assert any("xpir" in row["method"] for row in audited), audited
    rows = offsetd(f"groups history {own} -o jsonl").rows
    assert [row["event"] for row in rows] == ["deleted", "committed"]
    # What was set of the group went with it.
    client.commit(own, {P0: 5})
    assert client.get_group(own).retention is None
    # And of a lease that is given up the retention counts.
    client.release_group(leased, lease.epoch)
    poll(lambda: not client.fetch(leased), SECONDS_MAX)


@promised(
    "has members, or is in a rebalance | never; but an offset of a topic that no member of a "
    "stable consumer group reads: one retention after its commit",
    "empty, and had members | one retention after its commit, or after the group became empty, "
    "whichever is later",
)
def test_members_keep_what_they_read(client: OffsetClient, group: str) -> None:
    subscription = encode_subscription(Subscription(topics=["orders"]))
    joined = client.join_group(group, {"range": subscription}, session_timeout_s=60)
    client.sync_group(joined.membership, assignments_by(joined, partition_counts={"orders": 1}))
    client.commit(group, {P0: 1, OTHER: 1}, membership=joined.membership)
    client.update_group(group, retention=SHORT)
    poll(lambda: topics(client, group) == {"orders"}, SECONDS_MAX)
    time.sleep(2)  # Twice its retention: what a member reads stays.
    assert topics(client, group) == {"orders"}
    client.remove_members(group, None, reason="it is to be empty")
    poll(lambda: not client.fetch(group), SECONDS_MAX)


@promised(
    "`FetchOffsets` and `GetGroup` return for each offset when it will expire under the settings "
    "in force (`offsetd fetch`). The field is empty if the offset will not expire.",
    "A group is counted in `offsetd_expiring_groups`, and logged once",
)
def test_what_is_said_before_offsets_go(
    server: ServerProcess, client: OffsetClient, group: str
) -> None:
    client.commit(group, {P0: 1}, retention=timedelta(seconds=30))
    expires = client.fetch(group)[P0].expire_time
    assert expires is not None
    assert expires - client.fetch(group)[P0].commit_time == timedelta(seconds=30)
    # Not in the first half of its life.
    address = server.wait_for_event("metrics served")["address"]
    poll(
        lambda: Scrape.from_address(address).value("offsetd_expiring_groups") >= 1,
        SECONDS_MAX,
        server,
    )
    assert client.fetch(group)
    client.update_group(group, retention="never")
    client.commit(group, {P0: 2})
    assert client.fetch(group)[P0].expire_time is None


@promised(
    "`disabled` | `offsets.expiry.enable=false` | the setting is changed",
    "`offsetd admin status`, and the metric `offsetd_expiry_suspended`, show which of these "
    "reasons applies",
)
def test_what_is_held_back_is_told_and_stays(tmp_path: Path) -> None:
    settings = {**SETTINGS, "offsets.expiry.enable": "false"}
    with (
        ServerProcess(tmp_path / "data", settings=settings) as server,
        OffsetClient(server.wait_until_serving().address) as client,
    ):
        client.commit("g", {P0: 1}, retention=timedelta(milliseconds=1))
        time.sleep(1)
        assert topics(client, "g") == {"orders"}
        assert "disabled" in str(client.get_server_info())
        client.update_config({"offsets.expiry.enable": "true"})
        poll(lambda: not client.fetch("g"), SECONDS_MAX)
