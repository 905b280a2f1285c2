"""Rebalances: the phases that lead a group from one generation to the next.

Rules: those of Kafka's GroupMetadataManager for classic groups.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_coordinator.errors import UnknownMemberId
from offsetd_coordinator.membership.classic_group import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
)
from offsetd_coordinator.membership.deadlines import Deadlines
from offsetd_coordinator.membership.member_requests import Synced
from offsetd_coordinator.membership.refusals import RebalanceInProgress

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.membership.classic_group import ClassicGroup, Member
    from offsetd_coordinator.membership.member_requests import Moment, Step

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""The longest time that a new member may wait in its first join, for any session timeout."""
RECORD_RETRY_MS: Final = 5000
"""The time after which a refused record of an empty group is tried again."""


@attrs.frozen(kw_only=True)
class MembershipConfig:
    """The settings with the same names."""

    session_timeout_ms_min: int = 6000
    session_timeout_ms_max: int = 1_800_000
    consumer_session_timeout_ms: int = 45_000
    initial_rebalance_delay_ms: int = 3000
    size_max: int = 2_147_483_647


class Timer(enum.Enum):
    """The kinds of a group's deadlines."""

    SESSION = enum.auto()  # A member's session, or the time to join with a promised id.
    JOIN = enum.auto()  # The wait for members to join.
    SYNC = enum.auto()  # The wait for members to ask for their assignment.
    CONSUMER_SESSIONS = enum.auto()  # The sessions of all members of a KIP-848 group.
    RECORD = enum.auto()  # The wait before a refused record is tried again.


TimerKey = tuple[bytes, Timer, str]


class Rebalances:
    """Moves groups through the phases of a rebalance, and holds all of their deadlines."""

    def __init__(self, config: MembershipConfig) -> None:
        self.config = config
        self.deadlines: Deadlines[TimerKey] = Deadlines()

    def expect_sign(self, group: ClassicGroup, member: Member, now: Moment) -> None:
        """Restarts the session of a member that is alive."""
        self.expect_within(group, member.member_id, member.session_timeout_ms, now)

    def expect_within(
        self, group: ClassicGroup, member_id: str, timeout_ms: int, now: Moment
    ) -> None:
        """Sets the deadline of the next request with this member id, perhaps a promised one."""
        key = (group.group_id, Timer.SESSION, member_id)
        self.deadlines.set(key, now.monotonic_ms + timeout_ms)

    def expect_no_sign(self, group: ClassicGroup, member_id: str) -> None:
        """Ends the session of a member that has left."""
        self.deadlines.cancel((group.group_id, Timer.SESSION, member_id))

    def remove(self, group: ClassicGroup, member: Member, step: Step) -> None:
        """Removes a member; its waiting calls get UnknownMemberId."""
        join_token, sync_token = group.take_join(member), member.sync_token
        member.sync_token = None
        group.remove(member.member_id)
        self.expect_no_sign(group, member.member_id)
        for token in (join_token, sync_token):
            step.answer(
                token,
                UnknownMemberId(
                    "group {group!r} has no member {member_id!r} any more",
                    group=group.group_id,
                    member_id=member.member_id,
                ),
            )

    def prepare_or_complete(self, group: ClassicGroup, step: Step, now: Moment) -> None:
        """Begins a rebalance, or completes a waiting one if possible. Call it after a change."""
        if group.state in (STABLE, COMPLETING, EMPTY):
            self.prepare(group, step, now)
        else:
            self.complete_if_all_joined(group, step, now)

    def prepare(self, group: ClassicGroup, step: Step, now: Moment) -> None:
        """Makes all members join again. Before the first generation, waits for more members."""
        if group.state is COMPLETING:
            self.refuse_syncs(group, step, now, lambda: rebalances(group))
        self._cancel(group, Timer.SYNC)
        is_initial = group.state is EMPTY
        group.enter(PREPARING, now.wall_ms)
        if is_initial:
            delay_ms = self.config.initial_rebalance_delay_ms
            group.has_newcomers = False
            group.initial_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._set(group, Timer.JOIN, now, delay_ms)
        elif group.have_all_joined:
            self.complete_join(group, step, now)
        else:
            self._set(group, Timer.JOIN, now, group.rebalance_timeout_ms)

    def complete_if_all_joined(self, group: ClassicGroup, step: Step, now: Moment) -> None:
        """Ends the wait for joins once all members have joined. An initial delay continues."""
        if group.state is PREPARING and group.state_before is not EMPTY and group.have_all_joined:
            self.complete_join(group, step, now)

    def end_join_wait(self, group: ClassicGroup, step: Step, now: Moment) -> None:
        """Handles the end of the time to join, or of the initial delay."""
        if group.state is not PREPARING:
            return
        left_ms = group.initial_left_ms
        if left_ms and group.has_newcomers:
            delay_ms = self.config.initial_rebalance_delay_ms
            group.has_newcomers = False
            group.initial_left_ms = max(left_ms - delay_ms, 0)
            self._set(group, Timer.JOIN, now, min(delay_ms, left_ms))
            return
        self.complete_join(group, step, now)

    def complete_join(self, group: ClassicGroup, step: Step, now: Moment) -> None:
        """Begins the next generation, with the members that have joined and the static members."""
        group.initial_left_ms = None
        self._cancel(group, Timer.JOIN)
        if group.members and not group.elect_leader():
            # All members are static, and none has joined: wait until one joins or their sessions
            # end.
            self._set(group, Timer.JOIN, now, group.rebalance_timeout_ms)
            return
        for member in list(group.members.values()):
            if member.join_token is None and member.instance_id is None:
                self.remove(group, member, step)
        group.begin_generation(now.wall_ms)
        if group.state is EMPTY:
            step.record = group.record()
            return
        for member in group.members.values():
            step.answer(group.take_join(member), group.joined(member))
            member.is_new = False
            group.unsynced_ids.add(member.member_id)
            self.expect_sign(group, member, now)
        self._set(group, Timer.SYNC, now, group.rebalance_timeout_ms)

    def note_synced(self, group: ClassicGroup, member: Member) -> None:
        """Notes that a member has asked for its assignment."""
        group.unsynced_ids.discard(member.member_id)
        if not group.unsynced_ids:
            self._cancel(group, Timer.SYNC)

    def end_sync_wait(self, group: ClassicGroup, step: Step, now: Moment) -> None:
        """After the time to sync: removes members that have not synced; the others rebalance."""
        if group.state not in (COMPLETING, STABLE) or not group.unsynced_ids:
            return
        for member_id in list(group.unsynced_ids):
            self.remove(group, group.members[member_id], step)
        self.prepare(group, step, now)

    def settle(self, group: ClassicGroup, step: Step, now: Moment) -> None:
        """Makes the generation stable, once its assignments are written."""
        group.enter(STABLE, now.wall_ms)
        for member in group.members.values():
            if member.sync_token is not None:
                step.answer(member.sync_token, synced(group, member))
                member.sync_token = None
                # Its session may have ended while its call waited.
                self.expect_sign(group, member, now)

    def refuse_syncs(
        self,
        group: ClassicGroup,
        step: Step,
        now: Moment,
        refusal: Callable[[], CoordinatorError],
    ) -> None:
        """Refuses all waiting syncs, and drops the assignments. Each call gets its own error."""
        for member in group.members.values():
            member.assignment = b""
            if member.sync_token is not None:
                step.answer(member.sync_token, refusal())
                member.sync_token = None
                self.expect_sign(group, member, now)

    def end_consumer_sessions_in(self, group_id: bytes, delay_ms: int, now: Moment) -> None:
        """Ends the sessions of all members of a KIP-848 group after `delay_ms`."""
        key = (group_id, Timer.CONSUMER_SESSIONS, "")
        self.deadlines.set(key, now.monotonic_ms + delay_ms)

    def retry_record_later(self, group: ClassicGroup, now: Moment) -> None:
        """Schedules another try to write an empty group's refused record."""
        self._set(group, Timer.RECORD, now, RECORD_RETRY_MS)

    def die(
        self,
        group: ClassicGroup,
        step: Step,
        now: Moment,
        refusal: Callable[[], CoordinatorError],
    ) -> None:
        """Removes the group from memory. Its waiting calls get the refusal."""
        group.enter(DEAD, now.wall_ms)
        self.forget(group)
        for member in group.members.values():
            step.answer(group.take_join(member), refusal())
            step.answer(member.sync_token, refusal())
            member.sync_token = None

    def forget(self, group: ClassicGroup) -> None:
        """Cancels all deadlines of the group."""
        for timer in (Timer.JOIN, Timer.SYNC, Timer.RECORD):
            self._cancel(group, timer)
        for member_id in (*group.members, *group.promised_ids):
            self.expect_no_sign(group, member_id)

    def _set(self, group: ClassicGroup, timer: Timer, now: Moment, delay_ms: int) -> None:
        self.deadlines.set((group.group_id, timer, ""), now.monotonic_ms + delay_ms)

    def _cancel(self, group: ClassicGroup, timer: Timer) -> None:
        self.deadlines.cancel((group.group_id, timer, ""))


def synced(group: ClassicGroup, member: Member) -> Synced:
    """The answer to a member's sync."""
    return Synced(
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        assignment=member.assignment,
    )


def rebalances(group: ClassicGroup) -> RebalanceInProgress:
    """The error after which a member joins again."""
    return RebalanceInProgress("group {group!r} rebalances: join again", group=group.group_id)
