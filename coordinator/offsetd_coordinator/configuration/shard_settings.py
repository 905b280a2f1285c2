"""The configuration of a shard, made from the server's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.membership.rebalance import MembershipConfig
from offsetd_coordinator.shard.shard import ShardConfig

if TYPE_CHECKING:
    from offsetd_coordinator.configuration.server_settings import Settings


def shard_config(settings: Settings, partitions: int) -> ShardConfig:
    """The configuration of a shard, one of `partitions`."""
    return ShardConfig(
        partitions=partitions,
        offset_commit_value_version=settings.offset_commit_value_version,
        message_bytes_max=settings.log.message_bytes_max,
        request_id_window_ms=settings.request_id_window_ms,
        request_ids_per_partition_max=settings.request_ids_per_partition_max,
        membership=MembershipConfig(
            session_timeout_ms_min=settings.group_min_session_timeout_ms,
            session_timeout_ms_max=settings.group_max_session_timeout_ms,
            consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            size_max=settings.group_max_size,
        ),
    )
