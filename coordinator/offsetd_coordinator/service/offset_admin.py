"""Resets and clones: an administrator moves offsets, and the audit log keeps how."""

from __future__ import annotations

import asyncio
from itertools import compress, islice
from typing import TYPE_CHECKING

import attrs
from offsetd.v1 import group_service_pb2, offset_service_pb2

from offsetd_coordinator.errors import (
    CoordinatorError,
    GroupIdNotFound,
    OffsetNotCommitted,
)
from offsetd_coordinator.offset_changes import (
    Bounds,
    OffsetsChangedReply,
    PutColumns,
    PutOffsets,
    TargetKind,
)
from offsetd_coordinator.offset_history import offsets_at
from offsetd_coordinator.service import validation
from offsetd_coordinator.service.change_events import (
    CHANGES_MAX,
    listed_changes,
    told_changes,
)
from offsetd_coordinator.service.change_validation import check_clone, read_reset
from offsetd_coordinator.service.durable import changed_group, until_durable
from offsetd_coordinator.service.revisions import set_revision
from offsetd_coordinator.service.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Collection

    from offsetd_coordinator.kafka_bounds import KafkaBounds
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.offset_changes import OffsetChange, Partition
    from offsetd_coordinator.offset_changes import ResetOffsets as Reset
    from offsetd_coordinator.requests import CommittedColumns
    from offsetd_coordinator.runtime import Runtime


class OffsetAdmin:
    """The methods, from a request's bytes to those of its answer."""

    def __init__(self, node: Node, kafka: KafkaBounds | None) -> None:
        self._node = node
        self._kafka = kafka

    async def reset_offsets(self, message: bytes) -> bytes:
        """Moves offsets of one group; the answer leaves once that is durable."""
        runtime, administration = self._node.serving(), self._node.administering()
        received = validation.parse(offset_service_pb2.ResetOffsetsRequest, message)
        now_ms = administration.clock.now_ms()
        request, time_ms = await read_reset(received, now_ms)
        if time_ms is not None:
            request = await _to_time(runtime, request, time_ms)
            await asyncio.sleep(0)  # To decide takes a turn of its own.
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
        response = offset_service_pb2.ResetOffsetsResponse()
        async for change in Turns().each(changes):
            _set_change(response.changes.add(), partition, change)
        set_revision(response.revision, partition, reply.last_offset)
        return response.SerializeToString()

    async def clone_group(self, message: bytes) -> bytes:
        """Copies offsets to another group; the answer leaves once that is durable."""
        runtime, administration = self._node.serving(), self._node.administering()
        received = validation.parse(group_service_pb2.CloneGroupRequest, message)
        source, target = check_clone(received)
        topics = {
            validation.read_topic(topic, f"topics[{place}]")
            for place, topic in enumerate(received.topics)
        }
        source_ticket, stored = await _stored_offsets(runtime, source)
        if not stored.topics:
            await until_durable(runtime, source_ticket)
            raise GroupIdNotFound("there is no group {group!r} with offsets", group=source)
        copied = put_columns(stored, topics)
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
        await until_durable(runtime, source_ticket)
        changes = told_changes(administration, request, reply, received.request_id)
        partition = runtime.partition_of(target)
        response = group_service_pb2.CloneGroupResponse(
            offset_count=len(copied.topics), kept_offset_count=_kept(reply)
        )
        for change in islice(changes, CHANGES_MAX):
            _set_change(response.changes.add(), partition, change)
        set_revision(response.revision, partition, reply.last_offset)
        return response.SerializeToString()

    async def _with_bounds(self, runtime: Runtime, request: Reset) -> Reset:
        """With those of the cluster, where there is one and the request has none.

        What is committed is its own target where offsets are reset to those: it needs none.
        """
        if self._kafka is None:
            return request
        is_current = request.kind is TargetKind.CURRENT
        chosen: set[Partition] = {*request.partitions, *request.explicit}
        is_whole = not chosen and not request.topics
        committed: set[Partition] = set()
        if is_current or is_whole:
            committed = set((await _stored_offsets(runtime, request.group_id))[1].places())
        if is_whole:
            chosen = committed
        needless = committed if is_current else set()
        missing = {each for each in chosen - needless if None in request.bounds.get(each, Bounds())}
        if not missing and not request.topics:
            return request
        found = await self._kafka.bounds(missing, request.topics)
        found = {each: bounds for each, bounds in found.items() if each not in needless}
        for partition, (earliest, latest) in request.bounds.items():
            known = found.get(partition, Bounds())
            found[partition] = Bounds(
                known.earliest if earliest is None else earliest,
                known.latest if latest is None else latest,
            )
        return attrs.evolve(request, bounds=found)


def put_columns(stored: CommittedColumns, topics: Collection[bytes] = ()) -> PutColumns:
    """Stored offsets, of these topics or of all, to be written again."""
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


async def _to_time(runtime: Runtime, request: Reset, time_ms: int) -> Reset:
    """With the offsets of then as its targets. Raises HistoryCompacted, OffsetNotCommitted."""
    then = await offsets_at(runtime, request.group_id, time_ms)
    topics = set(request.topics)
    of_topics = {each for each in then if each[0] in topics}
    chosen = {*request.partitions, *of_topics}
    if not chosen and not topics:
        chosen = set(then)
    missing = sorted(chosen - then.keys())
    missing_topics = sorted(topics - {topic for topic, _ in of_topics})
    if missing_topics and chosen:
        raise OffsetNotCommitted(
            "{topic_count} topics of group {group!r} had no offset then",
            tuple({"topic": topic.decode()} for topic in missing_topics),
            group=request.group_id,
            topic_count=len(missing_topics),
        )
    if not chosen:
        raise OffsetNotCommitted(
            "group {group!r} had no such offsets then",
            (),
            group=request.group_id,
            partition_count=0,
        )
    if missing:
        raise OffsetNotCommitted(
            "{partition_count} partitions of group {group!r} had no offset then",
            tuple({"topic": topic.decode(), "partition": number} for topic, number in missing),
            group=request.group_id,
            partition_count=len(missing),
        )
    targets = {each: then[each] for each in chosen}
    return attrs.evolve(request, explicit=targets, partitions=(), topics=())


async def _stored_offsets(runtime: Runtime, group_id: bytes) -> tuple[int, CommittedColumns]:
    """All offsets of a group, with the ticket that they rest on; at once.

    A refusal waits for its ticket. Raises RecordUndecodable.
    """
    ticket, outcome = runtime.fetch_columns(group_id)
    if isinstance(outcome, CoordinatorError):
        await until_durable(runtime, ticket)
        raise outcome
    return ticket, outcome


def _kept(reply: OffsetsChangedReply) -> int:
    return reply.stored_count - reply.replaced_count


def _set_change(
    message: offset_service_pb2.OffsetChange, log_partition: int, change: OffsetChange
) -> None:
    assert change.after is not None, "neither a reset nor a clone deletes"
    message.topic = change.topic.decode()
    message.partition = change.partition
    if change.before is not None:
        message.offset_before = change.before
    message.offset_after = change.after
    set_revision(message.revision, log_partition, change.revision)
