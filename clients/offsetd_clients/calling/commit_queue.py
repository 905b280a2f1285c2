"""Holds the commits without an outcome, and decides which commits to send or resend, and when.

It does no I/O, waits for nothing and settles no future. Both clients keep one queue for each
server, and call it while they hold the lock of all their queues. They settle the outcomes that it
returns after they release the lock.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from offsetd.v1.offset_service_pb2 import CommitOffsetsRequest, StreamCommitsResponse

from offsetd_clients.calling.retry import RetryPolicy, is_tried_again
from offsetd_clients.calling.tracing import commit_traceparent
from offsetd_clients.errors import (
    ClientClosed,
    DeadlineExceeded,
    Failure,
    OffsetdError,
    Unavailable,
    another,
    closed_before_sent,
    closed_while_waiting,
)
from offsetd_clients.messages.conversions import error_in
from offsetd_clients.messages.offset_messages import sequenced_commit, traceparent_field
from offsetd_clients.values import Revision

COMMITS_MAX = 10_000
"""The most unanswered commits. A caller with another commit has to wait."""
BYTES_MAX = 16 * 1024 * 1024
"""The most bytes of unanswered commits, without the last one."""
COMMIT_BYTES_MAX = 256 * 1024
"""A larger commit is sent as a call of its own: it would delay the others."""
_MESSAGE_COMMITS_MAX = 1000
_BROKEN_IN_ROW_MAX = 3
_MESSAGE_BYTES_MAX = 256 * 1024
_PORTION_BYTES = 16 * 1024
_OF_OWNERSHIP = {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"}
_numbers = itertools.count()


class HandedIn:
    """A commit that a caller handed in. It is kept until its future is settled."""

    __slots__ = (
        "deadline_s",
        "encoded",
        "failure",
        "future",
        "hops",
        "is_sent",
        "number",
        "outcome",
        "request",
        "sent_s",
        "size",
        "timeout_s",
        "traceparent",
        "tries",
    )

    def __init__(
        self,
        request: CommitOffsetsRequest,
        encoded: bytes,
        *,
        now_s: float,
        timeout_s: float,
        future: Any,
    ) -> None:
        self.request = request
        self.encoded = encoded  # The serialised request. It is made once, for all attempts.
        self.size = len(encoded)
        self.traceparent = commit_traceparent()
        self.number = next(_numbers)  # The order in which commits were handed in.
        self.timeout_s = timeout_s
        self.deadline_s = now_s + timeout_s
        self.future = future
        self.is_sent = False
        self.sent_s = 0.0
        self.tries = 0
        self.hops = 0
        self.failure: OffsetdError | None = None
        self.outcome: Revision | OffsetdError | None = None  # The outcome that the future received.

    def failed(self, error: OffsetdError) -> OffsetdError:
        """Returns `error`, with a note of whether earlier attempts may have been applied.

        Each commit has its own copy of an error.
        """
        if self.failure is not None and self.failure.outcome_unknown:
            error.earlier_outcome_unknown = True
        self.failure = error
        self.is_sent = False
        self.tries += 1
        return error


Outcome = tuple[HandedIn, Revision | OffsetdError]


class _Lane:
    """The commits of a group that changes its server.

    They wait until none of the group's commits is on its way to this server, and until `due_s`.
    Then they leave together, in the order in which they were handed in.
    """

    __slots__ = ("commits", "due_s")

    def __init__(self) -> None:
        self.commits: list[HandedIn] = []
        self.due_s = 0.0


class CommitQueue:
    """The unanswered commits to one server, in the order in which they were handed in."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._count = 0
        self._bytes = 0
        self._last_sequence = 0
        self._waiting: deque[HandedIn] = deque()
        self._sent: dict[int, HandedIn] = {}
        # Each entry has the time of its next attempt.
        self._put_off: list[tuple[float, HandedIn]] = []
        self._alone: deque[HandedIn] = deque()
        self._lanes: dict[str, _Lane] = {}  # By group.
        self._message_bytes_max = _MESSAGE_BYTES_MAX
        self.streams = True  # Whether the server supports streams.

    @property
    def has_room(self) -> bool:
        """Whether another commit may be handed in."""
        return self._count < COMMITS_MAX and self._bytes < BYTES_MAX

    @property
    def has_work(self) -> bool:
        """Whether anything can be sent now."""
        return bool(self._waiting or self._alone)

    @property
    def has_any(self) -> bool:
        """Whether a commit without an outcome exists."""
        return self._count > 0

    @property
    def has_alone(self) -> bool:
        """Whether the next commit needs a call of its own."""
        is_large = bool(self._waiting) and self._waiting[0].size > COMMIT_BYTES_MAX
        return bool(self._alone) or is_large or not self.streams

    @property
    def has_sent(self) -> bool:
        """Whether the stream has not yet answered all messages that were sent."""
        return bool(self._sent)

    def add(self, commit: HandedIn) -> None:
        """Adds a commit."""
        self._count_in(commit)
        self._enqueue(commit)

    def next_message(self) -> bytes | None:
        """The next message, with as many waiting commits as it can hold.

        Returns None if no commit waits for the stream. The message is a serialised
        StreamCommitsRequest: the fields of the commits, one after the other.
        """
        if self.has_alone:
            return None
        now_s = self._policy.monotonic_s()
        fields: list[bytes] = []
        waiting, size, traceparent = self._waiting, 0, ""
        while waiting and len(fields) < _MESSAGE_COMMITS_MAX and size <= self._message_bytes_max:
            if waiting[0].size > COMMIT_BYTES_MAX:
                break
            commit = waiting.popleft()
            if commit.future.done():  # The caller has cancelled the commit.
                self._count_out(commit)
                continue
            self._last_sequence += 1
            self._sent[self._last_sequence] = commit
            commit.is_sent, commit.sent_s = True, now_s
            fields.append(sequenced_commit(self._last_sequence, commit.encoded))
            traceparent = traceparent or commit.traceparent
            size += commit.size
        if traceparent:
            fields.append(traceparent_field(traceparent))
        return b"".join(fields) if fields else None

    def next_alone(self) -> HandedIn | None:
        """Removes and returns the next commit that needs a call of its own."""
        while self.has_alone and (self._alone or self._waiting):
            commit = (self._alone or self._waiting).popleft()
            self._count_out(commit)
            if not commit.future.done():
                return commit
        return None

    def hold(self, commit: HandedIn, error: OffsetdError, *, at_once: bool) -> bool:
        """Keeps a refused commit, and the later ones of its group, for the group's owner.

        They leave `at_once`, or after a wait, if the deadline allows it.
        """
        due_s = self._policy.monotonic_s()
        if not at_once:
            due_s += self._policy.wait_s(commit.tries, error)
            commit.hops = 0
        if due_s >= commit.deadline_s:
            return False
        self._count_in(commit)
        lane = self._lane(commit.request.group_id)
        lane.commits.append(commit)
        lane.due_s = max(lane.due_s, due_s)
        return True

    def hold_waiting(self) -> set[str]:
        """Keeps all commits that wait to be sent for the next server. Returns their groups."""
        groups = {commit.request.group_id for commit in self._waiting}
        for group_id in groups:
            self._lanes.setdefault(group_id, _Lane())
        self._sort_into_lanes()
        return groups

    def group_to_leave(self) -> str | None:
        """A group whose commits can leave for another server, or be sent again to this one."""
        if not self._lanes:
            return None
        on_the_way = self._groups_on_the_way()
        return next((each for each in self._lanes if self._can_leave(each, on_the_way)), None)

    def take_lane(self, group_id: str) -> list[HandedIn] | None:
        """Removes the commits of a group that leaves, in order. None if they cannot leave now."""
        if not self._can_leave(group_id, self._groups_on_the_way()):
            return None
        taken = sorted(self._lanes.pop(group_id).commits, key=lambda each: each.number)
        for commit in taken:
            self._count_out(commit)
        return taken

    def take_results(self, response: StreamCommitsResponse) -> list[Outcome]:
        """Returns the outcomes in an answer of the stream. Skips commits that are overdue."""
        outcomes: list[Outcome] = []
        pop, size = self._sent.pop, 0
        for result in response.results:
            commit = pop(result.sequence, None)
            if commit is None:
                continue
            size += commit.size
            if result.HasField("committed"):
                revision = result.committed.revision
                outcomes.append((commit, Revision(revision.log_partition, revision.log_offset)))
            else:
                outcomes.append((commit, commit.failed(error_in(result.error))))
        self._count -= len(outcomes)
        self._bytes -= size
        return outcomes

    def put_off(self, commit: HandedIn, error: OffsetdError) -> bool:
        """Keeps a commit for another attempt, if this may help and its deadline allows it."""
        due_s = self._policy.monotonic_s() + self._policy.wait_s(commit.tries, error)
        if not is_tried_again(error) or due_s >= commit.deadline_s:
            return False
        self._count_in(commit)
        commit.hops = 0
        self._put_off.append((due_s, commit))
        return True

    def stream_ended(self, error: OffsetdError, wait_s: float) -> list[Outcome]:
        """Schedules all sent commits to be sent again, in order, after `wait_s` seconds.

        If a stream cannot help, each commit is sent as a call of its own. Returns the outcomes of
        the commits whose deadline is earlier.
        """
        sent = list(self._sent.values())
        self._sent.clear()
        if not is_tried_again(error):
            if error.code == "UNIMPLEMENTED":
                self.streams = False
            elif error.code == "RESOURCE_EXHAUSTED":  # The message was too large for the server.
                size = sum(commit.size for commit in sent)
                self._message_bytes_max = min(self._message_bytes_max, size) // 2
            if not sent:
                self._alone.extend(self._waiting)
                self._waiting.clear()
            self._alone.extend(sent)
            return []
        # Commits that were not sent yet get this error too, unless it would leave their outcome in
        # doubt.
        told = sent if error.outcome_unknown else [*sent, *self._waiting]
        for commit in told:
            commit.failed(another(error))
        self._waiting.extendleft(reversed(sent))
        self._sort_into_lanes()
        next_try_s = self._policy.monotonic_s() + wait_s
        outcomes: list[Outcome] = []
        for commit in self._drop(lambda commit: commit.deadline_s <= next_try_s):
            failure = commit.failure or commit.failed(another(error))
            outcomes.append((commit, failure))
        return outcomes

    def sweep(self) -> tuple[list[Outcome], bool, float | None]:
        """Applies the deadlines: returns the outcomes of commits whose deadline has passed.

        Also returns whether the stream gave no answer for the time of an attempt, and the seconds
        until the next sweep (None if nothing is unanswered).
        """
        now_s = self._policy.monotonic_s()
        for due_s, commit in self._put_off:
            if due_s <= now_s:
                self._enqueue(commit)
        self._put_off = [item for item in self._put_off if item[0] > now_s]
        late = self._drop(lambda commit: commit.deadline_s <= now_s)
        outcomes: list[Outcome] = [(commit, self._too_late(commit)) for commit in late]
        is_stuck = False
        next_s = [due_s for due_s, _ in self._put_off]
        next_s += [lane.due_s for lane in self._lanes.values() if lane.due_s > now_s]
        next_s += [commit.deadline_s for commit in self._all()]
        # A commit that is sent just after this sweep is late after the time of one attempt.
        if next_s:
            next_s.append(now_s + self._policy.try_time_s)
        if self._sent:
            oldest = next(iter(self._sent.values()))
            next_s.append(oldest.sent_s + self._policy.try_time_s)
            is_stuck = next_s[-1] <= now_s
        return outcomes, is_stuck, max(min(next_s) - now_s, 0.0) if next_s else None

    def all(self) -> list[HandedIn]:
        """All commits that are sent or wait."""
        return [*self._all()]

    def abandon(self) -> list[Outcome]:
        """Gives up all commits, because the client is closed."""
        return [
            (
                commit,
                commit.failed(closed_while_waiting() if commit.is_sent else closed_before_sent()),
            )
            for commit in self._drop(lambda _: True)
        ]

    def _lane(self, group_id: str) -> _Lane:
        lane = self._lanes.get(group_id)
        if lane is None:
            lane = self._lanes[group_id] = _Lane()
            self._sort_into_lanes()
        return lane

    def _enqueue(self, commit: HandedIn) -> None:
        lane = self._lanes.get(commit.request.group_id) if self._lanes else None
        (self._waiting if lane is None else lane.commits).append(commit)

    def _sort_into_lanes(self) -> None:
        if self._lanes:
            waiting, self._waiting = self._waiting, deque()
            for commit in waiting:
                self._enqueue(commit)

    def _groups_on_the_way(self) -> set[str]:
        return {commit.request.group_id for commit in self._sent.values()}

    def _can_leave(self, group_id: str, on_the_way: set[str]) -> bool:
        lane = self._lanes.get(group_id)
        if lane is None or group_id in on_the_way:
            return False
        return lane.due_s <= self._policy.monotonic_s()

    def _count_in(self, commit: HandedIn) -> None:
        self._count += 1
        self._bytes += commit.size

    def _count_out(self, commit: HandedIn) -> None:
        self._count -= 1
        self._bytes -= commit.size

    def _all(self) -> Iterator[HandedIn]:
        yield from self._sent.values()
        yield from self._waiting
        yield from (commit for _, commit in self._put_off)
        yield from self._alone
        for lane in self._lanes.values():
            yield from lane.commits

    def _drop(self, is_over: Callable[[HandedIn], bool]) -> list[HandedIn]:
        """Removes commits, whether they wait or are sent."""
        over = [commit for commit in self._all() if is_over(commit)]
        if over:
            gone = {id(commit) for commit in over}
            self._sent = {key: each for key, each in self._sent.items() if id(each) not in gone}
            self._waiting = deque(each for each in self._waiting if id(each) not in gone)
            self._put_off = [item for item in self._put_off if id(item[1]) not in gone]
            self._alone = deque(each for each in self._alone if id(each) not in gone)
            for lane in self._lanes.values():
                lane.commits = [each for each in lane.commits if id(each) not in gone]
            for commit in over:
                self._count_out(commit)
        return over

    def _too_late(self, commit: HandedIn) -> OffsetdError:
        if commit.is_sent:
            return commit.failed(no_answer(commit.timeout_s))
        if commit.failure is not None:
            return commit.failure  # This error says more than a missed deadline.
        return commit.failed(not_sent(commit.timeout_s))


def is_of_ownership(error: OffsetdError) -> bool:
    """Whether a commit was refused because the server does not serve its group now."""
    return error.reason in _OF_OWNERSHIP


def portions(outcomes: Sequence[Outcome]) -> Iterator[Sequence[Outcome]]:
    """Splits outcomes into portions of limited bytes, in order.

    A caller that commits in a loop makes its next commit when it learns the last outcome. If all
    callers learned their outcomes at once, the server would have no work until the last caller
    had a commit.
    """
    begin = size = 0
    for end, (commit, _) in enumerate(outcomes, start=1):
        size += commit.size
        if size >= _PORTION_BYTES or end == len(outcomes):
            yield outcomes[begin:end]
            begin, size = end, 0


def unanswered(commits: Iterable[HandedIn]) -> list[HandedIn]:
    """The commits that the server has not answered yet, or not in time.

    A refused commit is answered: its future has the error.
    """
    return [each for each in commits if not each.future.cancelled() and _is_unanswered(each)]


def _is_unanswered(commit: HandedIn) -> bool:
    error = commit.outcome
    if error is None or isinstance(error, ClientClosed):
        return True
    return isinstance(error, OffsetdError) and is_tried_again(error)


def heard(commits: Iterable[HandedIn]) -> Iterator[str]:
    """Yields the group of each commit, and marks the errors of the futures as retrieved.

    The caller raises an error for these commits, so the futures must not log theirs again.
    """
    for each in commits:
        if each.future.done() and not each.future.cancelled():
            each.future.exception()
        yield each.request.group_id


def no_answer(timeout_s: float) -> OffsetdError:
    """The error of a commit that was sent, and may have been applied."""
    message = f"no answer within {timeout_s:g} s"
    return DeadlineExceeded(Failure(code="DEADLINE_EXCEEDED", message=message))


def not_sent(timeout_s: float) -> OffsetdError:
    """The error of a commit that was never sent, because other commits were ahead of it."""
    message = f"it could not be sent within {timeout_s:g} s"
    failure = Failure(code="DEADLINE_EXCEEDED", message=message, reason="DEADLINE_SPENT")
    return DeadlineExceeded(failure)


def is_broken(error: OffsetdError, failures: int) -> bool:
    """Whether the error means only that the stream ended. `failures` counts failures in a row.

    gRPC has several codes for that: INTERNAL, for example, if a message could not be written.
    """
    of_transport = error.code in {"CANCELLED", "INTERNAL", "UNKNOWN"} and not error.reason
    return of_transport and failures < _BROKEN_IN_ROW_MAX


def cut_off() -> OffsetdError:
    """The error of a stream that ended without some of its answers."""
    message = "the server ended the stream before it had answered"
    return Unavailable(Failure(code="UNAVAILABLE", message=message))
