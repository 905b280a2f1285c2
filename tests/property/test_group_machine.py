"""Groups' lives on a disk, drawn: members, leases, commits, deletions, expiry, time, crashes.

Against one node: its log is flushed, cleaned, and cut by crashes at any moment. Whatever happens,
nobody commits who is fenced, one member leads each generation, epochs only grow, offsets expire
when they are due and no sooner, live state is what a replay says, and after a crash the group is
as the last write that is left made it, none of those acknowledged missing.
"""

from __future__ import annotations

import os
from random import Random

import attrs
import pytest
from classic_groups import DrawnClient
from group_nodes import DELAY_MS, RETENTION_MS, SESSION_MS, GroupNode
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.membership.member_requests import (
    Joined,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from offsetd_coordinator.requests import (
    AcquireGroup,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    OffsetEntry,
    ReleaseGroup,
    UpdateGroup,
)
from sim.crash_explorer import crashed

pytestmark = [pytest.mark.long(minutes=1), pytest.mark.slow]

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
GROUPS = ["members", "lease", "both", "plain"]
LEASED = ["lease", "both"]
TTL_MS = 5000
SUBSCRIPTION = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")
pick = st.integers(0, 2**16)
groups = st.sampled_from(GROUPS)
some_partitions = st.sets(st.integers(0, 2), min_size=1).map(sorted)


@attrs.define(kw_only=True)
class Client(DrawnClient):
    """A member of one of the groups."""

    group: str


class GroupMachine(RuleBasedStateMachine):
    """Clients that do as they like, a disk, and a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: list[Client] = []
        self.leaders: dict[tuple[int, str, int, int], str] = {}
        self.starts = 0
        self.value = 0
        self.epochs: dict[str, list[int]] = {group: [0] for group in GROUPS}

    @initialize(seed=pick)
    def begin(self, seed: int) -> None:
        self.node = GroupNode(Random(seed))

    # Commits.

    @rule(
        group=groups,
        partitions=some_partitions,
        retention_ms=st.sampled_from([-1, -1, -1, 1000, 2 * RETENTION_MS]),
        epoch=st.none() | pick,
    )
    def commit(
        self, group: str, partitions: list[int], retention_ms: int, epoch: int | None
    ) -> None:
        """By somebody who is no member, with the newest epoch, an old one, or none."""
        known = self.epochs[group]
        given = -1 if epoch is None else known[max(0, len(known) - 1 - epoch % 3)]
        told = self.node.of(group)
        is_held = told.lease_is_held(self.node.clock.monotonic_ms())
        if self._commit(group, partitions, epoch=given, retention_ms=retention_ms):
            live = self.node.membership.live(group.encode())
            assert live is None or not live.has_members, "only members commit"
            assert told.epoch == given if given >= 0 else not is_held

    @rule(index=pick, partitions=some_partitions)
    def commit_as_member(self, index: int, partitions: list[int]) -> None:
        client = self._client(index)
        if client is None or not self._commit(client.group, partitions, member=client.identity):
            return
        live = self.node.membership.live(client.group.encode())
        if live is not None and live.has_members:
            assert not client.is_fenced
            assert live.generation == client.generation
            assert client.member_id in live.members
        else:  # Whoever has never been in a generation commits as one who is not a member.
            assert client.generation < 0

    def _commit(self, group: str, partitions: list[int], **more: object) -> bool:
        self.value += 1
        entries = [
            OffsetEntry(topic=b"orders", partition=each, offset=self.value) for each in partitions
        ]
        request = CommitOffsets.of(group.encode(), entries, **more)  # type: ignore[arg-type]
        reply = self.node.do(request)
        is_taken = not isinstance(reply, CoordinatorError)
        member = request.member
        if is_taken and member is not None:
            self.node.membership.note_commit(request.group_id, member, self.node.moment)
        return is_taken

    # Leases and settings.

    @rule(group=st.sampled_from(LEASED), force=st.booleans(), holder=st.sampled_from(["x", "y"]))
    def acquire(self, group: str, force: bool, holder: str) -> None:
        told = self.node.of(group)
        is_held = told.lease_is_held(self.node.clock.monotonic_ms())
        before = self.node.shard.leases.status(group.encode(), self.node.moment)
        reply = self.node.do(
            AcquireGroup(group_id=group.encode(), holder=holder, ttl_ms=TTL_MS, force=force)
        )
        if isinstance(reply, CoordinatorError):
            return
        assert force or not is_held or (before is not None and before.lease.holder == holder)
        self.epochs[group].append(self.node.of(group).epoch_newest)

    @rule(group=st.sampled_from(LEASED), age=st.integers(0, 1), renews=st.booleans())
    def end_or_renew_a_lease(self, group: str, age: int, renews: bool) -> None:
        epoch = self.epochs[group][-1 - age if len(self.epochs[group]) > age else 0]
        told = self.node.of(group)
        epoch_before = told.epoch
        if renews:
            reply = self.node.renew(group, epoch)
        else:
            reply = self.node.do(ReleaseGroup(group_id=group.encode(), epoch=epoch))
        assert isinstance(reply, CoordinatorError) == (epoch_before != epoch)

    @rule(group=groups, retention_ms=st.sampled_from([None, 3000]), never=st.booleans())
    def update(self, group: str, retention_ms: int | None, never: bool) -> None:
        self.node.do(
            UpdateGroup(
                group_id=group.encode(),
                retention_ms=None if never else retention_ms,
                never_expires=never,
                allow_missing=True,
            )
        )

    # Deletions.

    @rule(group=groups, partition=st.integers(0, 2))
    def delete_offsets(self, group: str, partition: int) -> None:
        reply = self.node.do(
            DeleteOffsets(group_id=group.encode(), partitions=((b"orders", partition),))
        )
        if not isinstance(reply, CoordinatorError):
            live = self.node.membership.live(group.encode())
            assert live is None or not live.is_subscribed("orders")

    @rule(group=groups, partition=st.integers(0, 2))
    def delete_offsets_under_members(self, group: str, partition: int) -> None:
        """What several steps would have to come together for."""
        self.come(group, None)
        self.settle()
        self.delete_offsets(group, partition)

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        live = self.node.membership.live(group.encode())
        had_members = live is not None and live.has_members
        reply = self.node.do(DeleteGroup(group_id=group.encode()))
        assert isinstance(reply, CoordinatorError) or not had_members

    # Members.

    @rule(group=st.sampled_from(["members", "both"]), instance_id=st.sampled_from([None, "i"]))
    def come(self, group: str, instance_id: str | None) -> None:
        if len(self.clients) < 6:
            self.clients.append(Client(group=group, instance_id=instance_id))
            self.join(len(self.clients) - 1)

    @rule(index=pick)
    def join(self, index: int) -> None:
        client = self._client(index)
        if client is None:
            return
        if self.node.of(client.group).lease_is_held(self.node.clock.monotonic_ms()):
            return  # As the service refuses it.
        request = JoinGroup(
            group_id=client.group.encode(),
            member_id=client.member_id,
            instance_id=client.instance_id,
            client_id="c",
            client_host="/127.0.0.1",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type="consumer",
            protocols=(("range", SUBSCRIPTION),),
        )
        client.call = self.node.call(lambda groups, *call: groups.join(request, *call))
        self._read_answers()

    @rule(index=pick)
    def sync(self, index: int) -> None:
        client = self._client(index)
        if client is None or client.call is not None:
            return
        request = SyncGroup(
            group_id=client.group.encode(),
            member=client.identity,
            assignments={each: each.encode() for each in client.told},
        )
        client.call = self.node.call(lambda groups, *call: groups.sync(request, *call))
        self._read_answers()

    @rule()
    def settle(self) -> None:
        """All members do what good ones do."""
        for step in (self.join, self.join, None, self.sync):
            if step is None:
                self.wait(DELAY_MS)
                continue
            for index, client in enumerate(self.clients):
                if client.call is None:
                    step(index)

    @rule(index=pick)
    def heartbeat(self, index: int) -> None:
        client = self._client(index)
        if client is None:
            return
        group_id = client.group.encode()
        try:
            self.node.membership.heartbeat(group_id, client.identity, self.node.moment)
        except CoordinatorError:
            return
        assert not client.is_fenced

    @rule(index=pick, says_so=st.booleans())
    def leave(self, index: int, says_so: bool) -> None:
        """In order, or as one that crashes."""
        client = self._client(index)
        if client is None:
            return
        self.clients.remove(client)
        if says_so and client.member_id:
            request = LeaveGroup(
                group_id=client.group.encode(), members=((client.member_id, client.instance_id),)
            )
            self.node.call(lambda groups, *call: groups.leave(request, *call))
            self._read_answers()

    # Time, the disk, the end.

    @rule(
        group=groups,
        retention_ms=st.sampled_from([-1, 1000]),
        milliseconds=st.sampled_from([999, 1000, 3000, RETENTION_MS]),
    )
    def outlive(self, group: str, retention_ms: int, milliseconds: int) -> None:
        """An offset that is committed, and left alone until it may be due."""
        told = self.node.of(group)
        self._commit(
            group,
            [0],
            epoch=-1 if told.epoch is None else told.epoch,
            retention_ms=retention_ms,
        )
        self.wait(milliseconds)
        if told.epoch is not None:
            self.node.renew(group, told.epoch)  # Its holder is there.
        self.expire()

    @rule(group=st.sampled_from(LEASED), milliseconds=st.sampled_from([1000, 3000]))
    def outlive_under_a_lease(self, group: str, milliseconds: int) -> None:
        """An offset that is due while somebody holds the group."""
        self.acquire(group, force=True, holder="x")
        self.outlive(group, 1000, milliseconds)

    @rule(milliseconds=st.sampled_from([1, DELAY_MS, TTL_MS, SESSION_MS, RETENTION_MS]))
    def wait(self, milliseconds: int) -> None:
        self.node.wait(milliseconds)
        self._read_answers()

    @rule()
    def expire(self) -> None:
        now_ms, monotonic_ms = self.node.clock.now_ms(), self.node.clock.monotonic_ms()
        before = {group: attrs.evolve(self.node.of(group)) for group in GROUPS}
        held = {
            group
            for group, told in before.items()
            if told.never_expires or told.lease_is_held(monotonic_ms)
        }
        busy = {
            group
            for group in GROUPS
            if (live := self.node.membership.live(group.encode())) is not None and live.has_members
        }
        offsets = {group: dict(told.offsets) for group, told in before.items()}
        went = self.node.expire_all()
        for group, partition in went:
            assert group not in held | busy
            assert now_ms >= self._due_ms(before[group], partition)
        for group in set(GROUPS) - held - busy:
            if before[group].generation is None:  # Else from when it became empty.
                for partition in set(offsets[group]) - {each for at, each in went if at == group}:
                    assert now_ms < self._due_ms(before[group], partition), "it is due, and stays"

    def _due_ms(self, told: object, partition: int) -> int:
        own = told.retention_ms  # type: ignore[attr-defined]
        retention_ms = RETENTION_MS if own is None else own
        at = told.committed_ms[partition] + retention_ms  # type: ignore[attr-defined]
        return told.expire_ms.get(partition, at)  # type: ignore[attr-defined]

    @rule()
    def flush(self) -> None:
        self.node.flush()

    @rule()
    def clean(self) -> None:
        self.node.roll(0)
        self.node.advance()
        self.node.clean(0)

    @rule()
    def restart(self) -> None:
        self._begin_again(self.node.restart)

    @rule(seed=pick)
    def crash(self, seed: int) -> None:
        self._begin_again(lambda: self.node.crash(crashed(self.node.files, Random(seed))))

    def _begin_again(self, start: object) -> None:
        start()  # type: ignore[operator]
        self.starts += 1
        for client in self.clients:
            client.call = None
            client.is_fenced = False  # Who fenced it may be lost with what was not acknowledged.
        for group in GROUPS:
            newest = self.node.of(group).epoch_newest
            self.epochs[group] = [each for each in self.epochs[group] if each <= max(newest, 0)]
        self.node.check_told()

    # What holds at any time.

    @invariant()
    def the_node_has_what_was_told(self) -> None:
        self.node.check_told()

    @invariant()
    def generations_never_fall(self) -> None:
        for group in GROUPS:
            live = self.node.membership.live(group.encode())
            generation = self.node.of(group).generation
            if live is not None and generation is not None:
                assert live.generation >= generation

    def teardown(self) -> None:
        """Live state, a replay of the log as it is, and one of all that was written are the same.

        So are they after a crash behind a flush, which takes nothing away.
        """
        self.node.check()
        told = {group: self.node.of(group) for group in GROUPS}
        self.node.crash(crashed(self.node.files, Random(0)))
        for group, before in told.items():
            after = self.node.of(group)
            assert (after.offsets, after.epoch, after.generation) == (
                before.offsets,
                before.epoch,
                before.generation,
            )
        self.node.check_told()

    def _client(self, index: int) -> Client | None:
        return self.clients[index % len(self.clients)] if self.clients else None

    def _read_answers(self) -> None:
        for client in self.clients:
            answer = None if client.call is None else self.node.outcomes.get(client.call)
            if answer is None:
                continue
            client.call = None
            if isinstance(answer, Joined):
                self._note_joined(client, answer)
            elif isinstance(answer, CoordinatorError):
                client.note_refusal(answer)

    def _note_joined(self, client: Client, joined: Joined) -> None:
        client.note_joined(joined)
        if joined.leader_id == joined.member_id and not joined.skips_assignment:
            life = self.node.of(client.group).life
            key = (self.starts, client.group, life, joined.generation)
            assert self.leaders.setdefault(key, joined.member_id) == joined.member_id


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(
    max_examples=2000 if NIGHTLY else 100, stateful_step_count=50, deadline=None
)
