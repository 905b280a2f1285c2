# Made from aio/watch_feeds.py by .ci/sync_from_aio: change that, then run `make sync`.
"""A watch over several nodes of a cluster: one stream for each node, merged into one sequence.

Each log partition is read from one node at a time. If its stream ends, because the log partition
moved or the node is gone, another stream goes on at the position of the last event that the caller
took. So no event is lost or repeated.
"""

import random
import time
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
from offsetd.v1.admin_service_pb2 import DescribeClusterRequest
from offsetd.v1.history_pb2 import WatchOffsetsRequest, WatchOffsetsResponse
from offsetd.v1.types_pb2 import ClusterShare

from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.errors import OffsetdError
from offsetd_clients.history_values import OffsetEvents
from offsetd_clients.messages.history_messages import offset_events
from offsetd_clients.messages.watch_tokens import log_partitions_in, merged
from offsetd_clients.sync.concurrency import Event, spawn
from offsetd_clients.sync.servers import Servers
from offsetd_clients.sync.transport import Answers, Channel

_WAIT_S_MIN = 0.05
_WAIT_S_MAX = 2.0
# The longest search for an owner; meanwhile no events are yielded.
_OWNERS_TIMEOUT_S = 2.0


class _Feed:
    """The stream of one node. A background task reads one answer, and the next once it is taken."""

    def __init__(self, channel: Channel, request: WatchOffsetsRequest, arrived: Event) -> None:
        self.address = channel.address
        self.log_partitions = tuple(request.log_partitions)
        self.answer: WatchOffsetsResponse | None = None
        self.error: Exception | None = None
        self.has_ended = False
        self._channel = channel
        self._request = request
        self._arrived = arrived
        self._taken = Event()
        self._is_stopped = False
        self._answers: Answers | None = None
        spawn(self._read, name="offsetd watch")

    def take(self) -> None:
        """Drops the answer: the caller has it."""
        self.answer = None
        self._taken.set()

    def stop(self) -> None:
        """Ends the stream."""
        self._is_stopped = True
        self._taken.set()
        if self._answers is not None:
            self._answers.cancel()

    def _read(self) -> None:
        try:
            self._answers = self._channel.stream("WatchOffsets", self._request)
            if self._is_stopped:  # While the stream was opened.
                return
            for response in self._answers:
                self.answer = response
                self._arrived.set()
                self._taken.wait()
                self._taken.clear()
                if self._is_stopped:
                    return
        except Exception as error:  # noqa: BLE001  The caller gets it.
            self.error = error
        finally:
            self.has_ended = True
            self._arrived.set()
            if self._answers is not None:
                self._answers.cancel()


class ClusterWatch:
    """The batches of all nodes. `token` is that of the last batch that the caller took."""

    def __init__(self, servers: Servers, request: WatchOffsetsRequest, policy: RetryPolicy) -> None:
        """`request` is for one server; its token is where to begin."""
        self.unreachable_log_partitions: tuple[int, ...] = ()
        self.token: str = request.token
        self._servers = servers
        self._request = request
        self._policy = policy
        self._positions: str = request.token
        self._concerned: set[int] = set()
        self._missing: set[int] = set()  # The log partitions that no feed reads.
        self._failed_since_s: dict[int, float] = {}
        self._failure: OffsetdError | None = None
        self._feeds: list[_Feed] = []
        self._arrived = Event()
        self._tries = 0
        self._next_try_s = 0.0
        self._cancelled = False

    def cancel(self) -> None:
        """Ends the watch. For any caller."""
        self._cancelled = True
        self._arrived.set()

    def batches(self, share: ClusterShare, address: str) -> Iterator[OffsetEvents]:
        """Yields the batches; `share` is what the server at `address` said of the cluster.

        Before the first batch, each log partition has a position: otherwise a watch that goes on
        from the token of the first batch could begin too late.
        """
        self._concerned.update(share.log_partitions)
        for node in share.elsewhere:
            self._concerned.update(node.log_partitions)
        self._begin(address, share.log_partitions)
        for node in share.elsewhere:
            if node.address:
                self._begin(node.address, node.log_partitions)
            else:
                self._miss(node.log_partitions)
        is_ready = False
        try:
            while not self._cancelled and (self._feeds or self._missing):
                self._arrived.clear()
                if not is_ready and self._has_all_positions():
                    is_ready, self.token = True, self._positions
                    yield OffsetEvents(events=(), token=self.token)
                for feed in list(self._feeds):
                    answer = feed.answer
                    if answer is None:
                        self._note_end(feed)
                    elif is_ready or not answer.events:
                        if is_ready:
                            yield self._batch(answer)
                        self._note_taken(feed, answer)
                        if is_ready:
                            self.token = self._positions
                self._seek_owners()
                if not self._has_news(is_ready=is_ready):
                    self._arrived.wait(self._wait_s())
        finally:
            for feed in self._feeds:
                feed.stop()

    def _batch(self, answer: WatchOffsetsResponse) -> OffsetEvents:
        events = offset_events(answer).events
        return OffsetEvents(events=events, token=merged([self._positions, answer.token]))

    def _note_taken(self, feed: _Feed, answer: WatchOffsetsResponse) -> None:
        """Notes that the caller has the events of an answer: a later stream begins after them."""
        self._positions = merged([self._positions, answer.token])
        unreachable = {*self.unreachable_log_partitions, *answer.unreachable_log_partitions}
        self.unreachable_log_partitions = tuple(sorted(unreachable))
        for log_partition in feed.log_partitions:
            self._failed_since_s.pop(log_partition, None)
        feed.take()

    def _has_all_positions(self) -> bool:
        known = log_partitions_in(self._positions)
        return self._concerned <= known | set(self.unreachable_log_partitions)

    def _has_news(self, *, is_ready: bool) -> bool:
        """Whether there is something to do at once."""
        if not (self._feeds or self._missing) or (not is_ready and self._has_all_positions()):
            return True
        return any(
            feed.has_ended if feed.answer is None else is_ready or not feed.answer.events
            for feed in self._feeds
        )

    def _begin(self, address: str, log_partitions: Iterable[int]) -> None:
        """Reads log partitions from a node, where others of them are read already.

        Those that have no position yet need a stream of their own, without a token.
        """
        known = log_partitions_in(self._positions)
        begun = {each for each in log_partitions if each in known}
        new = set(log_partitions) - begun
        if begun:
            for feed in list(self._feeds):
                if feed.address == address and known.issuperset(feed.log_partitions):
                    begun.update(feed.log_partitions)
                    self._feeds.remove(feed)
                    feed.stop()
        for chosen, token in ((begun, self._positions), (new, "")):
            if chosen:
                request = WatchOffsetsRequest()
                request.CopyFrom(self._request)
                request.token = token
                request.from_oldest = self._request.from_oldest and not token
                request.log_partitions[:] = sorted(chosen)
                channel = self._servers.channel(address)
                self._feeds.append(_Feed(channel, request, self._arrived))
        self._missing -= begun | new

    def _miss(self, log_partitions: Iterable[int]) -> None:
        now_s = time.monotonic()
        for log_partition in log_partitions:
            self._missing.add(log_partition)
            self._failed_since_s.setdefault(log_partition, now_s)

    def _note_end(self, feed: _Feed) -> None:
        """Handles the end of a stream, if it has ended. Raises its error if a retry cannot help."""
        if not feed.has_ended or feed.answer is not None:
            return
        self._feeds.remove(feed)
        error = feed.error
        if error is None and self._request.until_token:
            return  # All events up to the requested end were sent.
        if isinstance(error, OffsetdError):
            self._merge_tokens_in(error)
            self._failure = error
            self._servers.leave(feed.address)
        if error is not None and not (isinstance(error, OffsetdError) and error.retriable):
            raise error
        self._miss(feed.log_partitions)

    def _merge_tokens_in(self, error: OffsetdError) -> None:
        """A token in an error is of one node: adds the positions in the others."""
        told = {
            name: merged([self._positions, token])
            for name, token in error.details.items()
            if name in ("token", "oldest_token")
        }
        error.failure = attrs.evolve(error.failure, details={**error.details, **told})

    def _wait_s(self) -> float | None:
        return max(self._next_try_s - time.monotonic(), 0.0) if self._missing else None

    def _seek_owners(self) -> None:
        """Finds the servers of the log partitions that no stream reads, and reads them there."""
        now_s = time.monotonic()
        if not self._missing:
            self._tries = 0
            return
        if now_s < self._next_try_s:
            return
        longest_s = max(now_s - self._failed_since_s[each] for each in self._missing)
        if longest_s > self._policy.timeout_s and self._failure is not None:
            raise self._failure
        spread_s = random.uniform(0, min(_WAIT_S_MIN * 2**self._tries, _WAIT_S_MAX))
        self._tries += 1
        self._next_try_s = now_s + _WAIT_S_MIN + spread_s
        try:
            cluster = self._cluster()
        except OffsetdError as error:
            self._failure = error
            return
        for node in cluster.nodes:
            served = {
                each.log_partition for each in cluster.partitions if each.node_id == node.node_id
            }
            if found := self._missing & served:
                self._begin(node.address, sorted(found))

    def _cluster(self) -> Any:
        """The cluster as a node describes it: one that sends events, or else the home address."""
        request = DescribeClusterRequest()
        policy = self._policy.within(_OWNERS_TIMEOUT_S)
        healthy = [feed.address for feed in self._feeds if not feed.has_ended]
        if healthy:
            return self._servers.call_at(random.choice(healthy), "DescribeCluster", request, policy)
        return self._servers.call("DescribeCluster", request, policy)
