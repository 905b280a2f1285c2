"""Resets and clones of offsets by administrators, with audit records."""

from __future__ import annotations

import asyncio
from itertools import compress, islice
from typing import TYPE_CHECKING

import attrs
from offsetd.v1 import group_service_pb2, offset_service_pb2

from offsetd_coordinator.calls import answer_reservations
from offsetd_coordinator.changes.large_decisions import (
    check_size,
    chosen_rows,
    committed_columns,
    rows_of_puts,
    rows_to_copy,
)
from offsetd_coordinator.changes.row_views import RowPartitions
from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS, Turns
from offsetd_coordinator.errors import (
    CoordinatorError,
    GroupIdNotFound,
    OffsetNotCommitted,
)
from offsetd_coordinator.history.offset_history import state_at
from offsetd_coordinator.large_groups.group_reading import read_group
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.audit_events import (
    CHANGES_MAX,
    listed_changes,
    told_changes,
)
from offsetd_coordinator.messages.change_validation import (
    check_clone,
    read_reset,
    read_source_offsets,
)
from offsetd_coordinator.messages.list_encoding import encoded_with, set_change
from offsetd_coordinator.messages.revisions import set_revision
from offsetd_coordinator.offset_changes import (
    Bounds,
    BoundSource,
    OffsetsChangedReply,
    PutColumns,
    PutOffset,
    PutOffsets,
    TargetKind,
)
from offsetd_coordinator.runtime.commit_log import until_durable
from offsetd_coordinator.services.durable_answers import changed_group

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from offsetd_coordinator.committed_offsets import CommittedColumns, OffsetRows
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.offset_changes import OffsetChange, Partition
    from offsetd_coordinator.offset_changes import ResetOffsets as Reset
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.services.kafka_bounds import KafkaBounds


class ResetCalls:
    """The methods: each takes a request's bytes and returns the answer's bytes."""

    def __init__(self, node: Node, kafka: KafkaBounds | None, *, metadata_units_max: int) -> None:
        self._node = node
        self._kafka = kafka
        self._metadata_units_max = metadata_units_max

    async def reset_offsets(self, message: bytes) -> bytes:
        """Moves offsets of one group; answers once the change is durable."""
        runtime, administration = self._node.serving(), self._node.administering()
        received = await validation.parse_in_turns(
            offset_service_pb2.ResetOffsetsRequest, message, Turns()
        )
        now_ms = administration.clock.now_ms()
        request, time_ms = await read_reset(received, now_ms)
        if time_ms is not None:
            request = await _to_time(runtime, request, time_ms)
        request = await self._with_bounds(runtime, request)
        reply = await changed_group(
            self._node,
            received,
            request,
            OffsetsChangedReply,
            lambda reply: {
                "target": received.WhichOneof("target"),
                "value": request.value if time_ms is None else time_ms,
                "force": request.is_forced,
                "offset_count": len(reply.changes),
                "changes": listed_changes(reply.changes),
            },
        )
        changes = told_changes(administration, request, reply, received.request_id)
        partition = runtime.partition_of(request.group_id)
        response = offset_service_pb2.ResetOffsetsResponse(
            reported_end_count=reply.ends.reported, unknown_end_count=reply.ends.unknown
        )
        set_revision(response.revision, partition, reply.last_offset)

        def add(message: offset_service_pb2.ResetOffsetsResponse, change: OffsetChange) -> None:
            set_change(message.changes.add(), partition, change)

        return await encoded_with(response, changes, add)

    async def clone_group(self, message: bytes) -> bytes:
        """Copies offsets to another group; answers once the change is durable."""
        runtime, administration = self._node.serving(), self._node.administering()
        received = await validation.parse_in_turns(
            group_service_pb2.CloneGroupRequest, message, Turns()
        )
        source, target = check_clone(received)
        topics = set(await validation.read_topics(received.topics, Turns()))
        if received.HasField("source_offsets"):
            puts = await read_source_offsets(received, self._metadata_units_max)
            source_ticket, copied = 0, await _given(runtime, target, puts, topics)
        else:
            source_ticket, copied = await _copied(runtime, source, target, topics)
        request = PutOffsets(
            group_id=target,
            offsets=copied,
            call="CloneGroup",
            is_new=not received.overwrite,
            request_id=validation.read_request_id(received.request_id),
            validate_only=received.validate_only,
        )
        reply = await changed_group(
            self._node,
            received,
            request,
            OffsetsChangedReply,
            lambda reply: {
                "source": received.source_group_id,
                "topics": list(received.topics[:CHANGES_MAX]),
                "offset_count": len(reply.changes),
                "kept_offset_count": _kept(reply),
                "changes": listed_changes(reply.changes),
            },
        )
        await until_durable(runtime.log, source_ticket)
        changes = told_changes(administration, request, reply, received.request_id)
        partition = runtime.partition_of(target)
        response = group_service_pb2.CloneGroupResponse(
            offset_count=_count(copied), kept_offset_count=_kept(reply)
        )
        for change in islice(changes, CHANGES_MAX):
            set_change(response.changes.add(), partition, change)
        set_revision(response.revision, partition, reply.last_offset)
        return response.SerializeToString()

    async def _with_bounds(self, runtime: Runtime, request: Reset) -> Reset:
        """The request with bounds of the Kafka cluster, if one is configured.

        Bounds of the request override those of the cluster. In a reset to the current offsets, a
        committed partition needs no bounds.
        """
        if self._kafka is None:
            return request
        is_current = request.kind is TargetKind.CURRENT
        chosen: set[Partition] = {*request.partitions, *request.explicit}
        is_whole = not chosen and not request.topics
        committed: set[Partition] = set()
        if is_current or is_whole:
            committed = await _stored_partitions(runtime, request.group_id)
        if is_whole:
            chosen = committed
        needless = committed if is_current else set()
        missing = {
            each for each in chosen - needless if None in request.bounds.get(each, Bounds())[:2]
        }
        if not missing and not request.topics:
            return request
        found = await self._kafka.bounds(missing, request.topics)
        found = {
            each: Bounds(bounds.earliest, bounds.latest, BoundSource.KAFKA, BoundSource.KAFKA)
            for each, bounds in found.items()
            if each not in needless
        }
        for partition, given in request.bounds.items():
            known = found.get(partition, Bounds())
            if given.earliest is not None:
                known = known._replace(
                    earliest=given.earliest, earliest_source=given.earliest_source
                )
            if given.latest is not None:
                known = known._replace(latest=given.latest, latest_source=given.latest_source)
            found[partition] = known
        return attrs.evolve(request, bounds=found)


def put_columns(stored: CommittedColumns, topics: Collection[bytes] = ()) -> PutColumns:
    """Stored offsets as offsets to write. `topics` restricts them; if empty, all are taken."""
    columns = PutColumns(
        stored.topics,
        stored.partitions,
        stored.offsets,
        stored.leader_epochs,
        stored.metadata,
        stored.expire_timestamps_ms,
    )
    if not topics:
        return columns
    is_chosen = [topic in topics for topic in stored.topics]
    return PutColumns._make(list(compress(column, is_chosen)) for column in columns)


async def _given(
    runtime: Runtime, target: bytes, puts: Sequence[PutOffset], topics: Collection[bytes]
) -> PutColumns | OffsetRows:
    """The offsets of a source on another node, sorted; many become packed rows.

    `topics` restricts them; if empty, all are taken.
    """
    chosen = [each for each in puts if not topics or each.topic in topics]
    if len(chosen) <= SLICE_ROWS:
        return PutColumns.of(sorted(chosen))
    await answer_reservations.reserve_for_change(
        2 * len(chosen) + runtime.shard_of(target)[1].offsets.count(target)
    )
    return await asyncio.to_thread(rows_of_puts, chosen)


async def _copied(
    runtime: Runtime, source: bytes, target: bytes, topics: Collection[bytes]
) -> tuple[int, PutColumns | OffsetRows]:
    """A group's offsets to copy, and the ticket that must be durable before the answer.

    `topics` restricts the offsets; if empty, all are taken. Raises GroupIdNotFound,
    RecordUndecodable.
    """
    count = runtime.shard_of(source)[1].offsets.count(source)
    if count > SLICE_ROWS:
        await answer_reservations.reserve_for_change(
            2 * count + runtime.shard_of(target)[1].offsets.count(target)
        )
        rows = await read_group(runtime, source)
        copied = await asyncio.to_thread(rows_to_copy, rows, source, topics)
        if len(copied) > SLICE_ROWS:
            return 0, copied
        return 0, put_columns(committed_columns(copied))
    ticket, stored = await _stored_offsets(runtime, source)
    if not stored.topics:
        await until_durable(runtime.log, ticket)
        raise GroupIdNotFound("there is no group {group!r} with offsets", group=source)
    return ticket, put_columns(stored, topics)


def _count(puts: PutColumns | OffsetRows) -> int:
    return len(puts.topics) if isinstance(puts, PutColumns) else len(puts)


async def _to_time(runtime: Runtime, request: Reset, time_ms: int) -> Reset:
    """The request with the offsets at the time `time_ms` as its targets.

    Raises HistoryCompacted, OffsetNotCommitted, InvalidCommitSize.
    """
    count = runtime.shard_of(request.group_id)[1].offsets.count(request.group_id)
    if count > SLICE_ROWS:
        await answer_reservations.reserve_for_change(count)
    _, then = await state_at(runtime, request.group_id, time_ms=time_ms)
    bytes_max = runtime.shard_of(request.group_id)[1].config.message_bytes_max
    return await asyncio.to_thread(_with_targets, request, then, bytes_max)


def _with_targets(request: Reset, then: OffsetRows, bytes_max: int) -> Reset:
    topics = set(request.topics)
    if topics or request.partitions:
        then = chosen_rows(then, set(request.partitions), topics)
    check_size(len(then), request.group_id, bytes_max)
    targets = {(each.topic, each.partition): each.offset for each in then.committed()}
    chosen = {*request.partitions, *targets}
    missing = sorted(chosen - targets.keys())
    missing_topics = sorted(topics - {topic for topic, _ in targets})
    if missing_topics and chosen:
        raise OffsetNotCommitted(
            "group {group!r} had no offset of a topic at that time; topics: {topic_count}",
            tuple({"topic": topic.decode()} for topic in missing_topics),
            group=request.group_id,
            topic_count=len(missing_topics),
        )
    if not chosen:
        raise OffsetNotCommitted(
            "group {group!r} had no such offsets at that time",
            (),
            group=request.group_id,
            partition_count=0,
        )
    if missing:
        raise OffsetNotCommitted(
            "group {group!r} had no offset of a partition at that time;"
            " partitions: {partition_count}",
            tuple({"topic": topic.decode(), "partition": number} for topic, number in missing),
            group=request.group_id,
            partition_count=len(missing),
        )
    return attrs.evolve(request, explicit=targets, partitions=(), topics=())


async def _stored_partitions(runtime: Runtime, group_id: bytes) -> set[Partition]:
    count = runtime.shard_of(group_id)[1].offsets.count(group_id)
    if count > SLICE_ROWS:
        await answer_reservations.reserve_for_change(count)
        rows = await read_group(runtime, group_id)
        return await asyncio.to_thread(set, iter(RowPartitions(rows)))
    return set((await _stored_offsets(runtime, group_id))[1].places())


async def _stored_offsets(runtime: Runtime, group_id: bytes) -> tuple[int, CommittedColumns]:
    """All offsets of a group at one moment, and the ticket they rest on.

    A refusal is raised once its ticket is durable. Raises RecordUndecodable.
    """
    ticket, outcome = runtime.fetch_columns(group_id)
    if isinstance(outcome, CoordinatorError):
        await until_durable(runtime.log, ticket)
        raise outcome
    return ticket, outcome


def _kept(reply: OffsetsChangedReply) -> int:
    return reply.stored_count - reply.replaced_count
