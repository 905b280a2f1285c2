"""AdminService's server methods: describing the server, and finding the owner of a group."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import TYPE_CHECKING, Final

from offsetd.v1 import admin_service_pb2
from offsetd_storage.offsets_topic.placement import partition_of

from offsetd_coordinator.calls import current_call
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidRequest,
)
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.page_tokens import (
    not_ours,
    page_token,
    read_page_size,
    read_page_token,
)
from offsetd_coordinator.messages.timestamps import set_time
from offsetd_coordinator.quotas.quota_use import Key, QuotaUse, limits_in_force, use_of
from offsetd_coordinator.runtime.commit_log import PartitionState
from offsetd_coordinator.security.acl import (
    CLUSTER_NAME,
    USER_PREFIX,
    Operation,
    ResourceType,
)
from offsetd_coordinator.services.cluster_calls import cluster_id, other_addresses

if TYPE_CHECKING:
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.quotas.caller_quotas import Quotas
    from offsetd_coordinator.runtime.runtime import Runtime

_CLOCK_OFFSET_TOLD_MS: Final = 1000


_QUOTAS_PAGE_MAX: Final = 1000


class AdminService:
    """The methods: each takes a request's bytes and returns the answer's bytes."""

    def __init__(self, node: Node, quotas: Quotas | None = None) -> None:
        self._node = node
        self._quotas = quotas

    @functools.cached_property
    def _version(self) -> str:
        from importlib import metadata  # noqa: PLC0415  A start need not wait for it.

        return metadata.version("offsetd")

    async def get_server_info(self, message: bytes) -> bytes:
        """Describes the server. Answers in any state; counts are 0 until the log is loaded.

        A caller who may not describe the cluster gets no counts of groups and offsets.
        """
        validation.parse(admin_service_pb2.GetServerInfoRequest, message)
        node = self._node
        response = admin_service_pb2.GetServerInfoResponse(
            version=self._version,
            folder_id=node.folder_id or "",
            node_id=node.node_id,
            log_partitions=node.partitions or 0,
            state=int(node.state),  # type: ignore[arg-type]
        )
        if node.expirer is not None and (held := node.expirer.held()) is not None:
            response.expiry_suspension.reason = held.hold.value
            end_ms = held.end_ms(node.expirer.clock.now_ms())
            set_time(response.expiry_suspension.end_time, -1 if end_ms is None else end_ms)
            if held.remaining_ms is not None:
                response.expiry_suspension.remaining.FromMilliseconds(held.remaining_ms)
        response.settings_problem = node.settings_doubt or ""
        response.problems.extend(node.problems())
        if node.expirer is not None:
            offset_ms = node.expirer.clock_offset_ms()
            if abs(offset_ms) >= _CLOCK_OFFSET_TOLD_MS:
                response.clock_offset.FromMilliseconds(offset_ms)
        if node.stopped_cleanly is not None:
            response.stopped_cleanly = node.stopped_cleanly
        response.start_time.FromMilliseconds(node.start_ms)
        response.other_addresses.extend(other_addresses(node))
        response.cluster_id = cluster_id(node)
        if node.runtime is not None:
            response.flush_count = sum(node.runtime.log.flush_durations.counts)
            await _count(response, node.runtime)
            if (upkeep := node.runtime.upkeep) is not None:
                disk = upkeep.disk.status
                response.disk.total_bytes = disk.total_bytes
                response.disk.free_bytes = disk.free_bytes
            response.quarantined_partitions.extend(
                partition
                for partition in range(node.runtime.partitions)
                if node.runtime.log.state(partition) is PartitionState.FAILED
            )
        if not _may_see_counts():
            response.group_count = response.offset_count = 0
            response.counts_hidden = True
        return response.SerializeToString()

    async def find_coordinator(self, message: bytes) -> bytes:
        """The address of a group's coordinator. Raises CoordinatorNotAvailable if none is known.

        Answers during the load too, once the folder's number of partitions is known.
        """
        request = validation.parse(admin_service_pb2.FindCoordinatorRequest, message)
        validation.read_group_id(request.group_id, "group_id")
        if self._node.partitions is None:
            raise CoordinatorLoadInProgress("the server is opening its folder")
        log_partition = partition_of(request.group_id, self._node.partitions)
        node_id, address = self._node.node_id, self._node.address
        runtime = self._node.runtime
        if runtime is not None and runtime.directory is not None:
            owner = runtime.directory.owner(log_partition)
            if owner is None:
                raise CoordinatorNotAvailable(
                    "no node serves log partition {log_partition} now", log_partition=log_partition
                )
            node_id, address = owner.node_id, owner.address
        return admin_service_pb2.FindCoordinatorResponse(
            log_partition=log_partition, node_id=node_id, address=address
        ).SerializeToString()

    async def describe_quotas(self, message: bytes) -> bytes:
        """One page of the limits in force, with their present use. Answers in any state."""
        request = validation.parse(admin_service_pb2.DescribeQuotasRequest, message)
        page_size = read_page_size(
            request.page_size, default=_QUOTAS_PAGE_MAX, most=_QUOTAS_PAGE_MAX
        )
        if request.principal and not request.principal.startswith(USER_PREFIX):
            raise InvalidRequest(
                "principal", "{principal!r} is not User:NAME", principal=request.principal
            )
        question = admin_service_pb2.DescribeQuotasRequest(principal=request.principal)
        after = _read_key(read_page_token(question, request.page_token))
        quotas = self._quotas
        response = admin_service_pb2.DescribeQuotasResponse(in_force=quotas is not None)
        if quotas is not None:
            found = await limits_in_force(quotas, Turns(), principal=request.principal)
            keys = sorted(key for key in found if after is None or key > after)
            response.quotas.extend(
                _quota_message(use_of(quotas, found[key])) for key in keys[:page_size]
            )
            if len(keys) > page_size:
                position = json.dumps(keys[page_size - 1]).encode()
                response.next_page_token = page_token(question, position)
        return response.SerializeToString()


async def _count(response: admin_service_pb2.GetServerInfoResponse, runtime: Runtime) -> None:
    """Adds the counts of all shards."""
    for shard in runtime.shards.values():
        counters = shard.counters()
        response.group_count += counters.group_count
        response.offset_count += counters.offset_count
        response.unknown_record_count += counters.unknown_records
        response.undecodable_record_count += counters.undecodable_records
        await asyncio.sleep(0)  # Other calls run now: a shard's count takes long.


def _may_see_counts() -> bool:
    access = current_call.access()
    return access is None or access.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)


def _read_key(position: bytes | None) -> Key | None:
    """The last limit of the page before. Raises InvalidPageToken."""
    if position is None:
        return None
    try:
        principal, client_id, quota = map(str, json.loads(position))
    except (ValueError, TypeError):
        raise not_ours() from None
    return principal, client_id, quota


def _quota_message(use: QuotaUse) -> admin_service_pb2.QuotaUse:
    message = admin_service_pb2.QuotaUse(
        principal=use.limit.sharers.principal,
        client_id=use.limit.sharers.client_id,
        quota=use.limit.quota.value,
        limit=use.limit.most,
        in_use=use.in_use,
        refusal_count=use.refusals,
    )
    message.delay.FromMilliseconds(round(use.delay_seconds * 1000))
    return message
