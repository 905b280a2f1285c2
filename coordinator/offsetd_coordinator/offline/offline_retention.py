"""`log retain` without its printing: applies or previews retention partition by partition."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs
from offsetd_storage.cleaner.offline_cleaning import viewed_log
from offsetd_storage.retention.log_retention import retain
from offsetd_storage.retention.retention_rules import plan_of_log
from offsetd_storage.views.live_folder import seen_steadily

from offsetd_coordinator.offline.partition_outcomes import PartitionOutcome, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from offsetd_storage.broker_logs import OpenLogs
    from offsetd_storage.clock import Clock
    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import Files
    from offsetd_storage.retention.retention_rules import RetentionPlan
    from offsetd_storage.topic_partition import TopicPartition
    from offsetd_storage.views.folder_view import FolderView, LogView


@attrs.frozen(kw_only=True)
class Retained:
    """The segments that retention deletes from a log, and the log's size before."""

    plan: RetentionPlan
    start_offset: int  # This and the fields below are from before the deletion.
    segments: int
    size_bytes: int


def retained_partitions(
    store: OpenLogs, partitions: Sequence[TopicPartition], *, files: Files, clock: Clock
) -> Iterator[PartitionOutcome[Retained]]:
    """Applies retention to one log after the other. Raises StorageFailed."""
    for each in partitions:
        yield outcome_of(each, partial(_retained, store, each, files=files, clock=clock))


def _retained(
    store: OpenLogs, topic_partition: TopicPartition, *, files: Files, clock: Clock
) -> Retained:
    log = store.log(topic_partition)
    start_offset, segments, size_bytes = log.log_start_offset, len(log.segments), log.size_bytes
    if log.config.is_deleted:
        store.roll(topic_partition, only_if_due=True)
    plan = retain(store, topic_partition, files=files, clock=clock)
    return Retained(plan=plan, start_offset=start_offset, segments=segments, size_bytes=size_bytes)


def previewed_retention(
    folder: FolderView,
    logs: Sequence[LogView],
    config: LogConfig,
    *,
    files: Files,
    clock: Clock,
    log_starts: Mapping[TopicPartition, int],
) -> Iterator[PartitionOutcome[Retained]]:
    """Yields what `retained_partitions` would do. The folder is not changed.

    If a running server swaps segments of a log during the read, that log is read again.
    """
    for log in logs:
        each = log.topic_partition
        look = partial(
            _previewed,
            config=config,
            files=files,
            clock=clock,
            start_offset=log_starts.get(each, 0),
        )
        yield outcome_of(each, partial(seen_steadily, files, folder, log, look))


def _previewed(
    view: LogView, config: LogConfig, files: Files, clock: Clock, start_offset: int
) -> Retained:
    with viewed_log(files, view, config, log_start_offset=start_offset) as log:
        plan = plan_of_log(files, log, now_ms=clock.now_ms(), rolls_if_due=config.is_deleted)
        return Retained(
            plan=plan,
            start_offset=log.log_start_offset,
            segments=len(log.segments),
            size_bytes=log.size_bytes,
        )
