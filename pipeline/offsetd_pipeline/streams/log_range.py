"""A range of a log that one task reads. The task raises an error if planned records are missing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.views.live_folder import LogFigures

from offsetd_pipeline.folder_plan import LogPlan, Piece, find_log, plan_log
from offsetd_pipeline.segments import SegmentFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.disk.files import File, Files

    from offsetd_pipeline.segments import Segment

_OFFSET_BYTES: Final = 8
_NO_FIGURES: Final = LogFigures(segments=frozenset(), segment_base_offset=None)


@attrs.frozen(kw_only=True)
class LogRange:
    """The `record_count` records of a log with offsets from `start` to `end` (exclusive).

    `segments` hold them; `behind` are the segments to search for the ends of their transactions.
    The planner read the last segment of the log up to the batch at `offset_next`. The segment may
    have grown since.
    """

    folder: str
    log_partition: int
    start: int
    end: int
    record_count: int
    segments: tuple[Segment, ...]
    behind: tuple[Segment, ...]
    last_base_offset: int
    offset_next: int

    @property
    def size_bytes(self) -> int:
        """An upper bound of the bytes to read."""
        return sum(each.size_bytes - each.start_bytes for each in self.segments)

    @property
    def piece(self) -> Piece:
        """The planned segments."""
        log = LogPlan(
            folder=self.folder,
            log_partition=self.log_partition,
            log_start_offset=0,
            segments=self.segments + self.behind,
            figures=_NO_FIGURES,
        )
        return Piece(log, 0, len(self.segments))


@contextmanager
def opened_range(files: Files, wanted: LogRange) -> Iterator[tuple[Piece, SegmentFiles]]:
    """The segments of a range, with files that stay the same during the read.

    If a server has cleaned the planned segments, the log's segments are listed again. Records may
    then be missing; the caller detects this by counting. Raises the errors of `plan_folder`.
    """
    with SegmentFiles(files) as opened:
        if _are_as_planned(opened, wanted):
            yield wanted.piece, opened
            return
        opened.release()
        view, log = find_log(files, wanted.folder, wanted.log_partition)
        plan = plan_log(files, view, log, held_by=opened)
        bases = [each.base_offset for each in plan.segments]
        first = max(bisect_right(bases, wanted.start) - 1, 0)
        yield Piece(plan, first, max(bisect_left(bases, wanted.end), first)), opened


def _are_as_planned(opened: SegmentFiles, wanted: LogRange) -> bool:
    """Opens the files. Cleaning only removes records: a file of the same size misses nothing."""
    segments = wanted.segments + wanted.behind
    try:
        opened.hold(segments)
        for segment in segments:
            with opened.opened(segment) as file:
                is_last = segment.base_offset == wanted.last_base_offset
                if not is_as_known(file, segment, wanted.offset_next if is_last else None):
                    return False
    except FileNotFoundError:
        return False
    first = wanted.segments[0]
    with opened.opened(first) as file:
        return not first.start_bytes or (
            base_offset_at(file, first.start_bytes) == first.start_offset
        )


def is_as_known(file: File, segment: Segment, offset_next: int | None) -> bool:
    """Whether a segment is the same as when it was planned.

    `offset_next` is the offset up to which the last segment was read. It may have grown since.
    """
    size = file.size()
    if size == segment.size_bytes:
        return True
    if offset_next is None or size < segment.size_bytes:
        return False
    # After the part that was read, there are only later batches, or zeros, which are not a batch.
    return base_offset_at(file, segment.size_bytes) in (0, offset_next)


def base_offset_at(file: File, position: int) -> int | None:
    """The base offset of the batch at `position`; None if the file ends before it."""
    found = file.pread(_OFFSET_BYTES, position)
    return int.from_bytes(found, "big", signed=True) if len(found) == _OFFSET_BYTES else None
