"""AdminService: the server and its log."""

from __future__ import annotations

import asyncio
from importlib import metadata
from typing import TYPE_CHECKING

from offsetd.v1 import admin_service_pb2
from offsetd_storage.log_store import OFFSETS_TOPIC

from offsetd_coordinator.errors import CoordinatorLoadInProgress, InvalidPartition
from offsetd_coordinator.placement import partition_of
from offsetd_coordinator.service import validation
from offsetd_coordinator.service.times import set_time
from offsetd_coordinator.service.turns import Turns

if TYPE_CHECKING:
    from offsetd_storage.partition_log import PartitionLog

    from offsetd_coordinator.node import Node
    from offsetd_coordinator.runtime import Runtime


class AdminService:
    """The methods, from a request's bytes to those of its answer."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._version = metadata.version("offsetd")

    async def get_server_info(self, message: bytes) -> bytes:
        """What this server is. Answered at any time; counts are 0 until it has loaded."""
        validation.parse(admin_service_pb2.GetServerInfoRequest, message)
        node = self._node
        response = admin_service_pb2.GetServerInfoResponse(
            version=self._version,
            folder_id=node.folder_id or "",
            node_id=node.node_id,
            log_partitions=node.partitions or 0,
            state=int(node.state),  # type: ignore[arg-type]
        )
        response.start_time.FromMilliseconds(node.start_ms)
        if node.runtime is not None:
            for shard in node.runtime.shards.values():
                counters = shard.counters()
                response.group_count += counters.group_count
                response.offset_count += counters.offset_count
                response.unknown_record_count += counters.unknown_records
                response.undecodable_record_count += counters.undecodable_records
                await asyncio.sleep(0)  # To count a shard's groups takes a while.
            response.quarantined_partitions.extend(
                partition
                for partition in range(node.runtime.partitions)
                if node.runtime.damage(partition) is not None
            )
        return response.SerializeToString()

    async def find_coordinator(self, message: bytes) -> bytes:
        """Where a group lives. Answered while loading too, once the folder's size is known."""
        request = validation.parse(admin_service_pb2.FindCoordinatorRequest, message)
        validation.read_group_id(request.group_id, "group_id")
        if self._node.partitions is None:
            raise CoordinatorLoadInProgress("the server is opening its folder")
        return admin_service_pb2.FindCoordinatorResponse(
            log_partition=partition_of(request.group_id, self._node.partitions),
            node_id=self._node.node_id,
            address=self._node.address,
        ).SerializeToString()

    async def describe_log(self, message: bytes) -> bytes:
        """The log partitions as they lie on the disk."""
        runtime = self._node.serving()
        request = validation.parse(admin_service_pb2.DescribeLogRequest, message)
        asked: set[int] = set()
        async for index, partition in Turns().each(enumerate(request.partitions)):
            if not 0 <= partition < runtime.partitions:
                raise InvalidPartition(
                    f"partitions[{index}]",
                    "{partition} is not 0 to {last_partition}",
                    partition=partition,
                    last_partition=runtime.partitions - 1,
                )
            if partition in asked:
                raise InvalidPartition(
                    f"partitions[{index}]", "{partition} is named twice", partition=partition
                )
            asked.add(partition)
        logs = {
            topic_partition.partition: log
            for topic_partition, log in runtime.store.logs.items()
            if topic_partition.topic == OFFSETS_TOPIC
        }
        response = admin_service_pb2.DescribeLogResponse()
        for partition in request.partitions or range(runtime.partitions):
            response.partitions.append(_log_partition(runtime, partition, logs.get(partition)))
            await asyncio.sleep(0)  # A partition may have thousands of segments.
        return response.SerializeToString()


def _log_partition(
    runtime: Runtime, partition: int, log: PartitionLog | None
) -> admin_service_pb2.LogPartition:
    damage = runtime.damage(partition)
    message = admin_service_pb2.LogPartition(
        partition=partition, quarantine_reason="" if damage is None else str(damage)
    )
    if log is None:
        return message
    message.log_start_offset = log.log_start_offset
    message.log_end_offset = log.offset_next
    message.recovery_point = runtime.store.recovery_point(log.topic_partition).offset
    message.size_bytes = log.size_bytes
    for segment in log.segments:
        described = message.segments.add(
            base_offset=segment.base_offset, size_bytes=segment.size_bytes
        )
        set_time(described.largest_time, segment.largest_timestamp_ms)
    return message
