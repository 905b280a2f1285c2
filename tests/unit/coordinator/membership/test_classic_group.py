"""One group: states, members, protocols, leaders. The cases are those of Kafka's ClassicGroupTest.

Each test names the ones it stands for; docs/conformance.md has the map.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.membership.classic_group import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
    Member,
)
from offsetd_coordinator.membership.member_requests import JoinGroup, MemberIdentity
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMember, GroupMetadataValue

if TYPE_CHECKING:
    from offsetd_storage.offsets_topic.group_listing import GroupState

NOW_MS = 1_700_000_000_000
STATES = [EMPTY, PREPARING, COMPLETING, STABLE, DEAD]
# ConsumerProtocolSubscription v0, no user data.
READS_FOO = bytes.fromhex("0000 00000001 0003") + b"foo" + bytes.fromhex("ffffffff")
READS_BAR = bytes.fromhex("0000 00000001 0003") + b"bar" + bytes.fromhex("ffffffff")

# From state, to state: all that Kafka allows.
LEGAL = {
    (EMPTY, PREPARING),
    (PREPARING, EMPTY),
    (PREPARING, COMPLETING),
    (COMPLETING, PREPARING),
    (COMPLETING, STABLE),
    (STABLE, PREPARING),
    *((state, DEAD) for state in STATES),
}


def member(member_id: str = "m", *protocols: str, **more: Any) -> Member:
    """A member that speaks these, or range."""
    fields: dict[str, Any] = {
        "instance_id": None,
        "client_id": "c",
        "client_host": "/h",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocols": tuple((name, b"") for name in protocols or ("range",)),
        **more,
    }
    return Member(member_id=member_id, **fields)


def join(*protocols: tuple[str, bytes], **more: Any) -> JoinGroup:
    """A member's next join."""
    fields: dict[str, Any] = {"session_timeout_ms": 20_000, "rebalance_timeout_ms": 70_000, **more}
    return JoinGroup(
        group_id=b"g",
        client_id="c",
        client_host="/h",
        protocol_type="consumer",
        protocols=protocols,
        **fields,
    )


def group_of(*members: Member, protocol_type: str = "consumer") -> ClassicGroup:
    """A group whose members are about to be in a generation."""
    group = ClassicGroup(b"g")
    group.protocol_type = protocol_type
    for each in members:
        group.add(each)
    if members:
        group.enter(PREPARING, NOW_MS)
    return group


def in_state(state: GroupState, *members: Member, **more: Any) -> ClassicGroup:
    """The same in a state that it came to as groups do."""
    group = group_of(*members or (member(),), **more)
    if state is EMPTY:
        for each in list(group.members):
            group.remove(each)
    if state is not PREPARING:
        group.begin_generation(NOW_MS)
    if state is STABLE:
        group.enter(STABLE, NOW_MS)
    if state is DEAD:
        group.enter(DEAD, NOW_MS)
    assert group.state is state
    return group


@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)))
def test_only_legal_states_follow_each_other(before: GroupState, after: GroupState) -> None:
    group = in_state(before)
    if (before, after) in LEGAL:
        group.enter(after, NOW_MS + 1)
        assert (group.state, group.state_before) == (after, before)
        assert group.state_timestamp_ms == NOW_MS + 1
    else:
        with pytest.raises(AssertionError):
            group.enter(after, NOW_MS + 1)
        assert group.state is before


@pytest.mark.parametrize(
    ("members", "selected"),
    [
        # The only one's first; then what most prefer; of equals the first.
        ([("range", "roundrobin")], "range"),
        ([("range", "roundrobin"), ("roundrobin", "range")], "range"),
        ([("range", "roundrobin"), ("roundrobin", "range"), ("roundrobin", "range")], "roundrobin"),
        # Only of what all speak.
        ([("range", "roundrobin"), ("roundrobin", "blah")], "roundrobin"),
        ([("a", "b", "c"), ("c", "b"), ("b", "x", "c")], "b"),
    ],
)
def test_the_protocol_is_what_most_prefer_of_what_all_speak(
    members: list[tuple[str, ...]], selected: str
) -> None:
    group = group_of(*(member(f"m{n}", *names) for n, names in enumerate(members)))
    assert group.selected_protocol() == selected


def test_a_protocol_is_supported_if_all_members_speak_one_of_them() -> None:

    def supports(*names: str, protocol_type: str = "consumer") -> bool:
        return group.supports(protocol_type, [(name, b"") for name in names])

    group = ClassicGroup(b"g")
    assert supports("anything", protocol_type="any")  # By an empty group, any.
    assert not supports(protocol_type="any")
    assert not supports("range", protocol_type="")
    group = group_of(member("a", "range", "roundrobin"))
    assert supports("roundrobin", "foo")
    assert supports("range", "bar")
    assert not supports("foo", "bar")
    assert not supports("range", protocol_type="connect")
    group.add(member("b", "roundrobin", "foo"))
    assert supports("roundrobin", "foo")
    assert not supports("range", "bar")
    group.remove("b")
    assert supports("range")


def test_a_generation_begins_with_the_members_there_are() -> None:
    group = group_of(member())
    group.begin_generation(NOW_MS)
    assert (group.generation, group.protocol, group.state) == (1, "range", COMPLETING)
    group.enter(PREPARING, NOW_MS)
    group.remove("m")
    group.begin_generation(NOW_MS)
    assert (group.generation, group.protocol, group.state) == (2, "", EMPTY)
    assert not group.is_recorded


def test_a_member_that_joins_again_is_as_it_says_now() -> None:
    group = group_of(member("a"), member("b"))
    updated = group.members["a"]
    assert group.update(updated, join(("roundrobin", b"x")), "t1") is None
    assert (updated.session_timeout_ms, updated.rebalance_timeout_ms) == (20_000, 70_000)
    assert updated.protocols == (("roundrobin", b"x"),)
    assert group.rebalance_timeout_ms == 70_000
    assert group.waiting_joins == 1
    assert group.update(updated, join(("range", b"")), "t2") == "t1"
    assert group.waiting_joins == 1
    assert group.supports("consumer", [("range", b"")])
    assert not group.supports("consumer", [("roundrobin", b"")])
    assert group.take_join(updated) == "t2"
    assert group.waiting_joins == 0


def test_a_static_member_is_replaced_in_its_place() -> None:
    old = member("old", instance_id="i", assignment=b"x", join_token="t")
    group = group_of(old, member("other"))
    assert group.leader_id == "old"
    group.take_join(old)
    group.unsynced_ids.add("old")
    group.replace(old, member("new", instance_id="i", assignment=b"x"))
    assert group.leader_id == "new"
    static = group.static_member("i")
    assert static is not None
    assert static.member_id == "new"
    assert group.unsynced_ids == {"new"}
    assert set(group.members) == {"new", "other"}


def test_members_are_found_by_what_they_know_of_themselves() -> None:
    group = in_state(STABLE, member("dynamic"), member("static", instance_id="i"))
    cases = [
        (("dynamic", 1, None), ""),
        (("static", 1, "i"), ""),
        (("static", 1, None), ""),  # As in Kafka.
        (("nobody", 1, None), "UNKNOWN_MEMBER_ID"),
        (("", 1, None), "UNKNOWN_MEMBER_ID"),
        (("static", 1, "j"), "UNKNOWN_MEMBER_ID"),
        (("dynamic", 1, "i"), "FENCED_INSTANCE_ID"),
        (("nobody", 1, "i"), "FENCED_INSTANCE_ID"),
        (("dynamic", 0, None), "ILLEGAL_GENERATION"),
        (("dynamic", 2, None), "ILLEGAL_GENERATION"),
        # In this order.
        (("nobody", 2, None), "UNKNOWN_MEMBER_ID"),
        (("old", 2, "i"), "FENCED_INSTANCE_ID"),
    ]
    for (member_id, generation, instance_id), reason in cases:
        identity = MemberIdentity(member_id, generation, instance_id)
        assert refusal(lambda: group.find_in_generation(identity)) == reason  # noqa: B023


def refusal(call: Any) -> str:
    try:
        call()
    except CoordinatorError as error:
        return error.reason
    return ""


OUTSIDER, OF_MEMBER = None, MemberIdentity("m", 1)


@pytest.mark.parametrize(
    ("state", "identity", "reason"),
    [
        (EMPTY, OUTSIDER, ""),
        (EMPTY, MemberIdentity("m", -1), ""),
        (EMPTY, MemberIdentity("", -1, "i"), ""),
        (EMPTY, OF_MEMBER, "UNKNOWN_MEMBER_ID"),
        (EMPTY, MemberIdentity("", 1), "UNKNOWN_MEMBER_ID"),
        (PREPARING, OUTSIDER, "UNKNOWN_MEMBER_ID"),
        (PREPARING, MemberIdentity("m", 0), ""),
        (PREPARING, OF_MEMBER, "ILLEGAL_GENERATION"),
        (PREPARING, MemberIdentity("m", -1), "ILLEGAL_GENERATION"),
        (COMPLETING, OUTSIDER, "UNKNOWN_MEMBER_ID"),
        (COMPLETING, OF_MEMBER, "REBALANCE_IN_PROGRESS"),
        (COMPLETING, MemberIdentity("m", 0), "ILLEGAL_GENERATION"),
        (COMPLETING, MemberIdentity("x", 1), "UNKNOWN_MEMBER_ID"),
        (STABLE, OUTSIDER, "UNKNOWN_MEMBER_ID"),
        (STABLE, OF_MEMBER, ""),
        (STABLE, MemberIdentity("m", 1, "i"), "UNKNOWN_MEMBER_ID"),
        (STABLE, MemberIdentity("m", 0), "ILLEGAL_GENERATION"),
        (STABLE, MemberIdentity("x", 0), "UNKNOWN_MEMBER_ID"),
    ],
)
def test_who_may_commit_in_which_state(
    state: GroupState, identity: MemberIdentity | None, reason: str
) -> None:
    group = in_state(state)
    assert refusal(lambda: group.check_commit(identity)) == reason


def test_the_lead_goes_to_one_that_has_joined() -> None:
    group = ClassicGroup(b"g")
    assert not group.elect_leader()
    group = group_of(member("a"), member("b"), member("c"))
    assert group.leader_id == "a"
    assert not group.elect_leader()
    assert group.leader_id == "a"
    group.update(group.members["c"], join(("range", b"")), "t")
    assert group.elect_leader()
    assert group.leader_id == "c"
    group.update(group.members["a"], join(("range", b"")), "t")
    assert group.elect_leader()
    assert group.leader_id == "c"
    group.remove("c")
    assert group.leader_id == "a"


def test_ids_that_were_promised_are_waited_for() -> None:
    group = group_of(member("a", join_token="t"))
    assert group.have_all_joined
    group.promised_ids |= {"b", "c"}
    assert not group.have_all_joined
    group.add(member("b", join_token="t"))
    assert group.promised_ids == {"c"}
    group.remove("c")
    assert group.have_all_joined


@pytest.mark.parametrize(
    ("protocol_type", "said", "topic", "is_subscribed"),
    [
        ("consumer", [READS_FOO], "foo", True),
        ("consumer", [READS_FOO], "bar", False),
        ("consumer", [READS_FOO, READS_BAR], "bar", True),
        ("consumer", [READS_FOO, b"\x00"], "bar", True),  # Who may read anything.
        ("connect", [READS_FOO], "foo", False),
    ],
)
def test_which_topics_a_group_reads(
    protocol_type: str, said: list[bytes], topic: str, is_subscribed: bool
) -> None:
    members = [member(f"m{n}", protocols=(("range", each),)) for n, each in enumerate(said)]
    group = in_state(STABLE, *members, protocol_type=protocol_type)
    assert group.is_subscribed(topic) is is_subscribed
    first = group_of(*members, protocol_type=protocol_type)
    assert first.is_subscribed(topic) is (protocol_type == "consumer")  # No protocol is chosen.


def test_which_topics_a_group_reads_follows_its_members() -> None:
    reader = member("a", protocols=(("range", READS_FOO),))
    group = in_state(STABLE, reader)
    assert (group.is_subscribed("foo"), group.is_subscribed("bar")) == (True, False)
    group.update(reader, join(("range", READS_BAR)), "t")
    assert (group.is_subscribed("foo"), group.is_subscribed("bar")) == (False, True)
    group.add(member("b", protocols=(("range", READS_FOO),)))
    assert group.is_subscribed("foo")
    group.remove("b")
    assert not group.is_subscribed("foo")


def test_which_topics_a_group_reads_follows_its_protocol() -> None:
    says = (("sticky", READS_FOO), ("range", READS_BAR))
    group = in_state(STABLE, member("a", protocols=says), member("b", protocols=says))
    assert (group.protocol, group.is_subscribed("foo")) == ("sticky", True)
    for each in group.members.values():
        each.protocols = says[::-1]  # What they prefer, not what they speak.
    group.enter(PREPARING, NOW_MS)
    group.begin_generation(NOW_MS)
    assert group.protocol == "range"
    assert (group.is_subscribed("foo"), group.is_subscribed("bar")) == (False, True)


def test_a_group_is_as_its_record_says() -> None:
    group = in_state(STABLE, member("a", instance_id="i", assignment=b"1"), member("b"))
    group.leader_id = "b"
    value = group.record()
    again = ClassicGroup.of_record(b"g", GroupMetadataValue.decode(value.encode()))
    assert again.record() == value
    assert (again.state, again.generation, again.leader_id) == (STABLE, 1, "b")
    static = again.static_member("i")
    assert static is not None
    assert static.member_id == "a"
    assert again.record({"b": b"new"}).members[1].assignment == b"new"
    assert again.record({"b": b"new"}).members[0].assignment == b""


def test_records_of_brokers_are_taken_as_they_are() -> None:
    """Old versions have no rebalance timeout; a leader may be gone; ids may be there twice."""
    record = GroupMember(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        session_timeout_ms=10_000,
        subscription=b"s",
        assignment=b"",
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=7, protocol=None, leader="x", members=(record, record)
    )
    group = ClassicGroup.of_record(b"g", value)
    assert list(group.members) == ["m"]
    assert group.leader_id == "m"
    assert group.rebalance_timeout_ms == 10_000
    group.remove("m")
    assert group.static_member("i") is None


@pytest.mark.parametrize("state", STATES[:-1])
def test_a_group_that_is_not_stable_shows_its_members_without_what_they_read(
    state: GroupState,
) -> None:
    group = in_state(state, member("m", protocols=(("range", READS_FOO),)))
    described = group.describe(3)
    assert (described.state, described.protocol_type) == (state, "consumer")
    assert described.offset_count == 3
    assert described.protocol == ("range" if state is STABLE else "")
    assert [each.topics for each in described.members] == {
        EMPTY: [],
        STABLE: [("foo",)],
    }.get(state, [()])
    assert group.listing().state is state
