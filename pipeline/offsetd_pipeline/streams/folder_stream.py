"""A stream over a data folder: by log offsets in each log partition."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from offsetd_storage.errors import FolderChanged, FolderMismatch
from offsetd_storage.log.segment_files import segment_base_offsets
from offsetd_storage.log.store_config import OFFSETS_TOPIC
from offsetd_storage.views.folder_view import read_folder

from offsetd_pipeline.folder_plan import log_start_of, plan_log, segments_of
from offsetd_pipeline.read_options import OnDamage
from offsetd_pipeline.segments import DamagedSegment, SegmentFiles
from offsetd_pipeline.streams.errors import PositionAboveEnd, RecordsLost
from offsetd_pipeline.streams.limits import shares
from offsetd_pipeline.streams.log_tail import LogTail, PlacesMoved
from offsetd_pipeline.streams.options import EARLIEST, LATEST
from offsetd_pipeline.streams.positions import Positions
from offsetd_pipeline.tables import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offsetd_storage.disk.files import Files
    from offsetd_storage.views.folder_view import FolderView, LogView

    from offsetd_pipeline.segments import Damage, Segment
    from offsetd_pipeline.streams.limits import Limit
    from offsetd_pipeline.streams.log_range import LogRange
    from offsetd_pipeline.streams.options import StreamOptions

_Found = TypeVar("_Found")

_log = logging.getLogger(__name__)

_LOOKS_MAX: Final = 3


class _Ahead(NamedTuple):
    """A range of a log partition that a batch may read, and its size."""

    log_partition: int
    start: int
    end: int
    record_count: int
    size_bytes: int


class FolderStream:
    """Finds new records in a folder: each call reads its present state. The driver uses it.

    All methods raise StorageError (FolderChanged: the folder keeps changing) and OSError.
    """

    def __init__(self, files: Files, options: StreamOptions) -> None:
        self._files = files
        self._options = options
        self._folder = Path(options.path or "")
        self._view: FolderView | None = None
        self._tails: dict[int, LogTail] = {}
        self._listed: dict[int, tuple[Segment, ...]] = {}
        self._missed: set[int] = set()

    def begin(self) -> Positions:
        """The start of a new query, by `starting_offsets`.

        Raises ValueError, PositionAboveEnd, and FolderMismatch if there is no offsets log yet.
        """
        return self._steadily(self._begin)

    def ends(self) -> Positions:
        """The present ends of the logs, including open transactions."""
        return self._steadily(
            lambda: Positions(offsets={each: self._end(log) for each, log in self._look().items()})
        )

    def latest(self) -> Positions:
        """The log offsets up to which a stream could read now. Reads the new parts of the logs."""
        return self._steadily(self._latest)

    def bounded(self, start: Positions, limit: Limit, until: Positions | None) -> Positions:
        """The end of a batch that begins at `start`: at most `until`, and within the limit.

        A log partition that is missing in `start` is begun, and read by the next batch. Raises
        RecordsLost, PositionAboveEnd.
        """
        return self._steadily(lambda: self._bounded(start, limit, until))

    def ranges(self, start: Positions, end: Positions) -> list[LogRange]:
        """The ranges that a batch reads. Raises RecordsLost, PositionAboveEnd."""
        return self._steadily(lambda: self._ranges(start, end))

    def commit(self, end: Positions) -> None:
        """Forgets everything below `end`: no later call needs it."""
        for each, offset in end.offsets.items():
            if each in self._tails:
                self._tails[each].forget(offset)

    def _steadily(self, look: Callable[[], _Found]) -> _Found:
        """Calls `look`. If segments were cleaned during it, drops known places and retries."""
        for _ in range(_LOOKS_MAX):
            try:
                return look()
            except (PlacesMoved, FileNotFoundError):
                self._tails.clear()
                self._listed.clear()
        raise FolderChanged(f"{self._folder} keeps changing while it is read")

    # Positions

    def _begin(self) -> Positions:
        logs = self._look()
        if not logs:
            raise FolderMismatch(f"{self._folder} has no partition of {OFFSETS_TOPIC}")
        starting = self._options.starting_offsets
        if starting == LATEST:
            return Positions(offsets={each: self._end(log) for each, log in logs.items()})
        if isinstance(starting, str):
            assert starting == EARLIEST, "options are checked"
            named = {each: self._earliest(log) for each, log in logs.items()}
        else:
            named = dict(Positions.of(starting).offsets)
        gaps = {}
        for each, position in named.items():
            if each not in logs:
                raise ValueError(f"starting_offsets: {self._folder} has no log partition {each}")
            tail = self._tail(logs[each], position)
            self._check_end(logs[each], position)
            gaps[each] = tail.gaps(self._files, position, tail.offset_next)
        return Positions(offsets=named, gaps=gaps)

    def _latest(self) -> Positions:
        offsets, gaps = {}, {}
        for each, log in self._look().items():
            known = self._tails.get(each)
            tail = self._tail(log, self._earliest(log) if known is None else known.floor)
            end = offsets[each] = self._stable_end(tail)
            gaps[each] = tail.gaps(self._files, end, tail.offset_next)
        return Positions(offsets=offsets, gaps=gaps)

    def _bounded(self, start: Positions, limit: Limit, until: Positions | None) -> Positions:
        bound = None if until is None else until.offsets
        logs = self._look()
        self._check_partitions(start, logs)
        offsets, gaps = dict(start.offsets), dict(start.gaps)
        ahead = []
        for each, log in logs.items():
            if each not in start.offsets:
                if bound is None or each in bound:
                    position = offsets[each] = self._earliest(log)
                    tail = self._tail(log, position)
                    gaps[each] = tail.gaps(self._files, position, tail.offset_next)
                continue
            position = self._kept(log, start)
            tail = self._tails[each]
            end = self._stable_end(tail)
            if bound is not None:
                end = min(end, bound.get(each, position))
            offsets[each] = position
            if end > position:
                count = tail.count(self._files, position, end)
                ahead.append(_Ahead(each, position, end, count, tail.bytes_behind(position)))
        offsets |= self._within(ahead, limit)
        for part in ahead:
            tail = self._tails[part.log_partition]
            end = offsets[part.log_partition]
            gaps[part.log_partition] = tail.gaps(self._files, end, tail.offset_next)
        return Positions(offsets=offsets, gaps=gaps)

    def _within(self, ahead: list[_Ahead], limit: Limit) -> dict[int, int]:
        """The end of a batch in each log partition."""
        allowed = limit.records_of(
            sum(part.record_count for part in ahead), sum(part.size_bytes for part in ahead)
        )
        found = {}
        taken = shares([part.record_count for part in ahead], allowed)
        for part, count in zip(ahead, taken, strict=True):
            end = part.end
            if count < part.record_count:
                tail = self._tails[part.log_partition]
                end = part.start
                if count:
                    end = tail.offset_behind(self._files, part.start, count)
            found[part.log_partition] = end
        return found

    def _ranges(self, start: Positions, end: Positions) -> list[LogRange]:
        logs = self._look()
        self._check_partitions(start, logs)
        found: list[LogRange] = []
        for each, until in sorted(end.offsets.items()):
            if until <= start.offsets.get(each, -1) or each not in logs:
                continue
            log = logs[each]
            if each in start.offsets:
                position = self._kept(log, start, end)
            else:
                position = self._earliest(log)
                self._tail(log, position)
            self._check_end(log, until)
            if position < until:
                found += self._tails[each].ranges(
                    self._files,
                    position,
                    until,
                    folder=str(self._folder),
                    log_partition=each,
                    range_bytes=self._options.range_bytes,
                )
        return found

    # Lost records

    def _kept(self, log: LogView, start: Positions, end: Positions | None = None) -> int:
        """The offset at which a stream continues in a log.

        Raises if records that it expects up to `end` are gone.
        """
        number = log.topic_partition.partition
        position = start.offsets[number]
        log_start = self._log_start(log)
        if position < log_start:
            self._lost(
                number,
                position,
                log_start,
                f"records from log offset {position} on were deleted: the log starts at"
                f" {log_start} now",
            )
            position = log_start
            self._tail(log, position)
            return position
        tail = self._tail(log, position)
        self._check_end(log, position)
        until = tail.offset_next if end is None else end.offsets[number]
        expected = start.gaps_of(number) - (0 if end is None else end.gaps_of(number))
        missing = tail.gaps(self._files, position, until) - expected
        if missing > 0:
            goes_on_at = tail.first_offset(self._files, position)
            self._lost(
                number,
                position,
                goes_on_at,
                f"{missing} records behind log offset {position} are there no more: they were"
                f" cleaned away, or deleted. The log goes on at {goes_on_at}",
            )
        return position

    def _lost(self, number: int, position: int, goes_on_at: int | None, what: str) -> None:
        reason = f"log partition {number} of {self._folder}: {what}"
        if self._options.fails_on_loss:
            raise RecordsLost(
                reason, log_partition=number, position=position, goes_on_at=goes_on_at
            )
        _log.warning("%s", reason)

    def _check_partitions(self, start: Positions, logs: Mapping[int, LogView]) -> None:
        for each in sorted(start.offsets.keys() - logs.keys() - self._missed):
            self._lost(each, start.offsets[each], None, "it is there no more")
            self._missed.add(each)
        self._missed -= logs.keys()

    def _check_end(self, log: LogView, position: int) -> None:
        end = self._log_end(log)
        if position > end:
            raise PositionAboveEnd(
                f"log partition {log.topic_partition.partition} of {self._folder} ends at {end},"
                f" below the stream's position {position}: it is an older copy, or another folder"
            )

    # Present records

    def _look(self) -> dict[int, LogView]:
        """The present logs of the folder, by number."""
        files, view = self._files, self._view
        view = read_folder(files, self._folder) if view is None else view.seen_again(files)
        self._view = view
        return {
            log.topic_partition.partition: log
            for log in view.logs
            if log.topic_partition.topic == OFFSETS_TOPIC
        }

    def _tail(self, log: LogView, floor: int) -> LogTail:
        """Reads a log, starting at `floor`, as far as it can be read now."""
        number = log.topic_partition.partition
        tail = self._tails.get(number)
        if tail is None or floor < tail.floor:
            tail = self._tails[number] = LogTail(floor, damaged=self._damaged)
            self._listed.pop(number, None)
        self._advance(log, tail)
        return tail

    def _advance(self, log: LogView, tail: LogTail) -> None:
        number, point = log.topic_partition.partition, log.recovery_point
        if point is None:
            # The last records of a log may have been cleaned away. The log then continues at the
            # base offset of its last segment, which is empty.
            end = max(segment_base_offsets(self._files, log.folder), default=0)
            segments = segments_of(self._files, log)
            if segments != self._listed.get(number):
                with SegmentFiles(self._files) as opened:
                    tail.advance(opened, segments)
                self._listed[number] = segments
            tail.reach(end)
            return
        self._listed.pop(number, None)
        if point.offset <= tail.offset_next:
            return
        # Usually only the active segment has grown. If reading it does not reach the end, the file
        # was another one.
        base_offset, size_bytes = point.segment_base_offset, point.segment_bytes
        was_read = tail.advance_last(self._files, base_offset, size_bytes)
        if was_read and tail.offset_next == point.offset:
            return
        assert self._view is not None, "it was looked at"
        with SegmentFiles(self._files) as opened:
            plan = plan_log(self._files, self._view, log, held_by=opened)
            tail.advance(opened, plan.segments)
        tail.reach(point.offset)

    def _damaged(self, damage: Damage) -> None:
        if self._options.on_damage is OnDamage.FAIL:
            raise DamagedSegment(damage)
        _log.warning("passed over: %s", damage)

    def _stable_end(self, tail: LogTail) -> int:
        """The offset up to which the log may be read: `history` stops at an open transaction."""
        return tail.stable_end if self._options.mode is Mode.HISTORY else tail.offset_next

    def _earliest(self, log: LogView) -> int:
        first = min(segment_base_offsets(self._files, log.folder), default=0)
        return max(first, self._log_start(log))

    def _log_start(self, log: LogView) -> int:
        """The offset below which records are not read. `raw` reads everything in the segments."""
        if self._options.mode is Mode.RAW:
            return 0
        assert self._view is not None, "it was looked at"
        return log_start_of(self._files, self._view, log)

    def _end(self, log: LogView) -> int:
        """The end of the log, including open transactions."""
        if log.recovery_point is not None:
            return log.recovery_point.offset
        known = self._tails.get(log.topic_partition.partition)
        if known is not None:
            self._advance(log, known)
            return self._log_end(log)
        end = max(segment_base_offsets(self._files, log.folder), default=0)
        for last in segments_of(self._files, log)[-1:]:
            tail = LogTail(last.base_offset, damaged=self._damaged)
            with SegmentFiles(self._files) as opened:
                tail.advance(opened, [last])
            end = max(end, tail.offset_next)
        return end

    def _log_end(self, log: LogView) -> int:
        if log.recovery_point is not None:
            return log.recovery_point.offset
        known = self._tails[log.topic_partition.partition].log_end
        return max(known, *segment_base_offsets(self._files, log.folder), 0)
