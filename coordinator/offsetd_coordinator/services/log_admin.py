"""AdminService's log methods: describing partitions, cleaning them, and deleting records."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from offsetd.v1 import admin_service_pb2
from offsetd_storage import errors as storage_errors
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.errors import StorageError, StorageFailed, StorageFull

from offsetd_coordinator.errors import (
    InvalidOffset,
    InvalidRequest,
    OffsetOutOfRange,
    PolicyViolation,
)
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.audit_events import change_event
from offsetd_coordinator.messages.cleaning_messages import (
    blocked_retention,
    cleaning_round,
    log_cleaning,
    uncleanable_partition,
)
from offsetd_coordinator.messages.timestamps import set_time
from offsetd_coordinator.messages.topic_partitions import named_log, named_partitions, named_topic
from offsetd_coordinator.runtime.storage_refusals import unavailable
from offsetd_coordinator.services.compactions import Compactions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.maintenance.upkeep import Upkeep
    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.administration.audit import AuditEvent, RecordedEvent
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.runtime.runtime import Runtime

    Outcomes = Mapping[TopicPartition, CleanReport | BaseException | None]
    Mutation = (
        admin_service_pb2.CompactLogRequest
        | admin_service_pb2.RetryPartitionRequest
        | admin_service_pb2.DeleteRecordsRequest
    )


class LogAdmin:
    """The methods: each takes a request's bytes and returns the answer's bytes.

    A change is completed even if the caller cancels the call.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._compactions = Compactions(node)
        self._deleting = asyncio.Lock()

    async def describe_log(self, message: bytes) -> bytes:
        """Describes the logs of a topic's partitions on the disk."""
        runtime = self._node.serving()
        request = validation.parse(admin_service_pb2.DescribeLogRequest, message)
        store = runtime.local_store()
        topic = named_topic(store, request.topic or OFFSETS_TOPIC)
        response = admin_service_pb2.DescribeLogResponse(topic=topic)
        for topic_partition in await named_partitions(store, topic, request.partitions):
            # This runs on a thread: a partition may have thousands of segments, and files are read.
            response.partitions.append(
                await asyncio.to_thread(self._log_partition, runtime, topic_partition)
            )
        return response.SerializeToString()

    async def compact_log(self, message: bytes) -> bytes:
        """Compacts partitions; answers when all of them are done."""
        administration, runtime = self._node.administering(), self._node.serving()
        request = validation.parse(admin_service_pb2.CompactLogRequest, message)
        store = runtime.local_store()
        topic = named_topic(store, request.topic or OFFSETS_TOPIC)
        partitions = await named_partitions(store, topic, request.partitions)
        validation.check_reason(request.reason)
        validation.read_request_id(request.request_id)
        for log in filter(None, map(store.logs.get, partitions)):
            if not log.config.is_compacted:
                raise _violates(topic, "compact")
        response = admin_service_pb2.CompactLogResponse()
        if request.validate_only:
            outcomes = await self._compactions.preview(partitions, request.roll_active)
        else:
            what = {
                "partitions": [each.partition for each in partitions],
                "roll_active": request.roll_active,
            }
            recorded = await administration.recorded(
                self._event("CompactLog", topic, what, request)
            )
            response.revision.log_offset = recorded.offset
            outcomes = await self._compactions.compact(
                partitions, request.roll_active, request_id=request.request_id
            )
        for topic_partition in partitions:
            response.partitions.append(
                _compacted(runtime, topic_partition, outcomes[topic_partition])
            )
        return response.SerializeToString()

    async def retry_partition(self, message: bytes) -> bytes:
        """Makes a partition cleanable again at once after a failure."""
        administration, runtime = self._node.administering(), self._node.serving()
        request = validation.parse(admin_service_pb2.RetryPartitionRequest, message)
        store = runtime.local_store()
        topic = named_topic(store, request.topic or OFFSETS_TOPIC)
        log = named_log(store, topic, request.partition)
        validation.check_reason(request.reason)
        validation.read_request_id(request.request_id)
        cleaner = _upkeep(runtime).cleaner
        status = await asyncio.to_thread(cleaner.log_status, log.topic_partition)
        response = admin_service_pb2.RetryPartitionResponse()
        if status.uncleanable is None:
            return response.SerializeToString()
        response.uncleanable.CopyFrom(
            uncleanable_partition(status.uncleanable, now_ms=self._now_ms())
        )
        if not request.validate_only:
            what = {"partition": request.partition, "failure": status.uncleanable.reason}
            event = self._event("RetryPartition", topic, what, request)
            response.revision.log_offset = (await administration.recorded(event)).offset
            cleaner.retry(log.topic_partition)
        return response.SerializeToString()

    async def delete_records(self, message: bytes) -> bytes:
        """Raises the start of a partition's log; answers once that is durable."""
        administration, runtime = self._node.administering(), self._node.serving()
        request = validation.parse(admin_service_pb2.DeleteRecordsRequest, message)
        validation.check_reason(request.reason)
        validation.read_request_id(request.request_id)
        store = runtime.local_store()
        log = named_log(store, named_topic(store, request.topic), request.partition)
        if not log.config.is_deleted:
            raise _violates(request.topic, "delete")
        offset = _offset_to_start_at(request, log)
        response = admin_service_pb2.DeleteRecordsResponse(
            log_start_offset=max(offset, log.log_start_offset)
        )
        known = administration.find("DeleteRecords", request.request_id)
        if request.validate_only or (known is None and offset <= log.log_start_offset):
            response.deleted_bytes = _bytes_below(log, offset)
            return response.SerializeToString()
        if known is None and offset == log.offset_next:
            _roll(runtime, log)
        what = {
            "partition": request.partition,
            "offset": offset,
            "bytes": _bytes_below(log, offset),
        }
        event = self._event("DeleteRecords", request.topic, what, request)
        recorded = await asyncio.shield(asyncio.ensure_future(self._delete(log, event)))
        response.log_start_offset = recorded.event.what["offset"]
        response.deleted_bytes = recorded.event.what["bytes"]
        response.revision.log_offset = recorded.offset
        return response.SerializeToString()

    async def _delete(self, log: PartitionLog, event: AuditEvent) -> RecordedEvent:
        """Writes the audit event, then deletes the records.

        If an earlier try of the request has written an event, the deletion in that event is done.
        """
        runtime = self._node.serving()
        async with self._deleting:
            recorded = await self._node.administering().recorded(event)
            try:
                await asyncio.to_thread(
                    _upkeep(runtime).retention.delete_records,
                    log.topic_partition,
                    recorded.event.what["offset"],
                )
            except storage_errors.PolicyViolation as error:  # The policy has changed.
                raise _violates(log.topic_partition.topic, "delete") from error
            except StorageFailed as error:
                runtime.log.fail_soon(error)
                raise unavailable(error) from error
        return recorded

    def _now_ms(self) -> int:
        return self._node.administering().clock.now_ms()

    def _event(
        self, method: str, topic: str, what: dict[str, Any], request: Mutation
    ) -> AuditEvent:
        return change_event(
            method,
            what,
            topic=topic,
            time_ms=self._now_ms(),
            reason=request.reason,
            request_id=request.request_id,
        )

    def _log_partition(
        self, runtime: Runtime, topic_partition: TopicPartition
    ) -> admin_service_pb2.LogPartition:
        store, upkeep = runtime.local_store(), _upkeep(runtime)
        damage = store.quarantined.get(topic_partition)
        message = admin_service_pb2.LogPartition(
            partition=topic_partition.partition,
            quarantine_reason="" if damage is None else str(damage),
        )
        log = store.logs.get(topic_partition)
        if log is None:
            return message
        message.log_start_offset = log.log_start_offset
        message.log_end_offset = log.offset_next
        message.recovery_point = store.recovery_point(topic_partition).offset
        message.size_bytes = log.size_bytes
        for segment in log.segments:
            described = message.segments.add(
                base_offset=segment.base_offset, size_bytes=segment.size_bytes
            )
            set_time(described.largest_time, segment.largest_timestamp_ms)
        if damage is None:
            if log.config.is_compacted:
                status = upkeep.cleaner.log_status(topic_partition)
                message.cleaning.CopyFrom(log_cleaning(status, now_ms=self._now_ms()))
            blocked = upkeep.blocked.get(topic_partition)
            if blocked is not None:
                message.blocked_retention.CopyFrom(blocked_retention(blocked))
        return message


def _upkeep(runtime: Runtime) -> Upkeep:
    assert runtime.upkeep is not None, "a node that serves cleans"
    return runtime.upkeep


def _compacted(
    runtime: Runtime, topic_partition: TopicPartition, outcome: CleanReport | BaseException | None
) -> admin_service_pb2.CompactedPartition:
    message = admin_service_pb2.CompactedPartition(partition=topic_partition.partition)
    if isinstance(outcome, StorageFailed):
        runtime.log.fail_soon(outcome)
    if isinstance(outcome, StorageError | OSError):
        message.failure = str(outcome)
    elif isinstance(outcome, BaseException):
        raise outcome
    elif outcome is not None:
        message.round.CopyFrom(cleaning_round(outcome))
    return message


def _offset_to_start_at(request: admin_service_pb2.DeleteRecordsRequest, log: PartitionLog) -> int:
    """The new start of the log.

    Raises InvalidRequest, InvalidOffset, OffsetOutOfRange.
    """
    named = request.WhichOneof("until")
    if named is None:
        raise InvalidRequest("until", "give an offset, or set end to delete all records")
    if named == "end":
        if not request.end:
            raise InvalidRequest("end", "it must be true if it is set")
        return log.offset_next
    if request.offset < 0:
        raise InvalidOffset("offset", "{value} is below 0", value=request.offset)
    if request.offset > log.offset_next:
        raise OffsetOutOfRange(
            "the log ends at {log_end_offset}, below {offset}",
            offset=request.offset,
            log_end_offset=log.offset_next,
        )
    return request.offset


def _roll(runtime: Runtime, log: PartitionLog) -> None:
    """Rolls the active segment before all records of a log are deleted.

    If the log is the audit log, its next record is the event of this deletion. Without the roll,
    that record would keep the last segment.
    """
    with contextlib.suppress(StorageFull):  # Without room, the segment stays, hidden.
        try:
            runtime.local_store().roll(log.topic_partition)
        except StorageFailed as error:
            runtime.log.fail_soon(error)
            raise unavailable(error) from error


def _bytes_below(log: PartitionLog, offset: int) -> int:
    """The size of the segments that are deleted when the log starts at `offset`."""
    segments = log.segments
    ends = [*(each.base_offset for each in segments[1:]), log.offset_next]
    return sum(each.size_bytes for each, end in zip(segments, ends, strict=True) if end <= offset)


def _violates(topic: str, policy: str) -> PolicyViolation:
    return PolicyViolation(
        "cleanup.policy of topic {topic!r} has no {policy}", topic=topic, policy=policy
    )
