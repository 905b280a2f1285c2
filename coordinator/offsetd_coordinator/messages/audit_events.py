"""Audit events for changes of groups; `docs/formats/audit.md` describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.calls import current_call
from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS
from offsetd_coordinator.offset_changes import OffsetChange, RestoreOffsets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from offsetd_coordinator.administration.administration import Administration
    from offsetd_coordinator.offset_changes import (
        OffsetsChange,
        OffsetsChangedReply,
        RestoredReply,
    )

CHANGES_MAX: Final = 1000
"""The largest number of offsets that an audit event lists."""
_NAMES_BYTES_MAX: Final = 64 * 1024  # Escaped text may be six times as long.


def change_event(
    method: str,
    what: Mapping[str, Any],
    *,
    topic: str | None = None,
    time_ms: int,
    reason: str,
    request_id: str,
) -> AuditEvent:
    """The audit event of a change by the current call's caller."""
    caller = current_call.caller()
    return AuditEvent(
        time_ms=time_ms,
        method=method,
        topic=topic,
        what=what,
        reason=reason,
        request_id=request_id,
        peer=caller.address,
        principal=caller.principal,
    )


def group_event(
    method: str,
    group_id: bytes,
    what: Mapping[str, Any],
    *,
    time_ms: int,
    reason: str,
    request_id: str,
) -> AuditEvent:
    """The audit event of a change of one group."""
    return change_event(
        method,
        {"group": group_id.decode(), **what},
        time_ms=time_ms,
        reason=reason,
        request_id=request_id,
    )


def listed_changes(changes: Iterable[OffsetChange]) -> dict[str, dict[str, list[int | None]]]:
    """The first changes, by topic and partition: for each, the offset before and after."""
    listed: dict[str, dict[str, list[int | None]]] = {}
    for topic, partition, change in _first(changes):
        listed.setdefault(topic, {})[str(partition)] = [change.before, change.after]
    return listed


def listed_partitions(partitions: Iterable[tuple[bytes, int]]) -> dict[str, list[int]]:
    """The first partitions, by topic."""
    listed: dict[str, list[int]] = {}
    changes = (OffsetChange(topic, partition, None, -1) for topic, partition in partitions)
    for topic, partition, _ in _first(changes):
        listed.setdefault(topic, []).append(partition)
    return listed


def told_changes(
    administration: Administration,
    request: OffsetsChange | RestoreOffsets,
    reply: OffsetsChangedReply | RestoredReply,
    request_id: str,
) -> Collection[OffsetChange]:
    """The changes of a reply; for a repeated request, those in the first try's audit event."""
    if not reply.is_repeated:
        return reply.changes
    known = administration.find(request.call, request_id)
    if known is None or known.event.what.get("group") != request.group_id.decode():
        return ()
    what = known.event.what
    listed = _recorded_changes(what)
    is_large = what["offset_count"] > SLICE_ROWS  # Other records may lie between its records.
    if isinstance(request, RestoreOffsets) or reply.last_offset is None or is_large:
        return listed
    # The records of a small change follow each other, in the order of the offsets.
    first_revision = reply.last_offset - what["offset_count"] + 1
    return [
        change._replace(revision=revision) for revision, change in enumerate(listed, first_revision)
    ]


def _recorded_changes(what: Mapping[str, Any]) -> tuple[OffsetChange, ...]:
    """The changes that `listed_changes` wrote; none if the event has another form."""
    try:
        return tuple(
            OffsetChange(topic.encode(), int(partition), before, after)
            for topic, partitions in what["changes"].items()
            for partition, (before, after) in partitions.items()
        )
    except (KeyError, AttributeError, TypeError, ValueError):
        return ()


def _first(changes: Iterable[OffsetChange]) -> Iterable[tuple[str, int, OffsetChange]]:
    size, last_topic = 0, b""
    for place, change in enumerate(changes):
        if change.topic != last_topic:
            size += len(change.topic)
            last_topic = change.topic
        if place == CHANGES_MAX or size > _NAMES_BYTES_MAX:
            return
        yield change.topic.decode(), change.partition, change
