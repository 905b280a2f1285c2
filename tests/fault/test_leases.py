"""Leases, and retention of groups and of commits, over real connections and through kills."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from offsetd_clients import (
    EpochFenced,
    GroupNotEmpty,
    GroupNotFound,
    InvalidRequest,
    LeaseHeld,
    OffsetClient,
    OffsetdError,
    RetryPolicy,
    TopicPartition,
)
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

WAIT_S = 60
ORDERS = TopicPartition("orders", 0)
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {"lease.min.ttl.ms": 200, "group.initial.rebalance.delay.ms": 0}
    with ServerProcess(tmp_path_factory.mktemp("data"), settings=settings) as process:
        yield process.wait_until_serving()
        process.stop_well()


def known(client: OffsetClient, group: str) -> object:
    """All that there is to know of a group, apart from when its lease ends."""
    try:
        described = client.get_group(group)
    except GroupNotFound:
        return None
    lease = described.lease and (described.lease.holder, described.lease.epoch)
    return client.fetch(group), described.retention, lease


def refused(
    client: OffsetClient,
    group: str,
    error: type[OffsetdError],
    reason: str,
    call: Callable[[], object],
) -> OffsetdError:
    """The refusal, by which nothing has changed."""
    before = known(client, group)
    with pytest.raises(error) as raised:
        call()
    assert raised.value.reason == reason
    assert known(client, group) == before
    return raised.value


def test_of_two_writers_one_is_fenced_and_told_by_whom(client: OffsetClient, group: str) -> None:
    first = client.acquire_group(group, "one", ttl=HOUR)
    client.commit(group, {ORDERS: 1}, epoch=first.epoch)
    held = refused(
        client, group, LeaseHeld, "LEASE_HELD", lambda: client.acquire_group(group, "two")
    )
    assert isinstance(held, LeaseHeld)
    assert (held.holder, held.holder_epoch) == ("one", first.epoch)
    assert held.expire_time is not None
    # It is told by two clocks, each of which is read in milliseconds.
    assert first.expire_time is not None
    assert abs(held.expire_time - first.expire_time) < timedelta(seconds=1)
    second = client.acquire_group(group, "two", ttl=HOUR, force=True, reason="one is gone")
    assert second.epoch > first.epoch
    for call in (
        lambda: client.commit(group, {ORDERS: 9}, epoch=first.epoch),
        lambda: client.delete_offsets(group, [ORDERS], epoch=first.epoch),
        lambda: client.renew_group(group, first.epoch),
        lambda: client.release_group(group, first.epoch),
    ):
        fenced = refused(client, group, EpochFenced, "EPOCH_FENCED", call)
        assert isinstance(fenced, EpochFenced)
        assert (fenced.holder, fenced.holder_epoch) == ("two", second.epoch)
    for call in (
        lambda: client.commit(group, {ORDERS: 9}),
        lambda: client.delete_offsets(group, [ORDERS]),
        lambda: client.delete_group(group),
        lambda: client.join_group(group, {"range": b""}),
    ):
        refused(client, group, LeaseHeld, "LEASE_HELD", call)
    client.commit(group, {ORDERS: 2}, epoch=second.epoch)
    client.release_group(group, second.epoch)
    client.commit(group, {ORDERS: 3})
    assert client.fetch(group)[ORDERS].offset == 3


def test_a_group_with_members_has_no_lease(client: OffsetClient, group: str) -> None:
    joined = client.join_group(group, {"range": b""}, session_timeout_s=30.0)
    for call in (
        lambda: client.acquire_group(group, "one"),
        lambda: client.acquire_group(group, "one", force=True),
    ):
        refused(client, group, GroupNotEmpty, "NON_EMPTY_GROUP", call)
    assert joined.membership.group_id == group


def test_a_lease_that_nobody_renews_is_free_after_its_time(
    client: OffsetClient, group: str
) -> None:
    first = client.acquire_group(group, "one", ttl=timedelta(milliseconds=200))

    epochs: list[int] = []

    def is_acquired() -> bool:
        try:
            epochs.append(client.acquire_group(group, "two").epoch)
        except LeaseHeld:
            return False
        return True

    poll(is_acquired, WAIT_S)
    assert epochs[0] > first.epoch
    with pytest.raises(EpochFenced):
        client.renew_group(group, first.epoch)


BAD_LEASES: Sequence[tuple[str, Callable[[OffsetClient, str], object]]] = [
    ("INVALID_LEASE", lambda client, group: client.acquire_group(group, "")),
    ("INVALID_LEASE", lambda client, group: client.acquire_group(group, "h" * 250)),
    ("INVALID_LEASE", lambda client, group: client.acquire_group(group, "h", ttl=timedelta(0))),
    ("INVALID_LEASE", lambda client, group: client.acquire_group(group, "h", ttl=-HOUR)),
    ("INVALID_LEASE", lambda client, group: client.acquire_group(group, "h", ttl=25 * HOUR)),
    ("INVALID_LEASE", lambda client, group: client.renew_group(group, -1)),
    ("INVALID_LEASE", lambda client, group: client.release_group(group, -1)),
    ("INVALID_LEASE", lambda client, group: client.commit(group, {ORDERS: 1}, epoch=-1)),
    ("INVALID_LEASE", lambda client, group: client.delete_offsets(group, [ORDERS], epoch=-1)),
    (
        "INVALID_RETENTION",
        lambda client, group: client.commit(group, {ORDERS: 1}, retention=timedelta(0)),
    ),
    (
        "INVALID_RETENTION",
        lambda client, group: client.commit(
            group, {ORDERS: 1}, retention=timedelta(microseconds=999)
        ),
    ),
    (
        "INVALID_RETENTION",
        lambda client, group: client.update_group(group, retention=-HOUR, allow_missing=True),
    ),
    ("INVALID_GROUP_ID", lambda client, _: client.acquire_group("", "h")),
    ("INVALID_GROUP_ID", lambda client, _: client.update_group("", retention="never")),
    ("INVALID_REQUEST", lambda client, group: client.acquire_group(group, "h", reason="r" * 1025)),
    (
        "INVALID_REQUEST_ID",
        lambda client, group: client.acquire_group(group, "h", request_id="r" * 65),
    ),
]


@pytest.mark.parametrize(("reason", "call"), BAD_LEASES)
def test_what_breaks_a_rule_is_refused_and_changes_nothing(
    client: OffsetClient,
    group: str,
    reason: str,
    call: Callable[[OffsetClient, str], object],
) -> None:
    refused(client, group, InvalidRequest, reason, lambda: call(client, group))


def test_epochs_of_groups_that_have_no_lease_are_over(client: OffsetClient, group: str) -> None:
    refused(
        client,
        group,
        EpochFenced,
        "EPOCH_FENCED",
        lambda: client.commit(group, {ORDERS: 1}, epoch=0),
    )
    refused(client, group, EpochFenced, "EPOCH_FENCED", lambda: client.release_group(group, 5))


def test_retention_of_a_group_is_set_shown_and_taken_back(client: OffsetClient, group: str) -> None:
    refused(
        client,
        group,
        GroupNotFound,
        "GROUP_ID_NOT_FOUND",
        lambda: client.update_group(group, retention="never"),
    )
    client.commit(group, {ORDERS: 1})
    assert client.update_group(group, retention=HOUR, validate_only=True) is None
    for retention in (HOUR, "never"):
        assert client.update_group(group, retention=retention) is not None  # type: ignore[arg-type]
        assert client.update_group(group, retention=retention) is None  # type: ignore[arg-type]
        assert client.get_group(group).retention == retention
        [listing] = client.list_groups(group_id_prefix=group)
        assert listing.retention == retention
    client.update_group(group, retention=None)
    assert client.get_group(group).retention is None


def test_a_commit_with_a_retention_tells_when_it_expires(client: OffsetClient, group: str) -> None:
    client.commit(group, {ORDERS: 1}, retention=HOUR)
    stored = client.fetch(group)[ORDERS]
    assert stored.expire_time is not None
    assert stored.expire_time - stored.commit_time == HOUR
    client.commit(group, {ORDERS: 2})
    stored = client.fetch(group)[ORDERS]  # The server's retention counts again: days.
    assert stored.expire_time is not None
    assert stored.expire_time - stored.commit_time > HOUR


def test_what_brokers_of_old_can_read_has_no_room_for_a_retention(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, settings={"offset.commit.value.version": 3}) as process:
        address = process.wait_until_serving().address
        with OffsetClient(address, retry=RetryPolicy(timeout_s=WAIT_S)) as client:
            refused(
                client,
                "g",
                InvalidRequest,
                "INVALID_RETENTION",
                lambda: client.commit("g", {ORDERS: 1}, retention=HOUR),
            )


def test_epochs_grow_through_kills_restarts_releases_and_deletions(tmp_path: Path) -> None:
    epochs: list[int] = []
    for life in range(3):
        with ServerProcess(tmp_path) as process:
            address = process.wait_until_serving().address
            with OffsetClient(address, retry=RetryPolicy(timeout_s=WAIT_S)) as client:
                if epochs:
                    # The lease has survived, and so has all that was committed with it.
                    lease = client.get_group("g").lease
                    assert lease is not None
                    assert lease.epoch == epochs[-1]
                    assert client.fetch("g")[ORDERS].offset == epochs[-1]
                    assert client.get_group("g").retention == "never"
                    with pytest.raises(LeaseHeld):
                        client.acquire_group("g", "stranger")
                    client.commit("g", {ORDERS: epochs[-1]}, epoch=epochs[-1])
                    client.release_group("g", epochs[-1])
                    client.delete_group("g")
                for holder in ("one", "two"):
                    lease = client.acquire_group("g", holder, ttl=HOUR, force=True)
                    epochs.append(lease.epoch)
                    client.update_group("g", retention="never")
                    client.commit("g", {ORDERS: lease.epoch}, epoch=lease.epoch)
                for epoch in epochs[:-1]:
                    with pytest.raises(EpochFenced):
                        client.commit("g", {ORDERS: 0}, epoch=epoch)
            if life % 2:
                assert process.stop() == 0, process.log
            else:
                process.kill()
    assert epochs == sorted(set(epochs))


def test_a_repeated_acquisition_is_the_same_lease(client: OffsetClient, group: str) -> None:
    first = client.acquire_group(group, "one", ttl=HOUR, request_id="acquisition-1")
    again = client.acquire_group(group, "one", ttl=HOUR, request_id="acquisition-1")
    assert again.epoch == first.epoch
    assert again.grant_time == first.grant_time
    assert datetime.now(UTC) - HOUR < (first.grant_time or datetime.min.replace(tzinfo=UTC))
