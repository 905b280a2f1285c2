"""The outcomes of transactions."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.offsets_topic.schemas.transaction_marker import (
    ControlType,
    decode_transaction_marker,
)

from offsetd_pipeline.kernels import fields
from offsetd_pipeline.kernels.records import TRANSACTIONAL_BIT
from offsetd_pipeline.segments import read_segment

if TYPE_CHECKING:
    import numpy.typing as npt

    from offsetd_pipeline.folder_plan import Piece
    from offsetd_pipeline.segments import Damage, Rows, SegmentFiles

    Numbers = npt.NDArray[np.int64]
    _End = tuple[int, int, int]  # Log offset, outcome, time in ms.


class Outcome(IntEnum):
    """The outcome of a record's transaction."""

    NONE = 0  # It was written outside any transaction.
    COMMITTED = 1
    ABORTED = 2
    OPEN = 3


WORDS: Final = (None, "committed", "aborted", "open")
_OUTCOMES: Final = {
    ControlType.COMMIT: Outcome.COMMITTED,
    ControlType.ABORT: Outcome.ABORTED,
}


class Outcomes:
    """The outcomes of the transactions that wrote to a piece of a log.

    The ends of transactions are searched in the piece, and after it until each is found. The search
    starts on first use: most logs have no transactions.
    """

    def __init__(self, files: SegmentFiles, piece: Piece) -> None:
        self._files = files
        self._piece = piece
        self._ends: dict[int, list[_End]] | None = None  # The ends by producer.

    def of(self, rows: Rows) -> Numbers:
        """The outcome of each row of the piece."""
        return self._of_each(rows, 1, Outcome.NONE, Outcome.OPEN)

    def times_of(self, rows: Rows) -> Numbers:
        """The end time of each row's transaction, in ms; -1 if it did not end, or there is none."""
        return self._of_each(rows, 2, -1, -1)

    def _of_each(self, rows: Rows, column: int, outside: int, unended: int) -> Numbers:
        """A column of the ends of the rows' transactions."""
        found = np.full(len(rows.fields), outside, np.int64)
        if not rows.marked:
            return found
        if self._ends is None:
            self._ends = self._read_ends()
        is_part = _is_part(rows)
        producers = rows.fields[:, fields.PRODUCER_ID]
        for producer in np.unique(producers[is_part]):
            mine = np.flatnonzero(is_part & (producers == producer))
            ends = np.array(self._ends.get(int(producer), []), np.int64).reshape(-1, 3)
            values = np.append(ends[:, column], unended)
            offsets = rows.fields[mine, fields.LOG_OFFSET]
            found[mine] = values[np.searchsorted(ends[:, 0], offsets)]
        return found

    def _read_ends(self) -> dict[int, list[_End]]:
        ends: dict[int, list[_End]] = {}
        last_of: dict[int, int] = {}  # The last record of each producer in the piece.
        for number in range(self._piece.first, len(self._piece.log.segments)):
            if number >= self._piece.end and all(
                producer in ends and ends[producer][-1][0] > last
                for producer, last in last_of.items()
            ):
                break
            segment = self._piece.log.segments[number]
            for rows in read_segment(self._files, segment, damaged=_passed_over):
                if not rows.marked:
                    continue
                if number < self._piece.end:
                    _note_last(rows, last_of)
                _note_ends(rows, ends)
        return ends


def _passed_over(_: Damage) -> None:
    """Ignores damage, which the reader of the segment's records reports."""


def _is_part(rows: Rows) -> npt.NDArray[np.bool_]:
    """A mask of the rows that were written in a transaction."""
    is_transactional = rows.fields[:, fields.ATTRIBUTES] & TRANSACTIONAL_BIT != 0
    part: npt.NDArray[np.bool_] = is_transactional & (rows.fields[:, fields.KIND] != fields.CONTROL)
    return part


def _note_last(rows: Rows, last_of: dict[int, int]) -> None:
    part = rows.fields[_is_part(rows)]
    for producer in np.unique(part[:, fields.PRODUCER_ID]):
        mine = part[part[:, fields.PRODUCER_ID] == producer]
        last_of[int(producer)] = int(mine[-1, fields.LOG_OFFSET])


def _note_ends(rows: Rows, ends: dict[int, list[_End]]) -> None:
    for row in rows.fields[rows.fields[:, fields.KIND] == fields.CONTROL].tolist():
        key_at, value_at = row[fields.KEY_START], row[fields.VALUE_START]
        key = rows.buffer[key_at : key_at + max(row[fields.KEY_SIZE], 0)].tobytes()
        value = rows.buffer[value_at : value_at + max(row[fields.VALUE_SIZE], 0)].tobytes()
        try:
            marker = decode_transaction_marker(key, value)
        except UndecodableRecord:
            continue  # A server that loads the log does the same: the transaction stays open.
        if marker is not None:
            outcome = _OUTCOMES[marker.control_type]
            end = (row[fields.LOG_OFFSET], int(outcome), row[fields.TIMESTAMP])
            ends.setdefault(row[fields.PRODUCER_ID], []).append(end)
