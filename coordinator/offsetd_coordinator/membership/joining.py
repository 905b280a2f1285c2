"""The ways to join a group: new members, promised ids, returning members and static members.

Rules: those of Kafka's GroupMetadataManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_coordinator.membership.classic_group import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    Member,
)
from offsetd_coordinator.membership.member_requests import MemberIdentity
from offsetd_coordinator.membership.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, rebalances
from offsetd_coordinator.membership.refusals import (
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
    MemberIdRequired,
    fenced_instance,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.membership.classic_group import ClassicGroup
    from offsetd_coordinator.membership.member_requests import JoinGroup, Moment, Step, Token
    from offsetd_coordinator.membership.rebalance import Rebalances


class Joining:
    """Handles the joins of members, by Kafka's rules."""

    def __init__(self, rebalances: Rebalances, random_id: Callable[[], str]) -> None:
        self._rebalances = rebalances
        self._random_id = random_id
        # Replaced static members (old, new), until the replacement's record is settled.
        self._replaced: dict[bytes, tuple[Member, Member]] = {}

    def join(
        self, group: ClassicGroup, request: JoinGroup, token: Token, step: Step, now: Moment
    ) -> None:
        """Adds a member, or raises a refusal.

        Raises UnknownMemberId, FencedInstanceId, MemberIdRequired, InconsistentGroupProtocol,
        InvalidSessionTimeout, GroupMaxSizeReached.
        """
        self._check_session_timeout(request)
        self._check_size(group, request, step, now)
        if not group.supports(request.protocol_type, request.protocols):
            raise InconsistentGroupProtocol(
                "group {group!r} cannot use any of the protocols, or has another protocol type",
                group=group.group_id,
                protocol_type=request.protocol_type,
                current_protocol_type=group.protocol_type,
            )
        if not request.member_id:
            self._join_new(group, request, token, step, now)
        elif request.member_id in group.promised_ids and request.instance_id is None:
            self._add(group, request, request.member_id, token, step, now)
        else:
            identity = MemberIdentity(request.member_id, instance_id=request.instance_id)
            self._join_again(group, group.find(identity), request, token, step, now)

    def settle_replaced(
        self,
        group: ClassicGroup,
        step: Step,
        refusal: Callable[[], CoordinatorError] | None,
        now: Moment,
    ) -> None:
        """Ends a static member's replacement, after its new id was written or refused."""
        old, new = self._replaced.pop(group.group_id)
        token = group.take_join(new)
        if refusal is None:
            new.is_new = False
            is_leader = new.member_id == group.leader_id
            step.answer(token, group.joined(new, skips_assignment=is_leader))
            return
        self._rebalances.expect_no_sign(group, new.member_id)
        group.replace(new, old)
        self._rebalances.expect_sign(group, old, now)
        step.answer(token, refusal())

    def _check_session_timeout(self, request: JoinGroup) -> None:
        config = self._rebalances.config
        least, most = config.session_timeout_ms_min, config.session_timeout_ms_max
        if not least <= request.session_timeout_ms <= most:
            raise InvalidSessionTimeout(
                "session_timeout",
                "{value_ms} ms is not between {ms_min} and {ms_max}",
                value_ms=request.session_timeout_ms,
                ms_min=least,
                ms_max=most,
            )

    def _check_size(self, group: ClassicGroup, request: JoinGroup, step: Step, now: Moment) -> None:
        """Raises GroupMaxSizeReached if the group is full; removes a member that has not joined."""
        member = group.members.get(request.member_id)
        size_max = self._rebalances.config.size_max
        if group.state is PREPARING:
            # Only joined members count: others may never come back.
            is_in = member is not None and member.join_token is not None
            has_room = group.waiting_joins < size_max
        else:
            is_in = member is not None
            has_room = group.state is EMPTY or len(group.members) < size_max
        if is_in or has_room:
            return
        if member is not None:
            self._rebalances.remove(group, member, step)
            self._rebalances.complete_if_all_joined(group, step, now)
        elif request.member_id in group.promised_ids:
            group.remove(request.member_id)
            self._rebalances.expect_no_sign(group, request.member_id)
            self._rebalances.complete_if_all_joined(group, step, now)
        raise GroupMaxSizeReached(
            "group {group!r} has {size_max} members", group=group.group_id, size_max=size_max
        )

    def _join_new(
        self, group: ClassicGroup, request: JoinGroup, token: Token, step: Step, now: Moment
    ) -> None:
        if request.instance_id is None:
            member_id = f"{request.client_id}-{self._random_id()}"
            group.promised_ids.add(member_id)
            self._rebalances.expect_within(group, member_id, request.session_timeout_ms, now)
            raise MemberIdRequired(
                "join group {group!r} again, as {member_id!r}",
                group=group.group_id,
                member_id=member_id,
            )
        member_id = f"{request.instance_id}-{self._random_id()}"
        old = group.static_member(request.instance_id)
        if old is None:
            self._add(group, request, member_id, token, step, now)
        else:
            self._replace(group, old, request, member_id, token, step, now)

    def _add(
        self,
        group: ClassicGroup,
        request: JoinGroup,
        member_id: str,
        token: Token,
        step: Step,
        now: Moment,
    ) -> None:
        if group.state is PREPARING and group.state_before is EMPTY:
            group.has_newcomers = True
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(Member.of_join(member_id, request, token))
        # It has no id for heartbeats yet, so the end of its client may go unnoticed.
        self._rebalances.expect_within(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS, now)
        self._rebalances.prepare_or_complete(group, step, now)

    def _join_again(
        self,
        group: ClassicGroup,
        member: Member,
        request: JoinGroup,
        token: Token,
        step: Step,
        now: Moment,
    ) -> None:
        says_the_same = member.protocols == request.protocols
        is_leader = member.member_id == group.leader_id
        if says_the_same and (
            group.state is COMPLETING or (group.state is STABLE and not is_leader)
        ):
            # The answer to its last join may be lost; a leader requests a rebalance this way.
            step.answer(token, group.joined(member))
            return
        earlier = group.update(member, request, token)
        step.answer(earlier, rebalances(group))  # The client of the earlier join retries.
        self._rebalances.prepare_or_complete(group, step, now)

    def _replace(
        self,
        group: ClassicGroup,
        old: Member,
        request: JoinGroup,
        member_id: str,
        token: Token,
        step: Step,
        now: Moment,
    ) -> None:
        """Replaces a static member that joins again without its id. The old id is fenced."""
        fenced = [group.take_join(old), old.sync_token]
        old.sync_token = None
        new = attrs.evolve(
            old,
            member_id=member_id,
            protocols=request.protocols,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            is_new=False,
            join_token=token,
        )
        group.replace(old, new)
        self._rebalances.expect_no_sign(group, old.member_id)
        self._rebalances.expect_sign(group, new, now)
        for each in fenced:
            step.answer(each, fenced_instance(group.group_id, old.instance_id, old.member_id))
        if group.state is STABLE and group.selected_protocol() == group.protocol:
            self._replaced[group.group_id] = old, new
            step.record = group.record()
            return
        self._rebalances.prepare_or_complete(group, step, now)
