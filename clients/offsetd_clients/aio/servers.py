"""The servers of a client: its home addresses, and the owners of groups that servers named."""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import attrs
from offsetd.v1.offset_service_pb2 import (
    CommitOffsetsRequest,
    FetchOffsetsRequest,
    GroupOffsets,
)
from offsetd.v1.types_pb2 import ClusterShare

from offsetd_clients.aio.commits import Commits
from offsetd_clients.aio.concurrency import Future, Guard, wait_all, when_process_ends
from offsetd_clients.aio.transport import Channel
from offsetd_clients.calling.commit_queue import HandedIn, heard, unanswered
from offsetd_clients.calling.group_owners import (
    HOPS_MAX,
    Owners,
    Seats,
    SeveralOwners,
    Subject,
    is_of_several,
    subject_of,
)
from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.calling.tracing import Tracing
from offsetd_clients.errors import (
    DeadlineExceeded,
    ForkedClient,
    NotCoordinator,
    OffsetdError,
    Unavailable,
    closed_before,
    commits_unanswered,
)
from offsetd_clients.values import Revision

log = logging.getLogger("offsetd_clients")

_JOIN_S_MAX = 5.0


class Ask(Protocol):
    """A request over a channel, with a timeout in seconds."""

    async def __call__(self, channel: Channel, timeout_s: float) -> Any:
        """Returns the answer, or raises OffsetdError."""


class Servers:
    """Makes calls by method name, each to the server that owns the request's group."""

    def __init__(
        self,
        addresses: Sequence[str],
        policy: RetryPolicy,
        connect: Callable[[str], Channel],
        *,
        stream_commits: bool,
    ) -> None:
        """`addresses` are the home addresses. `connect` makes the channel to an address."""
        self._policy = policy
        self._connect = connect
        self._stream_commits = stream_commits
        self._guard = Guard()
        self._queues_guard = Guard()
        self._owners = Owners(*addresses)
        self._seats = Seats(self._owners.home)
        self._is_closing = False  # No new commit is accepted.
        self._closed = False
        self._channels = {each: connect(each) for each in addresses}
        self._commits: dict[str, Commits] = {}
        when_process_ends(self)

    @property
    def home(self) -> Channel:
        """The channel to the home address."""
        return self._channels[self._owners.home]

    async def call(
        self,
        name: str,
        request: Any,
        policy: RetryPolicy | None = None,
        *,
        subject: Subject | None = None,
    ) -> Any:
        """Makes the call, with retries by `policy`, or by the client's policy if it is None.

        It goes to the owner of `subject`, or of the request's group. Raises SeveralOwners if the
        caller must make a request for each of its groups.
        """

        async def ask(channel: Channel, timeout_s: float) -> Any:
            return await channel.call(name, request, timeout_s)

        return await self.asked(request, ask, policy, subject=subject)

    async def call_at(self, address: str, name: str, request: Any, policy: RetryPolicy) -> Any:
        """Makes the call to one server, with retries."""

        async def attempt(timeout_s: float) -> Any:
            return await self.channel(address).call(name, request, timeout_s)

        return await policy.call_async(attempt)

    async def fetch(self, request: FetchOffsetsRequest, policy: RetryPolicy) -> GroupOffsets:
        """The stored offsets of the one group in the request."""

        async def ask(channel: Channel, timeout_s: float) -> GroupOffsets:
            return await channel.fetch(request, timeout_s)

        offsets: GroupOffsets = await self.asked(request, ask, policy)
        return offsets

    async def asked(
        self,
        request: Any,
        ask: Ask,
        policy: RetryPolicy | None,
        *,
        subject: Subject | None = None,
    ) -> Any:
        """Calls `ask` with the channel to the owner, with retries: see `call`."""
        sought = subject_of(request) if subject is None else subject

        async def attempt(timeout_s: float) -> Any:
            deadline_s = self._policy.monotonic_s() + timeout_s
            for hops in range(HOPS_MAX + 1):
                channel = self.channel(self._owners.address_of(sought))
                left_s = max(deadline_s - self._policy.monotonic_s(), 0.0)
                try:
                    return await ask(channel, left_s)
                except NotCoordinator as error:
                    if is_of_several(request):
                        raise SeveralOwners from error
                    if not self._owners.learn(sought, error, channel.address) or hops == HOPS_MAX:
                        raise
                except (Unavailable, DeadlineExceeded):
                    self._owners.leave(sought, channel.address)
                    raise
            raise AssertionError("the last hop has returned or raised")

        return await (policy or self._policy).call_async(attempt)

    def note_owners(self, share: ClusterShare) -> None:
        """Notes the owners of log partitions that a node of a cluster named."""
        for node in share.elsewhere:
            for log_partition in node.log_partitions:
                if node.address:
                    self._owners.note(log_partition, node.address)

    def leave(self, address: str) -> None:
        """Notes that a server did not answer."""
        self._owners.leave("", address)

    def by_owner(self, group_ids: Iterable[str]) -> list[list[str]]:
        """Divides groups by their owners, as far as these are known."""
        found: dict[str, list[str]] = {}
        for group_id in group_ids:
            found.setdefault(self._owners.known(group_id), []).append(group_id)
        return list(found.values())

    def commits(self, group_id: str) -> Commits:
        """The sender of a group's commits."""
        if self._is_closing:
            raise closed_before()
        return self._commits_at(self._seats.address_of(group_id))

    async def hand_in(
        self, request: CommitOffsetsRequest, encoded: bytes, timeout_s: float
    ) -> Future[Revision]:
        """Takes a commit for a stream: see `Commits.hand_in`."""
        while True:
            future = await self.commits(request.group_id).hand_in(request, encoded, timeout_s)
            if future is not None:
                return future

    def retire(self) -> None:
        """Lets the background work end by itself when it has no more work."""
        for each in list(self._commits.values()):
            each.retire()

    async def flush(self, timeout_s: float) -> None:
        """Waits for the answers to all commits that have been handed in.

        Raises CommitsUnanswered.
        """
        self.home.check_process()
        commits = self._pending()
        await wait_all([each.future for each in commits], timeout_s)
        left = unanswered(commits)
        if left:
            raise commits_unanswered(heard(left))

    async def close(self, timeout_s: float) -> None:
        """Waits as `flush` does, then ends all work. Later calls are refused.

        After all work has ended, it may raise CommitsUnanswered.
        """
        try:
            self.home.check_process()
        except ForkedClient:
            return  # The calls belong to the parent process.
        with self._guard:
            self._is_closing = True
        commits = self._pending()
        if any(each.is_called_back for each in self._all_commits()):
            timeout_s = 0  # A callback calls this: until it returns, no answer is read.
        try:
            await wait_all([each.future for each in commits], timeout_s)
        except BaseException:
            if left := await self._ended(commits):
                log.warning("%s", commits_unanswered(heard(left)))
            raise
        if left := await self._ended(commits):
            raise commits_unanswered(heard(left))

    async def end_with_process(self) -> None:
        """Closes an unclosed client when the process ends, so that its commits can be sent."""
        try:
            if self._pending():
                await self.close(self._policy.timeout_s)
        except OffsetdError as error:
            log.warning("the process ends: %s", error)

    async def _ended(self, waited_for: list[HandedIn]) -> list[HandedIn]:
        """Ends all work.

        Returns the commits without an answer: those of `waited_for`, and later ones.
        """
        with self._guard:
            self._closed = True
            channels = list(self._channels.values())
        known = {id(each): each for each in waited_for}
        for each in self._all_commits():
            known |= {id(commit): commit for commit in each.stop()}
        for channel in channels:
            await channel.close()
        for each in self._all_commits():
            await each.join(_JOIN_S_MAX)
        return unanswered(known.values())

    def _all_commits(self) -> list[Commits]:
        with self._guard:
            return list(self._commits.values())

    def _pending(self) -> list[HandedIn]:
        """The commits without an outcome, each once.

        It reads the queues twice: if a commit moves to another server during the first read, the
        second one finds it.
        """
        looks = (each.pending() for _ in range(2) for each in self._all_commits())
        return list({id(commit): commit for found in looks for commit in found}.values())

    def channel(self, address: str) -> Channel:
        """The channel to a server. Raises InsecureToken."""
        with self._guard:
            if address not in self._channels and not self._closed:
                self._channels[address] = self._connect(address)
            return self._channels.get(address, self.home)

    def _commits_at(self, address: str) -> Commits:
        commits = self._commits.get(address)
        if commits is not None:
            return commits
        channel = self.channel(address)
        with self._guard:
            if self._closed:
                raise closed_before()
            return self._commits.setdefault(
                channel.address,
                Commits(
                    channel,
                    self._policy,
                    streams=self._stream_commits,
                    unary=self._commit_alone,
                    owners=self._owners,
                    seats=self._seats,
                    guard=self._queues_guard,
                    learn=self._learn,
                    sender_to=self._sender_to,
                    hand_back=None if self._is_only_home(channel) else self._hand_back,
                ),
            )

    async def _commit_alone(self, request: Any, timeout_s: float) -> Any:
        return await self.call("CommitOffsets", request, self._policy.within(timeout_s))

    def _learn(self, commit: HandedIn, error: OffsetdError, asked: str) -> bool:
        group_id = commit.request.group_id
        if not isinstance(error, NotCoordinator):
            return False
        commit.hops += 1
        return self._owners.learn(group_id, error, asked) and commit.hops <= HOPS_MAX

    def _is_only_home(self, channel: Channel) -> bool:
        return len(self._owners.homes) == 1 and channel is self.home

    def _hand_back(self, groups: Iterable[str], asked: str) -> None:
        """Lets groups leave a server that cannot be reached.

        The home address knows their present owner.
        """
        for group_id in groups:
            self._owners.leave(group_id, asked)
        self._owners.leave("", asked)
        self._seats.move_home(asked, self._owners.home)

    def _sender_to(self, address: str) -> Commits | None:
        try:
            return self._commits_at(address)
        # The client is closed, or a token must not be sent to that server.
        except OffsetdError:
            return None


class Calls:
    """The base of all parts of a client: it makes their calls."""

    _servers: Servers
    _retry: RetryPolicy
    _tracing: Tracing | None

    async def _call(self, name: str, request: Any, *, wait_s: float | None = None) -> Any:
        """Makes the call. `wait_s` is its timeout if it may have to wait for other members."""
        policy = self._retry
        if wait_s is not None:
            policy = attrs.evolve(policy, timeout_s=wait_s, try_timeout_s=wait_s)
        return await self._servers.call(name, request, policy)


def new_id() -> str:
    """A new request id."""
    return os.urandom(16).hex()  # This is as unique as a UUID, and takes a fifth of the time.
