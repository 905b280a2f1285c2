"""Cleaning rounds over a folder that no server has open, and previews of such rounds."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from offsetd_storage.cleaner.cleaning_plan import log_to_clean
from offsetd_storage.cleaner.cleaning_round import clean_and_checkpoint, read_history
from offsetd_storage.cleaner.log_summaries import goes_over_any, log_summary
from offsetd_storage.cleaner.preview import preview_round
from offsetd_storage.errors import FolderMismatch
from offsetd_storage.log.partition_log import PartitionLog
from offsetd_storage.log.segment_files import segment_base_offsets, segment_path
from offsetd_storage.log.segment_scan import scan_file
from offsetd_storage.recovery.quarantine import require_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from offsetd_storage.broker_logs import OpenLogs
    from offsetd_storage.cleaner.cleaning_round import CleanerTools, CleanReport
    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import Files
    from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
    from offsetd_storage.log.segment_scan import SegmentScan
    from offsetd_storage.topic_partition import TopicPartition
    from offsetd_storage.views.folder_view import LogView


def roll_active(store: OpenLogs, partitions: Iterable[TopicPartition]) -> None:
    """Rolls the active segments of these logs, so that all their records can be cleaned.

    Raises StorageFull and StorageFailed.
    """
    for topic_partition in partitions:
        store.roll(topic_partition)
    store.settle_points()


def clean_partition(
    store: OpenLogs,
    topic_partition: TopicPartition,
    tools: CleanerTools,
    checkpoint: CleanerCheckpoint,
) -> CleanReport | None:
    """Cleans a log of an open store once, at any ratio; None if no segment may be cleaned.

    Raises the errors of `clean_and_checkpoint`, and PartitionQuarantined.
    """
    log = store.log(topic_partition)
    history = read_history(log)
    summary = log_summary(
        tools.files,
        log,
        recovery_point=store.recovery_point(topic_partition),
        history=history,
        checkpoint=checkpoint.first_dirty(topic_partition),
    )
    found = log_to_clean(summary, log.config, now_ms=tools.clock.now_ms())
    if not goes_over_any(found, log):
        return None
    with store.latching():
        return clean_and_checkpoint(log, tools, found, checkpoint, history=history)


@contextmanager
def viewed_log(
    files: Files, view: LogView, config: LogConfig, *, log_start_offset: int = 0
) -> Iterator[PartitionLog]:
    """The log of a folder that is only viewed, after a check. Takes no lock and changes nothing.

    The log starts where its recovery point says. Without a recovery point it starts at
    `log_start_offset`, unless that is above its end. Raises DamageFound, FolderMismatch.
    """
    point = view.recovery_point
    scans = _scans(files, view, config)
    if not scans:
        raise FolderMismatch(f"{view.folder} has no segments")
    end = max(scan.offset_next for scan in scans.values())
    log = PartitionLog.open(
        files,
        view.folder,
        view.topic_partition,
        config,
        scans,
        log_start_offset=min(log_start_offset if point is None else point.log_start_offset, end),
    )
    try:
        yield log
    finally:
        log.abandon()


def _scans(files: Files, view: LogView, config: LogConfig) -> dict[int, SegmentScan]:
    """The scans of the segments that may be read, by base offset."""
    point = view.recovery_point
    scans: dict[int, SegmentScan] = {}
    offset_next = 0
    for base_offset in segment_base_offsets(files, view.folder):
        if point is not None and base_offset > point.segment_base_offset:
            break
        path = segment_path(view.folder, base_offset)
        scan = scan_file(
            files,
            path,
            size=view.readable_bytes(base_offset, files.size(path)),
            base_offset=base_offset,
            offset_min=offset_next,
            index_interval_bytes=config.index_interval_bytes,
        )
        scans[base_offset] = require_whole(scan, base_offset)
        offset_next = scan.offset_next
    return scans


def preview_partition(
    view: LogView,
    tools: CleanerTools,
    config: LogConfig,
    *,
    first_dirty: int | None,
    log_start_offset: int = 0,
    rolls_active: bool = False,
) -> CleanReport | None:
    """The report that `clean_partition` would return.

    `first_dirty` comes from the cleaner's checkpoint. With `rolls_active`, the active segment
    counts as rolled. Raises the errors of `viewed_log` and `clean_log`.
    """
    with viewed_log(tools.files, view, config, log_start_offset=log_start_offset) as log:
        return preview_round(
            log,
            tools,
            recovery_point=view.recovery_point,
            first_dirty=first_dirty,
            rolls_active=rolls_active,
        )
