"""`log retain` without its printing: what becomes of each partition."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs
from offsetd_storage.cleaner.clean import open_folder
from offsetd_storage.errors import StorageError, StorageFailed
from offsetd_storage.log_retention import retain
from offsetd_storage.quarantine import DamageFound
from offsetd_storage.retention import SegmentFigures, plan_retention, segment_figures

from offsetd_coordinator.live_folder import seen_steadily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from offsetd_storage.clock import Clock
    from offsetd_storage.files import Files
    from offsetd_storage.folder_view import FolderView, LogView
    from offsetd_storage.log_config import LogConfig
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.partition_log import PartitionLog
    from offsetd_storage.retention import RetentionPlan
    from offsetd_storage.topic_partition import TopicPartition


@attrs.frozen(kw_only=True)
class Retained:
    """What of a log went, or would go, of how much."""

    plan: RetentionPlan
    start_offset: int  # Before.
    segments: int
    size_bytes: int


@attrs.frozen(kw_only=True)
class RetentionOutcome:
    """What became of a partition, or why nothing."""

    topic_partition: TopicPartition
    retained: Retained | None = None
    problem: str | None = None


def retained_partitions(
    store: LogStore, partitions: Sequence[TopicPartition], *, files: Files, clock: Clock
) -> Iterator[RetentionOutcome]:
    """Takes away what is due, of one log after the other. Raises StorageFailed."""
    for each in partitions:
        yield _outcome(each, partial(_retained, store, each, files=files, clock=clock))


def _retained(
    store: LogStore, topic_partition: TopicPartition, *, files: Files, clock: Clock
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
) -> Iterator[RetentionOutcome]:
    """What `retained_partitions` would do, without a change to the folder.

    A server may clean it meanwhile: what it exchanged is looked at again.
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
        yield _outcome(each, partial(seen_steadily, files, folder, log, look))


def _previewed(
    view: LogView, config: LogConfig, files: Files, clock: Clock, start_offset: int
) -> Retained:
    point = view.recovery_point
    log = open_folder(
        view.folder,
        files,
        config,
        settles=False,
        recovery_point=point,
        log_start_offset=start_offset if point is None else point.log_start_offset,
    )
    try:
        now_ms = clock.now_ms()
        plan = plan_retention(
            _figures(files, log, now_ms),
            config,
            log_start_offset=log.log_start_offset,
            high_watermark=log.offset_next,
            now_ms=now_ms,
        )
        return Retained(
            plan=plan,
            start_offset=log.log_start_offset,
            segments=len(log.segments),
            size_bytes=log.size_bytes,
        )
    finally:
        log.abandon()


def _figures(files: Files, log: PartitionLog, now_ms: int) -> list[SegmentFigures]:
    """As they are once an active segment that is due by the clock has been rolled."""
    figures = segment_figures(files, log)
    if log.config.is_deleted and log.segments[-1].is_overdue(now_ms):
        active = SegmentFigures(
            base_offset=log.offset_next,
            offset_next=log.offset_next,
            size_bytes=0,
            largest_timestamp_ms=-1,
            modified_ms=now_ms,
        )
        figures.append(active)
    return figures


def _outcome(topic_partition: TopicPartition, retained: Callable[[], Retained]) -> RetentionOutcome:
    try:
        return RetentionOutcome(topic_partition=topic_partition, retained=retained())
    except StorageFailed:
        raise
    except DamageFound as found:
        problem = str(found.of(topic_partition))
    except (StorageError, OSError) as error:
        problem = str(error)
    return RetentionOutcome(topic_partition=topic_partition, problem=problem)
