"""Changes of large groups in turns, so that none holds the event loop for long.

First the group is held (`group_holds`). Then it is read slice by slice, and a thread decides what
to write (`large_decisions`). Then each slice is encoded, appended and replayed in a turn of its
own. During this, calls may write to other groups. Changes run one at a time, as each takes memory.

If the caller cancels, its change is dropped unless writing has begun. A change that is being
written is completed, even while the server drains. Only a crash or a full disk leaves part of a
change.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS, next_turn
from offsetd_coordinator.errors import CoordinatorError, DiskFull
from offsetd_coordinator.large_groups.group_reading import read_group
from offsetd_coordinator.offset_changes import PutColumns, PutOffsets, ResetOffsets, RestoreOffsets
from offsetd_coordinator.requests import Decision, DeleteGroup, DeleteOffsets
from offsetd_coordinator.runtime.commit_log import until_durable
from offsetd_coordinator.runtime.disk_guard import refuse_unless_it_deletes

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.changes.large_decisions import LargeChange
    from offsetd_coordinator.requests import Reply, Request
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.shard.offset_change_decisions import LargeRequest
    from offsetd_coordinator.shard.shard import Shard

    Outcome = tuple[int, Reply | CoordinatorError]
    BeforeWrite = Callable[[Decision], None]
    Room = Callable[[int], AbstractAsyncContextManager[None]]
    """Reserves memory for a number of offsets while a change is being made."""

_LARGE_REQUESTS: Final = (PutOffsets, ResetOffsets, RestoreOffsets, DeleteOffsets, DeleteGroup)
_SLICES_AHEAD_MAX: Final = 8
"""Written slices that may wait for their flush. Commits of other groups wait for them too."""


class LargeChanges:
    """The large changes of one runtime, on its thread."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._one_at_a_time = asyncio.Lock()
        self._changes: set[_Change] = set()

    async def submit(
        self,
        request: Request,
        *,
        before_write: BeforeWrite | None = None,
        room: Room = lambda _: nullcontext(),
    ) -> Outcome:
        """Submits a request, in turns if large. Raises the errors of `Runtime.submit`, `room`."""
        if not isinstance(request, _LARGE_REQUESTS) or not self._is_large(request):
            return self._runtime.submit(request, before_write=before_write)
        change = _Change(self._runtime, request, before_write)
        self._changes.add(change)
        task = asyncio.ensure_future(self._in_turn(change, room))
        task.add_done_callback(lambda _: self._end(change))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not change.is_writing:
                task.cancel()
            raise

    async def until_ended(self) -> None:
        """Waits until all running changes have ended."""
        for change in tuple(self._changes):
            await change.ended.wait()

    def _is_large(self, request: LargeRequest) -> bool:
        _, shard = self._runtime.shard_of(request.group_id)
        if isinstance(request, PutOffsets):
            return not isinstance(request.offsets, PutColumns)
        if isinstance(request, RestoreOffsets):
            rows = max(len(request.then), shard.offsets.count(request.group_id))
        elif isinstance(request, DeleteOffsets) and not request.topics:
            rows = len(request.partitions)
        else:
            rows = shard.offsets.count(request.group_id)
            if isinstance(request, ResetOffsets):
                rows = max(rows, len(request.explicit), len(request.partitions))
        return rows > SLICE_ROWS and not shard.changes.has_foreign_records(request.group_id)

    async def _in_turn(self, change: _Change, room: Room) -> Outcome:
        async with self._one_at_a_time, room(change.offset_count):
            return await change.run()

    def _end(self, change: _Change) -> None:
        self._changes.discard(change)
        change.ended.set()


class _Change:
    """One change. `is_writing` means that part of it may be written."""

    def __init__(
        self, runtime: Runtime, request: LargeRequest, before_write: BeforeWrite | None
    ) -> None:
        self.is_writing = False
        self.ended = asyncio.Event()
        self._runtime = runtime
        self._request = request
        self._before_write = before_write

    @property
    def offset_count(self) -> int:
        """The number of offsets to read and to write."""
        request = self._request
        _, shard = self._runtime.shard_of(request.group_id)
        return shard.offsets.count(request.group_id) + self._written_count

    @property
    def _written_count(self) -> int:
        """The number of offsets that the request itself brings."""
        request = self._request
        if isinstance(request, RestoreOffsets):
            return len(request.then)
        if isinstance(request, PutOffsets) and not isinstance(request.offsets, PutColumns):
            return len(request.offsets)
        return 0

    async def run(self) -> Outcome:
        group_id = self._request.group_id
        partition, shard = self._runtime.shard_of(group_id)
        hold = None if self._request.validate_only else shard.holds.begin(group_id)
        try:
            try:
                decided = await self._decided(shard)
            except CoordinatorError as refusal:
                return self._runtime.ticket_of(group_id), refusal
            if isinstance(decided, Decision):
                assert decided.reply is not None, "a refusal is raised"
                return self._runtime.ticket_of(group_id), decided.reply
            if hold is None or not decided.slice_count:
                return self._runtime.ticket_of(group_id), decided.reply(None)
            await self._make_room(shard)
            hold.is_writing = self.is_writing = True
            return await self._write(partition, shard, decided)
        finally:
            self.is_writing = False
            if hold is not None:
                shard.holds.end(group_id)

    async def _decided(self, shard: Shard) -> LargeChange | Decision:
        """The change to write, or the reply of an earlier try. Raises the refusal."""
        now = self._runtime.moment()
        answered = shard.changes.check_large(self._request, now)
        if answered is not None:
            return answered
        stored = await read_group(self._runtime, self._request.group_id)
        decide = shard.changes.large_decision(self._request, self._runtime.moment())
        return await asyncio.to_thread(decide, stored)

    async def _make_room(self, shard: Shard) -> None:
        """Makes room in the table for the new offsets, so that no slice has to grow it."""
        more = self._written_count - shard.offsets.count(self._request.group_id)
        larger = shard.offsets.larger_entries(more) if more > 0 else None
        if larger is not None:
            # The first write to a page takes time, so a thread writes to each page now.
            await asyncio.to_thread(larger[: shard.offsets.size].fill, 0)
            shard.offsets.use_entries(larger)
            await next_turn()

    async def _write(self, partition: int, shard: Shard, change: LargeChange) -> Outcome:
        """Writes all slices, each in its own turn. Raises the errors of `Runtime.submit`.

        If the disk gets full, the slices written before stay, and the outcome reports that.
        """
        runtime, now_ms = self._runtime, self._runtime.moment().wall_ms
        if runtime.disk.is_low:
            refuse_unless_it_deletes(self._request)
        if self._before_write is not None:
            self._before_write(Decision(self._request, change.reply(None), None))
        last_offset = -1
        tickets: list[int] = []
        for place in range(change.slice_count):
            runtime.check_shard(partition, shard)
            try:
                for batch, last_offset in change.batches(place, shard.changes.encoder(now_ms)):
                    step = Decision(self._request, None, None, batch, last_offset, now_ms)
                    runtime.write(partition, shard, step)
            except DiskFull:
                if not tickets:
                    raise
                refusal = DiskFull("the disk is full: only the first part of the change is done")
                return runtime.ticket_of(self._request.group_id), refusal
            tickets.append(runtime.ticket_of(self._request.group_id))
            await self._rest(tickets)
        return tickets[-1], change.reply(last_offset)

    async def _rest(self, tickets: list[int]) -> None:
        """Lets other tasks run, and waits for flushes if too many slices are not durable."""
        await next_turn()
        if len(tickets) > _SLICES_AHEAD_MAX:
            await until_durable(self._runtime.log, tickets[-_SLICES_AHEAD_MAX])
