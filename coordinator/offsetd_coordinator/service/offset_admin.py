"""Resets and clones: an administrator moves offsets, and the audit log keeps how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    PutOffset,
    PutOffsets,
    TargetKind,
)
from offsetd_coordinator.offset_history import offsets_at
from offsetd_coordinator.service import validation
from offsetd_coordinator.service.change_events import (
    CHANGES_MAX,
    group_event,
    listed_changes,
    recorded_changes,
)
from offsetd_coordinator.service.change_validation import check_clone, read_reset
from offsetd_coordinator.service.offsets import until_durable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from offsetd_coordinator.administration import Administration
    from offsetd_coordinator.audit import AuditEvent
    from offsetd_coordinator.kafka_bounds import KafkaBounds
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.offset_changes import OffsetChange, OffsetsChange, Partition
    from offsetd_coordinator.offset_changes import ResetOffsets as Reset
    from offsetd_coordinator.requests import CommittedOffset, Reply
    from offsetd_coordinator.runtime import Runtime

_BOUNDLESS: Final = frozenset((TargetKind.CURRENT,))


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
        request, time_ms = read_reset(received, now_ms)
        if time_ms is not None:
            request = await _to_time(runtime, request, time_ms)
        request = await self._with_bounds(runtime, request)

        def event_of(reply: Reply) -> AuditEvent:
            assert isinstance(reply, OffsetsChangedReply)
            return group_event(
                "ResetOffsets",
                request.group_id,
                {
                    "target": received.WhichOneof("target"),
                    "value": request.value if time_ms is None else time_ms,
                    "force": request.is_forced,
                    "offset_count": len(reply.changes),
                    "changes": listed_changes(reply.changes),
                },
                time_ms=now_ms,
                reason=received.reason,
                request_id=received.request_id,
            )

        ticket, outcome = administration.change_group(request, event_of)
        await until_durable(runtime, ticket)
        reply, changes = _answered(outcome, administration, request, received.request_id)
        response = offset_service_pb2.ResetOffsetsResponse(changes=map(_change, changes))
        if reply.last_offset is not None:
            response.revision.log_partition = runtime.partition_of(request.group_id)
            response.revision.log_offset = reply.last_offset
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
        copied = [each for each in stored if not topics or each.topic in topics]
        request = PutOffsets(
            group_id=target,
            offsets=put_offsets(copied),
            call="CloneGroup",
            is_new=not received.overwrite,
            request_id=validation.read_request_id(received.request_id),
            validate_only=received.validate_only,
        )

        def event_of(reply: Reply) -> AuditEvent:
            assert isinstance(reply, OffsetsChangedReply)
            return group_event(
                "CloneGroup",
                target,
                {
                    "source": received.source_group_id,
                    "topics": list(received.topics[:CHANGES_MAX]),
                    "offset_count": len(reply.changes),
                    "kept_offset_count": _kept(reply),
                    "changes": listed_changes(reply.changes),
                },
                time_ms=administration.clock.now_ms(),
                reason=received.reason,
                request_id=received.request_id,
            )

        ticket, outcome = administration.change_group(request, event_of)
        await until_durable(runtime, max(ticket, source_ticket))
        reply, changes = _answered(outcome, administration, request, received.request_id)
        response = group_service_pb2.CloneGroupResponse(
            offset_count=len(copied),
            kept_offset_count=_kept(reply),
            changes=map(_change, changes[:CHANGES_MAX]),
        )
        if reply.last_offset is not None:
            response.revision.log_partition = runtime.partition_of(target)
            response.revision.log_offset = reply.last_offset
        return response.SerializeToString()

    async def _with_bounds(self, runtime: Runtime, request: Reset) -> Reset:
        """With those of the cluster, where there is one and the request has none."""
        if self._kafka is None or request.kind in _BOUNDLESS:
            return request
        chosen: set[Partition] = {*request.partitions, *request.explicit}
        if not chosen and not request.topics:
            stored = (await _stored_offsets(runtime, request.group_id))[1]
            chosen = {(each.topic, each.partition) for each in stored}
        missing = {each for each in chosen if None in request.bounds.get(each, Bounds())}
        if not missing and not request.topics:
            return request
        found = await self._kafka.bounds(missing, request.topics)
        for partition, (earliest, latest) in request.bounds.items():
            known = found.get(partition, Bounds())
            found[partition] = Bounds(
                known.earliest if earliest is None else earliest,
                known.latest if latest is None else latest,
            )
        return attrs.evolve(request, bounds=found)


def put_offsets(stored: Iterable[CommittedOffset]) -> tuple[PutOffset, ...]:
    """Stored offsets, to be written again."""
    return tuple(
        PutOffset(
            each.topic,
            each.partition,
            each.offset,
            each.leader_epoch,
            each.metadata,
            each.expire_timestamp_ms,
        )
        for each in stored
    )


async def _to_time(runtime: Runtime, request: Reset, time_ms: int) -> Reset:
    """With the offsets of then as its targets. Raises HistoryCompacted, OffsetNotCommitted."""
    then = await offsets_at(runtime, request.group_id, time_ms)
    topics = set(request.topics)
    if not topics and not request.partitions:
        chosen = set(then)
    else:
        chosen = {*request.partitions, *(each for each in then if each[0] in topics)}
    missing = sorted(chosen - then.keys())
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


async def _stored_offsets(
    runtime: Runtime, group_id: bytes
) -> tuple[int, Sequence[CommittedOffset]]:
    """All offsets of a group that has any, with the ticket that they rest on; at once.

    A refusal waits for its ticket. Raises GroupIdNotFound, RecordUndecodable.
    """
    ticket, outcome = runtime.fetch(group_id, None, require_stable=False)
    if isinstance(outcome, CoordinatorError) or not outcome:
        await until_durable(runtime, ticket)
        if isinstance(outcome, CoordinatorError):
            raise outcome
        raise GroupIdNotFound("there is no group {group!r} with offsets", group=group_id)
    return ticket, outcome


def _answered(
    outcome: Reply | CoordinatorError,
    administration: Administration,
    request: OffsetsChange,
    request_id: str,
) -> tuple[OffsetsChangedReply, Sequence[OffsetChange]]:
    """The reply, and its changes: those of the first time, where the request is repeated."""
    if isinstance(outcome, CoordinatorError):
        raise outcome
    assert isinstance(outcome, OffsetsChangedReply)
    if not outcome.is_repeated:
        return outcome, outcome.changes
    known = administration.find(request.call, request_id)
    if known is None or known.event.what.get("group") != request.group_id.decode():
        return outcome, ()
    return outcome, recorded_changes(known.event.what)


def _kept(reply: OffsetsChangedReply) -> int:
    replaced = sum(1 for change in reply.changes if change.before is not None)
    return max(0, reply.stored_count - replaced)


def _change(change: OffsetChange) -> offset_service_pb2.OffsetChange:
    return offset_service_pb2.OffsetChange(
        topic=change.topic.decode(),
        partition=change.partition,
        offset_before=change.before,
        offset_after=change.after,
    )
