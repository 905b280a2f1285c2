"""Plans the read of a data folder: assigns segments of logs to tasks."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
from offsetd_storage.errors import CorruptCheckpoint, FolderChanged, FolderMismatch, StorageError
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint
from offsetd_storage.log.kafka_checkpoints import LOG_START_CHECKPOINT
from offsetd_storage.log.segment_files import segment_base_offsets, segment_path
from offsetd_storage.log.store_config import OFFSETS_TOPIC
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.views.folder_view import read_folder
from offsetd_storage.views.live_folder import LogFigures, figures_of, seen_with_figures
from pyspark.sql.datasource import InputPartition

from offsetd_pipeline.kernels.fields import GROUP_SIZE, GROUP_START
from offsetd_pipeline.segments import Segment, SegmentFiles, read_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from offsetd_storage.disk.files import Files
    from offsetd_storage.views.folder_view import FolderView, LogView

    from offsetd_pipeline.segments import Damage

_PARTITIONS_MAX: Final = 10_000  # Larger numbers of partitions are not considered.
_LOOK_BYTES: Final = 64 << 10


@attrs.frozen(kw_only=True)
class LogPlan:
    """The part of one partition of `__consumer_offsets` that must be read, and its files.

    Records below `log_start_offset` were deleted, though segments may still hold them.
    """

    folder: str
    log_partition: int
    log_start_offset: int
    segments: tuple[Segment, ...]
    figures: LogFigures

    @property
    def is_live(self) -> bool:
        """Whether a server may clean the log. One task then reads it, and holds its files open."""
        return self.figures.segment_base_offset is not None


class Piece(NamedTuple):
    """The segments `first` to `end` (exclusive) of a log."""

    log: LogPlan
    first: int
    end: int

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self.log.segments[self.first : self.end]


class FolderWork(InputPartition):  # type: ignore[misc, unused-ignore]
    """The work of one task: a range of segments, or several small ones."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)


def plan_folder(
    files: Files, folder: Path, *, is_wanted: Callable[[int], bool]
) -> tuple[FolderView, list[LogPlan]]:
    """The wanted logs of a folder, by number. It locks and changes nothing.

    Raises StorageError (FolderMismatch: the folder has no offsets log) and OSError.
    """
    view = read_folder(files, folder)
    logs = [each for each in view.logs if each.topic_partition.topic == OFFSETS_TOPIC]
    if not logs:
        raise FolderMismatch(f"{folder} has no partition of {OFFSETS_TOPIC}")
    return view, [
        plan_log(files, view, log) for log in logs if is_wanted(log.topic_partition.partition)
    ]


def plan_log(
    files: Files, view: FolderView, log: LogView, *, held_by: SegmentFiles | None = None
) -> LogPlan:
    """The part of a log that can be read now.

    Raises FolderChanged if the log is cleaned again during each attempt.
    """

    def look(log: LogView) -> tuple[tuple[Segment, ...], int]:
        segments = segments_of(files, log)
        if held_by is not None:
            held_by.release()
            held_by.hold(segments)
        return segments, log_start_of(files, view, log)

    (segments, log_start_offset), figures = seen_with_figures(files, view, log, look)
    return LogPlan(
        folder=str(view.folder),
        log_partition=log.topic_partition.partition,
        log_start_offset=log_start_offset,
        segments=segments,
        figures=figures,
    )


@contextmanager
def opened_piece(files: Files, piece: Piece) -> Iterator[tuple[Piece, SegmentFiles]]:
    """A piece with its present segments and their files, for the duration of a read.

    All files of a live log are opened before anything is read. If they do not belong to the same
    state of the log, the log is planned again. So later changes by a server have no effect. Files
    of other logs are checked after the read for changes. Raises FolderChanged, also in place of a
    read error that such a change explains.
    """
    with SegmentFiles(files) as opened:
        if piece.log.is_live:
            yield _held(files, piece.log, opened), opened
            return
        try:
            yield piece, opened
        except (OSError, StorageError):
            _check_unchanged(files, piece.log)
            raise
        _check_unchanged(files, piece.log)


def _held(files: Files, log: LogPlan, opened: SegmentFiles) -> Piece:
    view, found = find_log(files, log.folder, log.log_partition)
    plan = plan_log(files, view, found, held_by=opened)
    return Piece(plan, 0, len(plan.segments))


def _check_unchanged(files: Files, plan: LogPlan) -> None:
    try:
        figures = figures_of(files, *find_log(files, plan.folder, plan.log_partition))
    except (StorageError, OSError):
        figures = None
    if figures != plan.figures:
        raise FolderChanged(
            f"partition {plan.log_partition} of {plan.folder} changed while it was read:"
            " something writes to it. Read it again, or read a copy of it"
        )


def find_log(files: Files, folder: str, log_partition: int) -> tuple[FolderView, LogView]:
    """The present state of a log.

    Raises FolderChanged if it is gone, and the errors of `plan_folder`.
    """
    view = read_folder(files, Path(folder))
    for log in view.logs:
        named = log.topic_partition
        if named.topic == OFFSETS_TOPIC and named.partition == log_partition:
            return view, log
    raise FolderChanged(f"partition {log_partition} of {folder} is there no more")


def segments_of(files: Files, log: LogView) -> tuple[Segment, ...]:
    """The readable parts of a log's segments. Raises FileNotFoundError during a cleaning."""
    found = []
    for base_offset in segment_base_offsets(files, log.folder):
        path = segment_path(log.folder, base_offset)
        size = log.readable_bytes(base_offset, files.size(path))
        if size:
            found.append(Segment(path=str(path), base_offset=base_offset, size_bytes=size))
    return tuple(found)


def log_start_of(files: Files, view: FolderView, log: LogView) -> int:
    """The log start: records below it were deleted."""
    if log.recovery_point is not None:
        return log.recovery_point.log_start_offset
    try:
        named = read_offset_checkpoint(files, view.folder / LOG_START_CHECKPOINT)
    except CorruptCheckpoint:
        # The start of a server does the same: without the file, it takes all records that exist.
        return 0
    return named.get(log.topic_partition, 0)


def divide(logs: Iterable[LogPlan], *, range_bytes: int, by_segment: bool) -> list[FolderWork]:
    """Divides the work into tasks of about `range_bytes`.

    A log is divided only with `by_segment`.
    """
    works: list[FolderWork] = []
    pieces: list[Piece] = []
    size = 0
    for piece in _pieces(logs, range_bytes, by_segment=by_segment):
        piece_bytes = sum(segment.size_bytes for segment in piece.segments)
        if pieces and size + piece_bytes > range_bytes:
            works.append(FolderWork(pieces))
            pieces, size = [], 0
        pieces.append(piece)
        size += piece_bytes
    return [*works, FolderWork(pieces)] if pieces else works


def _pieces(logs: Iterable[LogPlan], range_bytes: int, *, by_segment: bool) -> Iterator[Piece]:
    for log in logs:
        first = size = 0
        for number, segment in enumerate(log.segments):
            is_full = number > first and size + segment.size_bytes > range_bytes
            if by_segment and is_full and not log.is_live:
                yield Piece(log, first, number)
                first, size = number, 0
            size += segment.size_bytes
        if log.segments:
            yield Piece(log, first, len(log.segments))


def partitions_of_groups(
    groups: Iterable[str], offsets_partitions: int | None
) -> frozenset[int] | None:
    """The log partitions of these groups.

    Returns None if they can be in any, because the number of partitions is not known.
    """
    if offsets_partitions is None:
        return None
    return frozenset(partition_of(group, offsets_partitions) for group in groups)


def known_partition_count(files: Files, view: FolderView) -> int | None:
    """The number of partitions of `__consumer_offsets`, if the folder proves it.

    A broker's folder does not record it, and need not have all partitions. So the places of some
    groups must confirm the number, and rule out all others. Many groups that agree with a number do
    not prove it: names with consecutive numbers are in neighbouring partitions under many numbers
    of partitions.
    """
    placed = [
        (group, log.topic_partition.partition)
        for log in view.logs
        if log.topic_partition.topic == OFFSETS_TOPIC
        for group in _first_groups(files, log)
    ]

    def fits(count: int) -> bool:
        return all(partition_of(group, count) == partition for group, partition in placed)

    named = view.offsets_partitions
    others = range(named + 1, _PARTITIONS_MAX + 1)
    return named if fits(named) and not any(map(fits, others)) else None


def _first_groups(files: Files, log: LogView) -> set[str]:
    """The groups that the log's first readable batches name."""

    def passed_over(_: Damage) -> None:
        """Ignores damage that another task reports."""

    try:
        for segment in segments_of(files, log):
            size = min(segment.size_bytes, _LOOK_BYTES)
            looked_at = attrs.evolve(segment, size_bytes=size)
            for rows in read_segment(SegmentFiles(files), looked_at, damaged=passed_over):
                named = rows.fields[rows.fields[:, GROUP_SIZE] >= 0]
                if len(named):
                    starts, sizes = named[:, GROUP_START], named[:, GROUP_SIZE]
                    spans = set(zip(starts.tolist(), (starts + sizes).tolist(), strict=True))
                    return {rows.buffer[start:end].tobytes().decode() for start, end in spans}
    except FileNotFoundError:
        return set()
    return set()
