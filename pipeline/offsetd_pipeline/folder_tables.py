"""Reads the tables of a data folder, piece by piece, as Arrow batches."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from offsetd_pipeline.arrow_columns import COLUMNS, ChosenRows, is_any
from offsetd_pipeline.folder_plan import opened_piece
from offsetd_pipeline.group_rows import group_rows
from offsetd_pipeline.kernels import fields
from offsetd_pipeline.latest import LatestRecords
from offsetd_pipeline.read_options import OnDamage
from offsetd_pipeline.segments import NO_TIMESTAMP_MIN, DamagedSegment, read_segment
from offsetd_pipeline.tables import Mode
from offsetd_pipeline.transactions import WORDS, Outcome, Outcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    import numpy.typing as npt
    from offsetd_storage.disk.files import Files

    from offsetd_pipeline.folder_plan import LogPlan, Piece
    from offsetd_pipeline.segments import Damage, Rows, Segment, SegmentFiles
    from offsetd_pipeline.selection import Selection

    Numbers = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]
    Columns = dict[str, Callable[[ChosenRows], pa.Array]]

_log = logging.getLogger(__name__)

WHOLE_LOG_MODES: Final = frozenset((Mode.CURRENT, Mode.GROUPS))
"""The tables that need the whole log of a partition. One task reads such a log."""

_KEY_COLUMNS: Final = ("group", "topic", "partition", "log_partition")
_KINDS: Final = {
    Mode.CURRENT: (fields.COMMITTED, fields.UNREADABLE),
    Mode.HISTORY: (fields.COMMITTED, fields.DELETED, fields.UNREADABLE),
}
_ROWS_MAX: Final = 32_768  # The most rows in one batch.


class FolderTable:
    """The selected part of one table, with the columns of `schema`."""

    def __init__(
        self,
        files: Files,
        mode: Mode,
        schema: pa.Schema,
        selection: Selection,
        on_damage: OnDamage,
    ) -> None:
        self._files = files
        self._mode = mode
        self._schema = schema
        self._selection = selection
        self._on_damage = on_damage
        self.has_passed_over = False

    def batches(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Yields the table's rows of a piece.

        Raises DamagedSegment if damage must not be skipped, FolderChanged if the folder was written
        during the read (the rows until then are inconsistent), and OSError.
        """
        with opened_piece(self._files, piece) as (found, opened):
            match self._mode:
                case Mode.CURRENT:
                    latest = self._latest(opened, found, with_groups=False)
                    wanted = _has_kind(latest, Mode.CURRENT)
                    yield from self._batches(latest, wanted, _constants(found.log))
                case Mode.GROUPS:
                    latest = self._latest(opened, found, with_groups=True)
                    rows = group_rows(latest, found.log.log_partition)
                    yield from self._listed(rows, found.log)
                case Mode.DAMAGE:
                    yield from self._listed(_damage_rows(opened, found), found.log)
                case Mode.HISTORY:
                    yield from self._changes(opened, found)
                case Mode.RAW:
                    yield from self._records(opened, found)

    def stretch(
        self, opened: SegmentFiles, piece: Piece, start: int, end: int
    ) -> Generator[pa.RecordBatch, None, int]:
        """Yields the rows of `history` or `raw` from log offset `start` to `end` of a piece.

        Returns the number of records in that range. Raises the errors of `batches`.
        """
        stretch = _Stretch(start, end)
        is_raw = self._mode is Mode.RAW
        yield from (self._records if is_raw else self._changes)(opened, piece, stretch)
        return stretch.record_count

    def _records(
        self, opened: SegmentFiles, piece: Piece, stretch: _Stretch | None = None
    ) -> Iterator[pa.RecordBatch]:
        for segment, rows in self._rows_of(opened, piece, stretch):
            inside = None if stretch is None else stretch.holds(rows)
            yield from self._batches(rows, inside, _constants(piece.log, segment))

    def _changes(
        self, opened: SegmentFiles, piece: Piece, stretch: _Stretch | None = None
    ) -> Iterator[pa.RecordBatch]:
        stretch = stretch or _Stretch(piece.log.log_start_offset, None)
        outcomes = Outcomes(opened, piece)
        for _, rows in self._rows_of(opened, piece, stretch):
            wanted = stretch.holds(rows) & _has_kind(rows, Mode.HISTORY)
            columns = _constants(piece.log)
            columns["transaction"] = _outcome_words(outcomes.of(rows))
            yield from self._batches(rows, wanted, columns)

    def _rows_of(
        self, opened: SegmentFiles, piece: Piece, stretch: _Stretch | None
    ) -> Iterator[tuple[Segment, Rows]]:
        """The rows of the segments, up to the end of the stretch."""
        for segment in piece.segments:
            for rows in self._rows(opened, segment):
                yield segment, rows
                if stretch is not None and stretch.ends_within(rows):
                    return

    def _listed(self, rows: Iterable[dict[str, Any]], log: LogPlan) -> Iterator[pa.RecordBatch]:
        names = self._schema.names
        listed = [
            {name: (row | {"folder": log.folder}).get(name) for name in names} for row in rows
        ]
        if listed:
            yield pa.RecordBatch.from_pylist(listed, schema=self._schema)

    def _latest(self, opened: SegmentFiles, piece: Piece, *, with_groups: bool) -> Rows:
        """The newest record of each selected key of a log."""
        latest = LatestRecords()
        keys = self._selection.among(("group",) if with_groups else _KEY_COLUMNS)
        outcomes = Outcomes(opened, piece)
        for segment in piece.segments:
            for rows in self._rows(opened, segment):
                kind = rows.fields[:, fields.KIND]
                wanted = kind <= (fields.OTHER if with_groups else fields.UNREADABLE)
                wanted &= rows.fields[:, fields.LOG_OFFSET] >= piece.log.log_start_offset
                if rows.marked:
                    # Only offsets wait for the end of their transaction.
                    waits = is_any(kind, (fields.COMMITTED, fields.UNREADABLE))
                    wanted &= (outcomes.of(rows) <= Outcome.COMMITTED) | ~waits
                latest.take(rows, _chosen(rows, wanted, _constants(piece.log), keys))
        return latest.rows()

    def _rows(self, opened: SegmentFiles, segment: Segment) -> Iterator[Rows]:
        timestamp_min = self._selection.timestamp_min_ms()
        if self._mode in WHOLE_LOG_MODES or timestamp_min is None:
            timestamp_min = NO_TIMESTAMP_MIN
        return read_segment(opened, segment, damaged=self._damaged, timestamp_min=timestamp_min)

    def _damaged(self, damage: Damage) -> None:
        if self._on_damage is OnDamage.FAIL:
            raise DamagedSegment(damage)
        _log.warning("passed over: %s", damage)
        self.has_passed_over = True

    def _batches(
        self, rows: Rows, wanted: Mask | None, columns: Columns
    ) -> Iterator[pa.RecordBatch]:
        chosen = _chosen(rows, wanted, columns, self._selection)
        for first in range(0, len(chosen), _ROWS_MAX):
            view = ChosenRows(rows, chosen[first : first + _ROWS_MAX])
            arrays = [_column(name, columns)(view) for name in self._schema.names]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _Stretch:
    """The log offsets from `start` to `end`, which may be None, and their number of records."""

    def __init__(self, start: int, end: int | None) -> None:
        self.record_count = 0
        self._start = start
        self._end = end

    def holds(self, rows: Rows) -> Mask:
        """A mask of the rows in the stretch. Call it once for each row: it also counts them."""
        offsets = rows.fields[:, fields.LOG_OFFSET]
        mask: Mask = offsets >= self._start
        if self._end is not None:
            mask &= offsets < self._end
        self.record_count += int(np.count_nonzero(mask))
        return mask

    def ends_within(self, rows: Rows) -> bool:
        """Whether all later rows are after the stretch."""
        last = rows.fields[-1:, fields.LOG_OFFSET]  # A batch may have lost all its records.
        return self._end is not None and bool((last >= self._end - 1).any())


def _chosen(rows: Rows, wanted: Mask | None, columns: Columns, selection: Selection) -> Numbers:
    """The indexes of the rows that are wanted and selected."""
    chosen = np.arange(len(rows.fields)) if wanted is None else np.flatnonzero(wanted)
    view = ChosenRows(rows, chosen)
    mask = selection.mask(len(chosen), lambda name: _column(name, columns)(view))
    return chosen if mask is None else chosen[mask]


def _column(name: str, columns: Columns) -> Callable[[ChosenRows], pa.Array]:
    return columns.get(name) or COLUMNS[name]


def _constants(log: LogPlan, segment: Segment | None = None) -> Columns:
    """The columns that are constant for a whole log or segment."""
    columns = {
        "log_partition": _constant(log.log_partition, pa.int32()),
        "folder": _constant(log.folder, pa.string()),
    }
    if segment is not None:
        columns["segment"] = _constant(segment.base_offset, pa.int64())
    return columns


def _constant(value: int | str, arrow_type: pa.DataType) -> Callable[[ChosenRows], pa.Array]:
    return lambda rows: pa.repeat(pa.scalar(value, arrow_type), len(rows))


def _outcome_words(outcomes: Numbers) -> Callable[[ChosenRows], pa.Array]:
    return lambda rows: rows.words(outcomes[rows.chosen], WORDS)


def _has_kind(rows: Rows, mode: Mode) -> Mask:
    return is_any(rows.fields[:, fields.KIND], _KINDS[mode])


def _damage_rows(opened: SegmentFiles, piece: Piece) -> Iterator[dict[str, Any]]:
    for segment in piece.segments:
        found: list[Damage] = []
        for _ in read_segment(opened, segment, damaged=found.append):
            pass
        for each in found:
            yield {
                "log_partition": piece.log.log_partition,
                "file": each.path,
                "position": each.position,
                "size_bytes": each.size_bytes,
                "reason": each.reason,
            }
