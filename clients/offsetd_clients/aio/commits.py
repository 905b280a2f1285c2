"""Sends commits over one stream. One message has all commits that wait at the same time.

One background task opens the stream when there is something to send. If the stream breaks, the task
waits and opens it again. A second task applies the deadlines of the retry policy.
"""

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Protocol

from offsetd.v1.offset_service_pb2 import CommitOffsetsRequest

from offsetd_clients.aio.concurrency import (
    Cancelled,
    Event,
    Future,
    Guard,
    Task,
    new_future,
    others_go_on,
    spawn,
)
from offsetd_clients.aio.transport import Answers, Channel
from offsetd_clients.calling.commit_queue import (
    CommitQueue,
    HandedIn,
    Outcome,
    cut_off,
    heard,
    is_broken,
    is_of_ownership,
    no_answer,
    not_sent,
    portions,
    unanswered,
)
from offsetd_clients.calling.group_owners import Owners, Seats
from offsetd_clients.calling.retry import RetryPolicy, is_tried_again
from offsetd_clients.errors import (
    OffsetdError,
    closed_before,
    closed_before_sent,
    commits_unanswered,
    unforeseen,
)
from offsetd_clients.messages.conversions import revision_of
from offsetd_clients.values import Revision

log = logging.getLogger("offsetd_clients")

IDLE_S_MAX = 60.0
"""A stream without commits stays open this long.

The background work also checks this often whether its client still exists.
"""
_SWEEP_S_MIN = 0.01

Learn = Callable[[HandedIn, OffsetdError, str], bool]
HandBack = Callable[[Iterable[str], str], None]
SenderTo = Callable[[str], "Commits | None"]


class Unary(Protocol):
    """A call for one commit, with a timeout in seconds."""

    async def __call__(self, request: CommitOffsetsRequest, timeout_s: float) -> Any:
        """Returns the answer, or raises OffsetdError."""


class Commits:
    """The commits to one server, each with a future. Callers can share it like the client."""

    def __init__(
        self,
        channel: Channel,
        policy: RetryPolicy,
        *,
        streams: bool,
        unary: Unary,
        owners: Owners,
        seats: Seats,
        guard: Guard,
        learn: Learn,
        sender_to: SenderTo,
        hand_back: HandBack | None,
    ) -> None:
        """`unary` sends a commit that a stream cannot take.

        `guard` protects the queues of all servers, and `seats`. So a group's commits change their
        queue in one step, and no later commit can be handed in between.

        `learn` notes the owner that a refusal names; it returns whether the owner can be tried at
        once. `sender_to` gives the sender to an address, or None if there can be none. `hand_back`
        notes that groups have to leave this server, which cannot be reached; if it is None, their
        commits stay here.
        """
        self._channel = channel
        self._policy = policy
        self._unary = unary
        self._owners = owners
        self._seats = seats
        self._learn = learn
        self._sender_to = sender_to
        self._hand_back = hand_back
        self._guard = guard
        self._queue = CommitQueue(policy)
        self._queue.streams = streams
        self._tasks: list[Task] = []
        self._answers: Answers | None = None
        self._failures = 0  # The number of streams that failed in a row.
        self._is_stuck = False  # The stream does not answer and is being ended.
        self._next_sweep_s = math.inf  # A time by the clock of the retry policy.
        self._closed = False
        # Commits that left the queue. The sender and the sweeper are settling their futures.
        self._telling: Sequence[HandedIn] = ()
        self._telling_late: Sequence[HandedIn] = ()
        self._retired = False
        self._wake = Event()  # The sender has something to send.
        self._sweep_wake = Event()
        self._room = Event()
        self._closing = Event()

    @property
    def streams(self) -> bool:
        """Whether commits go over a stream, as far as is known."""
        return self._queue.streams

    async def hand_in(
        self, request: CommitOffsetsRequest, encoded: bytes, timeout_s: float
    ) -> Future[Revision] | None:
        """Takes a commit that must be sent. Returns its future; None if its group has left.

        Waits while too many commits are unanswered.

        `encoded` is the serialised request. Raises ClientClosed, and DeadlineExceeded if there is
        no room within `timeout_s`. The future has the same deadline.
        """
        monotonic_s = self._policy.monotonic_s
        commit = HandedIn(
            request,
            encoded,
            now_s=monotonic_s(),
            timeout_s=timeout_s,
            future=new_future(request.group_id),
        )
        while not self._take(commit):
            if not self._has_seat(commit):
                return None
            left_s = commit.deadline_s - monotonic_s()
            if left_s <= 0 or not await self._room.wait(left_s):
                raise not_sent(timeout_s)
        future: Future[Revision] = commit.future
        return future

    def adopt(self, commits: Iterable[HandedIn]) -> bool:
        """Takes commits from another server's queue. Returns False if this one is closed.

        The caller holds the guard.
        """
        if not self._closed:
            self._add(commits)
        return not self._closed

    def retire(self) -> None:
        """Lets the background work end by itself, some time after the last commit was answered.

        It takes no lock: the garbage collector may call it at any point of other code.
        """
        self._retired = True

    @property
    def is_called_back(self) -> bool:
        """Whether the caller runs in the background work.

        Then it must not wait for answers: until it returns, no commit is answered.
        """
        return any(task.is_current for task in self._tasks)

    def pending(self) -> list[HandedIn]:
        """The commits whose futures are not settled yet."""
        with self._guard:
            found = [*self._queue.all(), *self._telling, *self._telling_late]
        return [each for each in found if not each.future.done()]

    def stop(self) -> list[HandedIn]:
        """Ends the background work: unanswered and later commits raise `ClientClosed`.

        Returns the commits that were given up.
        """
        with self._guard:
            self._closed = True
            outcomes = self._queue.abandon()
            wake = self._wake
        self._settle(outcomes)
        for event in (wake, self._sweep_wake, self._room, self._closing):
            event.set()
        if self._answers is not None:
            self._answers.cancel()
        return [commit for commit, _ in outcomes]

    async def join(self, timeout_s: float) -> None:
        """Waits until the background work has ended, after `stop`."""
        for task in self._tasks:
            await task.join(timeout_s)

    def _take(self, commit: HandedIn) -> bool:
        self._channel.check_process()
        with self._guard:
            if self._closed:
                raise closed_before()
            if not self._has_seat(commit):
                return False
            if not self._queue.has_room:
                self._room.clear()
                return False
            self._add([commit])
        return True

    def _add(self, commits: Iterable[HandedIn]) -> None:
        for commit in commits:
            self._queue.add(commit)
            if commit.deadline_s < self._next_sweep_s:
                self._next_sweep_s = commit.deadline_s
                self._sweep_wake.set()
        if not self._tasks:
            self._tasks = [
                spawn(self._guarded, self._send, name="offsetd commits"),
                spawn(self._guarded, self._sweep, name="offsetd deadlines"),
            ]
        self._wake.set()

    def _has_seat(self, commit: HandedIn) -> bool:
        return self._seats.address_of(commit.request.group_id) == self._channel.address

    async def _guarded(self, work: Callable[[], Any]) -> None:
        try:
            await work()
        except (Exception, Cancelled):  # With asyncio: the event loop ends.
            # After any error, no caller may wait for ever.
            given_up = unanswered(self.stop())
            if given_up:
                log.warning("%s", commits_unanswered(heard(given_up)))
            raise

    async def _send(self) -> None:
        while await self._has_work():
            await self._send_alone()
            if self._queue.streams and self._queue.has_work:
                await self._stream()

    async def _has_work(self) -> bool:
        while not self._closed:
            with self._guard:
                if self._queue.has_work:
                    return True
                is_over = self._retired and not self._queue.has_any
                wake = self._wake = Event()
            if is_over:
                self.stop()
            else:
                await wake.wait(IDLE_S_MAX)
        return False

    async def _stream(self) -> None:
        with self._guard:
            wake = self._wake = Event()
            self._is_stuck = False
        error: OffsetdError | None = None
        try:
            self._answers = await self._channel.stream("StreamCommits", self._messages(wake))
            async for response in self._answers:
                self._failures = 0
                with self._guard:
                    final = self._final(self._queue.take_results(response))
                    self._telling = [commit for commit, _ in final]
                self._release()
                for portion in portions(final):
                    self._settle(portion)
                    await others_go_on()  # The callers make their next commits.
                self._telling = ()
        except OffsetdError as raised:
            error = raised
        except Exception as raised:  # noqa: BLE001  Others go on; if it stays so, each is told.
            error = unforeseen(raised)
        finally:
            with self._guard:
                self._wake = Event()
            wake.set()  # Ends `_messages`.
        if not self._closed:
            await self._mend(error)

    async def _messages(self, wake: Event) -> AsyncIterator[bytes]:
        while True:
            wake.clear()
            with self._guard:
                if self._wake is not wake:
                    return
                message, is_over = self._queue.next_message(), self._queue.has_alone
            self._room.set()  # Cancelled commits left the queue, but `_settle` never handles them.
            if message is not None:
                yield message
            elif is_over or not await wake.wait(IDLE_S_MAX):
                return

    async def _mend(self, error: OffsetdError | None) -> None:
        """Decides on the commits of a stream that ended. Waits if it must be opened again."""
        with self._guard:
            if self._is_stuck:
                error = no_answer(self._policy.try_time_s)
            elif error is None:
                if not self._queue.has_sent:
                    return
                error = cut_off()
            elif is_broken(error, self._failures):
                error = cut_off()
            self._failures += 1
            wait_s = self._policy.wait_s(self._failures, error)
            outcomes = self._queue.stream_ended(error, wait_s)
            self._telling = [commit for commit, _ in outcomes]
            if self._hand_back is not None and is_tried_again(error):
                groups = self._queue.hold_waiting()
                for group_id in groups:
                    self._seats.leave(group_id, self._channel.address)
                self._hand_back(groups, self._channel.address)
        self._settle(outcomes)
        self._telling = ()
        self._release()
        if is_tried_again(error):
            await self._closing.wait(wait_s)

    def _release(self) -> None:
        """Lets commits go on to their groups' owners, if none of the group is on its way."""
        while True:
            with self._guard:
                group_id = self._queue.group_to_leave()
                if group_id is None:
                    return
                address = self._owners.address_of(group_id)
            sender = self._sender_to(address)
            with self._guard:
                commits = self._queue.take_lane(group_id)
                if commits is None:
                    continue
                self._seats.settle(group_id, address)
                is_taken = sender is not None and sender.adopt(commits)
            if not is_taken:
                self._settle([(each, each.failed(closed_before_sent())) for each in commits])

    async def _send_alone(self) -> None:
        while not self._closed:
            with self._guard:
                commit = self._queue.next_alone()
                self._telling = () if commit is None else (commit,)
            self._room.set()  # Cancelled commits left the queue.
            if commit is None:
                return
            self._settle([(commit, await self._outcome_alone(commit))])

    async def _outcome_alone(self, commit: HandedIn) -> Revision | OffsetdError:
        left_s = commit.deadline_s - self._policy.monotonic_s()
        if left_s <= 0:
            return commit.failed(not_sent(commit.timeout_s))
        try:
            response = await self._unary(commit.request, left_s)
            return revision_of(response.revision)
        except OffsetdError as error:
            return commit.failed(error)
        except Exception as error:  # noqa: BLE001  It is this commit's alone.
            return commit.failed(unforeseen(error))

    async def _sweep(self) -> None:
        while not self._closed:
            self._sweep_wake.clear()
            with self._guard:
                outcomes, is_stuck, wait_s = self._queue.sweep()
                now_s = self._policy.monotonic_s()
                self._next_sweep_s = math.inf if wait_s is None else now_s + wait_s
                self._is_stuck = self._is_stuck or is_stuck
                wake = self._wake if self._queue.has_work else None
                self._telling_late = [commit for commit, _ in outcomes]
            self._settle(outcomes)
            self._telling_late = ()
            self._release()
            if is_stuck and self._answers is not None:
                self._answers.cancel()
            if wake is not None:
                wake.set()
            await self._sweep_wake.wait(None if wait_s is None else max(wait_s, _SWEEP_S_MIN))

    def _final(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """The outcomes to report. It leaves out commits that are sent later or to another server.

        Those commits have their new place before any caller learns an outcome and commits again,
        and before later commits of their groups leave. The caller holds the guard.
        """
        return [
            (commit, outcome)
            for commit, outcome in outcomes
            if isinstance(outcome, Revision) or not self._goes_on(commit, outcome)
        ]

    def _goes_on(self, commit: HandedIn, error: OffsetdError) -> bool:
        if self._closed:
            return False
        if is_of_ownership(error):
            at_once = self._learn(commit, error, self._channel.address)
            is_put_off = self._queue.hold(commit, error, at_once=at_once)
            if is_put_off:
                self._seats.leave(commit.request.group_id, self._channel.address)
        else:
            is_put_off = self._queue.put_off(commit, error)
        if is_put_off:
            self._sweep_wake.set()
        return is_put_off

    def _settle(self, outcomes: Iterable[Outcome]) -> None:
        for commit, outcome in outcomes:
            if commit.future.done():
                continue  # It was cancelled.
            commit.outcome = outcome
            if type(outcome) is Revision:
                commit.future.set_result(outcome)
            else:
                commit.future.set_exception(outcome)
        self._room.set()
