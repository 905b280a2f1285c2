"""Methods for history and restores. They take a request's bytes and return the answer's bytes."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from offsetd.v1 import history_pb2

from offsetd_coordinator.calls import answer_reservations
from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS, Turns
from offsetd_coordinator.errors import GroupIdNotFound, InvalidRequest
from offsetd_coordinator.history.history_errors import HistoryCompacted
from offsetd_coordinator.history.offset_events import end_of, whole_changes
from offsetd_coordinator.history.offset_history import durable_log, reading, state_at, with_time
from offsetd_coordinator.kernels.records.change_records import COMMITTED, DELETED
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.audit_events import listed_changes, told_changes
from offsetd_coordinator.messages.list_encoding import encoded_with
from offsetd_coordinator.messages.page_tokens import (
    not_ours,
    page_token,
    read_page_size,
    read_page_token,
)
from offsetd_coordinator.messages.revisions import set_revision
from offsetd_coordinator.messages.timestamps import read_past_ms, set_time
from offsetd_coordinator.offset_changes import RestoredReply, RestoreOffsets
from offsetd_coordinator.runtime.commit_log import until_durable
from offsetd_coordinator.services.durable_answers import changed_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.timestamp_pb2 import Timestamp

    from offsetd_coordinator.history.offset_events import Change
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.offset_changes import OffsetChange, Partition
    from offsetd_coordinator.runtime.commit_log import PartitionReader
    from offsetd_coordinator.runtime.runtime import Runtime

PAGE_SIZE_DEFAULT: Final = 1000
PAGE_SIZE_MAX: Final = 10_000
_OFFSET_BYTES: Final = 8
# The memory that a change needs while it is read and converted to an event.
_BYTES_PER_EVENT: Final = 1536
# The clock of a caller that requests the present time may be ahead.
_CLOCKS_APART_MS_MAX: Final = 60_000
_OFFSET_MAX: Final = (1 << 62) - 1


class HistoryService:
    """The methods of OffsetService and GroupService that read the log's past."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def list_offset_history(self, message: bytes) -> bytes:
        """One page of a group's events."""
        runtime = self._node.serving()
        request = validation.parse(history_pb2.ListOffsetHistoryRequest, message)
        group_id = validation.read_group_id(request.group_id, "group_id")
        named = Turns().each(validation.topic_partitions(request.partitions, "partitions"))
        question = _Question(request, group_id, frozenset([each async for each in named]))
        partition = runtime.partition_of(group_id)
        log, end = durable_log(runtime, partition)
        await answer_reservations.reserve(_BYTES_PER_EVENT * question.page_size)
        oldest, page = await reading(question.page, log, end)
        if not page:
            await self._check_known(runtime, group_id, log, end)
        response = history_pb2.ListOffsetHistoryResponse()
        set_revision(response.oldest_revision, partition, oldest)
        if len(page) > question.page_size:
            position = page[question.page_size - 1].log_offset.to_bytes(_OFFSET_BYTES)
            response.next_page_token = page_token(question.message, position)

        def add(message: history_pb2.ListOffsetHistoryResponse, change: Change) -> None:
            set_event(message.events.add(), partition, change)

        return await encoded_with(response, page[: question.page_size], add)

    async def restore_group(self, message: bytes) -> bytes:
        """Sets offsets to their values at an earlier time; answers once the change is durable."""
        runtime, administration = self._node.serving(), self._node.administering()
        received = validation.parse(history_pb2.RestoreGroupRequest, message)
        group_id = validation.read_group_id(received.group_id, "group_id")
        request_id = validation.read_request_id(received.request_id)
        target = received.WhichOneof("target")
        if target is None:
            raise InvalidRequest("target", "a time or a revision is required")
        log, end = durable_log(runtime, runtime.partition_of(group_id))
        if target == "time":
            time_ms = _read_past(received.time, administration.clock.now_ms())
            limit, then = await state_at(runtime, group_id, time_ms=time_ms)
        else:
            revision = _read_revision(received.revision, "revision")
            if revision >= end:
                await self._check_known(runtime, group_id, log, end)
                raise _not_written(revision, end)
            limit, then = await state_at(runtime, group_id, revision=revision)
        if not len(then):
            await self._check_known(runtime, group_id, log, end)
        if len(then) > SLICE_ROWS:
            count = runtime.shard_of(group_id)[1].offsets.count(group_id)
            await answer_reservations.reserve_for_change(len(then) + count)
        request = RestoreOffsets(
            group_id=group_id,
            then=then,
            is_forced=received.force,
            request_id=request_id,
            validate_only=received.validate_only,
        )
        reply = await changed_group(
            self._node,
            received,
            request,
            RestoredReply,
            lambda reply: {
                "restored_before": limit,
                "force": received.force,
                "offset_count": len(reply.changes),
                "changes": listed_changes(reply.changes),
            },
        )
        changes = told_changes(administration, request, reply, received.request_id)
        partition = runtime.partition_of(group_id)
        response = history_pb2.RestoreGroupResponse()
        set_revision(response.restored_before, partition, limit)
        set_revision(response.revision, partition, reply.last_offset)

        def add(message: history_pb2.RestoreGroupResponse, change: OffsetChange) -> None:
            _set_restored(message.changes.add(), partition, change)

        return await encoded_with(response, changes, add)

    async def _check_known(
        self, runtime: Runtime, group_id: bytes, log: PartitionReader, end: int
    ) -> None:
        """Raises GroupIdNotFound if the group does not exist and has no events in the log."""
        ticket, group = runtime.get_group(group_id)
        await until_durable(runtime.log, ticket)
        if isinstance(group, GroupIdNotFound):
            _, events = await reading(whole_changes, log, None, end, group_id, _first)
            if not events:
                raise group


class _Question:
    """A request for a page of a group's history, checked."""

    def __init__(
        self,
        request: history_pb2.ListOffsetHistoryRequest,
        group_id: bytes,
        partitions: frozenset[Partition],
    ) -> None:
        self.page_size = read_page_size(
            request.page_size, default=PAGE_SIZE_DEFAULT, most=PAGE_SIZE_MAX
        )
        self.message = history_pb2.ListOffsetHistoryRequest()
        self.message.CopyFrom(request)
        self.message.ClearField("page_size")
        self.message.ClearField("page_token")
        self._request = request
        self._group_id = group_id
        self._partitions = partitions
        position = read_page_token(self.message, request.page_token)
        if position is not None and len(position) != _OFFSET_BYTES:
            raise not_ours()
        self._last = None if position is None else int.from_bytes(position)
        # These fields are checked before the log is read, so that the error names a wrong field.
        self._from_ms = self._to_ms = self._from_offset = self._to_offset = -1
        if request.WhichOneof("from") == "from_time":
            self._from_ms = read_past_ms(request.from_time, "from_time")
        elif request.WhichOneof("from") == "from_revision":
            self._from_offset = _read_revision(request.from_revision, "from_revision")
        if request.WhichOneof("to") == "to_time":
            self._to_ms = read_past_ms(request.to_time, "to_time")
        elif request.WhichOneof("to") == "to_revision":
            self._to_offset = _read_revision(request.to_revision, "to_revision")

    def page(self, log: PartitionReader, end: int) -> tuple[int, list[Change]]:
        """The offset from which the history is complete, and the events of the page.

        There is one event more than `page_size` if another page follows. Raises HistoryCompacted.
        """
        start: int | None = None
        if self._from_offset >= 0:
            start = min(self._from_offset, end)
        elif self._from_ms >= 0:
            start = end_of(log, self._from_ms - 1, end) if self._from_ms else 0
        limit = end
        if self._to_offset >= 0:
            limit = min(end, self._to_offset + 1)
        elif self._to_ms >= 0:
            limit = end_of(log, self._to_ms, end)
        if self._last is not None:
            if self._request.oldest_first:
                start = self._last + 1
            else:
                limit = min(limit, self._last)

        def take(changes: Iterator[Change]) -> list[Change]:
            chosen = (
                each
                for each in changes
                if not self._partitions or (each.topic, each.partition) in self._partitions
            )
            inside = _below(chosen, limit)
            if self._request.oldest_first:
                return list(islice(inside, self.page_size + 1))
            return list(reversed(deque(inside, maxlen=self.page_size + 1)))

        try:
            return whole_changes(log, start, end, self._group_id, take)
        except HistoryCompacted as error:
            raise with_time(error, log, end) from error


def _first(changes: Iterator[Change]) -> list[Change]:
    return list(islice(changes, 1))


def _below(changes: Iterator[Change], limit: int) -> Iterator[Change]:
    for change in changes:
        if change.log_offset >= limit:
            return
        yield change


def set_event(event: history_pb2.OffsetEvent, log_partition: int, change: Change) -> None:
    """Fills an OffsetEvent with a change in the log."""
    event.group_id = change.group_id.decode()
    event.topic = change.topic.decode()
    event.partition = change.partition
    set_revision(event.revision, log_partition, change.log_offset)
    set_time(event.time, change.time_ms)
    if change.kind == DELETED:
        event.deleted.SetInParent()
    elif change.kind == COMMITTED:
        committed = event.committed
        committed.offset = change.offset
        committed.metadata = change.metadata.decode()
        if change.leader_epoch >= 0:
            committed.leader_epoch = change.leader_epoch
        set_time(committed.commit_time, change.commit_time_ms)
        if change.expire_time_ms >= 0:
            set_time(committed.expire_time, change.expire_time_ms)


def _set_restored(
    restored: history_pb2.RestoredOffset, log_partition: int, change: OffsetChange
) -> None:
    restored.topic = change.topic.decode()
    restored.partition = change.partition
    if change.before is not None:
        restored.offset_before = change.before
    if change.after is not None:
        restored.offset_after = change.after
    set_revision(restored.revision, log_partition, change.revision)


def _read_past(time: Timestamp, now_ms: int) -> int:
    time_ms = read_past_ms(time, "time")
    if time_ms > now_ms + _CLOCKS_APART_MS_MAX:
        raise InvalidRequest("time", "it lies in the future")
    return time_ms


def _not_written(revision: int, end: int) -> InvalidRequest:
    return InvalidRequest(
        "revision",
        "{value} is not written yet: the next revision of this group's log partition is {end}",
        value=revision,
        end=end,
    )


def _read_revision(revision: int, field: str) -> int:
    if not 0 <= revision <= _OFFSET_MAX:
        raise InvalidRequest(field, "{value} is not a log offset", value=revision)
    return revision
