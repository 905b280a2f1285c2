"""Reads the rows of ranges of logs, in the tasks of a stream."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from offsetd_pipeline.folder_tables import FolderTable
from offsetd_pipeline.selection import Selection, filters_of
from offsetd_pipeline.streams.errors import RecordsLost
from offsetd_pipeline.streams.log_range import opened_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from offsetd_storage.disk.files import Files

    from offsetd_pipeline.streams.log_range import LogRange
    from offsetd_pipeline.streams.options import StreamOptions

_log = logging.getLogger(__name__)


class RangeWork(InputPartition):  # type: ignore[misc, unused-ignore]
    """The work of one task: ranges of logs."""

    def __init__(self, ranges: Sequence[LogRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


def works_of(ranges: Iterable[LogRange], range_bytes: int) -> Iterator[RangeWork]:
    """The work of each task, of about `range_bytes`."""
    taken: list[LogRange] = []
    size = 0
    for each in ranges:
        if taken and size + each.size_bytes > range_bytes:
            yield RangeWork(taken)
            taken, size = [], 0
        taken.append(each)
        size += each.size_bytes
    if taken:
        yield RangeWork(taken)


def range_batches(
    files: Files, wanted: LogRange, schema: pa.Schema, options: StreamOptions
) -> Iterator[pa.RecordBatch]:
    """The rows of a range.

    Raises RecordsLost at its end if it has fewer records than planned, and DamagedSegment,
    FolderChanged, OSError.
    """
    selection = Selection.of(filters_of(options.chosen))
    table = FolderTable(files, options.mode, schema, selection, options.on_damage)
    with opened_range(files, wanted) as (piece, opened):
        count = yield from table.stretch(opened, piece, wanted.start, wanted.end)
    if count >= wanted.record_count or table.has_passed_over:
        return
    reason = (
        f"log partition {wanted.log_partition} of {wanted.folder}: of {wanted.record_count} records"
        f" from log offset {wanted.start} to {wanted.end}, {wanted.record_count - count} were"
        " cleaned away or deleted before they were read"
    )
    if options.fails_on_loss:
        raise RecordsLost(
            reason,
            log_partition=wanted.log_partition,
            position=wanted.start,
            goes_on_at=wanted.end,
        )
    _log.warning("%s", reason)
