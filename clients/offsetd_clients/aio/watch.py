"""The watcher: yields events as they become durable, each once."""

import random
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from offsetd.v1 import history_pb2

from offsetd_clients.aio.concurrency import sleep
from offsetd_clients.aio.servers import Servers
from offsetd_clients.aio.watch_feeds import ClusterWatch
from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.errors import OffsetdError
from offsetd_clients.history_values import OffsetEvent, OffsetEvents
from offsetd_clients.messages.history_messages import offset_events

if TYPE_CHECKING:
    from offsetd_clients.aio.transport import Answers

_WAIT_S_MIN = 0.1
_WAIT_S_MAX = 2.0


class AsyncOffsetWatch:
    """Events as they become durable, one by one, or in `batches` with their tokens.

    It reconnects by itself and continues at its position: no event is lost or repeated. It raises
    an error if it gets no answer for the timeout of calls. With an end token it ends at that token.
    In a cluster it watches all nodes, and its token has the positions of all. One caller iterates;
    any caller may `cancel`.
    """

    def __init__(
        self, servers: Servers, request: history_pb2.WatchOffsetsRequest, policy: RetryPolicy
    ) -> None:
        """Use `AsyncOffsetClient.watch_offsets`."""
        self._unreachable: tuple[int, ...] = ()
        self._servers = servers
        self._request = request
        self._policy = policy
        self._answers: Answers | None = None
        self._cluster: ClusterWatch | None = None
        self._cancelled = False

    @property
    def token(self) -> str:
        """The token with which to continue after the last batch. Empty before the first answer."""
        return self._request.token if self._cluster is None else self._cluster.token

    @property
    def unreachable_log_partitions(self) -> tuple[int, ...]:
        """The damaged log partitions, whose events are missing."""
        if self._cluster is not None:
            return self._cluster.unreachable_log_partitions
        return self._unreachable

    async def __aiter__(self) -> AsyncIterator[OffsetEvent]:
        async for batch in self.batches():
            for event in batch.events:
                yield event

    async def batches(self) -> AsyncIterator[OffsetEvents]:
        """Yields the events that arrive together. A batch may have a token and no events."""
        failed_since_s: float | None = None
        tries = 0
        while not self._cancelled:
            try:
                async for batch in self._batches():
                    failed_since_s, tries = None, 0
                    yield batch
                if self._request.until_token or self._cluster is not None:
                    return
            except OffsetdError as error:
                if self._cancelled:
                    return
                if self._cluster is not None:  # It has tried again for long enough.
                    raise
                self._servers.leave(self._servers.home.address)
                failed_since_s = failed_since_s or time.monotonic()
                timeout_s = self._policy.timeout_s
                if not error.retriable or time.monotonic() - failed_since_s > timeout_s:
                    raise
                asked_s = error.failure.retry_after_s or 0.0
                spread_s = random.uniform(0, min(_WAIT_S_MIN * 2**tries, _WAIT_S_MAX))
                await sleep(asked_s + _WAIT_S_MIN + spread_s)
                tries += 1

    def cancel(self) -> None:
        """Ends the watch: its iteration stops."""
        self._cancelled = True
        if self._answers is not None:
            self._answers.cancel()
        if self._cluster is not None:
            self._cluster.cancel()

    async def _batches(self) -> AsyncIterator[OffsetEvents]:
        home = self._servers.home
        self._answers = await home.stream("WatchOffsets", self._request)
        if self._cancelled:  # Another thread cancelled it, perhaps before it could see `answers`.
            self._answers.cancel()
        try:
            async for response in self._answers:
                if response.HasField("cluster"):
                    break
                self._unreachable += tuple(response.unreachable_log_partitions)
                yield offset_events(response)
                # Set it only now, because the caller has taken this batch.
                self._request.token = response.token
                self._request.from_oldest = False
            else:
                return
        finally:
            self._answers.cancel()
        cluster = self._cluster = ClusterWatch(self._servers, self._request, self._policy)
        if self._cancelled:
            cluster.cancel()
        async for batch in cluster.batches(response.cluster, home.address):
            yield batch
