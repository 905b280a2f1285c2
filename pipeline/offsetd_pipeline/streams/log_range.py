"""A stretch of a log that a task reads: it gives what was there when it was planned, or tells."""

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
    """The `record_count` records of a log with offsets from `start` to `end`, which it excludes.

    `segments` hold them; `behind` are those in which ends of their transactions are looked for.
    The last segment of the log was read up to where `offset_next` begins, and may have grown since.
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
        """What is read, at most."""
        return sum(each.size_bytes - each.start_bytes for each in self.segments)

    @property
    def piece(self) -> Piece:
        """As it was planned."""
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
    """The segments of a range, and their files, which stay as they are for as long as it is read.

    Where they are not those that were planned, as a server has cleaned since, it is looked for
    anew; then records may be gone, which who counts them notices. Raises as `plan_folder`.
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
    """Opens the files. Cleaning only takes away: of the same size, nothing is missing."""
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
    """Whether a segment is what it was when it was looked at.

    `offset_next`: of the last one, which may have grown since, where it was read up to; else None.
    """
    size = file.size()
    if size == segment.size_bytes:
        return True
    if offset_next is None or size < segment.size_bytes:
        return False
    # Behind what was read only what came later has its place; zeros are none.
    return base_offset_at(file, segment.size_bytes) in (0, offset_next)


def base_offset_at(file: File, position: int) -> int | None:
    """The offset that the batch at `position` begins with; None: the file ends before."""
    found = file.pread(_OFFSET_BYTES, position)
    return int.from_bytes(found, "big", signed=True) if len(found) == _OFFSET_BYTES else None
