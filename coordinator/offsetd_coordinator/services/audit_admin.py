"""AdminService.ListAuditEvents: the audit log, page by page."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from offsetd.v1 import admin_service_pb2
from offsetd_storage.errors import CorruptBatch

from offsetd_coordinator.administration.audit_reader import AuditFilter, read_page
from offsetd_coordinator.calls import current_call
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.errors import LogPartitionQuarantined
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.page_tokens import (
    not_ours,
    page_token,
    read_page_size,
    read_page_token,
)
from offsetd_coordinator.messages.timestamps import read_time_ms, set_time
from offsetd_coordinator.messages.topic_partitions import named_log
from offsetd_coordinator.security.acl import Operation, ResourceType
from offsetd_coordinator.services.cluster_calls import other_addresses

if TYPE_CHECKING:
    from offsetd_coordinator.administration.audit import RecordedEvent
    from offsetd_coordinator.node import Node

PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 1000
_OFFSET_BYTES: Final = 8
_GROUP_FIELDS: Final = ("group", "source")
"""The fields of an event that name groups."""


class AuditAdmin:
    """The method: it takes a request's bytes and returns the answer's bytes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def list_audit_events(self, message: bytes) -> bytes:
        """One page of audit events, the newest first. All its events are durable."""
        runtime, administration = self._node.serving(), self._node.administering()
        request = validation.parse(admin_service_pb2.ListAuditEventsRequest, message)
        page_size = read_page_size(request.page_size, default=PAGE_SIZE_DEFAULT, most=PAGE_SIZE_MAX)
        question = admin_service_pb2.ListAuditEventsRequest()
        question.CopyFrom(request)
        question.ClearField("page_size")
        question.ClearField("page_token")
        position = read_page_token(question, request.page_token)
        wanted = AuditFilter(
            methods=frozenset(request.methods),
            group_id=request.group_id,
            start_ms=_time_ms(request, "start_time"),
            end_ms=_time_ms(request, "end_time"),
            principal=request.principal,
        )
        end = await administration.audited()
        if position is not None:
            if len(position) != _OFFSET_BYTES:
                raise not_ours()
            end = min(end, int.from_bytes(position))
        log = self._node.audit_log or named_log(
            runtime.local_store(), AUDIT_PARTITION.topic, AUDIT_PARTITION.partition
        )
        try:
            page = await asyncio.to_thread(
                read_page, log, wanted, offset_limit=end, events_max=page_size
            )
        except CorruptBatch as error:
            raise LogPartitionQuarantined(
                "the audit log is damaged: {cause}", cause=error
            ) from error
        shown = filter(_may_see, page.events)
        response = admin_service_pb2.ListAuditEventsResponse(events=map(_event, shown))
        if runtime.directory is not None:
            response.node_id = self._node.node_id
            response.other_addresses.extend(other_addresses(self._node))
        if page.offset_limit is not None:
            position = page.offset_limit.to_bytes(_OFFSET_BYTES)
            response.next_page_token = page_token(question, position)
        return response.SerializeToString()


def _time_ms(request: admin_service_pb2.ListAuditEventsRequest, field: str) -> int | None:
    if not request.HasField(field):
        return None
    return read_time_ms(getattr(request, field), field)


def _may_see(recorded: RecordedEvent) -> bool:
    """Whether the caller may describe all groups that the event names."""
    access = current_call.access()
    if access is None:
        return True
    named = (recorded.event.what.get(field) for field in _GROUP_FIELDS)
    return all(
        access.allows(Operation.DESCRIBE, ResourceType.GROUP, group)
        for group in named
        if isinstance(group, str)
    )


def _event(recorded: RecordedEvent) -> admin_service_pb2.AuditEvent:
    event = recorded.event
    message = admin_service_pb2.AuditEvent(
        method=event.method,
        topic=event.topic or "",
        what=json.dumps(event.what, ensure_ascii=False, separators=(",", ":")),
        reason=event.reason,
        request_id=event.request_id,
        peer=event.peer,
        principal=event.principal,
    )
    message.revision.log_partition = AUDIT_PARTITION.partition
    message.revision.log_offset = recorded.offset
    set_time(message.time, event.time_ms)
    return message
