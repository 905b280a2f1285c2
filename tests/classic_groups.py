"""Groups without a server: a Membership, a clock, and a log that takes or refuses its records."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs
from offsetd_coordinator.errors import CoordinatorError, DiskFull
from offsetd_coordinator.membership.group_membership import Membership
from offsetd_coordinator.membership.member_requests import (
    JoinGroup,
    LeaveGroup,
    MemberIdentity,
    Moment,
    SyncGroup,
)
from offsetd_coordinator.membership.rebalance import MembershipConfig
from offsetd_storage.offsets_topic.group_records import GroupRecords
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.keys import GroupKey

if TYPE_CHECKING:
    from offsetd_coordinator.membership.classic_group import ClassicGroup
    from offsetd_coordinator.membership.member_requests import Joined, Left, Step, Synced

GROUP = b"g"
DELAY_MS = 3000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
START = Moment(1_700_000_000_000, 0)
RANGE = (("range", b"topics"),)


@attrs.define(kw_only=True)
class DrawnClient:
    """What a member knows of itself, and the call it waits for."""

    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    told: tuple[str, ...] = ()
    """The members, if it leads."""
    call: int | None = None
    is_fenced: bool = False

    @property
    def identity(self) -> MemberIdentity:
        """What its calls are made with."""
        return MemberIdentity(self.member_id, self.generation, self.instance_id)

    def note_joined(self, joined: Joined) -> None:
        """It is in a generation. Fenced it stays, unless it is let in under another id."""
        self.is_fenced &= self.member_id == joined.member_id
        self.member_id, self.generation = joined.member_id, joined.generation
        self.told = tuple(each.member_id for each in joined.members)

    def note_refusal(self, refusal: CoordinatorError) -> None:
        """It was refused, and may know more of itself now."""
        if refusal.reason == "MEMBER_ID_REQUIRED":
            self.member_id = refusal.variables["member_id"]
        elif refusal.reason == "UNKNOWN_MEMBER_ID":
            self.member_id = ""
        elif refusal.reason == "FENCED_INSTANCE_ID":
            self.is_fenced = True


class Calls:
    """Members' calls by token, and their answers; `is_full` refuses records."""

    def __init__(self, **config: Any) -> None:
        self.now = START
        self.is_full = False
        self.config = MembershipConfig(**{"initial_rebalance_delay_ms": DELAY_MS, **config})
        self.records: dict[bytes, GroupRecords] = {}
        self.written: list[tuple[bytes, GroupMetadataValue]] = []
        self.answers: dict[int, Joined | Synced | Left | CoordinatorError] = {}
        self._tokens = itertools.count()
        self._ids = itertools.count(1)
        self.restart()

    def restart(self) -> None:
        """All that is left is what was written."""
        self.membership = Membership(
            self.config, records=self.records.get, random_id=lambda: f"id{next(self._ids)}"
        )
        for step in self.membership.restore(list(self.records.values()), self.now):
            self._follow(step)

    def join(self, member_id: str = "", group_id: bytes = GROUP, **more: Any) -> int:
        """Has a member join; returns the token of the call."""
        fields: dict[str, Any] = {
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": RANGE,
            **more,
        }
        token = next(self._tokens)
        request = JoinGroup(group_id=group_id, member_id=member_id, **fields)
        self._follow(self.membership.join(request, token, self.now))
        return token

    def come_in(self, **more: Any) -> tuple[str, int]:
        """A dynamic member's two joins: its id, and the token of the second."""
        refused = self.answers[self.join(**more)]
        assert isinstance(refused, CoordinatorError)
        member_id = refused.variables["member_id"]
        return member_id, self.join(member_id, **more)

    def sync(self, member_id: str, generation: int, group_id: bytes = GROUP, **more: Any) -> int:
        """Has a member sync; returns the token of the call."""
        identity = MemberIdentity(member_id, generation, more.pop("instance_id", None))
        token = next(self._tokens)
        request = SyncGroup(group_id=group_id, member=identity, **more)
        self._follow(self.membership.sync(request, token, self.now))
        return token

    def leave(self, *members: tuple[str, str | None], group_id: bytes = GROUP) -> int:
        """Has members leave; returns the token of the call."""
        token = next(self._tokens)
        self._follow(
            self.membership.leave(LeaveGroup(group_id=group_id, members=members), token, self.now)
        )
        return token

    def heartbeat(
        self,
        member_id: str,
        generation: int,
        instance_id: str | None = None,
        group_id: bytes = GROUP,
    ) -> str:
        """The refusal's reason, or nothing."""
        identity = MemberIdentity(member_id, generation, instance_id)
        try:
            self.membership.heartbeat(group_id, identity, self.now)
        except CoordinatorError as refusal:
            return refusal.reason
        return ""

    def commit(self, *identity: Any, group_id: bytes = GROUP) -> str:
        """The refusal's reason, or nothing; a commit that is taken is noted. To a live group."""
        member = MemberIdentity(*identity) if identity else None
        group = self.membership.live(group_id)
        assert group is not None, "its records tell all"
        try:
            group.check_commit(member)
        except CoordinatorError as refusal:
            return refusal.reason
        if member is not None:
            self.membership.note_commit(group_id, member, self.now)
        return ""

    def advance(self, milliseconds: int) -> None:
        """Lets time pass, with all that it brings."""
        end = self.now.monotonic_ms + milliseconds
        while (due := self.membership.next_deadline_ms) is not None and due <= end:
            self._move(max(due, self.now.monotonic_ms))
            for step in self.membership.expire(self.now):
                self._follow(step)
        self._move(end)

    def outcome(self, token: int) -> Any:
        """A call's answer: None while it waits, a refusal's reason."""
        answer = self.answers.get(token)
        return answer.reason if isinstance(answer, CoordinatorError) else answer

    @property
    def group(self) -> ClassicGroup:
        """The group that most tests have."""
        return self.membership.groups[GROUP]

    def stable_group(self, *names: str, **more: Any) -> list[str]:
        """Members of a group that has settled its first generation; the first one leads."""
        joins = [self.come_in(client_id=name, **more) for name in names]
        self.advance(DELAY_MS * (len(names) + 1))
        self.settle(*(member_id for member_id, _ in joins))
        return [member_id for member_id, _ in joins]

    def settle(self, *member_ids: str) -> None:
        """All sync; the leader gives each its id, as bytes."""
        group = self.group
        assignments = {each: each.encode() for each in member_ids}
        for each in member_ids:
            is_leader = each == group.leader_id
            self.sync(each, group.generation, assignments=assignments if is_leader else {})

    def _follow(self, step: Step) -> None:
        """As a runtime does: what is to be written is written before anything else is asked."""
        while True:
            for token, outcome in step.answers:
                assert token not in self.answers, "a call is answered once"
                assert isinstance(token, int)
                self.answers[token] = outcome
            if step.ended_consumer_ids:
                self._end_consumer_members(step)
            if step.record is None:
                return
            if self.is_full:
                step = self.membership.settle(step, lambda: DiskFull("full"), self.now)
            else:
                self._write(step.group_id, step.record)
                step = self.membership.settle(step, None, self.now)

    def _end_consumer_members(self, step: Step) -> None:
        if self.is_full:
            self.membership.retry_consumer_ends(step.group_id, self.now)
            return
        records = self.records[step.group_id]
        for key, value in records.end_of_consumer_members(step.ended_consumer_ids):
            if value is None:
                records.remove(key)
            else:
                records.put(key, value)

    def _write(self, group_id: bytes, value: GroupMetadataValue) -> None:
        # Through its bytes, as the log has it.
        value = GroupMetadataValue.decode(value.encode())
        self.written.append((group_id, value))
        records = self.records.setdefault(group_id, GroupRecords(group_id))
        for key in records.consumer_tombstone_keys():
            records.remove(key)
        records.put(GroupKey(group=group_id.decode()), value)

    def _move(self, monotonic_ms: int) -> None:
        passed_ms = monotonic_ms - self.now.monotonic_ms
        self.now = Moment(self.now.wall_ms + passed_ms, monotonic_ms)
