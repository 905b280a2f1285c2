"""Commits without an outcome: what is sent next, whose a result is, what is sent again, and when.

Pure: it waits for nothing and settles nothing. Both clients keep one for each server, and call it
while they hold its lock; the outcomes that it returns are settled behind that.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from offsetd.v1.offset_service_pb2 import CommitOffsetsRequest, StreamCommitsResponse

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
from offsetd_clients.messages import error_in
from offsetd_clients.offset_messages import sequenced_commit
from offsetd_clients.retry import RetryPolicy, is_tried_again
from offsetd_clients.values import Revision

COMMITS_MAX = 10_000
"""Unanswered commits: whoever brings more has to wait."""
BYTES_MAX = 16 * 1024 * 1024
"""Of unanswered commits, but for the last one."""
COMMIT_BYTES_MAX = 256 * 1024
"""A larger commit is better a call of its own: it would hold up the others."""
_MESSAGE_COMMITS_MAX = 1000
_BROKEN_IN_ROW_MAX = 3
_MESSAGE_BYTES_MAX = 256 * 1024
_PORTION_BYTES = 16 * 1024


class HandedIn:
    """A commit that was handed in, until its future is settled."""

    __slots__ = (
        "deadline_s",
        "encoded",
        "failure",
        "future",
        "hops",
        "is_sent",
        "outcome",
        "request",
        "sent_s",
        "size",
        "timeout_s",
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
        self.encoded = encoded  # The request; made once, however often it is sent.
        self.size = len(encoded)
        self.timeout_s = timeout_s
        self.deadline_s = now_s + timeout_s
        self.future = future
        self.is_sent = False
        self.sent_s = 0.0
        self.tries = 0
        self.hops = 0
        self.failure: OffsetdError | None = None
        self.outcome: Revision | OffsetdError | None = None  # What the future has been told.

    def failed(self, error: OffsetdError) -> OffsetdError:
        """`error`, which knows now what tries before may have done. Of no other commit."""
        if self.failure is not None and self.failure.outcome_unknown:
            error.earlier_outcome_unknown = True
        self.failure = error
        self.is_sent = False
        self.tries += 1
        return error


Outcome = tuple[HandedIn, Revision | OffsetdError]


class CommitQueue:
    """The unanswered commits to one server, in the order in which they were handed in."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._count = 0
        self._bytes = 0
        self._last_sequence = 0
        self._waiting: deque[HandedIn] = deque()
        self._sent: dict[int, HandedIn] = {}
        self._put_off: list[tuple[float, HandedIn]] = []  # Until when.
        self._alone: deque[HandedIn] = deque()
        self._message_bytes_max = _MESSAGE_BYTES_MAX
        self.streams = True  # Whether the server knows them.

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
        """Whether any commit has no outcome yet."""
        return self._count > 0

    @property
    def has_alone(self) -> bool:
        """Whether what comes next is for no stream."""
        is_large = bool(self._waiting) and self._waiting[0].size > COMMIT_BYTES_MAX
        return bool(self._alone) or is_large or not self.streams

    @property
    def has_sent(self) -> bool:
        """Whether answers of the stream are missing."""
        return bool(self._sent)

    def add(self, commit: HandedIn) -> None:
        """Takes a commit in."""
        self._count += 1
        self._bytes += commit.size
        self._waiting.append(commit)

    def next_message(self) -> bytes | None:
        """As many of the waiting commits as a message takes; None: nothing waits for the stream.

        A StreamCommitsRequest as it is sent: fields of commits, one behind the other.
        """
        if self.has_alone:
            return None
        now_s = self._policy.monotonic_s()
        fields: list[bytes] = []
        waiting, size = self._waiting, 0
        while waiting and len(fields) < _MESSAGE_COMMITS_MAX and size <= self._message_bytes_max:
            if waiting[0].size > COMMIT_BYTES_MAX:
                break
            commit = waiting.popleft()
            if commit.future.done():  # Cancelled: nobody wants it any more.
                self._count_out(commit)
                continue
            self._last_sequence += 1
            self._sent[self._last_sequence] = commit
            commit.is_sent, commit.sent_s = True, now_s
            fields.append(sequenced_commit(self._last_sequence, commit.encoded))
            size += commit.size
        return b"".join(fields) if fields else None

    def next_alone(self) -> HandedIn | None:
        """The next commit that no stream is for; it is counted out."""
        while self.has_alone and (self._alone or self._waiting):
            commit = (self._alone or self._waiting).popleft()
            self._count_out(commit)
            if not commit.future.done():
                return commit
        return None

    def take_waiting(self) -> list[HandedIn]:
        """Those that wait to be sent; they are counted out."""
        taken = list(self._waiting)
        self._waiting.clear()
        for commit in taken:
            self._count_out(commit)
        return taken

    def take_results(self, response: StreamCommitsResponse) -> list[Outcome]:
        """The outcomes that the stream tells; none of commits whose time was up before."""
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
        """Keeps a commit for another try, if that may help and its time allows it."""
        due_s = self._policy.monotonic_s() + self._policy.wait_s(commit.tries, error)
        if not is_tried_again(error) or due_s >= commit.deadline_s:
            return False
        self._count += 1
        self._bytes += commit.size
        commit.hops = 0
        self._put_off.append((due_s, commit))
        return True

    def stream_ended(self, error: OffsetdError, wait_s: float) -> list[Outcome]:
        """All that was sent is to be sent again, in its order, after `wait_s`.

        Where a stream is no help, each by itself. Returns those who have not so much time.
        """
        sent = list(self._sent.values())
        self._sent.clear()
        if not is_tried_again(error):
            if error.code == "UNIMPLEMENTED":
                self.streams = False
            elif error.code == "RESOURCE_EXHAUSTED":  # It takes no message as large as that.
                size = sum(commit.size for commit in sent)
                self._message_bytes_max = min(self._message_bytes_max, size) // 2
            if not sent:
                self._alone.extend(self._waiting)
                self._waiting.clear()
            self._alone.extend(sent)
            return []
        # What still waits hears of it where that is no doubt about what was never sent.
        told = sent if error.outcome_unknown else [*sent, *self._waiting]
        for commit in told:
            commit.failed(another(error))
        self._waiting.extendleft(reversed(sent))
        next_try_s = self._policy.monotonic_s() + wait_s
        outcomes: list[Outcome] = []
        for commit in self._drop(lambda commit: commit.deadline_s <= next_try_s):
            failure = commit.failure or commit.failed(another(error))
            outcomes.append((commit, failure))
        return outcomes

    def sweep(self) -> tuple[list[Outcome], bool, float | None]:
        """What has to be done for the time: outcomes of commits whose deadline has passed.

        Also whether the stream has not answered for as long as a try may take, and in how many
        seconds to look again; None: nothing is unanswered.
        """
        now_s = self._policy.monotonic_s()
        self._waiting.extend(commit for due_s, commit in self._put_off if due_s <= now_s)
        self._put_off = [item for item in self._put_off if item[0] > now_s]
        late = self._drop(lambda commit: commit.deadline_s <= now_s)
        outcomes: list[Outcome] = [(commit, self._too_late(commit)) for commit in late]
        is_stuck = False
        next_s = [due_s for due_s, _ in self._put_off]
        next_s += [commit.deadline_s for commit in self._all()]
        if next_s:  # What is sent from now on has an answer by then, or is late.
            next_s.append(now_s + self._policy.try_time_s)
        if self._sent:
            oldest = next(iter(self._sent.values()))
            next_s.append(oldest.sent_s + self._policy.try_time_s)
            is_stuck = next_s[-1] <= now_s
        return outcomes, is_stuck, max(min(next_s) - now_s, 0.0) if next_s else None

    def all(self) -> list[HandedIn]:
        """Those that are sent, or wait for it."""
        return [*self._all()]

    def abandon(self) -> list[Outcome]:
        """Gives all commits up, since the client is closed."""
        return [
            (
                commit,
                commit.failed(closed_while_waiting() if commit.is_sent else closed_before_sent()),
            )
            for commit in self._drop(lambda _: True)
        ]

    def _count_out(self, commit: HandedIn) -> None:
        self._count -= 1
        self._bytes -= commit.size

    def _all(self) -> Iterator[HandedIn]:
        yield from self._sent.values()
        yield from self._waiting
        yield from (commit for _, commit in self._put_off)
        yield from self._alone

    def _drop(self, is_over: Callable[[HandedIn], bool]) -> list[HandedIn]:
        """Takes commits out, wherever they are."""
        over = [commit for commit in self._all() if is_over(commit)]
        if over:
            gone = {id(commit) for commit in over}
            self._sent = {key: each for key, each in self._sent.items() if id(each) not in gone}
            self._waiting = deque(each for each in self._waiting if id(each) not in gone)
            self._put_off = [item for item in self._put_off if id(item[1]) not in gone]
            self._alone = deque(each for each in self._alone if id(each) not in gone)
            for commit in over:
                self._count_out(commit)
        return over

    def _too_late(self, commit: HandedIn) -> OffsetdError:
        if commit.is_sent:
            return commit.failed(no_answer(commit.timeout_s))
        if commit.failure is not None:
            return commit.failure  # It says more than "too late".
        return commit.failed(not_sent(commit.timeout_s))


def portions(outcomes: Sequence[Outcome]) -> Iterator[Sequence[Outcome]]:
    """The same outcomes in their order, some at a time, by the bytes of their commits.

    Who commits again and again makes the next one when it hears of the last: told all at once,
    they would leave the server without work until the last of them is ready.
    """
    begin = size = 0
    for end, (commit, _) in enumerate(outcomes, start=1):
        size += commit.size
        if size >= _PORTION_BYTES or end == len(outcomes):
            yield outcomes[begin:end]
            begin, size = end, 0


def unanswered(commits: Iterable[HandedIn]) -> list[HandedIn]:
    """Those that the server has not answered for: not yet, or not in time.

    What it has refused is answered for: the future says so.
    """
    return [each for each in commits if not each.future.cancelled() and _is_unanswered(each)]


def _is_unanswered(commit: HandedIn) -> bool:
    error = commit.outcome
    if error is None or isinstance(error, ClientClosed):
        return True
    return isinstance(error, OffsetdError) and is_tried_again(error)


def heard(commits: Iterable[HandedIn]) -> Iterator[str]:
    """The group of each; of their errors somebody is told, and no future says them again."""
    for each in commits:
        if each.future.done() and not each.future.cancelled():
            each.future.exception()
        yield each.request.group_id


def no_answer(timeout_s: float) -> OffsetdError:
    """The error of what was sent, and may have been applied."""
    message = f"no answer within {timeout_s:g} s"
    return DeadlineExceeded(Failure(code="DEADLINE_EXCEEDED", message=message))


def not_sent(timeout_s: float) -> OffsetdError:
    """The error of what never went out, since others were in its way."""
    message = f"it could not be sent within {timeout_s:g} s"
    failure = Failure(code="DEADLINE_EXCEEDED", message=message, reason="DEADLINE_SPENT")
    return DeadlineExceeded(failure)


def is_broken(error: OffsetdError, failures: int) -> bool:
    """Whether all that an error says is that the stream ended, after so many failures in a row.

    gRPC has several codes for that; INTERNAL where a message could not be written any more.
    """
    of_transport = error.code in {"CANCELLED", "INTERNAL", "UNKNOWN"} and not error.reason
    return of_transport and failures < _BROKEN_IN_ROW_MAX


def cut_off() -> OffsetdError:
    """The error of a stream that ended without some of its answers."""
    message = "the server ended the stream before it had answered"
    return Unavailable(Failure(code="UNAVAILABLE", message=message))
