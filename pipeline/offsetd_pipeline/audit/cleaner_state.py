"""Computes the state of each log by the cleaner's own rules, without cleaning it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from offsetd_storage.cleaner.cleaner_thread import new_map
from offsetd_storage.cleaner.cleaning_plan import log_to_clean
from offsetd_storage.cleaner.cleaning_round import CleanerTools, read_history
from offsetd_storage.cleaner.log_summaries import log_summary
from offsetd_storage.cleaner.offline_cleaning import viewed_log
from offsetd_storage.cleaner.preview import preview_round
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.configuration.server_config import CleanerConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import (
    CorruptBatch,
    CorruptCheckpoint,
    OldMessageFormat,
    StorageError,
)
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint
from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
from offsetd_storage.log.kafka_checkpoints import LOG_START_CHECKPOINT
from offsetd_storage.recovery.quarantine import DamageFound
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import read_folder
from offsetd_storage.views.live_folder import seen_steadily

from offsetd_pipeline.compile_notice import say_if_kernels_compile
from offsetd_pipeline.kernels.fields import LOG_OFFSET
from offsetd_pipeline.read_options import OnDamage
from offsetd_pipeline.segments import DamagedSegment, Segment, SegmentFiles, read_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.segment import Segment as LogSegment
    from offsetd_storage.views.folder_view import FolderView, LogView
    from pyspark.sql import SparkSession

    from offsetd_pipeline.segments import Damage

LOG_STATES: Final = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("segments", pa.int32()),
        ("log_bytes", pa.int64()),
        ("log_start_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("complete_from", pa.int64()),
        ("first_dirty_offset", pa.int64()),
        ("first_uncleanable_offset", pa.int64()),
        ("clean_bytes", pa.int64()),
        ("dirty_bytes", pa.int64()),
        ("dirty_ratio", pa.float64()),
        ("is_due", pa.bool_()),
        ("saved_bytes", pa.int64()),
        ("saved_records", pa.int64()),
        ("rolled_saved_bytes", pa.int64()),
        ("rolled_saved_records", pa.int64()),
        ("problem", pa.string()),
    ]
)
"""A row for each log partition.

Starting at `complete_from`, the log has all records. The savings are those of a round that runs
now, and of one after the active segment was rolled. A damaged log has only `problem`.
"""


def log_states(
    spark: SparkSession,
    folder: str,
    log_partitions: Sequence[int],
    *,
    config: LogConfig,
    now_ms: int,
    on_damage: OnDamage,
) -> pa.Table:
    """Inspects these logs with a task for each; see `LOG_STATES`. `config` has their settings.

    Raises StorageError for a log that cannot be read, or is damaged, unless damage is skipped.
    """
    look = partial(_state_or_why, Path(folder), config=config, now_ms=now_ms)
    # This does not use `mapInArrow`, which needs pandas.
    numbers = spark.sparkContext.parallelize(log_partitions, max(len(log_partitions), 1))
    rows = []
    for is_damaged, row in sorted(numbers.map(look).collect(), key=lambda found: _number(found[1])):
        if "problem" in row and not (is_damaged and on_damage is OnDamage.SKIP):
            raise StorageError(f"{OFFSETS_TOPIC}-{_number(row)}: {row['problem']}")
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=LOG_STATES)


def _number(row: dict[str, Any]) -> int:
    found: int = row["log_partition"]
    return found


def _state_or_why(
    folder: Path, log_partition: int, *, config: LogConfig, now_ms: int
) -> tuple[bool, dict[str, Any]]:
    """Returns a log's state or the problem, and whether the problem is damage.

    A task's result must be plain values: errors may not survive the way to the driver.
    """
    try:
        return False, log_state(folder, log_partition, config=config, now_ms=now_ms)
    except DamageFound as error:
        return True, {
            "log_partition": log_partition,
            "problem": _placed(error, folder, log_partition),
        }
    except (CorruptBatch, OldMessageFormat, DamagedSegment) as error:
        return True, {"log_partition": log_partition, "problem": str(error)}
    except (StorageError, OSError) as error:
        return False, {"log_partition": log_partition, "problem": str(error)}


def _placed(damage: DamageFound, folder: Path, log_partition: int) -> str:
    """The damage, with the segment's file and position, as far as they are known."""
    if damage.base_offset is None:
        return damage.reason
    path = folder / f"{OFFSETS_TOPIC}-{log_partition}" / f"{damage.base_offset:020d}.log"
    return f"{path}: {damage.reason} at byte {damage.position}; --on-damage skip reads on after it"


def log_state(
    folder: Path, log_partition: int, *, config: LogConfig, now_ms: int
) -> dict[str, Any]:
    """A row of `LOG_STATES`. A server may clean the log during the call.

    Raises DamageFound, StorageError, OSError.
    """
    say_if_kernels_compile()
    files = OsFiles()
    view = read_folder(files, folder)
    log = next(
        each
        for each in view.logs
        if each.topic_partition == TopicPartition(OFFSETS_TOPIC, log_partition)
    )
    return seen_steadily(files, view, log, _look(files, view, config, now_ms))


def _look(
    files: Files, view: FolderView, config: LogConfig, now_ms: int
) -> Callable[[LogView], dict[str, Any]]:
    checkpoint = CleanerCheckpoint(files, view.folder)
    try:
        starts = read_offset_checkpoint(files, view.folder / LOG_START_CHECKPOINT)
    except CorruptCheckpoint:
        # The start of a server does the same: without the file, it takes all records that exist.
        starts = {}
    tools = CleanerTools(
        files=files,
        offset_map=new_map(CleanerConfig(), hash_key=os.urandom(16)),
        clock=ManualClock(now_ms),
    )

    def look(log_view: LogView) -> dict[str, Any]:
        start = starts.get(log_view.topic_partition, 0)
        with viewed_log(files, log_view, config, log_start_offset=start) as log:
            first_dirty = checkpoint.first_dirty(log_view.topic_partition)
            return _state(log, log_view, tools, first_dirty)

    return look


def _state(
    log: PartitionLog, view: LogView, tools: CleanerTools, checkpoint: int | None
) -> dict[str, Any]:
    point = view.recovery_point
    summary = log_summary(
        tools.files,
        log,
        recovery_point=point,
        history=read_history(log),
        checkpoint=checkpoint,
    )
    found = log_to_clean(summary, log.config, now_ms=tools.clock.now_ms())
    rounds = [
        preview_round(
            log, tools, recovery_point=point, first_dirty=checkpoint, rolls_active=rolls_active
        )
        for rolls_active in (False, True)
    ]
    return {
        "log_partition": view.topic_partition.partition,
        "segments": len(log.segments),
        "log_bytes": sum(each.size_bytes for each in log.segments),
        "log_start_offset": log.log_start_offset,
        "end_offset": log.offset_next,
        "complete_from": _complete_from(tools.files, log),
        "first_dirty_offset": found.first_dirty,
        "first_uncleanable_offset": found.first_uncleanable,
        "clean_bytes": found.clean_bytes,
        "dirty_bytes": found.cleanable_bytes,
        "dirty_ratio": found.cleanable_ratio,
        "is_due": found.is_due,
        **_saved(rounds[0], ""),
        **_saved(rounds[1], "rolled_"),
    }


def _complete_from(files: Files, log: PartitionLog) -> int:
    """The start of the part in which no record is missing. Reads the newest segments first."""
    if log.gapless_from <= log.log_start_offset:
        # The log's own value proves this. A scan of the records would count transactions as gaps.
        return log.log_start_offset
    following = log.offset_next
    for segment in reversed(log.segments):
        if segment.offset_next < following:
            return following
        behind_gap = _behind_gap(files, segment)
        if behind_gap is not None:
            return max(log.log_start_offset, behind_gap)
        following = segment.base_offset
    return max(log.log_start_offset, following)


def _behind_gap(files: Files, segment: LogSegment) -> int | None:
    """The offset after the last gap of a segment; None if it has all records."""
    found = None
    offset_next = segment.base_offset
    readable = Segment(
        path=str(segment.path),
        base_offset=segment.base_offset,
        size_bytes=segment.written_bytes,
    )
    for rows in read_segment(SegmentFiles(files), readable, damaged=_raise_damage):
        offsets = rows.fields[:, LOG_OFFSET]
        gaps = np.flatnonzero(np.diff(offsets, prepend=offset_next - 1) != 1)
        if gaps.size:
            found = int(offsets[gaps[-1]])
        offset_next = int(offsets[-1]) + 1
    return found if offset_next == segment.offset_next else segment.offset_next


def _raise_damage(damage: Damage) -> None:
    raise DamagedSegment(damage)


def _saved(report: CleanReport | None, prefix: str) -> dict[str, int]:
    """The saving of a round. `report` is None if there is nothing to clean.

    Horizons may need a few more bytes.
    """
    if report is None:
        return {f"{prefix}saved_bytes": 0, f"{prefix}saved_records": 0}
    return {
        f"{prefix}saved_bytes": report.bytes_read - report.bytes_written,
        f"{prefix}saved_records": report.messages_read - report.messages_written,
    }
