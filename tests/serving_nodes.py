"""A node that serves from a simulated disk, without gRPC: what the tests of the services call."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.administration.internal_topics import (
    InternalTopics,
    internal_topic_specs,
    upkeep_config,
)
from offsetd_coordinator.background.expirer import Expirer, begin_where_left, grace_of_folder_ms
from offsetd_coordinator.configuration.settings_sources import load_settings
from offsetd_coordinator.counters import ExpiryCounters
from offsetd_coordinator.large_groups.large_changes import LargeChanges
from offsetd_coordinator.messages.commit_parser import CommitParser
from offsetd_coordinator.node import Node
from offsetd_coordinator.runtime.runtime import Runtime
from offsetd_coordinator.runtime.shard_loader import load
from offsetd_coordinator.runtime.store_commit_log import StoreCommitLog
from offsetd_coordinator.services.offset_calls import OffsetService
from offsetd_coordinator.shard.shard import Shard, ShardConfig
from offsetd_storage.clock import ManualClock, SteadyClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log_store import OFFSETS_TOPIC, LogStore, LogStoreConfig
from offsetd_storage.maintenance.upkeep import Upkeep
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.recovery.quarantine import Damage
from offsetd_storage.topic_partition import TopicPartition
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from offsetd_coordinator.administration.administration import Administration
    from offsetd_coordinator.security.acl import Acl
    from offsetd_storage.errors import StorageFailed

PARTITIONS = 4
METADATA_UNITS_MAX = 4096
WAIT_SECONDS = PATIENCE_SECONDS


class ServingNode:
    """A node, its runtime, its clock, its disk, and the disk's failures as they are reported.

    What runs beside the appends is there, and does not run unless it is started.
    """

    def __init__(
        self,
        files: SimulatedFiles,
        clock: ManualClock,
        *,
        partitions: int,
        accepts_defaults: bool = False,
        apply_acls: Callable[[frozenset[Acl]], None] = lambda _acls: None,
    ) -> None:
        self.files = files
        self.clock = clock
        self.time = SteadyClock(clock)
        self.failures: list[StorageFailed] = []
        config = ShardConfig(partitions=partitions)
        # What was committed just now can be cleaned at once.
        configs = load_settings(assignments=["request.id.window.ms=0", "history.ms=0"]).configs
        self.store = LogStore.open(
            files,
            Path("/data"),
            LogStoreConfig(
                partitions=partitions,
                other_topics=internal_topic_specs(configs),
                journal_file_bytes=2 << 20,  # It takes the largest batch.
            ),
            clock=self.time,
            random=Random(1),
        )
        begin_where_left(self.time, self.store, files, Path("/data"))
        self.own = InternalTopics.load(
            self.store,
            configs,
            request_id_window_ms=config.request_id_window_ms,
            now_ms=clock.now_ms(),
            accepts_defaults=accepts_defaults,
        )
        shards = {partition: Shard(partition, config) for partition in range(partitions)}
        load(self.store, shards, 1, None)
        self.log = StoreCommitLog(
            self.store, loop=asyncio.get_running_loop(), on_failed=self.failures.append
        )
        self.runtime = Runtime(self.log, shards, clock=self.time, store=self.store)
        self.large_changes = LargeChanges(self.runtime)
        self.node = Node(node_id="n1", address="127.0.0.1:7171", start_ms=clock.now_ms())
        self.node.partitions = partitions
        self.node.folder_id = self.store.folder_id
        self.upkeep = self.runtime.upkeep = self._upkeep()
        self.log.on_journal_filling = self._move_points_soon
        self.administration = self._administration(apply_acls)
        self.expiry = ExpiryCounters()
        self.expirer = self.node.expirer = self._expirer()
        self.node.serve(self.runtime, self.large_changes, self.administration)
        self.parser = CommitParser(
            metadata_units_max=METADATA_UNITS_MAX, message_bytes_max=config.message_bytes_max
        )
        self.offsets = OffsetService(self.node, self.parser)

    def _move_points_soon(self) -> None:
        self.upkeep.move_points_soon()

    def _administration(self, apply_acls: Callable[[frozenset[Acl]], None]) -> Administration:
        return self.own.administration(
            self.runtime,
            self.large_changes,
            self.upkeep,
            clock=self.time,
            is_draining=lambda: self.node.is_draining,
            apply_acls=apply_acls,
        )

    def _upkeep(self) -> Upkeep:
        return Upkeep(
            self.store,
            Path("/data"),
            upkeep_config(self.own.shard.applied.configs, self.own.doubt),
            files=self.files,
            clock=self.time,
            random=Random(1),
            sleep=lambda _: None,
            on_failed=self.log.fail_soon,
        )

    def _expirer(self) -> Expirer:
        grace_left_ms = grace_of_folder_ms(
            self.store,
            self.files,
            Path("/data"),
            now_ms=self.clock.now_ms(),  # By the wall clock.
            grace_ms=self.runtime.expiry_config.grace_ms,
        )
        return Expirer(
            self.runtime,
            self.administration,
            self.expiry,
            grace_left_ms=grace_left_ms,
            files=self.files,
            folder=Path("/data"),
            clock=self.time,
        )

    def quarantine_log_of(self, group_id: str) -> int:
        """Quarantines the log partition of a group; returns its number."""
        where = TopicPartition(OFFSETS_TOPIC, partition_of(group_id, self.store.partitions))
        self.store.quarantined[where] = Damage(
            topic_partition=where, segment_base_offset=None, position=0, reason="rot"
        )
        return where.partition

    async def commit(
        self, group_id: str, value: int, *, partitions: int = 1, topic: str = "orders"
    ) -> offset_service_pb2.CommitOffsetsResponse:
        """Commits one value to some partitions, through the service."""
        return await self._commit(
            commit_request(group_id, value, partitions=partitions, topic=topic)
        )

    async def commit_offsets(
        self, group_id: str, *offsets: Mapping[str, Any]
    ) -> offset_service_pb2.CommitOffsetsResponse:
        """Commits offsets with all that they bring, through the service."""
        return await self._commit(
            offset_service_pb2.CommitOffsetsRequest(
                group_id=group_id,
                offsets=[offset_service_pb2.OffsetCommit(**each) for each in offsets],
            )
        )

    async def _commit(
        self, request: offset_service_pb2.CommitOffsetsRequest
    ) -> offset_service_pb2.CommitOffsetsResponse:
        answer = self.offsets.commit_offsets(request.SerializeToString())
        return offset_service_pb2.CommitOffsetsResponse.FromString(
            await asyncio.wait_for(answer, WAIT_SECONDS)
        )

    async def fetch(self, *group_ids: str) -> list[offset_service_pb2.GroupOffsets]:
        """All offsets of some groups, through the service."""
        request = offset_service_pb2.FetchOffsetsRequest(
            groups=[offset_service_pb2.GroupSelection(group_id=each) for each in group_ids]
        )
        answer = self.offsets.fetch_offsets(request.SerializeToString())
        response = offset_service_pb2.FetchOffsetsResponse.FromString(
            await asyncio.wait_for(answer, WAIT_SECONDS)
        )
        return list(response.groups)


def commit_request(
    group_id: str, value: int, *, partitions: int = 1, topic: str = "orders"
) -> offset_service_pb2.CommitOffsetsRequest:
    """A commit of one value to some partitions."""
    return offset_service_pb2.CommitOffsetsRequest(
        group_id=group_id,
        offsets=[
            offset_service_pb2.OffsetCommit(topic=topic, partition=partition, offset=value)
            for partition in range(partitions)
        ],
    )


@contextlib.asynccontextmanager
async def serving_node(
    *,
    partitions: int = PARTITIONS,
    flushing: bool = True,
    cleaning: bool = False,
    files: SimulatedFiles | None = None,
    clock: ManualClock | None = None,
    accepts_defaults: bool = False,
    apply_acls: Callable[[frozenset[Acl]], None] = lambda _acls: None,
) -> AsyncIterator[ServingNode]:
    """A node on an empty disk, or one that was served from before.

    `apply_acls` gets the access rules, at the start and after each change.
    Without `flushing` nothing gets durable until `runtime.start`. With `cleaning` all that runs
    beside the appends is started, too.
    """
    clock = clock or ManualClock()
    serving = ServingNode(
        files or SimulatedFiles(clock=clock),
        clock,
        partitions=partitions,
        accepts_defaults=accepts_defaults,
        apply_acls=apply_acls,
    )
    if flushing:
        serving.runtime.start(serving.upkeep if cleaning else None)
    try:
        yield serving
    finally:
        if serving.runtime.failed is None:
            await asyncio.to_thread(serving.runtime.close)
