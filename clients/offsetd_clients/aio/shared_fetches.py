"""Fetches that begin in the same turn of the event loop share one call.

Typically they follow commits that were answered together. Client and server then pay the cost of a
call once. Threads have no such turns: the client for threads makes a call for each fetch.
"""

import asyncio
from typing import Any, Protocol

from offsetd.v1.offset_service_pb2 import FetchOffsetsRequest, GroupOffsets

from offsetd_clients.calling.retry import is_tried_again
from offsetd_clients.errors import ClientClosed, OffsetdError, another

GROUPS_MAX = 64
"""The most groups in one call: all of them wait for the largest."""
TIMEOUT_S_MIN = 1.0
"""A fetch with less time makes its own call."""

_Awaited = asyncio.Future[GroupOffsets | None]  # None: the fetch must make its own call.
# By group: a call names each group once.
_Gathered = dict[str, tuple[FetchOffsetsRequest, _Awaited]]


class FetchCall(Protocol):
    """A FetchOffsets call, with a timeout in seconds."""

    async def __call__(self, request: FetchOffsetsRequest, timeout_s: float) -> Any:
        """Returns the answer, or raises OffsetdError."""


class SharedFetches:
    """The fetches over one channel."""

    def __init__(self, call: FetchCall) -> None:
        self._call = call
        self._open: dict[object, _Gathered] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def fetch(self, request: FetchOffsetsRequest, timeout_s: float) -> GroupOffsets:
        """The stored offsets of the one group in the request.

        Raises the errors that a separate call would raise.
        """
        monotonic_s = asyncio.get_running_loop().time
        deadline_s = monotonic_s() + timeout_s
        if timeout_s >= TIMEOUT_S_MIN:
            offsets = await self._gather(request, timeout_s)
            if offsets is not None:
                return offsets
        response = await self._call(request, max(deadline_s - monotonic_s(), 0.0))
        alone: GroupOffsets = response.groups[0]
        return alone

    def _gather(self, request: FetchOffsetsRequest, timeout_s: float) -> _Awaited:
        loop = asyncio.get_running_loop()
        alike = (loop, request.require_stable, round(timeout_s, 1))
        group_id = request.groups[0].group_id
        gathered = self._open.get(alike)
        if gathered is None or group_id in gathered or len(gathered) == GROUPS_MAX:
            gathered = self._open[alike] = {}
            loop.call_soon(self._begin, alike, gathered, timeout_s)
        future: _Awaited = loop.create_future()
        gathered[group_id] = (request, future)
        return future

    def _begin(self, alike: object, gathered: _Gathered, timeout_s: float) -> None:
        if self._open.get(alike) is gathered:
            del self._open[alike]
        wanted = {key: each for key, each in gathered.items() if not each[1].done()}
        if len(wanted) == 1:
            for _, future in wanted.values():
                future.set_result(None)
        elif wanted:
            task = asyncio.get_running_loop().create_task(self._share(wanted, timeout_s))
            self._tasks.add(task)  # The event loop holds only a weak reference.
            task.add_done_callback(self._tasks.discard)

    async def _share(self, wanted: _Gathered, timeout_s: float) -> None:
        request = FetchOffsetsRequest()
        for each, _ in wanted.values():
            request.MergeFrom(each)
        found: dict[str, GroupOffsets] = {}
        failure: OffsetdError | None = None
        try:
            response = await self._call(request, timeout_s)
            found = {group.group_id: group for group in response.groups}
        except Exception as error:  # noqa: BLE001  Each learns what is wrong in a call of its own.
            failure = error if isinstance(error, OffsetdError) and _is_of_all(error) else None
        finally:  # This also runs if the loop ends, and this task with it.
            for group_id, (_, future) in wanted.items():
                if future.done():
                    continue  # It was cancelled.
                if failure is not None:
                    future.set_exception(another(failure))
                else:
                    future.set_result(found.get(group_id))


def _is_of_all(error: OffsetdError) -> bool:
    """Whether the error is independent of the group: no connection or no answer, for example."""
    return isinstance(error, ClientClosed) or (is_tried_again(error) and not error.reason)
