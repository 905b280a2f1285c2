"""What is to be read of a data folder: which segments of which logs, and by which task."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
from offsetd_storage.errors import CorruptCheckpoint, FolderChanged, FolderMismatch, StorageError
from offsetd_storage.folder.checkpoints import read_offset_checkpoint
from offsetd_storage.log.folder_checkpoints import LOG_START_CHECKPOINT
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

_PARTITIONS_MAX: Final = 10_000  # Nobody gives the topic more.
_LOOK_BYTES: Final = 64 << 10


@attrs.frozen(kw_only=True)
class LogPlan:
    """What is to be read of one partition of `__consumer_offsets`, and the files it rests on.

    Records below `log_start_offset` were deleted, though segments may still hold them.
    """

    folder: str
    log_partition: int
    log_start_offset: int
    segments: tuple[Segment, ...]
    figures: LogFigures

    @property
    def is_live(self) -> bool:
        """Whether a server may clean it: then it is read by one task, which holds its files."""
        return self.figures.segment_base_offset is not None


class Piece(NamedTuple):
    """Segments `first` to `end` (which it excludes) of a log."""

    log: LogPlan
    first: int
    end: int

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self.log.segments[self.first : self.end]


class FolderWork(InputPartition):  # type: ignore[misc, unused-ignore]
    """What one task reads: a range of segments, or several where they are small."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)


def plan_folder(
    files: Files, folder: Path, *, is_wanted: Callable[[int], bool]
) -> tuple[FolderView, list[LogPlan]]:
    """The logs of a folder that are wanted, by their number; nothing is locked or changed.

    Raises StorageError (FolderMismatch: there is no offsets log) and OSError.
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
    """What of a log can be read now. Raises FolderChanged while it is cleaned all the time."""

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
    """A piece as it is now, and its files, for as long as it is read.

    Of a live log all files are opened before anything is read, and it is planned anew until they
    are those of one moment; so what a server does meanwhile changes nothing. Else it is looked at
    the end whether all files stayed the same. Raises FolderChanged, also instead of what reading
    raises because of that.
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
            " somebody writes to it. Read it again, or read a copy of it"
        )


def find_log(files: Files, folder: str, log_partition: int) -> tuple[FolderView, LogView]:
    """A log as it is now. Raises FolderChanged if it is there no more, and as `plan_folder`."""
    view = read_folder(files, Path(folder))
    for log in view.logs:
        named = log.topic_partition
        if named.topic == OFFSETS_TOPIC and named.partition == log_partition:
            return view, log
    raise FolderChanged(f"partition {log_partition} of {folder} is there no more")


def segments_of(files: Files, log: LogView) -> tuple[Segment, ...]:
    """What can be read of a log's segments now. Raises FileNotFoundError while it is cleaned."""
    found = []
    for base_offset in segment_base_offsets(files, log.folder):
        path = segment_path(log.folder, base_offset)
        size = log.readable_bytes(base_offset, files.size(path))
        if size:
            found.append(Segment(path=str(path), base_offset=base_offset, size_bytes=size))
    return tuple(found)


def log_start_of(files: Files, view: FolderView, log: LogView) -> int:
    """Records below were deleted."""
    if log.recovery_point is not None:
        return log.recovery_point.log_start_offset
    try:
        named = read_offset_checkpoint(files, view.folder / LOG_START_CHECKPOINT)
    except CorruptCheckpoint:
        return 0  # As at a start: what is there then counts.
    return named.get(log.topic_partition, 0)


def divide(logs: Iterable[LogPlan], *, range_bytes: int, by_segment: bool) -> list[FolderWork]:
    """The work of each task, about `range_bytes`; a log is divided only `by_segment`."""
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
    """Where these groups are; None: anywhere, as it is not known how many partitions there are."""
    if offsets_partitions is None:
        return None
    return frozenset(partition_of(group, offsets_partitions) for group in groups)


def known_partition_count(files: Files, view: FolderView) -> int | None:
    """How many partitions `__consumer_offsets` has, if the folder leaves no doubt.

    A broker's folder does not say it, and need not have them all: so it has to be borne out by
    where some groups are, and no other count may be. How many groups agree says little: names that
    are numbered are placed side by side, by many counts alike.
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
    """The groups of the log's first readable batches, if they name any."""

    def passed_over(_: Damage) -> None:
        """Another task tells of it."""

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
