"""A read-only view of a data folder, without a lock.

If a server has the folder open, or had it open when it crashed, only batches below the recovery
points are settled: above them a batch may be half written, unacknowledged, or cut by the next
start. Otherwise everything may be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.errors import CorruptCheckpoint, FolderMismatch
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint
from offsetd_storage.folder.folder_format import CLEAN_SHUTDOWN_NAME, read_properties
from offsetd_storage.log.kafka_checkpoints import RECOVERY_POINT_CHECKPOINT
from offsetd_storage.log.store_config import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.recovery_point_reader import DurablePoints

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.journal.journal_format import RecoveryPoint


@attrs.frozen(kw_only=True)
class LogView:
    """One partition's log. Read it up to `recovery_point`, or all of it if that is None."""

    topic_partition: TopicPartition
    folder: Path
    recovery_point: RecoveryPoint | None
    # The last recovery point that offsetd wrote, even if the folder is closed. None if there is
    # none, or if a broker may have had the folder since.
    last_point: RecoveryPoint | None = None

    def readable_bytes(self, base_offset: int, size: int) -> int:
        """The number of bytes that may be read of a segment whose file has `size` bytes."""
        point = self.recovery_point
        if point is None or base_offset < point.segment_base_offset:
            return size
        return min(size, point.segment_bytes) if base_offset == point.segment_base_offset else 0


@attrs.frozen(kw_only=True)
class FolderView:
    """The logs of a data folder, by topic and partition.

    `offsets_partitions` is the number of partitions of `__consumer_offsets`; in a broker's folder,
    it is one more than the highest number of a partition there. `is_settled` is false if logs may
    be read only up to their recovery points.
    """

    folder: Path
    logs: tuple[LogView, ...]
    offsets_partitions: int
    is_settled: bool
    # Partitions that had records, but have no folder any more.
    missing: tuple[TopicPartition, ...] = ()
    _points: DurablePoints | None = attrs.field(default=None, eq=False, repr=False)

    def seen_again(self, files: Files) -> FolderView:
        """The folder now. Reads only the new part of the journal.

        Raises the errors of `read_folder`.
        """
        return _read_folder(files, self.folder, self._points)


def read_folder(files: Files, folder: Path) -> FolderView:
    """Finds the partitions of a folder, offsetd's or a broker's.

    Raises FolderMismatch (it has no partition, or its properties are damaged), NewerFormat,
    JournalDamaged, OSError.
    """
    return _read_folder(files, folder, None)


def _read_folder(files: Files, folder: Path, journal: DurablePoints | None) -> FolderView:
    if not files.is_folder(folder):
        what = "is not a folder" if files.exists(folder) else "does not exist"
        raise FolderMismatch(f"{folder} {what}")
    properties = read_properties(files, folder)
    partitions = sorted(
        (
            topic_partition
            for name in files.list_folder(folder)
            if (topic_partition := TopicPartition.of_folder(name)) is not None
            and files.is_folder(folder / name)
        ),
        # This key is ten times as fast as the order of TopicPartition.
        key=lambda each: (each.topic, each.partition),
    )
    if not partitions:
        raise FolderMismatch(f"{folder} has no partition folders: it is not a data folder")
    points = None
    last_points: Mapping[TopicPartition, RecoveryPoint] = {}
    if properties is None:
        journal = None
    else:
        if journal is None or journal.identity != properties.identity:
            journal = DurablePoints(files, folder, properties.identity)
        points = journal.read(begun=properties.journal_begun)
        if not files.exists(folder / CLEAN_SHUTDOWN_NAME):
            last_points = journal.last_points
    return FolderView(
        folder=folder,
        logs=tuple(_log_view(folder, each, points or {}, last_points) for each in partitions),
        offsets_partitions=(
            _highest_partition(files, folder, partitions) + 1
            if properties is None
            else properties.offsets_partitions
        ),
        is_settled=points is None,
        missing=tuple(
            sorted(
                each
                for each, point in last_points.items()
                if each not in partitions and (point.held or point.offset > point.log_start_offset)
            )
        ),
        points=journal,
    )


def _log_view(
    folder: Path,
    topic_partition: TopicPartition,
    points: Mapping[TopicPartition, RecoveryPoint],
    last_points: Mapping[TopicPartition, RecoveryPoint],
) -> LogView:
    point = points.get(topic_partition)
    last = last_points.get(topic_partition)
    return LogView(
        topic_partition=topic_partition,
        folder=folder / topic_partition.folder_name,
        # No process writes to a partition in quarantine.
        recovery_point=None if point is None or point.held else point,
        last_point=None if last is None or last.held else last,
    )


def _highest_partition(files: Files, folder: Path, partitions: list[TopicPartition]) -> int:
    try:
        named = read_offset_checkpoint(files, folder / RECOVERY_POINT_CHECKPOINT)
    except CorruptCheckpoint:
        named = {}
    return max(
        (each.partition for each in (*partitions, *named) if each.topic == OFFSETS_TOPIC),
        default=-1,
    )
