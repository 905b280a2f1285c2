"""Unary commits that arrive in one turn of the event loop are submitted in one run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.calls.call_life import refusal_of
from offsetd_coordinator.errors import CoordinatorError, CoordinatorLoadInProgress, InvalidField
from offsetd_coordinator.grpc.joined_calls import Outcome
from offsetd_coordinator.grpc.single_commits import submitted
from offsetd_coordinator.kernels.records.commit_batches import (
    ANSWER_LAST_OFFSET,
    ANSWER_LOG_PARTITION,
)
from offsetd_coordinator.kernels.wire.commit_fields import ROWS
from offsetd_coordinator.messages.commit_access import refusals_of, require_commit
from offsetd_coordinator.messages.commit_parser import stream_of
from offsetd_coordinator.messages.revisions import committed_response
from offsetd_coordinator.quotas.quota_table import Quota
from offsetd_coordinator.requests import CommitReply
from offsetd_coordinator.wire.commit_reader import COMMITS_AT_ONCE, ReadCommits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_coordinator.calls.access_control import Access
    from offsetd_coordinator.grpc.joined_calls import Call, JoinedCalls, Taken
    from offsetd_coordinator.messages.commit_parser import CommitParser, SequencedOutcome
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.quotas.caller_quotas import CallerQuotas
    from offsetd_coordinator.requests import CommitOffsets
    from offsetd_coordinator.runtime.runtime import Runtime


# A commit that its caller cannot pay for is left, as while its group is loading.
_UNPAID: Final = "the handler of one call refuses it, or not"


class JoinedCommits:
    """The calls of CommitOffsets, by turns. For the event loop's thread."""

    def __init__(self, node: Node, parser: CommitParser, calls: JoinedCalls) -> None:
        self._node = node
        self._parser = parser
        self._calls = calls

    def take(self, calls: Sequence[tuple[Call, bytes]]) -> list[Call]:
        """Submits commits, to be answered once they are durable. Returns the calls it leaves."""
        try:
            runtime = self._node.serving()
        except CoordinatorError:
            return [call for call, _ in calls]
        taken, left = [], []
        for call, message in calls:
            one = self._calls.taken(call, message)
            if one is None:
                left.append(call)
            else:
                taken.append(one)
        for first in range(0, len(taken), COMMITS_AT_ONCE):
            left += self._submit(runtime, taken[first : first + COMMITS_AT_ONCE])
        return left

    def _submit(self, runtime: Runtime, taken: Sequence[Taken]) -> list[Call]:
        """Submits at most 512 commits. Returns the calls that it leaves."""
        left: list[Call] = []
        place = 0
        try:
            rest = self._parser.open_stream(stream_of([each.message for each in taken]))
            while place < len(taken):
                read = rest.read(COMMITS_AT_ONCE)
                count = len(read.commits) if isinstance(read, ReadCommits) else 1
                those = taken[place : place + count]
                if isinstance(read, ReadCommits):
                    outcomes = self._outcomes(runtime, those, read)
                else:
                    outcomes = [self._outcome(runtime, those[0], read)]
                place += count
                left += self._end_or_leave(runtime, outcomes)
        except Exception as error:  # noqa: BLE001  A defect is a refusal, too.
            refusal = refusal_of(error, "CommitOffsets")
            for each in taken[place:]:
                self._calls.end(Outcome(each, refusal))
        return left

    def _outcomes(
        self, runtime: Runtime, taken: Sequence[Taken], read: ReadCommits
    ) -> list[Outcome]:
        accesses = [each.access for each in taken if each.access is not None]
        refused = _refused(accesses, read) if accesses else {}
        run = self._node.commit_runs.submit(read, refused)
        tickets = runtime.log.tickets
        answers = run.answers[:, [ANSWER_LOG_PARTITION, ANSWER_LAST_OFFSET]].tolist()
        outcomes: list[Outcome] = []
        for place, (log_partition, last_offset) in enumerate(answers):
            ended_with: bytes | CoordinatorError | None = run.refusals.get(place)
            if ended_with is None:
                ended_with = committed_response(log_partition, last_offset)
            rests_on = () if place in run.at_once else (tickets[log_partition],)
            outcomes.append(Outcome(taken[place], ended_with, rests_on))
        return outcomes

    def _outcome(self, runtime: Runtime, taken: Taken, read: SequencedOutcome) -> Outcome:
        require = None if taken.access is None else partial(_admit, taken.access)
        ticket, log_partition, reply = submitted(runtime, read[1], require)
        if isinstance(reply, CommitReply):
            return Outcome(taken, committed_response(log_partition, reply.last_offset), (ticket,))
        return Outcome(taken, reply, (ticket,))

    def _end_or_leave(self, runtime: Runtime, outcomes: Sequence[Outcome]) -> list[Call]:
        """Ends each call once its ticket is durable. Returns the calls that it leaves."""
        ended, left = [], []
        for each in outcomes:
            if isinstance(each.ended_with, InvalidField | CoordinatorLoadInProgress):
                left.append(self._calls.leave(each.taken))
            else:
                ended.append(each)
        self._calls.end_once_durable(runtime, ended)
        return left


def _refused(accesses: Sequence[Access], read: ReadCommits) -> dict[int, CoordinatorError]:
    """The commits that are not submitted, by place. For all others, their callers have paid."""
    refused: dict[int, CoordinatorError] = {**refusals_of(accesses, read)}
    counts: list[int] = read.commits[:, ROWS].tolist()
    for place, (access, offsets) in enumerate(zip(accesses, counts, strict=True)):
        if access.quotas is not None and place not in refused and not _pay(access.quotas, offsets):
            refused[place] = CoordinatorLoadInProgress(_UNPAID)
    return refused


def _admit(access: Access, commit: CommitOffsets) -> None:
    """Does for a commit that comes alone what `_refused` does. Raises CoordinatorError."""
    require_commit(access, commit)
    if access.quotas is not None and not _pay(access.quotas, len(commit.columns)):
        raise CoordinatorLoadInProgress(_UNPAID)


def _pay(quotas: CallerQuotas, offsets: int) -> bool:
    """Takes what a commit costs. False, and nothing is taken or counted, if that is refused."""
    costs = {Quota.COMMIT_RATE: 1, Quota.OFFSET_RATE: offsets}
    if not quotas.has_tokens(costs):
        return False
    quotas.take(costs)
    return True
