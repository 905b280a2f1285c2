"""Does the work of one run on one log partition: writes new records to files. Runs on executors."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow.parquet as pq
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import FolderChanged, StorageError
from offsetd_storage.log.segment_files import segment_base_offsets

from offsetd_pipeline.archive.columns import archived_batch
from offsetd_pipeline.archive.day_files import DayFiles, by_day
from offsetd_pipeline.archive.live_keys import live_keys
from offsetd_pipeline.archive.manifests import (
    RUNS,
    ArchivedFile,
    DamagedBytes,
    Gap,
    LogPosition,
)
from offsetd_pipeline.arrow_columns import TIMESTAMP_MS_MAX, ChosenRows
from offsetd_pipeline.files import make_durable, make_folder
from offsetd_pipeline.folder_plan import LogPlan, Piece, opened_piece
from offsetd_pipeline.kernels import fields
from offsetd_pipeline.read_options import OnDamage
from offsetd_pipeline.segments import DamagedSegment, read_segment
from offsetd_pipeline.transactions import Outcome, Outcomes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    from offsetd_storage.disk.files import Files

    from offsetd_pipeline.segments import Damage, Rows, SegmentFiles

    Numbers = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_NEVER: Final = -1  # A value that stands for no time.


@attrs.frozen(kw_only=True)
class LogWork:
    """The work of a task. `position` is None if no record of the log partition is archived.

    `time_ms`: the start of the run.
    """

    log: LogPlan
    position: LogPosition | None
    archive: str
    run_id: str
    time_ms: int
    on_damage: OnDamage


@attrs.frozen(kw_only=True)
class HeldUp:
    """An open transaction at which the archive stops: first offset, producer and start time."""

    log_partition: int
    log_offset: int
    producer_id: int
    since_ms: int


@attrs.frozen(kw_only=True)
class LogRun:
    """The result. `keys_file`: the current keys, if deletions may have been missed."""

    log_partition: int
    position: LogPosition
    files: tuple[ArchivedFile, ...] = ()
    gap: Gap | None = None
    damage: tuple[DamagedBytes, ...] = ()
    held_up: HeldUp | None = None
    keys_file: str | None = None


@attrs.frozen
class LogFailure:
    """The reason why there is no result, as text for a user."""

    reason: str


class NotTheLog(StorageError):
    """The log does not follow on the archive: it is another log, or an older copy."""


def archive_log(work: LogWork) -> LogRun | LogFailure:
    """Writes the new records. They count only after a manifest names their files.

    Problems of the log, and changes during the run, are returned as a failure. Otherwise raises
    OSError.
    """
    try:
        return _LogRunning(OsFiles(), work).run()
    except (DamagedSegment, FolderChanged, NotTheLog) as error:
        return LogFailure(str(error))


class _LogRunning:
    def __init__(self, files: Files, work: LogWork) -> None:
        self._files = files
        self._work = work
        self._log = work.log
        self._begin = work.position.log_offset if work.position else 0
        self._end = self._begin
        self._log_end = 0
        self._seen = 0
        self._last = (-1, _NEVER)  # The newest record: its log offset and its timestamp in ms.
        self._latest_ms = _NEVER
        self._settled_ms = work.time_ms  # Cleaners have not touched records of this time or later.
        self._cleanable_below = 0
        self._seen_behind = 0  # The number of records at or above `_cleanable_below`.
        # From this time on, all records below `_cleanable_below` are in effect, because all their
        # transactions have ended.
        self._superseding_ms = _NEVER
        self._damage: list[DamagedBytes] = []
        self._held_up: HeldUp | None = None
        self._days = DayFiles(Path(work.archive), work.log.log_partition, work.run_id)

    def run(self) -> LogRun:
        """Reads the log once, and a second time if deletions may be missing."""
        whole = Piece(self._log, 0, len(self._log.segments))
        with opened_piece(self._files, whole) as (found, opened):
            self._log = found.log
            self._cleanable_below = self._last_segment()
            self._read(opened)
            self._check_end()
            gap = self._gap()
            keys_file = self._keys_file(opened) if self._may_lack_deletions(gap) else None
        return LogRun(
            log_partition=self._log.log_partition,
            position=self._position(),
            files=self._days.close(),
            gap=gap,
            damage=tuple(self._damage),
            held_up=self._held_up,
            keys_file=keys_file,
        )

    def _read(self, opened: SegmentFiles) -> None:
        known = self._work.position
        at = (
            self._begin if known is None or known.last_log_offset is None else known.last_log_offset
        )
        bases = [each.base_offset for each in self._log.segments]
        first = max(bisect_right(bases, at) - 1, 0)
        piece = Piece(self._log, first, len(bases))
        outcomes = Outcomes(opened, piece)
        for rows in self._rows(opened, piece):
            self._check_known(rows)
            if not self._take(rows, outcomes):
                return

    def _rows(self, opened: SegmentFiles, piece: Piece) -> Iterator[Rows]:
        for segment in piece.segments:
            end = yield from read_segment(opened, segment, damaged=self._damaged)
            self._log_end = max(self._log_end, end)

    def _take(self, rows: Rows, outcomes: Outcomes) -> bool:
        """Archives the new rows. Returns False at an open transaction: later records must wait."""
        offsets = rows.fields[:, fields.LOG_OFFSET]
        is_new = offsets >= max(self._begin, self._log.log_start_offset)
        if not is_new.any():
            return True
        ends = outcomes.of(rows)
        is_change = is_new & (rows.fields[:, fields.KIND] <= fields.UNREADABLE)
        is_open = is_change & (ends == Outcome.OPEN)
        if is_open.any():
            row = rows.fields[int(is_open.argmax())]
            self._held_up = HeldUp(
                log_partition=self._log.log_partition,
                log_offset=int(row[fields.LOG_OFFSET]),
                producer_id=int(row[fields.PRODUCER_ID]),
                since_ms=min(int(row[fields.TIMESTAMP]), TIMESTAMP_MS_MAX),
            )
            is_new &= offsets < self._held_up.log_offset
            is_change &= is_new
        self._note(rows.fields[is_new])
        self._write(rows, np.flatnonzero(is_change), ends, outcomes)
        return self._held_up is None

    def _note(self, new: Numbers) -> None:
        if not len(new):
            return
        self._seen += len(new)
        offsets, times = new[:, fields.LOG_OFFSET], new[:, fields.TIMESTAMP]
        self._last = int(offsets[-1]), int(times[-1])
        self._end = self._last[0] + 1
        self._latest_ms = max(self._latest_ms, min(int(times.max()), TIMESTAMP_MS_MAX))
        behind = times[offsets >= self._cleanable_below]
        if len(behind):
            self._settled_ms = min(self._settled_ms, int(behind[0]))
            self._seen_behind += len(behind)

    def _write(self, rows: Rows, chosen: Numbers, ends: Numbers, outcomes: Outcomes) -> None:
        if not len(chosen):
            return
        end_times = outcomes.times_of(rows)
        below = chosen[rows.fields[chosen, fields.LOG_OFFSET] < self._cleanable_below]
        counts_from = np.maximum(rows.fields[below, fields.TIMESTAMP], end_times[below])
        self._superseding_ms = max(self._superseding_ms, int(counts_from.max(initial=_NEVER)))
        times = np.minimum(rows.fields[chosen, fields.TIMESTAMP], TIMESTAMP_MS_MAX)
        for day, taken in by_day(chosen, times):
            self._days.add(day, archived_batch(ChosenRows(rows, taken), ends, end_times))

    def _check_known(self, rows: Rows) -> None:
        """Raises NotTheLog if the newest archived record is another one in this log."""
        known = self._work.position
        if known is None or known.last_log_offset is None:
            return
        offsets = rows.fields[:, fields.LOG_OFFSET]
        place = int(np.searchsorted(offsets, known.last_log_offset))
        if place == len(offsets) or offsets[place] != known.last_log_offset:
            return
        if rows.fields[place, fields.TIMESTAMP] != known.last_timestamp_ms:
            raise NotTheLog(
                f"log partition {self._log.log_partition} of {self._log.folder} has another record"
                f" at log offset {known.last_log_offset} than the one that is archived: it is"
                " another log, or was set back and written to"
            )

    def _last_segment(self) -> int:
        """The start of the segment that no cleaner touches."""
        base = self._log.figures.segment_base_offset
        if base is None:
            folder = Path(self._log.folder) / f"__consumer_offsets-{self._log.log_partition}"
            base = max(segment_base_offsets(self._files, folder), default=0)
        self._log_end = max(base, self._log.log_start_offset)
        return base

    def _check_end(self) -> None:
        if self._held_up is not None:
            self._end = self._held_up.log_offset
            return
        if self._log_end < self._begin:
            raise NotTheLog(
                f"log partition {self._log.log_partition} of {self._log.folder} ends at log offset"
                f" {self._log_end}, and {self._begin} is archived already: it is an older copy, or"
                " another log"
            )
        # If the last batches of the log were cleaned away, the log ends after the last record read.
        self._end = max(self._end, self._log_end)

    def _gap(self) -> Gap | None:
        missing = self._end - self._begin - self._seen
        if not missing:
            return None
        known = self._work.position
        # If a cleaner removes a record, a newer record below `_cleanable_below` has superseded it.
        # The newer record counts later if a clock was set back, or if its transaction ended later.
        # There is no such bound for damage, nor for a copied log whose records another node's
        # cleaner removed.
        behind = self._end - max(self._begin, self._cleanable_below)
        is_own = not self._damage and self._seen_behind == max(behind, 0)
        known_ms = min(max(self._settled_ms, self._superseding_ms), self._work.time_ms)
        return Gap(
            log_partition=self._log.log_partition,
            begin_log_offset=self._begin,
            end_log_offset=self._end,
            missing_count=missing,
            from_ms=known.latest_ms if known is not None else None,
            to_ms=known_ms if is_own else self._work.time_ms,
        )

    def _may_lack_deletions(self, gap: Gap | None) -> bool:
        known = self._work.position
        if known is None:
            return False
        return gap is not None or known.log_start_offset != self._log.log_start_offset

    def _keys_file(self, opened: SegmentFiles) -> str:
        """Writes the current keys below the end. The archive then drops all others."""
        keys = live_keys(opened, self._log, below=self._end, damaged=lambda _: None)
        folder = Path(self._work.archive) / RUNS
        make_folder(folder)
        path = folder / f"{self._work.run_id}-keys-{self._log.log_partition}.parquet"
        pq.write_table(keys, path)
        make_durable(path)
        return path.name

    def _position(self) -> LogPosition:
        known = self._work.position
        if self._last[0] < 0 and known is not None:
            last: tuple[int | None, int | None] = known.last_log_offset, known.last_timestamp_ms
        else:
            last = self._last if self._last[0] >= 0 else (None, None)
        times = [self._latest_ms, *([known.latest_ms] if known and known.latest_ms else [])]
        latest_ms = max(times)
        return LogPosition(
            log_offset=self._end,
            log_start_offset=self._log.log_start_offset,
            last_log_offset=last[0],
            last_timestamp_ms=last[1],
            latest_ms=None if latest_ms < 0 else latest_ms,
        )

    def _damaged(self, damage: Damage) -> None:
        if self._work.on_damage is OnDamage.FAIL:
            raise DamagedSegment(damage)
        self._damage.append(
            DamagedBytes(
                log_partition=self._log.log_partition,
                file=damage.path,
                position=damage.position,
                size_bytes=damage.size_bytes,
                reason=damage.reason,
            )
        )
