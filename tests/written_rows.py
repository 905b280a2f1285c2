"""Rows of offsets that are to be written, as tasks take them in and pack them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from offsetd_pipeline.writing.columns import WriteMode, WrittenColumns
from offsetd_pipeline.writing.packed_rows import TaskRows, unpacked
from pyspark.sql.types import IntegerType, LongType, StringType, StructType, TimestampType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from offsetd_pipeline.writing.packed_rows import PackedRows

_TYPES: Final[Mapping[str, tuple[Any, pa.DataType]]] = {
    "group": (StringType(), pa.string()),
    "topic": (StringType(), pa.string()),
    "partition": (IntegerType(), pa.int32()),
    "offset": (LongType(), pa.int64()),
    "leader_epoch": (IntegerType(), pa.int32()),
    "metadata": (StringType(), pa.string()),
    "expected_offset": (LongType(), pa.int64()),
    "expected_revision": (LongType(), pa.int64()),
    "end_offset": (LongType(), pa.int64()),
    "commit_time": (TimestampType(), pa.timestamp("us", tz="UTC")),
    "log_offset": (LongType(), pa.int64()),
}


def columns_of(
    *names: str,
    mode: WriteMode = WriteMode.OVERWRITE,
    keep_commit_times: bool = False,
    latest_by: str | None = None,
) -> WrittenColumns:
    """Of a table with the four that are needed, and some more."""
    schema = StructType()
    for name in ("group", "topic", "partition", "offset", *names):
        schema.add(name, _TYPES[name][0])
    return WrittenColumns.of(schema, mode, keep_commit_times=keep_commit_times, latest_by=latest_by)


def packed(columns: WrittenColumns, *rows: Mapping[str, Any], batch_rows: int = 3) -> PackedRows:
    """What a task makes of rows, which have `topic` t and `partition` 0 unless they say it."""
    task = TaskRows(columns)
    for at in range(0, len(rows), batch_rows):
        some = [{"topic": "t", "partition": 0, **row} for row in rows[at : at + batch_rows]]
        task.add(
            pa.record_batch(
                [
                    pa.array([row.get(each) for row in some], _TYPES[each][1])
                    for each in order(columns)
                ],
                names=order(columns),
            )
        )
    return task.packed()


def order(columns: WrittenColumns) -> list[str]:
    """The names in the order of the table."""
    places = dict(columns.places)
    if columns.rank_place is not None:
        places["log_offset"] = columns.rank_place
    return sorted(places, key=lambda name: places[name])


def tables(messages: Iterable[PackedRows]) -> list[pa.Table]:
    """The good rows of tasks."""
    return [unpacked(each.rows) for each in messages if each.rows is not None]


def rejected(message: PackedRows) -> list[dict[str, Any]]:
    """The rejected rows of a task."""
    return [] if message.rejected is None else unpacked(message.rejected).to_pylist()
