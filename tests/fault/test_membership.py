"""Classic membership over real connections: several clients, restarts, and every refusal."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import (
    FencedInstance,
    GroupNotEmpty,
    GroupNotFound,
    GroupState,
    GroupSubscribedToTopic,
    IllegalGeneration,
    JoinedGroup,
    Membership,
    MemberToRemove,
    OffsetClient,
    OffsetdError,
    RebalanceInProgress,
    RetryPolicy,
    TopicPartition,
    UnknownMember,
)
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.long(minutes=1)

WAIT_S = 60
SETTINGS = {
    "group.initial.rebalance.delay.ms": 300,
    "group.min.session.timeout.ms": 500,
    "group.max.size": 3,
    "max.message.bytes": 65_536,
}
ORDERS = TopicPartition("orders", 0)
# ConsumerProtocolSubscription v0 of the topic "orders", without user data.
READS_ORDERS = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")
RANGE = {"range": READS_ORDERS}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data"), settings=SETTINGS) as process:
        yield process.wait_until_serving()
        process.stop_well()


def join(client: OffsetClient, group: str, **more: Any) -> Future[JoinedGroup]:
    """A join that waits in a thread of its own."""
    options = {"session_timeout_s": 30.0, "rebalance_timeout_s": 30.0, **more}
    future: Future[JoinedGroup] = Future()

    def call() -> None:
        try:
            future.set_result(client.join_group(group, options.pop("protocols", RANGE), **options))
        except OffsetdError as error:
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return future


def joined(*futures: Future[JoinedGroup]) -> list[JoinedGroup]:
    """The members of one generation, the leader first."""
    results = [future.result(WAIT_S) for future in futures]
    assert len({each.membership.generation_id for each in results}) == 1
    assert sum(each.is_leader for each in results) == 1
    return sorted(results, key=lambda each: not each.is_leader)


def synced(client: OffsetClient, *members: JoinedGroup) -> list[bytes]:
    """The assignments that all get: each its member id, as the leader has it."""
    assignments = {each.member_id: each.member_id.encode() for each in members[0].members}
    with ThreadPoolExecutor(len(members)) as pool:
        calls = [
            pool.submit(client.sync_group, each.membership, assignments if each.is_leader else None)
            for each in reversed(members)
        ]
        return [call.result(WAIT_S) for call in reversed(calls)]


def stable(client: OffsetClient, group: str, count: int, **more: Any) -> list[Membership]:
    """A group that is settled; the leader first."""
    members = joined(*(join(client, group, **more) for _ in range(count)))
    assert synced(client, *members) == [each.membership.member_id.encode() for each in members]
    return [each.membership for each in members]


def test_clients_form_a_group_share_it_and_leave(client: OffsetClient, group: str) -> None:
    leader, follower = stable(client, group, 2)
    described = client.get_group(group)
    assert (described.state, described.generation, described.protocol) == (
        GroupState.STABLE,
        leader.generation_id,
        "range",
    )
    assert {each.member_id for each in described.members} == {
        leader.member_id,
        follower.member_id,
    }
    assert all(each.client_host == "/127.0.0.1" for each in described.members)
    for member in (leader, follower):
        client.heartbeat(member)
        client.commit(group, {ORDERS: 7}, membership=member)

    newcomer = join(client, group)
    poll(lambda: client.get_group(group).state == GroupState.PREPARING_REBALANCE, WAIT_S)
    with pytest.raises(RebalanceInProgress):
        client.heartbeat(follower)
    client.commit(group, {ORDERS: 8}, membership=follower)  # Still of the old generation.
    again = [join(client, group, member_id=each.member_id) for each in (leader, follower)]
    members = joined(newcomer, *again)
    assert members[0].membership.generation_id == leader.generation_id + 1
    with pytest.raises(RebalanceInProgress):
        client.commit(group, {ORDERS: 9}, membership=members[0].membership)
    synced(client, *members)
    with pytest.raises(IllegalGeneration):
        client.commit(group, {ORDERS: 9}, membership=leader)
    assert client.fetch(group)[ORDERS].offset == 8

    assert not client.leave_group(
        group, [MemberToRemove(member_id=each.membership.member_id) for each in members]
    )
    described = client.get_group(group)
    assert described.state == GroupState.EMPTY
    assert described.generation == leader.generation_id + 2
    client.commit(group, {ORDERS: 10})
    assert client.delete_group(group).offset_count == 1


def test_members_without_a_sign_of_life_are_removed(client: OffsetClient, group: str) -> None:
    (member,) = stable(client, group, 1, session_timeout_s=3.0)
    poll(lambda: client.get_group(group).state == GroupState.EMPTY, WAIT_S)
    with pytest.raises(UnknownMember):
        client.heartbeat(member)


def test_a_static_member_that_comes_back_keeps_its_place_and_fences_its_old_self(
    client: OffsetClient, group: str
) -> None:
    (old,) = stable(client, group, 1, instance_id="i-1")
    new = join(client, group, instance_id="i-1").result(WAIT_S)
    assert new.membership.generation_id == old.generation_id
    assert new.is_leader
    assert new.skip_assignment
    assert client.sync_group(new.membership) == old.member_id.encode()
    calls = [
        lambda: client.heartbeat(old),
        lambda: client.sync_group(old),
        lambda: client.commit(group, {ORDERS: 1}, membership=old),
        lambda: client.join_group(group, RANGE, member_id=old.member_id, instance_id="i-1"),
    ]
    for call in calls:
        with pytest.raises(FencedInstance):
            call()
    assert client.fetch(group) == {}
    client.heartbeat(new.membership)
    refused = client.leave_group(group, [MemberToRemove(instance_id="nobody")])
    assert [type(error) for error in refused.values()] == [UnknownMember]
    assert not client.leave_group(group, [MemberToRemove(instance_id="i-1")], reason="test")
    assert client.get_group(group).state == GroupState.EMPTY


def test_an_operator_removes_members_and_the_audit_log_keeps_that(
    client: OffsetClient, group: str
) -> None:
    leader, follower = stable(client, group, 2)
    would = client.remove_members(group, None, validate_only=True)
    assert {each.member_id for each in would.removed} == {leader.member_id, follower.member_id}
    assert would.revision is None
    named = [MemberToRemove(member_id=each) for each in (follower.member_id, "nobody")]
    answer = client.remove_members(group, named, reason="stuck")
    assert answer.removed == (named[0],)
    assert [type(error) for error in answer.refused.values()] == [UnknownMember]
    with pytest.raises(UnknownMember):
        client.heartbeat(follower)
    with pytest.raises(RebalanceInProgress):
        client.heartbeat(leader)
    assert [each.member_id for each in client.remove_members(group, None).removed] == [
        leader.member_id
    ]
    assert client.get_group(group).state == GroupState.EMPTY
    later, earlier = client.list_audit_events(group_id=group)
    assert {each.method for each in (later, earlier)} == {"RemoveMembers"}
    assert (earlier.reason, earlier.revision) == ("stuck", answer.revision)
    assert earlier.what == {"group": group, "members": {follower.member_id: None}}
    with pytest.raises(GroupNotFound):
        client.remove_members(f"{group}-absent", None)


def test_a_group_that_members_read_is_not_deleted(client: OffsetClient, group: str) -> None:
    (member,) = stable(client, group, 1)
    client.commit(group, {ORDERS: 1, TopicPartition("other", 0): 2}, membership=member)
    with pytest.raises(GroupNotEmpty):
        client.delete_group(group)
    with pytest.raises(GroupSubscribedToTopic):
        client.delete_offsets(group, [ORDERS])
    with pytest.raises(UnknownMember):
        client.commit(group, {ORDERS: 9})
    assert client.fetch(group)[ORDERS].offset == 1
    client.delete_offsets(group, topics=["other"])
    assert set(client.fetch(group)) == {ORDERS}


def reason_of(call: Any) -> str:
    with pytest.raises(OffsetdError) as raised:
        call()
    return raised.value.reason


def test_every_refusal_of_a_member_leaves_everything_as_it_was(
    client: OffsetClient, group: str
) -> None:
    (member,) = stable(client, group, 1)
    before = client.get_group(group)
    stranger = Membership(group_id=group, member_id="nobody", generation_id=1)
    late = Membership(group_id=group, member_id=member.member_id, generation_id=99)
    nowhere = Membership(group_id=f"{group}-absent", member_id="nobody", generation_id=1)
    cases: list[tuple[str, Any]] = [
        ("UNKNOWN_MEMBER_ID", lambda: client.heartbeat(stranger)),
        ("UNKNOWN_MEMBER_ID", lambda: client.heartbeat(nowhere)),
        ("UNKNOWN_MEMBER_ID", lambda: client.sync_group(stranger)),
        ("UNKNOWN_MEMBER_ID", lambda: client.join_group(group, RANGE, member_id="nobody")),
        ("UNKNOWN_MEMBER_ID", lambda: client.commit(group, {ORDERS: 1}, membership=stranger)),
        (
            "GROUP_ID_NOT_FOUND",
            lambda: client.commit(nowhere.group_id, {ORDERS: 1}, membership=nowhere),
        ),
        ("ILLEGAL_GENERATION", lambda: client.heartbeat(late)),
        ("ILLEGAL_GENERATION", lambda: client.sync_group(late)),
        ("ILLEGAL_GENERATION", lambda: client.commit(group, {ORDERS: 1}, membership=late)),
        ("INCONSISTENT_GROUP_PROTOCOL", lambda: client.join_group(group, {"sticky": b""})),
        (
            "INCONSISTENT_GROUP_PROTOCOL",
            lambda: client.join_group(group, RANGE, protocol_type="connect"),
        ),
        (
            "INVALID_SESSION_TIMEOUT",
            lambda: client.join_group(group, RANGE, session_timeout_s=0.499),
        ),
        (
            "INVALID_SESSION_TIMEOUT",
            lambda: client.join_group(group, RANGE, session_timeout_s=1800.001),
        ),
        ("INVALID_GROUP_ID", lambda: client.join_group("", RANGE)),
        ("INVALID_PROTOCOL", lambda: client.join_group(group, {})),
        ("INVALID_PROTOCOL", lambda: client.join_group(group, RANGE, protocol_type="")),
        ("INVALID_INSTANCE_ID", lambda: client.join_group(group, RANGE, instance_id="a b")),
        ("INVALID_INSTANCE_ID", lambda: client.join_group(group, RANGE, instance_id="i" * 250)),
        ("INVALID_MEMBER_ID", lambda: client.join_group(group, RANGE, member_id="m" * 32_768)),
        ("INVALID_MEMBER_ID", lambda: client.leave_group(group, [MemberToRemove()])),
        ("INVALID_REQUEST", lambda: client.leave_group(group, [])),
    ]  # fmt: skip
    for reason, call in cases:
        assert reason_of(call) == reason
    client.heartbeat(member)
    assert client.get_group(group) == before
    assert client.fetch(group) == {}


def test_a_group_takes_no_more_members_than_it_may_have(client: OffsetClient, group: str) -> None:
    members = joined(*(join(client, group, instance_id=f"i-{n}") for n in range(3)))
    assert reason_of(lambda: client.join_group(group, RANGE)) == "GROUP_MAX_SIZE_REACHED"
    synced(client, *members)
    assert len(client.get_group(group).members) == 3


def test_assignments_that_fit_no_record_are_refused_and_the_members_join_again(
    client: OffsetClient, group: str
) -> None:
    members = joined(join(client, group), join(client, group))
    huge = {each.member_id: b"x" * 40_000 for each in members[0].members}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.sync_group, members[1].membership)
        assert reason_of(lambda: client.sync_group(members[0].membership, huge)) == (
            "GROUP_RECORD_TOO_LARGE"
        )
        # It may have come before the leader's, or after it.
        error = waiting.exception(WAIT_S)
        assert isinstance(error, OffsetdError)
        assert error.reason in {"GROUP_RECORD_TOO_LARGE", "REBALANCE_IN_PROGRESS"}
    assert client.get_group(group).state == GroupState.PREPARING_REBALANCE
    again = joined(*(join(client, group, member_id=each.membership.member_id) for each in members))
    synced(client, *again)
    assert client.get_group(group).state == GroupState.STABLE


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_groups_come_back_with_their_members(tmp_path: Path, end: str) -> None:
    with ServerProcess(tmp_path, settings=SETTINGS) as server:
        server.wait_until_serving()
        with OffsetClient(server.address) as client:
            members = stable(client, "kept", 2, session_timeout_s=20.0)
            client.commit("kept", {ORDERS: 5}, membership=members[1])
            described = client.get_group("kept")
            emptied = stable(client, "emptied", 1)
            client.leave_group("emptied", [MemberToRemove(member_id=emptied[0].member_id)])
        getattr(server, end)()
    with ServerProcess(tmp_path, settings=SETTINGS) as server:
        server.wait_until_serving()
        with OffsetClient(server.address) as client:
            assert client.get_group("kept") == described
            for member in members:
                client.heartbeat(member)
                client.commit("kept", {ORDERS: 6}, membership=member)
            assert client.get_group("emptied").state == GroupState.EMPTY
            (again,) = stable(client, "emptied", 1)
            assert again.generation_id == emptied[0].generation_id + 2
        assert server.stop() == 0


@pytest.mark.single_server
def test_a_stop_refuses_those_who_wait_for_others(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, settings=SETTINGS) as server:
        server.wait_until_serving()
        with (
            OffsetClient(server.address) as client,
            OffsetClient(server.address, retry=RetryPolicy(timeout_s=1)) as waiting,
        ):
            leader, follower = joined(join(client, "g"), join(client, "g"))
            failed: list[OffsetdError] = []

            def sync() -> None:
                try:
                    waiting.sync_group(follower.membership, wait_s=5)
                except OffsetdError as error:
                    failed.append(error)

            thread = threading.Thread(target=sync)
            thread.start()
            assert leader.is_leader
            assert server.stop() == 0
            thread.join(WAIT_S)
            assert [error.code for error in failed] == ["UNAVAILABLE"]


def test_a_client_that_goes_away_is_answered_no_more_and_holds_nobody_up(
    client: OffsetClient, server: ServerProcess, group: str
) -> None:
    (member,) = stable(client, group, 1)
    gone = OffsetClient(server.address, retry=RetryPolicy(timeout_s=WAIT_S))
    call = join(gone, group, session_timeout_s=0.5)
    poll(lambda: client.get_group(group).state == GroupState.PREPARING_REBALANCE, WAIT_S)
    gone.close()
    assert isinstance(call.exception(WAIT_S), OffsetdError)
    again = join(client, group, member_id=member.member_id).result(WAIT_S)
    client.sync_group(again.membership, {})
    # What the other left behind ends with its session, and the rest goes on without it.
    current = again.membership

    def is_alone() -> bool:
        nonlocal current
        try:
            client.heartbeat(current)
        except RebalanceInProgress:
            next_one = join(client, group, member_id=current.member_id)
            current = next_one.result(WAIT_S).membership
            client.sync_group(current, {})
        return len(client.get_group(group).members) == 1

    poll(is_alone, WAIT_S)
