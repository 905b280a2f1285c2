"""Fetches that are too large to be answered in one turn of the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.errors import UnstableOffsetCommit
from offsetd_coordinator.large_groups.group_reading import read_group, read_partitions

if TYPE_CHECKING:
    from offsetd_coordinator.expiry.expiry_rules import GroupRule
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.wire.fetch_encoder import FetchAnswer
    from offsetd_coordinator.wire.group_selections import GroupSelection


async def add_large(
    runtime: Runtime, answer: FetchAnswer, selection: GroupSelection, rule: GroupRule
) -> None:
    """Adds the requested offsets of a large group, once they are durable.

    Raises the errors of `Shard.fetch_into` and of `group_reading.read_group`.
    """
    group_id = selection.group_id
    log_partition, shard = runtime.shard_of(group_id)
    if selection.require_stable and selection.has_any_of(shard.pending_partitions(group_id)):
        raise UnstableOffsetCommit(
            "a transaction has offsets pending for group {group!r}", group=group_id
        )
    if selection.partitions is None:
        rows = await read_group(runtime, group_id)
    else:
        rows = await read_partitions(runtime, group_id, selection.names, selection.partitions)
    await answer.add_rows(group_id, rows, rule, log_partition=log_partition)
