"""The server: its state, its log, its settings."""

from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex

from offsetd.v1.admin_service_pb2 import DescribeClusterRequest, GetServerInfoRequest
from offsetd.v1.backup_service_pb2 import BackupHead, StreamBackupRequest

from offsetd_clients.admin_values import (
    CompactedLog,
    ConfigSetting,
    DeletedRecords,
    LogPartition,
    RetriedPartition,
    UpdatedConfig,
)
from offsetd_clients.aio.concurrency import in_parallel
from offsetd_clients.aio.servers import Calls, new_id
from offsetd_clients.aio.transport import Answers
from offsetd_clients.cluster_values import Cluster
from offsetd_clients.errors import OffsetdError
from offsetd_clients.messages import (
    admin_messages,
    cluster_messages,
    conversions,
    quota_messages,
)
from offsetd_clients.quota_values import QuotaListing
from offsetd_clients.values import ServerInfo

_NODE_TIMEOUT_S = 3.0


class AdminCalls(Calls):
    """The calls of a client that operators need."""

    async def get_server_info(self) -> ServerInfo:
        """Describes the server that answers. It also answers while it is loading."""
        return conversions.server_info(await self._call("GetServerInfo", GetServerInfoRequest()))

    async def describe_cluster(self) -> Cluster:
        """Describes all nodes and log partitions. It asks each node, for at most a few seconds."""
        asked = await self._call("DescribeCluster", DescribeClusterRequest())
        policy = self._retry.within(_NODE_TIMEOUT_S)

        async def described(address: str) -> tuple[str, Any, Any] | None:
            try:
                cluster = await self._servers.call_at(
                    address, "DescribeCluster", DescribeClusterRequest(), policy
                )
                server = await self._servers.call_at(
                    address, "GetServerInfo", GetServerInfoRequest(), policy
                )
            except OffsetdError:
                return None  # The result says that the node did not answer.
            return address, cluster, server

        answers = await in_parallel(described, [each.address for each in asked.nodes])
        found = [each for each in answers if each is not None]
        return cluster_messages.cluster_of(
            asked,
            [cluster for _, cluster, _ in found],
            {address: conversions.server_info(server) for address, _, server in found},
        )

    async def stream_backups(
        self, held_digests: Iterable[bytes] = (), *, bytes_per_second_max: int = 0
    ) -> list[tuple[BackupHead, Answers]]:
        """Backups of this server, and of the other nodes of its cluster: heads, and their chunks.

        `docs/formats/backup.md` describes both. The chunks come as `StreamBackupResponse`, without
        those in `held_digests`, and without a time limit. `offsetd backup create` writes them.
        """
        request = StreamBackupRequest(
            held_digests=b"".join(held_digests), bytes_per_second_max=bytes_per_second_max
        )
        home = await self._backup_of(self._servers.home.address, request)
        others = home[0].other_addresses
        return [home, *[await self._backup_of(each, request) for each in others]]

    async def _backup_of(self, address: str, request: Any) -> tuple[BackupHead, Answers]:
        async def attempt(timeout_s: float) -> tuple[BackupHead, Answers]:
            del timeout_s  # A backup takes as long as it needs.
            answers = await self._servers.channel(address).stream("StreamBackup", request)
            return (await anext(answers)).head, answers

        return await self._retry.call_async(attempt)

    async def is_serving(self, service: str = "") -> bool:
        """Whether the server reports itself, or a service (`offsetd.cleaner`), as healthy."""
        request = admin_messages.health_request(service)
        return admin_messages.says_serving(await self._call("Check", request))

    async def describe_quotas(self, principal: str = "") -> QuotaListing:
        """The quotas in force at this server, with their present use. Default: all quotas.

        Each node of a cluster counts for itself.
        """
        request = quota_messages.describe_quotas_request(principal)
        pages = [await self._call("DescribeQuotas", request)]
        while pages[-1].next_page_token:
            request.page_token = pages[-1].next_page_token
            pages.append(await self._call("DescribeQuotas", request))
        return quota_messages.described_quotas(pages)

    async def describe_log(
        self, topic: str = "", partitions: Iterable[SupportsIndex] = ()
    ) -> tuple[LogPartition, ...]:
        """Describes partitions of a topic's log. Default: all partitions of the offsets topic."""
        request = admin_messages.describe_log_request(topic, partitions)
        return admin_messages.log_partitions(await self._call("DescribeLog", request))

    async def compact_log(
        self,
        topic: str = "",
        partitions: Iterable[SupportsIndex] = (),
        *,
        roll_active: bool = False,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> CompactedLog:
        """Compacts partitions once and waits for the end. `validate_only`: estimates the saving.

        After `DeadlineExceeded` the compaction continues. Raises `PolicyViolation` if the topic is
        not compacted.
        """
        request = admin_messages.compact_log_request(
            topic,
            partitions,
            roll_active=roll_active,
            request_id=request_id or new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return admin_messages.compacted_log(await self._call("CompactLog", request))

    async def retry_partition(
        self,
        partition: SupportsIndex,
        topic: str = "",
        *,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> RetriedPartition:
        """Lets the cleaner retry an uncleanable partition at once."""
        request = admin_messages.retry_partition_request(
            topic,
            partition,
            request_id=request_id or new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return admin_messages.retried_partition(await self._call("RetryPartition", request))

    async def delete_records(
        self,
        topic: str,
        partition: SupportsIndex,
        offset: SupportsIndex | None,
        *,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> DeletedRecords:
        """Deletes the records below `offset`, or all present records if it is None.

        Raises `PolicyViolation` if the topic's policy does not delete, and `OffsetOutOfRange` if
        `offset` is above the log's end.
        """
        request = admin_messages.delete_records_request(
            topic,
            partition,
            offset,
            request_id=request_id or new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return admin_messages.deleted_records(await self._call("DeleteRecords", request))

    async def describe_config(
        self, topic: str = "", names: Iterable[str] = ()
    ) -> tuple[ConfigSetting, ...]:
        """The settings of a topic, or of the server without `topic`. Without `names`, all."""
        request = admin_messages.describe_config_request(topic, names)
        response = await self._call("DescribeConfig", request)
        return admin_messages.config_settings(response.settings)

    async def update_config(
        self,
        changes: Mapping[str, str],
        *,
        remove: Iterable[str] = (),
        topic: str = "",
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> UpdatedConfig:
        """Sets settings of a topic or the server, and removes those in `remove`: all or none.

        The changes apply at once, and after a restart.
        """
        request = admin_messages.update_config_request(
            changes,
            topic=topic,
            remove=remove,
            request_id=request_id or new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return admin_messages.updated_config(await self._call("UpdateConfig", request))
