"""Waiting calls of group members: futures by token, one timer for all deadlines, durable answers.

`Membership` changes the groups of a shard at once; this module writes the records, runs the timer
and answers the calls.
"""

from __future__ import annotations

import copy
import functools
import itertools
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.membership.member_requests import Joined, Left, Synced
from offsetd_coordinator.requests import EndConsumerMembers, WriteGroup
from offsetd_coordinator.runtime.commit_log import until_durable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from offsetd_coordinator.membership.group_membership import Membership
    from offsetd_coordinator.membership.member_requests import (
        JoinGroup,
        LeaveGroup,
        MemberIdentity,
        Moment,
        Outcome,
        Step,
        SyncGroup,
    )
    from offsetd_coordinator.requests import MembersChange
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.shard.shard import Shard

    Ask = Callable[[Membership, int, Moment], Step]

_log = structlog.get_logger(__name__)

Expected = TypeVar("Expected", Joined, Synced, Left)

_STEPS_AT_ONCE: Final = 200
"""The number of passed deadlines that are handled before other work gets its turn."""


class MemberCalls:
    """Members of all groups of one node. Every method is for the event loop's thread."""

    def __init__(self, runtime: Runtime, *, loop: asyncio.AbstractEventLoop) -> None:
        self._runtime = runtime
        self._loop = loop
        self._tokens = itertools.count()
        self._waiting: dict[int, asyncio.Future[tuple[int, Outcome]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    @property
    def waiting(self) -> int:
        """The number of calls that wait for other members."""
        return len(self._waiting)

    def begin(self) -> None:
        """Loads the groups that have members in their records, and starts new sessions for them."""
        for shard in self._runtime.shards.values():
            self.begin_shard(shard)

    def begin_shard(self, shard: Shard) -> None:
        """Loads the groups of one shard that have members, and starts their sessions."""
        for step in shard.restore_members(self._runtime.moment()):
            self._follow(shard.membership, step)
        self._set_timer()

    def end_shard(self, shard: Shard, refusal: Callable[[], CoordinatorError]) -> None:
        """Refuses the calls that wait for a group of a shard, and all later calls."""
        for step in shard.membership.close(refusal, self._runtime.moment()):
            self._follow(shard.membership, step)

    async def join(self, request: JoinGroup) -> Joined:
        """Waits until the member's generation has begun. Raises the group's refusals.

        If the call is cancelled, the member gets no answer, and stays in the group until its
        session ends. Raises the errors of `Runtime.submit`.
        """
        self._runtime.shard_of(request.group_id)[1].holds.check_writer(request.group_id)
        return await self._ask(
            Joined, request.group_id, lambda groups, *call: groups.join(request, *call)
        )

    async def sync(self, request: SyncGroup) -> Synced:
        """Waits until the generation's assignments are durable. Raises the errors of `join`."""
        return await self._ask(
            Synced, request.group_id, lambda groups, *call: groups.sync(request, *call)
        )

    async def leave(self, request: LeaveGroup) -> Left:
        """The result for each member that was asked to leave. Raises the errors of `join`."""
        return await self._ask(
            Left, request.group_id, lambda groups, *call: groups.leave(request, *call)
        )

    def heartbeat(
        self, group_id: bytes, identity: MemberIdentity
    ) -> tuple[int, CoordinatorError | None]:
        """Returns the ticket that the answer rests on, and the refusal, or None.

        Raises the errors of `Runtime.submit`.
        """
        membership = self._runtime.membership_of(group_id)
        refusal: CoordinatorError | None = None
        try:
            membership.heartbeat(group_id, identity, self._runtime.moment())
        except CoordinatorError as error:
            refusal = error
        return self._runtime.ticket_of(group_id), refusal

    def expire(self) -> None:
        """Handles the deadlines that have passed."""
        self._timer = None
        if self._runtime.log.failed is not None:
            return
        now = self._runtime.moment()
        try:
            for shard in self._runtime.shards.values():
                membership = shard.membership
                for step in itertools.islice(membership.expire(now), _STEPS_AT_ONCE):
                    self._follow(membership, step)
        finally:
            self._set_timer()

    def close(self, refusal: Callable[[], CoordinatorError]) -> None:
        """Refuses all waiting calls, and all later calls. The records stay."""
        for shard in self._runtime.shards.values():
            self.end_shard(shard, refusal)
        if self._timer is not None:
            self._timer.cancel()

    async def _ask(self, kind: type[Expected], group_id: bytes, ask: Ask) -> Expected:
        membership = self._runtime.membership_of(group_id)
        token = next(self._tokens)
        future: asyncio.Future[tuple[int, Outcome]] = self._loop.create_future()
        self._waiting[token] = future
        try:
            self._follow(membership, ask(membership, token, self._runtime.moment()))
            self._set_timer()
            ticket, outcome = await future
        finally:
            self._waiting.pop(token, None)
        await until_durable(self._runtime.log, ticket)
        if isinstance(outcome, CoordinatorError):
            raise outcome
        assert isinstance(outcome, kind), "each call has answers of its own"
        return outcome

    def _follow(self, membership: Membership, step: Step) -> None:
        """Writes the record of a step before the next request is handled, and answers its calls."""
        now = self._runtime.moment()
        while True:
            then: Step | None = None
            if step.ended_consumer_ids:
                self._end_consumer_members(membership, step, now)
            if step.record is not None:
                refused = self._write(WriteGroup(group_id=step.group_id, value=step.record))
                copies = None if refused is None else functools.partial(copy.copy, refused)
                then = membership.settle(step, copies, now)
            if step.answers:
                ticket = self._runtime.ticket_of(step.group_id)
                for token, outcome in step.answers:
                    assert isinstance(token, int), "tokens are made here"
                    future = self._waiting.get(token)
                    if future is not None and not future.done():  # If done, its client is gone.
                        future.set_result((ticket, outcome))
            if then is None:
                return
            step = then

    def _end_consumer_members(self, membership: Membership, step: Step, now: Moment) -> None:
        ids = step.ended_consumer_ids
        refused = self._write(EndConsumerMembers(group_id=step.group_id, member_ids=ids))
        if refused is not None:
            membership.retry_consumer_ends(step.group_id, now)
        else:
            _log.info("sessions of KIP-848 members ended", group=step.group_id, members=len(ids))

    def _write(self, request: MembersChange) -> CoordinatorError | None:
        """Writes a record. Returns the refusal, or None; a refusal changes nothing."""
        try:
            _, outcome = self._runtime.submit(request)
        except CoordinatorError as refusal:
            return refusal.without_traces()
        return outcome if isinstance(outcome, CoordinatorError) else None

    def _set_timer(self) -> None:
        """Sets one timer, at the nearest deadline of all shards or earlier."""
        due = [
            due_ms
            for shard in self._runtime.shards.values()
            if (due_ms := shard.membership.next_deadline_ms) is not None
        ]
        if not due:
            return
        due_ms = min(due)
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        delay_ms = max(0, due_ms - self._runtime.moment().monotonic_ms)
        self._timer_ms = due_ms
        self._timer = self._loop.call_later(delay_ms / 1000, self.expire)
