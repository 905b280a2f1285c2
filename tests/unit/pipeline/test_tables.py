from __future__ import annotations

from pathlib import Path

import pytest
from offsetd_pipeline.arrow_columns import COLUMNS
from offsetd_pipeline.tables import TABLES, Mode, arrow_schema, check_schema, schema_of
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "spark.md"
OF_LOGS = {"log_partition", "segment", "transaction"}


@pytest.mark.parametrize("mode", Mode)
def test_the_guide_has_every_column_with_its_meaning(mode: Mode) -> None:
    _, _, section = GUIDE.read_text(encoding="utf-8").partition(f"### `{mode}`\n")
    section = section.partition("\n### ")[0]
    documented = [
        (name.strip(" `"), meaning.strip())
        for _, name, _, meaning, _ in (
            line.split("|") for line in section.splitlines() if line.startswith("| `")
        )
    ]
    assert documented == [(column.name, column.meaning) for column in TABLES[mode]]


@pytest.mark.parametrize("mode", [Mode.CURRENT, Mode.HISTORY, Mode.RAW])
def test_every_column_of_records_can_be_made(mode: Mode) -> None:
    assert {column.name for column in TABLES[mode]} <= COLUMNS.keys() | OF_LOGS


@pytest.mark.parametrize("mode", Mode)
def test_batches_have_the_types_that_spark_checks_for(mode: Mode) -> None:
    schema = schema_of(mode)
    assert arrow_schema(schema).equals(to_arrow_schema(schema, timezone="UTC"))


def test_a_schema_may_have_some_columns_in_any_order() -> None:
    some = StructType([StructField("offset", LongType()), StructField("group", StringType())])
    check_schema(Mode.CURRENT, some)
    assert schema_of(Mode.CURRENT, ["offset", "group"]).fieldNames() == ["offset", "group"]
    assert schema_of(Mode.RAW)["position"].metadata["comment"].endswith("bytes")


def test_a_schema_with_other_columns_or_types_is_refused() -> None:
    with pytest.raises(ValueError, match="mode groups has no column 'offset'"):
        check_schema(Mode.GROUPS, StructType([StructField("offset", LongType())]))
    with pytest.raises(ValueError, match="column offset is bigint, not int"):
        check_schema(Mode.CURRENT, StructType([StructField("offset", IntegerType())]))
