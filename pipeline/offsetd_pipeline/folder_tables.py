"""The tables of a data folder, piece by piece, as Arrow batches."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from offsetd_storage.errors import FolderChanged
from offsetd_storage.folder_view import read_folder
from offsetd_storage.store_config import OFFSETS_TOPIC

from offsetd_pipeline.arrow_columns import COLUMNS, ChosenRows
from offsetd_pipeline.folder_plan import Piece, check_unchanged, plan_log
from offsetd_pipeline.group_rows import group_rows
from offsetd_pipeline.kernels import fields
from offsetd_pipeline.latest import LatestRecords
from offsetd_pipeline.read_options import OnDamage
from offsetd_pipeline.segments import NO_TIMESTAMP_MIN, DamagedSegment, read_segment
from offsetd_pipeline.tables import Mode
from offsetd_pipeline.transactions import WORDS, Outcome, Outcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt
    from offsetd_storage.files import Files

    from offsetd_pipeline.folder_plan import LogPlan
    from offsetd_pipeline.segments import Damage, Rows, Segment
    from offsetd_pipeline.selection import Selection

    Numbers = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_log = logging.getLogger(__name__)

WHOLE_LOG_MODES: Final = frozenset((Mode.CURRENT, Mode.GROUPS))
"""What needs the whole log of a partition: it is read by one task."""

_KEY_COLUMNS: Final = ("group", "topic", "partition", "log_partition")
_KINDS: Final = {
    Mode.CURRENT: (fields.COMMITTED, fields.UNREADABLE),
    Mode.HISTORY: (fields.COMMITTED, fields.DELETED, fields.UNREADABLE),
}
_ROWS_MAX: Final = 32_768  # In a batch.
_ATTEMPTS: Final = 20


class FolderTable:
    """One table, with the columns of `schema`, as far as it is selected."""

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

    def batches(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """What the table has of a piece.

        Raises DamagedSegment where damage is not passed over, FolderChanged where the folder was
        written to or cleaned meanwhile, so that what came does not go together; OSError.
        """
        match self._mode:
            case Mode.CURRENT:
                yield from self._current(piece.log)
            case Mode.GROUPS:
                yield from self._groups(piece.log)
            case Mode.DAMAGE:
                yield from self._damage(piece)
            case Mode.HISTORY | Mode.RAW:
                yield from self._records(piece)

    def _records(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        outcomes = Outcomes(self._files, piece)
        try:
            for segment in piece.segments:
                for rows in self._rows(segment):
                    wanted = None
                    columns = {**_constants(piece.log, segment)}
                    if self._mode is Mode.HISTORY:
                        wanted = _has_kind(rows, Mode.HISTORY)
                        wanted &= rows.fields[:, fields.LOG_OFFSET] >= piece.log.log_start_offset
                        outcome = outcomes.of(rows)
                        columns["transaction"] = _outcome_words(outcome)
                    yield from self._batches(rows, wanted, columns, self._selection)
        except (FileNotFoundError, DamagedSegment):
            check_unchanged(self._files, piece.log)
            raise
        check_unchanged(self._files, piece.log)

    def _current(self, log: LogPlan) -> Iterator[pa.RecordBatch]:
        latest = self._latest(log, with_groups=False)
        wanted = _has_kind(latest, Mode.CURRENT)
        yield from self._batches(latest, wanted, _constants(log), self._selection)

    def _groups(self, log: LogPlan) -> Iterator[pa.RecordBatch]:
        latest = self._latest(log, with_groups=True)
        rows = list(group_rows(latest, log.log_partition))
        if rows:
            batch = pa.RecordBatch.from_pylist(
                [{name: row.get(name) for name in self._schema.names} for row in rows],
                schema=self._schema,
            )
            yield batch

    def _damage(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        found: list[Damage] = []
        for segment in piece.segments:
            for _ in read_segment(self._files, segment, damaged=found.append):
                pass
        check_unchanged(self._files, piece.log)
        if found:
            rows: list[dict[str, Any]] = [
                {
                    "log_partition": piece.log.log_partition,
                    "file": each.path,
                    "position": each.position,
                    "size_bytes": each.size_bytes,
                    "reason": each.reason,
                }
                for each in found
            ]
            names = self._schema.names
            yield pa.RecordBatch.from_pylist(
                [{name: row[name] for name in names} for row in rows], schema=self._schema
            )

    def _latest(self, log: LogPlan, *, with_groups: bool) -> Rows:
        """The newest records of a log; looked for again where it is cleaned meanwhile."""
        for attempt in range(_ATTEMPTS):
            try:
                latest = self._read_latest(log, with_groups=with_groups)
                check_unchanged(self._files, log)
            except FolderChanged:
                if attempt == _ATTEMPTS - 1:
                    raise
            except (FileNotFoundError, DamagedSegment):
                if _is_unchanged(self._files, log):
                    raise
            else:
                return latest
            log = _planned_again(self._files, log)
        raise FolderChanged(
            f"partition {log.log_partition} of {log.folder} is cleaned all the time"
        )

    def _read_latest(self, log: LogPlan, *, with_groups: bool) -> Rows:
        latest = LatestRecords()
        keys = self._selection.among(("group",) if with_groups else _KEY_COLUMNS)
        outcomes = Outcomes(self._files, Piece(log, 0, len(log.segments)))
        for segment in log.segments:
            for rows in self._rows(segment):
                kind = rows.fields[:, fields.KIND]
                wanted = kind <= (fields.OTHER if with_groups else fields.UNREADABLE)
                wanted &= rows.fields[:, fields.LOG_OFFSET] >= log.log_start_offset
                if rows.marked:
                    # A tombstone counts at once, whoever wrote it.
                    wanted &= (outcomes.of(rows) <= Outcome.COMMITTED) | (kind == fields.DELETED)
                chosen = self._chosen(rows, wanted, _constants(log), keys)
                latest.take(rows, chosen)
        return latest.rows()

    def _rows(self, segment: Segment) -> Iterator[Rows]:
        timestamp_min = self._selection.timestamp_min_ms()
        if self._mode in WHOLE_LOG_MODES or timestamp_min is None:
            timestamp_min = NO_TIMESTAMP_MIN
        return read_segment(
            self._files, segment, damaged=self._damaged, timestamp_min=timestamp_min
        )

    def _damaged(self, damage: Damage) -> None:
        if self._on_damage is OnDamage.FAIL:
            raise DamagedSegment(damage)
        _log.warning("passed over: %s", damage)

    def _chosen(
        self,
        rows: Rows,
        wanted: Mask | None,
        columns: dict[str, Callable[[ChosenRows], pa.Array]],
        selection: Selection,
    ) -> Numbers:
        """The numbers of the rows that are wanted and selected."""
        chosen = np.arange(len(rows.fields)) if wanted is None else np.flatnonzero(wanted)
        view = ChosenRows(rows, chosen)
        mask = selection.mask(len(chosen), lambda name: _column(name, columns)(view))
        return chosen if mask is None else chosen[mask]

    def _batches(
        self,
        rows: Rows,
        wanted: Mask | None,
        columns: dict[str, Callable[[ChosenRows], pa.Array]],
        selection: Selection,
    ) -> Iterator[pa.RecordBatch]:
        chosen = self._chosen(rows, wanted, columns, selection)
        for first in range(0, len(chosen), _ROWS_MAX):
            view = ChosenRows(rows, chosen[first : first + _ROWS_MAX])
            arrays = [_column(name, columns)(view) for name in self._schema.names]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _column(
    name: str, columns: dict[str, Callable[[ChosenRows], pa.Array]]
) -> Callable[[ChosenRows], pa.Array]:
    return columns.get(name) or COLUMNS[name]


def _constants(
    log: LogPlan, segment: Segment | None = None
) -> dict[str, Callable[[ChosenRows], pa.Array]]:
    """The columns that are the same for a whole log or segment."""
    columns = {"log_partition": _constant(log.log_partition, pa.int32())}
    if segment is not None:
        columns["segment"] = _constant(segment.base_offset, pa.int64())
    return columns


def _constant(value: int, arrow_type: pa.DataType) -> Callable[[ChosenRows], pa.Array]:
    return lambda rows: pa.repeat(pa.scalar(value, arrow_type), len(rows))


def _outcome_words(outcomes: Numbers) -> Callable[[ChosenRows], pa.Array]:
    return lambda rows: rows.words(outcomes[rows.chosen], WORDS)


def _has_kind(rows: Rows, mode: Mode) -> Mask:
    return np.isin(rows.fields[:, fields.KIND], _KINDS[mode])


def _is_unchanged(files: Files, log: LogPlan) -> bool:
    try:
        check_unchanged(files, log)
    except FolderChanged:
        return False
    return True


def _planned_again(files: Files, log: LogPlan) -> LogPlan:
    view = read_folder(files, Path(log.folder))
    for each in view.logs:
        named = each.topic_partition
        if named.topic == OFFSETS_TOPIC and named.partition == log.log_partition:
            return plan_log(files, view, each)
    raise FolderChanged(f"partition {log.log_partition} left {log.folder} while it was read")
