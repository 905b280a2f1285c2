"""What the Spark guide promises of columns that are asked for by a schema; no session is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from offsetd_pipeline.source import OffsetdSource
from promised import promised_by
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

promised = promised_by("docs/guides/spark.md")

DATA: Final = Path(__file__).parents[1] / "golden" / "kafka-4.1.1" / "data"


def rows_of(fields: dict[str, DataType], *, is_stream: bool) -> list[dict[str, Any]]:
    """The first piece of a table, or of a stream's first batch."""
    source = OffsetdSource({"mode": "history", "path": str(DATA)})
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    if is_stream:
        reader: Any = source.streamReader(schema)
        begin = reader.initialOffset()
        work = reader.partitions(begin, reader.latestOffset(begin, ReadAllAvailable()))
    else:
        reader = source.reader(schema)
        work = reader.partitions()
    return [row for batch in reader.read(work[0]) for row in batch.to_pylist()]


@promised(
    'some columns, separated by commas: the others are not computed. `.schema("group string, '
    'offset bigint")` does the same'
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_schema_chooses_columns_in_its_order(is_stream: bool) -> None:
    rows = rows_of({"offset": LongType(), "group": StringType()}, is_stream=is_stream)
    assert {tuple(row) for row in rows} == {("offset", "group")}


@promised(
    'some columns, separated by commas: the others are not computed. `.schema("group string, '
    'offset bigint")` does the same'
)
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"lag": LongType()}, "mode history has no column 'lag'; it has log_partition, "),
        ({"OFFSET": LongType()}, "mode history has no column 'OFFSET'"),
        ({"group": IntegerType()}, "column group is string, not int"),
        ({"offset": IntegerType()}, "column offset is bigint, not int"),
    ],
)
def test_a_schema_of_other_columns_says_what_there_is(
    fields: dict[str, DataType], said: str, is_stream: bool
) -> None:
    with pytest.raises(ValueError, match=said):
        rows_of(fields, is_stream=is_stream)
