"""offsetd_pipeline.writing.columns: which tables can be written."""

from __future__ import annotations

import pytest
from offsetd_pipeline.writing.columns import WriteMode, WrittenColumns
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

TYPES = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
}
NEEDED = "group string, topic string, partition int, offset long"


def of(ddl: str, mode: str = "overwrite", *, keep_commit_times: bool = False) -> WrittenColumns:
    schema = StructType()
    for column in ddl.split(", "):
        name, kind = column.split()
        schema.add(name, TYPES[kind])
    return WrittenColumns.of(schema, WriteMode(mode), keep_commit_times=keep_commit_times)


def test_columns_are_found_by_name_without_case_in_any_order() -> None:
    found = of("Metadata string, OFFSET long, Partition long, Topic string, Group string")
    assert found.places == {"group": 4, "topic": 3, "partition": 2, "offset": 1, "metadata": 0}
    assert found.packed_schema.names == ["group", "topic", "partition", "offset", "metadata"]


@pytest.mark.parametrize(
    ("ddl", "mode", "keep_commit_times", "problem"),
    [
        ("group string, topic string, offset long", "overwrite", False, "partition is missing"),
        (f"{NEEDED}, lag long", "overwrite", False, "no column 'lag' is written"),
        (f"{NEEDED}, Offset long", "overwrite", False, "offset is there twice"),
        (
            "group string, topic string, partition string, offset long",
            "overwrite",
            False,
            "column partition is string, not tinyint, smallint, int, bigint",
        ),
        (f"{NEEDED}, expected_offset long", "overwrite", False, "goes with write_mode compare"),
        (f"{NEEDED}, expected_revision long", "create", False, "goes with write_mode compare"),
        (NEEDED, "compare_and_set", False, "needs a column expected_offset or"),
        (f"{NEEDED}, commit_time timestamp", "overwrite", False, "keep_commit_times=true"),
        (NEEDED, "overwrite", True, "keep_commit_times=true"),
        (f"{NEEDED}, commit_time timestamp_ntz", "overwrite", True, "not timestamp"),
        (f"{NEEDED}, commit_time timestamp", "monotonic", True, "does not go with keep"),
        (
            f"{NEEDED}, commit_time timestamp, expected_offset long",
            "compare_and_set",
            True,
            "expected_offset does not go with keep",
        ),
        (f"{NEEDED}, commit_time timestamp, end_offset long", "overwrite", True, "end_offset"),
    ],
)
def test_a_table_that_cannot_be_written_is_refused(
    ddl: str,
    mode: str,
    keep_commit_times: bool,
    problem: str,
) -> None:
    with pytest.raises(ValueError, match=problem):
        of(ddl, mode, keep_commit_times=keep_commit_times)
