# Made from aio/servers.py by .ci/sync_from_aio: change that, then run `make sync`.
"""The servers of a client: the one that it was given, and those that were said to own a group."""

from collections.abc import Callable
from typing import Any, Protocol

from offsetd.v1.offset_service_pb2 import FetchOffsetsRequest, GroupOffsets

from offsetd_clients.commit_queue import HandedIn
from offsetd_clients.errors import (
    ForkedClient,
    NotCoordinator,
    OffsetdError,
    Unavailable,
    closed_before,
)
from offsetd_clients.owners import HOPS_MAX, Owners, SeveralOwners, group_of, is_of_several
from offsetd_clients.retry import RetryPolicy
from offsetd_clients.sync.commits import Commits
from offsetd_clients.sync.concurrency import Guard
from offsetd_clients.sync.transport import Channel

_JOIN_S_MAX = 5.0


class Ask(Protocol):
    """A request over a channel, within so many seconds."""

    def __call__(self, channel: Channel, timeout_s: float) -> Any:
        """The answer, or OffsetdError."""


class Servers:
    """Calls by method and request, each to the server that owns the request's group."""

    def __init__(
        self,
        address: str,
        policy: RetryPolicy,
        connect: Callable[[str], Channel],
        *,
        stream_commits: bool,
    ) -> None:
        """`connect` makes the channel to an address."""
        self._policy = policy
        self._connect = connect
        self._stream_commits = stream_commits
        self._guard = Guard()
        self._owners = Owners(address)
        self._closed = False
        self.home = connect(address)
        self._channels = {address: self.home}
        self._commits: dict[str, Commits] = {}

    def call(self, name: str, request: Any, policy: RetryPolicy | None = None) -> Any:
        """The answer; tried again by `policy`, or else the client's.

        Raises SeveralOwners where the request has to be made for each of its groups.
        """

        def ask(channel: Channel, timeout_s: float) -> Any:
            return channel.call(name, request, timeout_s)

        return self._asked(request, ask, policy)

    def fetch(self, request: FetchOffsetsRequest, policy: RetryPolicy) -> GroupOffsets:
        """The offsets of the one group that is asked for."""

        def ask(channel: Channel, timeout_s: float) -> GroupOffsets:
            return channel.fetch(request, timeout_s)

        offsets: GroupOffsets = self._asked(request, ask, policy)
        return offsets

    def _asked(self, request: Any, ask: Ask, policy: RetryPolicy | None) -> Any:
        """What `ask` says of the channel to whoever owns the request's group."""
        group_id = group_of(request)

        def attempt(timeout_s: float) -> Any:
            deadline_s = self._policy.monotonic_s() + timeout_s
            for hops in range(HOPS_MAX + 1):
                channel = self._channel(self._owners.address_of(group_id))
                left_s = max(deadline_s - self._policy.monotonic_s(), 0.0)
                try:
                    return ask(channel, left_s)
                except NotCoordinator as error:
                    if is_of_several(request):
                        raise SeveralOwners from error
                    if not self._owners.learn(group_id, error, channel.address) or hops == HOPS_MAX:
                        raise
                except Unavailable:
                    self._owners.forget(group_id)
                    raise
            raise AssertionError("the last hop has returned or raised")

        return (policy or self._policy).call(attempt)

    def commits(self, group_id: str) -> Commits:
        """Where commits of a group are handed in."""
        return self._commits_at(self._owners.address_of(group_id))

    def retire(self) -> None:
        """What runs in the background ends by itself, when it has nothing more to do."""
        for each in list(self._commits.values()):
            each.retire()

    def close(self) -> None:
        """Ends all that is going on; it, and all that comes later, raises `ClientClosed`."""
        try:
            self.home.check_process()
        except ForkedClient:
            return  # All that is going on goes on in the parent.
        with self._guard:
            self._closed = True
            channels, commits = list(self._channels.values()), list(self._commits.values())
        for each in commits:
            each.stop()
        for channel in channels:
            channel.close()
        for each in commits:
            each.join(_JOIN_S_MAX)

    def _channel(self, address: str) -> Channel:
        with self._guard:
            if address not in self._channels and not self._closed:
                self._channels[address] = self._connect(address)
            return self._channels.get(address, self.home)

    def _commits_at(self, address: str) -> Commits:
        commits = self._commits.get(address)
        if commits is not None:
            return commits
        channel = self._channel(address)
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
                    hand_on=self._hand_on,
                    hand_back=None if channel is self.home else self._hand_back,
                ),
            )

    def _commit_alone(self, request: Any, timeout_s: float) -> Any:
        return self.call("CommitOffsets", request, self._policy.within(timeout_s))

    def _hand_on(self, commit: HandedIn, error: NotCoordinator, asked: str) -> bool:
        group_id = commit.request.group_id
        commit.hops += 1
        if not self._owners.learn(group_id, error, asked) or commit.hops > HOPS_MAX:
            return False
        return self._adopt(self._owners.address_of(group_id), commit)

    def _hand_back(self, commit: HandedIn) -> bool:
        """From a server that cannot be reached any more: the home address knows who owns it now."""
        self._owners.forget(commit.request.group_id)
        return self._adopt(self._owners.home, commit)

    def _adopt(self, address: str, commit: HandedIn) -> bool:
        try:
            return self._commits_at(address).adopt(commit)
        except OffsetdError:  # Closed, or not safe to tell a token to.
            return False
