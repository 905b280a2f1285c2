"""WatchOffsets: changes are sent as fast as the client reads them, and no faster."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio
from offsetd.v1 import history_pb2

from offsetd_coordinator.calls import answer_reservations
from offsetd_coordinator.calls.call_life import CallLife, check_size
from offsetd_coordinator.configuration.watch_config import WatchConfig
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import InvalidRequest
from offsetd_coordinator.grpc.streamed_calls import run_call
from offsetd_coordinator.grpc.watcher_rights import WatcherRights
from offsetd_coordinator.history.history_errors import WatcherTooSlow
from offsetd_coordinator.history.watchers import Filter, Watcher, Watchers
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.timestamps import read_duration_ms
from offsetd_coordinator.services.cluster_calls import node_share
from offsetd_coordinator.services.history_calls import set_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.calls.connections import Connection
    from offsetd_coordinator.counters import CallCounters
    from offsetd_coordinator.grpc.unary_calls import Context
    from offsetd_coordinator.history.offset_events import Change
    from offsetd_coordinator.messages.method_access import MethodAccess
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.services.cluster_calls import NodeShare

_EVENTS_PER_MESSAGE_MAX: Final = 200
_INTERVAL_MS_MIN: Final = 100
# With a longer interval, the log after a quiet watcher's token could be cleaned.
_INTERVAL_MS_MAX: Final = 86_400_000


class WatchService:
    """All calls of WatchOffsets."""

    def __init__(
        self,
        node: Node,
        admission: Admission,
        counters: CallCounters,
        *,
        request_bytes_max: int,
        method_access: MethodAccess | None,
    ) -> None:
        self.watchers: Watchers | None = None
        self._node = node
        self._admission = admission
        self._counters = counters.method("WatchOffsets")
        self._watches = counters.watches
        self._request_bytes_max = request_bytes_max
        self._method_access = method_access

    def handler(self) -> grpc.RpcMethodHandler[bytes, bytes]:
        """The handler of the method for gRPC."""
        return grpc.unary_stream_rpc_method_handler(self._call)

    async def _call(self, message: bytes, context: Context) -> None:
        async def run() -> None:
            check_size(len(message), self._request_bytes_max)
            view = None
            if self._method_access is not None:
                view = await WatcherRights.open(
                    self._method_access, context, life.connection, message
                )
            try:
                with contextlib.nullcontext() if view is None else view.one_watcher():
                    await self._watch(message, context, life.connection, view)
            except WatcherTooSlow:
                self._watches.cut_off += 1
                raise

        life = CallLife(self._admission, context)
        life.connection.note_message(context, len(message))
        await run_call(
            run,
            context,
            life,
            self._counters,
            "WatchOffsets",
            load_ended=self._node.load_ended,
        )

    async def _watch(
        self, message: bytes, context: Context, connection: Connection, view: WatcherRights | None
    ) -> None:
        runtime = self._node.serving()
        request = validation.parse(history_pb2.WatchOffsetsRequest, message)
        chosen = await _filter(request)
        applied = await self._node.administering().applied()
        config = applied.configs.server_config(WatchConfig)
        interval_ms = config.progress_interval_ms
        if request.HasField("progress_interval"):
            interval_ms = _interval_ms(request)
        if self.watchers is None or self.watchers.runtime is not runtime:
            self.watchers = Watchers(runtime, self._node.folder_id or "")
        watcher = Watcher(self.watchers, chosen)
        share = node_share(
            runtime,
            watcher.concerned(),
            named=request.log_partitions,
            this_node_only=request.this_node_only,
        )
        watcher.begin(
            share.partitions,
            request.token,
            from_oldest=request.from_oldest,
            until_token=request.until_token,
        )
        self.watchers.add(watcher, config.watchers_max)
        self._watches.watchers = self.watchers.count
        drained = asyncio.get_running_loop().create_future()
        forget = self._node.call_on_drain(lambda: _drain(watcher, drained))
        forget_view = _nothing if view is None else view.access.call_on_change(watcher.wake)
        try:
            call = _Call(
                self._node,
                watcher,
                share,
                context,
                connection,
                drained,
                view,
                idle_max_ms=config.idle_max_ms,
                interval_seconds=interval_ms / 1000,
            )
            await call.run()
        finally:
            forget()
            forget_view()
            self.watchers.remove(watcher)
            self._watches.watchers = self.watchers.count


class _Call:
    """One running call of WatchOffsets."""

    def __init__(
        self,
        node: Node,
        watcher: Watcher,
        share: NodeShare,
        context: Context,
        connection: Connection,
        drained: asyncio.Future[None],
        view: WatcherRights | None,
        *,
        idle_max_ms: int,
        interval_seconds: float,
    ) -> None:
        self._node = node
        self._watcher = watcher
        self._share = share
        self._context = context
        self._connection = connection
        self._drained = drained
        self._view = view
        self._idle_max_ms = idle_max_ms
        self._interval_seconds = interval_seconds

    async def run(self) -> None:
        """Sends changes until the requested end, an error, or the client's end."""
        response = history_pb2.WatchOffsetsResponse(
            unreachable_log_partitions=self._watcher.unreachable, cluster=self._share.message
        )
        await self._send(response)
        if not self._share.partitions:
            return
        sent_seconds = time.monotonic()
        while True:
            self._node.serving()
            if self._view is not None:
                await self._view.check()
            has_sent = await self._pass()
            if self._watcher.until is not None:
                # All durable changes were sent, up to the requested end.
                await self._send(history_pb2.WatchOffsetsResponse())
                return
            if has_sent:
                sent_seconds = time.monotonic()
            rest_seconds = sent_seconds + self._interval_seconds - time.monotonic()
            if rest_seconds > 0 and await self._watcher.wait(rest_seconds):
                continue
            self._node.serving()
            await self._send(history_pb2.WatchOffsetsResponse())
            sent_seconds = time.monotonic()

    async def _pass(self) -> bool:
        """Sends the new changes of each log partition in turn. Returns whether there were any."""
        has_sent = False
        is_behind = True
        while is_behind:
            is_behind = False
            for partition in self._watcher.reachable:
                changes, position = await self._watcher.read(partition)
                is_behind |= position > self._watcher.positions[partition]
                has_sent |= await self._send_changes(partition, changes)
                self._watcher.positions[partition] = position
        return has_sent

    async def _send_changes(self, partition: int, changes: Sequence[Change]) -> bool:
        """Sends the changes that the caller may see. Returns whether there were any."""
        has_sent = False
        for start in range(0, len(changes), _EVENTS_PER_MESSAGE_MAX):
            part = changes[start : start + _EVENTS_PER_MESSAGE_MAX]
            response = history_pb2.WatchOffsetsResponse()
            for change in part:
                set_event(response.events.add(), partition, change)
            self._watcher.positions[partition] = part[-1].log_offset + 1
            if self._view is not None:
                response = self._view.visible(response)
            if response.events:
                await self._send(response)
                has_sent = True
        return has_sent

    async def _send(self, response: history_pb2.WatchOffsetsResponse) -> None:
        """Sends a message; returns once it fits in the client's flow-control window.

        Raises WatcherTooSlow if that takes too long. If the client reads again later, it still gets
        this message and then the status. So the status has the token of this message.
        """
        token = response.token = self._watcher.token
        message = response.SerializeToString()
        writing = asyncio.ensure_future(self._context.write(message))
        writing.add_done_callback(_retrieved)  # Needed if the call is cancelled during the write.
        held = answer_reservations.hold(self._connection, len(message))
        try:
            await asyncio.wait(
                {writing, self._drained},
                timeout=self._idle_max_ms / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            held.end()
        if writing.done():
            writing.result()
            if self._view is not None:
                await self._view.pay(len(message), self._drained)
            return
        self._node.serving()
        raise WatcherTooSlow(
            "the client did not read for {idle_ms} ms",
            idle_ms=self._idle_max_ms,
            tokens={"token": token},
        )


def _interval_ms(request: history_pb2.WatchOffsetsRequest) -> int:
    interval_ms = read_duration_ms(request.progress_interval, "progress_interval")
    if not 0 < interval_ms <= _INTERVAL_MS_MAX:
        raise InvalidRequest(
            "progress_interval",
            "{value_ms} ms is not between 1 ms and one day",
            value_ms=interval_ms,
        )
    return max(interval_ms, _INTERVAL_MS_MIN)


async def _filter(request: history_pb2.WatchOffsetsRequest) -> Filter:
    if request.token and request.from_oldest:
        raise InvalidRequest("from_oldest", "it cannot be set with a token: a token has its start")
    turns = Turns()
    groups = turns.each(enumerate(request.group_ids))
    named = [validation.read_group_id(each, f"group_ids[{place}]") async for place, each in groups]
    return Filter(
        group_ids=frozenset(named),
        prefix=validation.read_group_id(request.group_id_prefix, "group_id_prefix"),
        topics=frozenset(await validation.read_topics(request.topics, turns)),
    )


def _drain(watcher: Watcher, drained: asyncio.Future[None]) -> None:
    watcher.wake()
    if not drained.done():
        drained.set_result(None)


def _nothing() -> None:
    pass


def _retrieved(writing: asyncio.Future[None]) -> None:
    if not writing.cancelled():
        writing.exception()
