"""A group's life, drawn: whatever members, clocks, disks and restarts do, it keeps its promises."""

from __future__ import annotations

import os

import attrs
import pytest
from classic_groups import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, Calls, DrawnClient
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.membership.member_requests import Joined, Left, Synced
from offsetd_storage.offsets_topic.group_listing import GroupState

pytestmark = pytest.mark.slow

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
PROTOCOLS = [
    (("range", b"a"),),
    (("range", b"b"), ("roundrobin", b"c")),
    (("roundrobin", b"d"), ("range", b"e")),
    (("sticky", b"f"),),
]
INSTANCES = [None, None, "i-1", "i-2"]
pick = st.integers(0, 2**16)


@attrs.define(kw_only=True)
class Client(DrawnClient):
    """A member that says something, and may lead."""

    protocols: tuple[tuple[str, bytes], ...]
    is_leader: bool = False


class MembershipMachine(RuleBasedStateMachine):
    """Clients that do what they like, in any order, against one group."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = Calls(size_max=4)
        self.clients: list[Client] = []
        self.leaders: dict[tuple[int, int], str] = {}
        self.tokens: set[int] = set()
        self.abandoned: set[int] = set()
        self.life = 0
        self.generation = 0

    @initialize(
        instance_ids=st.lists(st.sampled_from(INSTANCES), min_size=1, max_size=4),
        is_settled=st.booleans(),
    )
    def begin(self, instance_ids: list[str | None], is_settled: bool) -> None:
        for instance_id in instance_ids:
            self.come(instance_id, PROTOCOLS[0])
        self.gather()
        if is_settled:
            self.settle_all()

    # What clients do.

    @rule(instance_id=st.sampled_from(INSTANCES), protocols=st.sampled_from(PROTOCOLS))
    def come(self, instance_id: str | None, protocols: tuple[tuple[str, bytes], ...]) -> None:
        if len(self.clients) < 8:
            self.clients.append(Client(instance_id=instance_id, protocols=protocols))

    @rule(index=pick, protocols=st.none() | st.sampled_from(PROTOCOLS))
    def join(self, index: int, protocols: tuple[tuple[str, bytes], ...] | None) -> None:
        client = self._client(index)
        if client is None:
            return
        if protocols is not None:
            client.protocols = protocols
        if client.call is not None:
            self.abandoned.add(client.call)  # It asks again, as after a lost connection.
        client.call = self.calls.join(
            client.member_id, instance_id=client.instance_id, protocols=client.protocols
        )
        self.tokens.add(client.call)
        self._read_answers()

    @rule(index=pick)
    def sync(self, index: int) -> None:
        client = self._client(index)
        if client is None or client.call is not None:
            return
        assignments = {each: each.encode() for each in client.told} if client.is_leader else {}
        client.call = self.calls.sync(
            client.member_id,
            client.generation,
            instance_id=client.instance_id,
            assignments=assignments,
        )
        self.tokens.add(client.call)
        self._read_answers()

    @rule(index=pick)
    def heartbeat(self, index: int) -> None:
        client = self._client(index)
        if client is not None:
            reason = self.calls.heartbeat(client.member_id, client.generation, client.instance_id)
            if client.is_fenced:
                assert reason

    @rule(index=pick, has_generation=st.booleans(), age=st.integers(0, 1))
    def commit(self, index: int, has_generation: bool, age: int) -> None:
        client = self._client(index)
        group = self.calls.membership.live(GROUP)
        if client is None or group is None:
            return
        identity = (client.member_id, client.generation - age, client.instance_id)
        reason = self.calls.commit(*(identity if has_generation else ()))
        if reason:
            return
        if group.has_members:
            assert has_generation, "only members commit to a group that has some"
            assert not client.is_fenced
            assert client.generation - age == group.generation
            assert client.member_id in group.members

    @rule(index=pick, by_instance=st.booleans())
    def leave(self, index: int, by_instance: bool) -> None:
        client = self._client(index)
        if client is None or not (client.member_id or client.instance_id):
            return
        named = "" if by_instance and client.instance_id else client.member_id
        if not named and client.instance_id is None:
            return
        self.tokens.add(self.calls.leave((named, client.instance_id)))
        self._read_answers()

    @rule(index=pick)
    def crash(self, index: int) -> None:
        client = self._client(index)
        if client is not None:
            self.clients.remove(client)
            if client.call is not None:
                self.abandoned.add(client.call)

    # What the world does.

    @rule(milliseconds=st.sampled_from([1, DELAY_MS, SESSION_MS // 2, SESSION_MS, REBALANCE_MS]))
    def wait(self, milliseconds: int) -> None:
        self.calls.advance(milliseconds)
        self._read_answers()

    @rule()
    def gather(self) -> None:
        """All clients join, with the id that they are told, and a generation may begin."""
        for _ in range(2):
            for index in range(len(self.clients)):
                if self.clients[index].call is None:
                    self.join(index, None)
        self.calls.advance(2 * DELAY_MS)
        self._read_answers()

    @rule()
    def settle_all(self) -> None:
        """All clients do what good ones do, until nothing is to be done."""
        for index in range(len(self.clients)):
            self.sync(index)

    @rule(is_full=st.booleans())
    def disk(self, is_full: bool) -> None:
        self.calls.is_full = is_full

    @rule()
    def restart(self) -> None:
        """The clients' connections break; the group is as it was recorded."""
        self.abandoned |= self.tokens - set(self.calls.answers)
        self.calls.restart()
        records = self.calls.records.get(GROUP)
        value = None if records is None else records.classic
        recorded_ids = set() if value is None else {each.member_id for each in value.members}
        for client in self.clients:
            client.call = None
            # Where it is recorded, its new self was not written.
            client.is_fenced &= client.member_id not in recorded_ids
        group = self.calls.membership.groups.get(GROUP)
        self.life += 1  # What was not recorded may be told again, to other members.
        self.generation = 0 if value is None else value.generation
        if value is None or not value.members:
            assert group is None
        else:
            assert group is not None
            if group.state is GroupState.STABLE:
                assert group.record() == value
            else:  # More members than it may have.
                assert len(value.members) > self.calls.config.size_max

    # What holds at any time.

    @invariant()
    def generations_never_fall(self) -> None:
        group = self.calls.membership.groups.get(GROUP)
        if group is not None:
            assert group.generation >= self.generation
            self.generation = group.generation

    @invariant()
    def written_generations_never_fall(self) -> None:
        generations = [value.generation for _, value in self.calls.written]
        assert generations == sorted(generations)

    @invariant()
    def a_group_is_whole(self) -> None:
        group = self.calls.membership.groups.get(GROUP)
        if group is None:
            return
        members = group.members
        assert group.waiting_joins == sum(m.join_token is not None for m in members.values())
        assert group.unsynced_ids <= set(members)
        assert not group.promised_ids & set(members)
        assert bool(members) == (group.leader_id in members)
        for member in members.values():
            if member.instance_id is not None:
                assert group.static_member(member.instance_id) is member
        match group.state:
            case GroupState.EMPTY:
                assert not members
            case GroupState.STABLE:
                assert members
                assert not any(m.join_token or m.sync_token for m in members.values())
                records = self.calls.records[GROUP].classic
                assert records is not None
                assert records == group.record()
            case GroupState.COMPLETING_REBALANCE:
                assert members
                assert group.waiting_joins == 0
                assert members[group.leader_id].sync_token is None

    @invariant()
    def every_call_is_answered_or_waits(self) -> None:
        """The harness sees to it that none is answered twice."""
        group = self.calls.membership.groups.get(GROUP)
        waiting: set[object] = set()
        if group is not None:
            for member in group.members.values():
                waiting |= {member.join_token, member.sync_token} - {None}
        unanswered = self.tokens - set(self.calls.answers)
        assert unanswered - waiting <= self.abandoned
        assert not waiting & set(self.calls.answers)

    def teardown(self) -> None:
        """In the end whoever waits is answered: by time alone."""
        waiting = {client.call for client in self.clients} - {None}
        for _ in range(4):
            self.calls.advance(400_000)
        assert waiting <= set(self.calls.answers)

    def _client(self, index: int) -> Client | None:
        return self.clients[index % len(self.clients)] if self.clients else None

    def _read_answers(self) -> None:
        for client in self.clients:
            answer = None if client.call is None else self.calls.answers.get(client.call)
            if answer is None:
                continue
            client.call = None
            if isinstance(answer, CoordinatorError):
                client.note_refusal(answer)
            elif isinstance(answer, Joined):
                self._note_joined(client, answer)
            else:
                assert isinstance(answer, Synced | Left)
                if isinstance(answer, Synced):
                    # Its own, or nothing if it came after the leader was told of the members.
                    assert answer.assignment in (b"", *self._former_ids(client))

    def _former_ids(self, client: Client) -> set[bytes]:
        """A static member keeps the assignment that was made for its old id."""
        if client.instance_id is None:
            return {client.member_id.encode()}
        return {
            member.member_id.encode()
            for _, value in self.calls.written
            for member in value.members
            if member.group_instance_id == client.instance_id
        }

    def _note_joined(self, client: Client, joined: Joined) -> None:
        client.note_joined(joined)
        client.is_leader = joined.leader_id == joined.member_id
        assert bool(joined.members) == client.is_leader
        if client.is_leader and not joined.skips_assignment:
            key = (self.life, joined.generation)
            assert self.leaders.setdefault(key, joined.member_id) == joined.member_id
        assert joined.protocol in {name for name, _ in client.protocols}
        for other in self.clients:
            is_old_self = (
                client.instance_id is not None
                and other is not client
                and other.instance_id == client.instance_id
                and _age(other.member_id) < _age(client.member_id)
            )
            if is_old_self:
                other.is_fenced = True


def _age(member_id: str) -> int:
    """The harness numbers the ids that it gives."""
    return int(member_id.rpartition("id")[2] or 0)


TestMembershipMachine = MembershipMachine.TestCase
TestMembershipMachine.settings = settings(
    max_examples=3000 if NIGHTLY else 150, stateful_step_count=60, deadline=None
)
