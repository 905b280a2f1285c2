"""The keys of a log partition's current offsets, without their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from offsetd_pipeline.arrow_columns import COLUMNS, ChosenRows
from offsetd_pipeline.folder_plan import LogPlan, Piece
from offsetd_pipeline.kernels import fields
from offsetd_pipeline.latest import LatestRecords
from offsetd_pipeline.segments import read_segment
from offsetd_pipeline.transactions import Outcome, Outcomes

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_pipeline.segments import Damage, SegmentFiles

KEY_COLUMNS: Final = ("log_partition", "group", "topic", "partition")


def live_keys(
    opened: SegmentFiles, log: LogPlan, *, below: int, damaged: Callable[[Damage], object]
) -> pa.Table:
    """The groups, topics and partitions whose offsets are current just below a log offset.

    No transaction may be open below it.
    """
    latest = LatestRecords()
    piece = Piece(log, 0, len(log.segments))
    outcomes = Outcomes(opened, piece)
    for segment in piece.segments:
        for rows in read_segment(opened, segment, damaged=damaged):
            offsets, kind = rows.fields[:, fields.LOG_OFFSET], rows.fields[:, fields.KIND]
            wanted = (kind <= fields.UNREADABLE) & (offsets >= log.log_start_offset)
            wanted &= offsets < below
            # A deletion does not wait for a transaction.
            wanted &= (outcomes.of(rows) <= Outcome.COMMITTED) | (kind == fields.DELETED)
            latest.take(rows, np.flatnonzero(wanted))
    newest = latest.rows()
    is_there = newest.fields[:, fields.KIND] != fields.DELETED
    view = ChosenRows(newest, np.flatnonzero(is_there))
    keys = {name: COLUMNS[name](view) for name in KEY_COLUMNS[1:]}
    numbers = pa.repeat(pa.scalar(log.log_partition, pa.int32()), len(view))
    return pa.table({KEY_COLUMNS[0]: numbers, **keys})
