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


def of(
    ddl: str,
    mode: str = "overwrite",
    *,
    keep_commit_times: bool = False,
    latest_by: str | None = None,
) -> WrittenColumns:
    schema = StructType()
    for column in ddl.split(", "):
        name, kind = column.split()
        schema.add(name, TYPES[kind])
    return WrittenColumns.of(
        schema, WriteMode(mode), keep_commit_times=keep_commit_times, latest_by=latest_by
    )


def test_rows_are_ranked_by_a_column_that_need_not_be_written() -> None:
    by_time = of(f"{NEEDED}, Commit_time timestamp", latest_by="commit_time")
    assert (by_time.rank_place, "commit_time" in by_time.places) == (4, False)
    kept = of(f"{NEEDED}, commit_time timestamp", keep_commit_times=True, latest_by="commit_time")
    assert (kept.rank_place, kept.places["commit_time"]) == (4, 4)
    by_number = of(f"Revision long, {NEEDED}", latest_by="revision")
    assert (by_number.rank_place, by_number.packed_schema.names[-1]) == (0, "latest_by")
    assert by_number.given_schema.names == ["group", "topic", "partition", "offset"]
    for column, problem in (
        ("group", "latest_by names group, which is string, not a whole number or a timestamp"),
        ("time", "latest_by names 'time', and there is no such column"),
    ):
        with pytest.raises(ValueError, match=problem):
            of(NEEDED, latest_by=column)


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
