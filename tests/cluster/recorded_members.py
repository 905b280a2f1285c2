"""Members of a group that commit in turns of their generations, and what must be true of that."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import attrs
from cluster.recorded_cluster import LibraryCalls
from history_checker import Call, Commit, Fetch, Outcome, Written
from offsetd_clients import GroupRefused, OffsetClient, OffsetdError, TopicPartition
from recorded_clients import TOPIC, NobodyKnows, NotDone

if TYPE_CHECKING:
    import random
    import threading

    from offsetd_clients import Membership
    from recorded_clients import Recorder

SESSION_S = 3.0
REBALANCE_S = 2.0
COMMITS_MAX = 40  # Of one generation, before the member joins again by itself.


class Accepted(NamedTuple):
    """A commit of a member that was acknowledged."""

    generation: int
    called: float
    answered: float


@attrs.define
class MemberCalls:
    """Commits as a member of some generation, current or former."""

    group_id: str
    client: OffsetClient
    membership: Membership
    accepted: list[Accepted]

    def do(self, call: Call) -> Outcome:
        """What the client returns. A refusal is not done. Raises NotDone, NobodyKnows."""
        assert isinstance(call, Commit), "members do nothing else"
        offsets = {TopicPartition(TOPIC, partition): value for partition, value in call.values}
        called = time.monotonic()
        try:
            revision = self.client.commit(self.group_id, offsets, membership=self.membership)
        except OffsetdError as error:
            if error.outcome_unknown:
                raise NobodyKnows from error
            raise NotDone from error
        generation = self.membership.generation_id
        self.accepted.append(Accepted(generation, called, time.monotonic()))
        return Written(revision.log_offset)


@attrs.define
class Member:
    """One member, over all of its generations."""

    number: int
    group_id: str
    client: OffsetClient
    recorder: Recorder
    rng: random.Random
    accepted: list[Accepted]
    former: list[Membership] = attrs.field(factory=list)

    def run(self, stopping: threading.Event) -> None:
        """Joins, commits, and joins again, until it is told to stop."""
        while not stopping.is_set():
            try:
                membership = self._joined()
            except OffsetdError as error:
                if not (isinstance(error, GroupRefused) or error.retriable or error.reason):
                    stopping.wait(0.1)
                continue
            self.former.append(membership)
            self._commit_while_current(membership, stopping)

    def _joined(self) -> Membership:
        joined = self.client.join_group(
            self.group_id,
            {"range": b""},
            session_timeout_s=SESSION_S,
            rebalance_timeout_s=REBALANCE_S,
        )
        assignments = {each.member_id: b"" for each in joined.members} if joined.is_leader else None
        self.client.sync_group(joined.membership, assignments, wait_s=REBALANCE_S)
        return joined.membership

    def _commit_while_current(self, membership: Membership, stopping: threading.Event) -> None:
        for _ in range(self.rng.randrange(1, COMMITS_MAX)):
            if stopping.wait(0.02):
                return
            try:
                self.client.heartbeat(membership)
            except OffsetdError as error:
                if not error.retriable:
                    return
            self._commit(membership)
            if self.rng.random() < 0.2:  # What must be refused, unless it is the same.
                self._commit(self.rng.choice(self.former))
            if self.rng.random() < 0.2:
                self._fetch()

    def _commit(self, membership: Membership) -> None:
        calls = MemberCalls(self.group_id, self.client, membership, self.accepted)
        self.recorder.record(self.number, calls, Commit(self.recorder.values()))

    def _fetch(self) -> None:
        calls = LibraryCalls(self.group_id, self.client)
        self.recorder.record(self.number, calls, Fetch())


def check_generations(accepted: list[Accepted]) -> None:
    """No commit of a generation was taken after one of a later generation was acknowledged."""
    by_end = sorted(accepted, key=lambda each: each.answered)
    newest, at = -1, 0
    for each in sorted(accepted, key=lambda each: each.called):
        while by_end[at].answered < each.called:
            newest = max(newest, by_end[at].generation)
            at += 1
        assert each.generation >= newest, f"generation {newest} had committed before {each}"
