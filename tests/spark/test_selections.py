"""Filters give what the same filters give in Python, and less is read for them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_pipeline.source import PUSHDOWN_SETTING, OffsetdSource
from offsetd_storage.offsets_topic.placement import partition_of
from pyspark.sql.datasource import EqualTo, GreaterThan, In

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long(minutes=1)

LATER = datetime(2026, 11, 20, 21, 6, 30)  # noqa: DTZ001  As Spark gives times.
LATER_SQL = "TIMESTAMP '2026-11-20 21:06:30'"

CASES: list[tuple[str, str, Callable[[Any], bool | None]]] = [
    ("raw", "group = 'billing-6'", lambda row: row.group == "billing-6"),
    ("raw", "group IN ('billing-6', 'nobody')", lambda row: row.group == "billing-6"),
    ("raw", "group IS NULL", lambda row: row.group is None),
    ("raw", "topic <> 'orders'", lambda row: row.topic is not None and row.topic != "orders"),
    ("raw", "partition >= 3", lambda row: row.partition is not None and row.partition >= 3),
    ("raw", "log_partition = 7", lambda row: row.log_partition == 7),
    ("raw", f"timestamp > {LATER_SQL}", lambda row: row.timestamp > LATER),
    ("raw", "is_tombstone", lambda row: row.is_tombstone),
    ("raw", "NOT is_control AND record_type = 2", lambda row: row.record_type == 2),
    (
        "raw",
        f"timestamp <= {LATER_SQL} AND topic LIKE 'a%'",
        lambda row: row.timestamp <= LATER and (row.topic or "").startswith("a"),
    ),
    ("history", "group = 'billing-6'", lambda row: row.group == "billing-6"),
    ("history", "kind = 'deleted'", lambda row: row.kind == "deleted"),
    ("history", "transaction = 'aborted'", lambda row: row.transaction == "aborted"),
    (
        "history",
        f"timestamp >= {LATER_SQL} AND partition = 1",
        lambda row: row.timestamp >= LATER and row.partition == 1,
    ),
    ("current", "group = 'billing-6'", lambda row: row.group == "billing-6"),
    ("current", "group LIKE '%-6'", lambda row: row.group.endswith("-6")),
    ("current", "topic = 'orders'", lambda row: row.topic == "orders"),
    ("current", "partition IN (0, 2)", lambda row: row.partition in (0, 2)),
    ("current", f"commit_time > {LATER_SQL}", lambda row: row.commit_time > LATER),
    ("current", "offset < 1000", lambda row: row.offset < 1000),
    ("current", "log_partition <> 7", lambda row: row.log_partition != 7),
    ("groups", "group = 'billing-6'", lambda row: row.group == "billing-6"),
    ("groups", "state = 'EMPTY' AND member_count = 0", lambda row: row.state == "EMPTY"),
]


@pytest.fixture(scope="module")
def whole() -> dict[str, list[Any]]:
    """All rows of the tables that were read already, by mode."""
    return {}


@pytest.fixture
def pushed(spark: SparkSession) -> Iterator[None]:
    """Spark pushes filters down."""
    spark.conf.set(PUSHDOWN_SETTING, "true")
    yield
    spark.conf.unset(PUSHDOWN_SETTING)


@pytest.mark.parametrize(("mode", "condition", "holds"), CASES)
def test_a_filter_gives_what_it_gives_in_python(
    read: Callable[..., DataFrame],
    golden: Path,
    in_utc: None,
    pushed: None,
    whole: dict[str, list[Any]],
    mode: str,
    condition: str,
    holds: Callable[[Any], bool],
) -> None:
    if mode not in whole:
        whole[mode] = read(golden / "data", mode).collect()
    expected = [row for row in whole[mode] if holds(row)]
    found = read(golden / "data", mode, push_filters="true").where(condition).collect()
    assert 0 < len(expected) < len(whole[mode])
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.mark.parametrize("setting", ["false", "true"])
def test_a_table_that_is_used_again_has_no_filters_of_before(
    spark: SparkSession, pushed: None, setting: str, read: Callable[..., DataFrame], golden: Path
) -> None:
    spark.conf.set(PUSHDOWN_SETTING, setting)
    table = read(golden / "data", "current")
    count = table.count()
    billing = table.where("group = 'billing-6'")
    others = table.where("group <> 'billing-6'")
    assert 0 < billing.count() < count
    assert table.count() == count
    assert billing.union(others).count() == count


CHOICES: list[tuple[str, dict[str, str], Callable[[Any], bool]]] = [
    ("raw", {"groups": "billing-6"}, lambda row: row.group == "billing-6"),
    ("raw", {"group_prefix": "billing-"}, lambda row: (row.group or "").startswith("billing-")),
    ("history", {"groups": "billing-6,nobody"}, lambda row: row.group == "billing-6"),
    ("current", {"topics": "orders"}, lambda row: row.topic == "orders"),
    (
        "current",
        {"group_prefix": "billing-", "topics": '["orders"]'},
        lambda row: row.group.startswith("billing-") and row.topic == "orders",
    ),
    ("groups", {"groups": "billing-6"}, lambda row: row.group == "billing-6"),
    ("groups", {"group_prefix": "billing-"}, lambda row: row.group.startswith("billing-")),
]


@pytest.mark.parametrize(("mode", "options", "holds"), CHOICES)
def test_what_options_choose_is_all_that_there_is(
    read: Callable[..., DataFrame],
    golden: Path,
    in_utc: None,
    whole: dict[str, list[Any]],
    mode: str,
    options: dict[str, str],
    holds: Callable[[Any], bool],
) -> None:
    if mode not in whole:
        whole[mode] = read(golden / "data", mode).collect()
    expected = [row for row in whole[mode] if holds(row)]
    found = read(golden / "data", mode, **options).collect()
    assert 0 < len(expected) < len(whole[mode])
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.mark.parametrize("mode", ["raw", "history", "current", "groups"])
def test_only_the_log_partition_of_a_group_is_read(golden: Path, mode: str) -> None:
    source = OffsetdSource({"path": str(golden / "data"), "mode": mode, "push_filters": "true"})
    reader = source.reader(source.schema())
    assert len(logs_read(reader)) > 20
    wanted = ["billing-6", "polygenelubricants-5"]
    list(reader.pushFilters([In(("group",), tuple(wanted))]))
    assert logs_read(reader) == {partition_of(group, 50) for group in wanted}
    list(reader.pushFilters([EqualTo(("log_partition",), 7)]))
    assert logs_read(reader) == {7}
    named = OffsetdSource({"path": str(golden / "data"), "mode": mode, "groups": ",".join(wanted)})
    reader = named.reader(named.schema())
    assert logs_read(reader) == {partition_of(group, 50) for group in wanted}


def test_what_is_filtered_out_never_reaches_spark(golden: Path) -> None:
    source = OffsetdSource({"path": str(golden / "data"), "mode": "raw", "push_filters": "true"})
    reader = source.reader(source.schema())
    list(reader.pushFilters([GreaterThan(("partition",), 0), EqualTo(("topic",), "orders")]))
    batches = [batch for work in reader.partitions() for batch in reader.read(work)]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows
    assert all(row["partition"] > 0 and row["topic"] == "orders" for row in rows)


def logs_read(reader: Any) -> set[int]:
    return {piece.log.log_partition for work in reader.partitions() for piece in work.pieces}
