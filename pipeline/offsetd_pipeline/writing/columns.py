"""The columns that a write accepts: their names, types and write modes."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ByteType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType, StructType


class WriteMode(StrEnum):
    """The condition under which a stored offset is replaced.

    `overwrite`: always.
    `compare_and_set`: if it is the offset that the row expects; null expects no stored offset.
    `monotonic`: if it is not larger.
    `create`: if no offset is stored.
    """

    OVERWRITE = "overwrite"
    COMPARE_AND_SET = "compare_and_set"
    MONOTONIC = "monotonic"
    CREATE = "create"


class WriteColumn(NamedTuple):
    """`types`: the types accepted from Spark. `packed`: the type sent to the driver.

    `given`: the original type.
    """

    types: tuple[type[DataType], ...]
    packed: pa.DataType
    given: pa.DataType


_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
_NAME: Final = WriteColumn(
    (StringType,), pa.dictionary(pa.int32(), pa.large_string()), pa.large_string()
)
_INT: Final = WriteColumn(_WHOLE, pa.int32(), pa.int64())
_LONG: Final = WriteColumn(_WHOLE, pa.int64(), pa.int64())
_TIME: Final = pa.timestamp("us", tz="UTC")

REQUIRED: Final = ("group", "topic", "partition", "offset")
EXPECTED: Final = ("expected_offset", "expected_revision")
COLUMNS: Final[Mapping[str, WriteColumn]] = {
    "group": _NAME,
    "topic": _NAME,
    "partition": _INT,
    "offset": _LONG,
    "leader_epoch": _INT,
    "metadata": _NAME,
    "expected_offset": _LONG,
    "expected_revision": _LONG,
    "end_offset": _LONG,
    "commit_time": WriteColumn((TimestampType,), _TIME, _TIME),
}


RANK: Final = "latest_by"
"""The name of the column that has the rank of each row of a partition, on its way to the driver."""
RANK_TYPE: Final = pa.int64()
_TIME_NAME: Final = "commit_time"
_RANKED: Final = (*_WHOLE, TimestampType, TimestampNTZType)


class WrittenColumns(NamedTuple):
    """The columns of a table, in the order of `COLUMNS`, with their places in the table.

    `rank_place`: the place of the column that identifies a partition's latest row. If it is None,
    two rows of a partition are an error.
    """

    places: Mapping[str, int]
    rank_place: int | None = None

    @classmethod
    def of(
        cls,
        schema: StructType,
        mode: WriteMode,
        *,
        keep_commit_times: bool,
        latest_by: str | None = None,
    ) -> WrittenColumns:
        """Ignores the case of names. Raises ValueError for a table that cannot be written."""
        found: dict[str, int] = {}
        rank_place = None if latest_by is None else _rank_place(schema, latest_by)
        for place, field in enumerate(schema.fields):
            name = field.name.lower()
            column = COLUMNS.get(name)
            is_written = column is not None and (name != _TIME_NAME or keep_commit_times)
            if place == rank_place and not is_written:
                continue
            if column is None:
                raise ValueError(f"no column {field.name!r} is written, but {', '.join(COLUMNS)}")
            if name in found:
                raise ValueError(f"column {name} is there twice")
            if type(field.dataType) not in column.types:
                known = ", ".join(each().simpleString() for each in column.types)
                raise ValueError(
                    f"column {field.name} is {field.dataType.simpleString()}, not {known}"
                )
            found[name] = place
        if missing := [name for name in REQUIRED if name not in found]:
            raise ValueError(f"column {missing[0]} is missing")
        _check_mode(found, mode)
        _check_import(found, mode, keep_commit_times=keep_commit_times)
        return cls({name: found[name] for name in COLUMNS if name in found}, rank_place)

    @property
    def packed_schema(self) -> pa.Schema:
        """The schema of rows on their way to the driver."""
        rank = [] if self.rank_place is None else [(RANK, RANK_TYPE)]
        return pa.schema([*((name, COLUMNS[name].packed) for name in self.places), *rank])

    @property
    def given_schema(self) -> pa.Schema:
        """The schema of rows as they were given; they may be invalid."""
        return pa.schema([(name, COLUMNS[name].given) for name in self.places])


def _rank_place(schema: StructType, latest_by: str) -> int:
    for place, field in enumerate(schema.fields):
        if field.name.lower() == latest_by.lower():
            if type(field.dataType) not in _RANKED:
                raise ValueError(
                    f"latest_by names {field.name}, which is {field.dataType.simpleString()}, not a"
                    " whole number or a timestamp"
                )
            return place
    raise ValueError(f"latest_by names {latest_by!r}, and there is no such column")


def _check_mode(found: Mapping[str, int], mode: WriteMode) -> None:
    expected = [name for name in EXPECTED if name in found]
    if expected and mode is not WriteMode.COMPARE_AND_SET:
        raise ValueError(
            f"column {expected[0]} goes with write_mode {WriteMode.COMPARE_AND_SET}, not {mode}"
        )
    if not expected and mode is WriteMode.COMPARE_AND_SET:
        raise ValueError(f"write_mode {mode} needs a column {' or '.join(EXPECTED)}")


def _check_import(found: Mapping[str, int], mode: WriteMode, *, keep_commit_times: bool) -> None:
    if ("commit_time" in found) != keep_commit_times:
        raise ValueError(
            "use column commit_time and keep_commit_times=true together, or neither: then"
            " the commit time is the current time, and writing is faster"
        )
    if not keep_commit_times:
        return
    unfit = [name for name in ("expected_offset", "end_offset") if name in found]
    if unfit:
        raise ValueError(f"column {unfit[0]} does not go with keep_commit_times")
    if mode is WriteMode.MONOTONIC:
        raise ValueError(f"write_mode {mode} does not go with keep_commit_times")
