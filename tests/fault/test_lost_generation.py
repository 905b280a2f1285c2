"""A generation that was told and not settled when the server was killed: nobody of it may write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from offsetd_clients import (
    IllegalGeneration,
    JoinedGroup,
    OffsetClient,
    RebalanceInProgress,
    TopicPartition,
    UnknownMember,
)
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from offsetd_clients import Membership

WAIT_S = 60
SETTINGS = {"group.initial.rebalance.delay.ms": 500}
ORDERS = TopicPartition("orders", 0)


class Group:
    """One group, whose joins wait in threads."""

    def __init__(self, client: OffsetClient, pool: ThreadPoolExecutor) -> None:
        self.client = client
        self._pool = pool

    def join(self, member_id: str = "", instance_id: str | None = None) -> Future[JoinedGroup]:
        return self._pool.submit(
            self.client.join_group,
            "g",
            {"range": b"m"},
            member_id=member_id,
            instance_id=instance_id,
            session_timeout_s=60.0,
            rebalance_timeout_s=10.0,
        )

    def commit(self, member: Membership) -> None:
        self.client.commit("g", {ORDERS: 7}, membership=member)


def told_twice(group: Group) -> tuple[Membership, Membership, Membership]:
    """Generation 1 is settled, 2 is only told: a dynamic, a static member, and a newcomer."""
    dynamic, static = group.join(), group.join(instance_id="i-1")
    first = sorted((dynamic.result(WAIT_S), static.result(WAIT_S)), key=lambda each: each.is_leader)
    for each in reversed(first):
        group.client.sync_group(each.membership, {} if each.is_leader else None)
    newcomer = group.join()
    described = group.client.get_group
    poll(lambda: described("g").state.name == "PREPARING_REBALANCE", WAIT_S)
    again = (
        group.join(dynamic.result().membership.member_id),
        group.join(static.result().membership.member_id, "i-1"),
    )
    second = [each.result(WAIT_S).membership for each in (*again, newcomer)]
    assert {each.generation_id for each in second} == {2}
    return second[0], second[1], second[2]


def test_a_number_that_is_given_again_lets_nobody_of_the_lost_generation_commit(
    tmp_path: Path,
) -> None:
    with ThreadPoolExecutor(4) as pool:
        with ServerProcess(tmp_path, settings=SETTINGS) as server:
            server.wait_until_serving()
            with OffsetClient(server.address) as client:
                members = told_twice(Group(client, pool))
            server.kill()
        with ServerProcess(tmp_path, settings=SETTINGS) as server:
            server.wait_until_serving()
            with OffsetClient(server.address) as client:
                check_fenced(Group(client, pool), *members)
            server.stop_well()


def check_fenced(group: Group, dynamic: Membership, static: Membership, lost: Membership) -> None:
    """Nobody of the lost generation writes: before its number is given again, and after that."""
    client = group.client
    assert client.get_group("g").generation == 1  # What was settled.
    for member, refusal in (
        (dynamic, IllegalGeneration),
        (static, IllegalGeneration),
        (lost, UnknownMember),
    ):
        for call in (group.commit, client.heartbeat, client.sync_group):
            with pytest.raises(refusal):
                call(member)
    # Only one joins again; the static one stays in the group until it is missed.
    stranger = group.join()
    poll(lambda: client.get_group("g").state.name == "PREPARING_REBALANCE", WAIT_S)
    again = [group.join(dynamic.member_id), stranger]
    joined = sorted((each.result(WAIT_S) for each in again), key=lambda each: each.is_leader)
    assert joined[-1].membership.generation_id == 2
    assignments = {static.member_id: b"anew"}
    client.sync_group(joined[-1].membership, assignments)
    with pytest.raises(UnknownMember):
        group.commit(lost)
    with pytest.raises(RebalanceInProgress):
        group.commit(static)
    assert client.fetch("g") == {}
    # What it is to read it learns from this generation, and then it is one of it.
    assert client.sync_group(static) == b"anew"
    group.commit(static)
