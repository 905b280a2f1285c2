"""Validation of resets and clones: messages to checked values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import (
    GroupIdNotFound,
    InvalidGroupId,
    InvalidOffset,
    InvalidRequest,
)
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.timestamps import read_duration_ms, read_time_ms
from offsetd_coordinator.offset_changes import Bounds, PutOffset, ResetOffsets, TargetKind
from offsetd_coordinator.rfc3339 import rfc3339

if TYPE_CHECKING:
    from offsetd.v1 import group_service_pb2, offset_service_pb2

    from offsetd_coordinator.offset_changes import Partition

_FLAGS = {
    "earliest": TargetKind.EARLIEST,
    "latest": TargetKind.LATEST,
    "current": TargetKind.CURRENT,
}


class Reset(NamedTuple):
    """A requested reset.

    If `time_ms` is set, the targets are the offsets at that time. Then the kind is EXPLICIT, and
    `explicit` is still empty.
    """

    request: ResetOffsets
    time_ms: int | None


async def read_reset(received: offset_service_pb2.ResetOffsetsRequest, now_ms: int) -> Reset:
    """The checked reset, read in turns of the event loop.

    Raises the Invalid… error of the first field that breaks a rule.
    """
    turns = Turns()
    validation.check_reason(received.reason)
    named = received.WhichOneof("target")
    if named is None:
        raise InvalidRequest("target", "a target is required")
    fields: dict[str, Any] = {}
    time_ms = None
    match named:
        case "offset":
            fields = {"kind": TargetKind.OFFSET, "value": _offset(received.offset, "offset")}
        case "shift_by":
            fields = {"kind": TargetKind.SHIFT, "value": received.shift_by}
        case "explicit":
            fields = {"kind": TargetKind.EXPLICIT, "explicit": await _explicit(received, turns)}
        case "time" | "duration":
            fields = {"kind": TargetKind.EXPLICIT}
            time_ms = _time_ms(received, named, now_ms)
        case _:
            if not getattr(received, named):
                raise InvalidRequest(named, "it must be true if it is set")
            fields = {"kind": _FLAGS[named]}
    request = ResetOffsets(
        group_id=validation.written_group_id(received.group_id),
        partitions=tuple(
            [
                each
                async for each in turns.each(
                    validation.topic_partitions(received.partitions, "partitions")
                )
            ]
        ),
        topics=await validation.read_topics(received.topics, turns),
        bounds=await _bounds(received, turns),
        is_forced=received.force,
        request_id=validation.read_request_id(received.request_id),
        validate_only=received.validate_only,
        **fields,
    )
    return Reset(request, time_ms)


def check_clone(received: group_service_pb2.CloneGroupRequest) -> tuple[bytes, bytes]:
    """The ids of the source and the target group. Raises the errors of `read_reset`."""
    validation.check_reason(received.reason)
    source = validation.read_group_id(received.source_group_id, "source_group_id")
    if not received.target_group_id:
        raise InvalidGroupId("target_group_id", "empty")
    target = validation.read_group_id(received.target_group_id, "target_group_id")
    if source == target:
        raise InvalidGroupId("target_group_id", "{group!r} is also the source group", group=target)
    return source, target


async def read_source_offsets(
    received: group_service_pb2.CloneGroupRequest, metadata_units_max: int
) -> list[PutOffset]:
    """The offsets of a source that another node has.

    Raises GroupIdNotFound without any, InvalidGroupId if they are another group's, and the
    Invalid… error of the first field that breaks a rule.
    """
    source = received.source_offsets
    if source.group_id != received.source_group_id:
        raise InvalidGroupId("source_offsets.group_id", "it is not the source group")
    if not source.offsets:
        raise GroupIdNotFound(
            "there is no group {group!r} with offsets", group=source.group_id.encode()
        )
    field, puts = "source_offsets.offsets", list[PutOffset]()
    named = zip(validation.topic_partitions(source.offsets, field), source.offsets, strict=True)
    async for place, ((topic, partition), each) in Turns().each(enumerate(named)):
        within = f"{field}[{place}]"
        puts.append(
            PutOffset(
                topic,
                partition,
                _offset(each.offset, f"{within}.offset"),
                validation.read_leader_epoch(each, within),
                validation.read_metadata(each.metadata, f"{within}.metadata", metadata_units_max),
            )
        )
    return puts


async def _explicit(
    received: offset_service_pb2.ResetOffsetsRequest, turns: Turns
) -> dict[Partition, int]:
    if received.partitions or received.topics:
        raise InvalidRequest("explicit", "it names the partitions to reset: name no others")
    offsets = received.explicit.offsets
    if not offsets:
        raise InvalidRequest("explicit.offsets", "name at least one partition")
    partitions = validation.topic_partitions(offsets, "explicit.offsets")
    named = enumerate(zip(partitions, offsets, strict=True))
    return {
        partition: _offset(each.offset, f"explicit.offsets[{place}].offset")
        async for place, (partition, each) in turns.each(named)
    }


def _time_ms(received: offset_service_pb2.ResetOffsetsRequest, named: str, now_ms: int) -> int:
    if named == "time":
        time_ms = read_time_ms(received.time, named)
    else:
        time_ms = now_ms - read_duration_ms(received.duration, named)
    if time_ms < 0:
        raise InvalidRequest(named, "it is before 1970")
    if time_ms > now_ms:
        raise InvalidRequest(
            named,
            "{value} is not in the past: it is {now} now",
            value=rfc3339(time_ms),
            now=rfc3339(now_ms),
        )
    return time_ms


async def _bounds(
    received: offset_service_pb2.ResetOffsetsRequest, turns: Turns
) -> dict[Partition, Bounds]:
    partitions = validation.topic_partitions(received.bounds, "bounds")
    bounds = {}
    named = enumerate(zip(partitions, received.bounds, strict=True))
    async for place, (partition, each) in turns.each(named):
        field = f"bounds[{place}]"
        earliest = latest = None
        if each.HasField("earliest"):
            earliest = _offset(each.earliest, f"{field}.earliest")
        if each.HasField("latest"):
            latest = _offset(each.latest, f"{field}.latest")
        if earliest is not None and latest is not None and earliest > latest:
            raise InvalidOffset(
                f"{field}.latest",
                "{value} is below the earliest, {earliest}",
                value=latest,
                earliest=earliest,
            )
        bounds[partition] = Bounds(earliest, latest)
    return bounds


def _offset(offset: int, field: str) -> int:
    if offset < 0:
        raise InvalidOffset(field, "{value} is below 0", value=offset)
    return offset
