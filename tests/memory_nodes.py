"""Nodes whose log is in memory, with all their services, called with and without gRPC."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from memory_commit_log import MemoryCommitLog, MemoryTopic
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.administration.administration import Administration
from offsetd_coordinator.administration.audit import AuditLog
from offsetd_coordinator.calls.admission import Admission
from offsetd_coordinator.configuration.config_state import ConfigState
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.configuration.settings_sources import load_settings
from offsetd_coordinator.counters import CallCounters
from offsetd_coordinator.grpc import handlers
from offsetd_coordinator.large_groups.large_changes import LargeChanges
from offsetd_coordinator.messages.commit_parser import CommitParser
from offsetd_coordinator.network.connection_limits import channel_options
from offsetd_coordinator.node import Node
from offsetd_coordinator.observability.cleaner_health import CLEANER_SERVICE
from offsetd_coordinator.runtime.runtime import Runtime
from offsetd_coordinator.runtime.shard_loader import load_shard
from offsetd_coordinator.security.authorizer import Authorizer
from offsetd_coordinator.services.offset_calls import OffsetService
from offsetd_coordinator.shard.shard import Shard, ShardConfig
from offsetd_storage.clock import ManualClock, SteadyClock
from offsetd_storage.offsets_topic.placement import partition_of
from server_process import Stubs
from serving_nodes import METADATA_UNITS_MAX, WAIT_SECONDS, commit_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from offsetd_coordinator.runtime.node_directory import NodeDirectory

PARTITIONS = 4
IN_FLIGHT_BYTES_MAX = 64 << 20


class MemoryNode:
    """A node that serves some partitions of a topic in memory."""

    def __init__(
        self,
        topic: MemoryTopic,
        owned: Collection[int],
        *,
        name: str = "n1",
        directory: NodeDirectory | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.time = SteadyClock(self.clock)
        self.topic = topic
        self.log = MemoryCommitLog(topic, owned)
        self.config = ShardConfig(partitions=len(topic.logs))
        shards = {partition: self._load(partition) for partition in owned}
        self.runtime = Runtime(self.log, shards, clock=self.time, directory=directory)
        self.large_changes = LargeChanges(self.runtime)
        self.settings = load_settings(assignments=["data.dir=/nowhere"])
        window_ms = self.config.request_id_window_ms
        self.node = Node(node_id=name, address=f"{name}:7171", start_ms=self.clock.now_ms())
        self.node.partitions = len(topic.logs)
        self.node.audit_log = self.log.internal_log(AUDIT_PARTITION)
        self._server: grpc.aio.Server | None = None
        self.node.serve(
            self.runtime,
            self.large_changes,
            Administration(
                self.runtime,
                self.large_changes,
                ConfigState(self.settings.configs, request_id_window_ms=window_ms),
                AuditLog(request_id_window_ms=window_ms),
                clock=self.time,
                apply=lambda *_: None,
                preview=lambda *_: None,
            ),
        )
        parser = CommitParser(
            metadata_units_max=METADATA_UNITS_MAX, message_bytes_max=self.config.message_bytes_max
        )
        self.offsets = OffsetService(self.node, parser)

    def _load(self, partition: int) -> Shard:
        shard = Shard(partition, self.config)
        load_shard(shard, self.log.reader(partition))
        return shard

    def take(self, partition: int) -> None:
        """Becomes the partition's owner, loads it, and serves it."""
        self.log.begin_load(partition)
        shard = self._load(partition)
        self.log.serve(partition)
        self.node.take(partition, shard)

    def release(self, partition: int) -> None:
        """Gives up a partition; what waits is durable first."""
        self.log.release(partition)
        self.node.release(partition)

    def lose(self, partition: int) -> None:
        """Learns that another node has the partition."""
        self.log.lose(partition)
        self.node.release(partition)

    async def commit(self, group_id: str, value: int, *, partitions: int = 1) -> Any:
        """Commits one value to some partitions, through the service."""
        message = commit_request(group_id, value, partitions=partitions).SerializeToString()
        answer = await self.offsets.commit_offsets(message)
        return offset_service_pb2.CommitOffsetsResponse.FromString(answer)

    async def fetch(self, *group_ids: str) -> list[int | None]:
        """The offset of each group; None: it has none."""
        request = offset_service_pb2.FetchOffsetsRequest(
            groups=[offset_service_pb2.GroupSelection(group_id=each) for each in group_ids]
        )
        answer = await asyncio.wait_for(
            self.offsets.fetch_offsets(request.SerializeToString()), WAIT_SECONDS
        )
        groups = offset_service_pb2.FetchOffsetsResponse.FromString(answer).groups
        return [each.offsets[0].offset if each.offsets else None for each in groups]

    async def listen(self) -> str:
        """Serves all services over gRPC. Returns the address, which is the node's from now on."""
        options = channel_options(self.settings)
        server = self._server = grpc.aio.server(options=options)
        server.add_generic_rpc_handlers(
            handlers.generic_handlers(
                self.node,
                Admission(IN_FLIGHT_BYTES_MAX),
                self.settings,
                CallCounters(),
                authorizer=Authorizer(),
            )
        )
        health = health_aio.HealthServicer()
        for service in ("", CLEANER_SERVICE):
            await health.set(service, health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(health, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self.node.address = f"127.0.0.1:{port}"
        return self.node.address

    async def stop(self) -> None:
        """Ends the serving, if it was begun. Calls in flight end."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(0)

    @asynccontextmanager
    async def stubs(self) -> AsyncIterator[Stubs]:
        """All services over gRPC."""
        try:
            async with grpc.aio.insecure_channel(await self.listen()) as channel:
                untyped_channel: Any = channel
                yield Stubs(untyped_channel)
        finally:
            await self.stop()


def group_in(partition: int, number: int = 0, partitions: int = PARTITIONS) -> str:
    """Some group of a partition."""
    names = (f"g{n}" for n in range(10_000))
    return [n for n in names if partition_of(n, partitions) == partition][number]
