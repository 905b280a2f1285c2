"""Tables of time say which hours have all that was written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from offsetd_pipeline.audit.cleaner_state import LOG_STATES
from offsetd_pipeline.audit.log_tables import growth, log_partition_table

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
COUNTS = ("tombstones", "tombstone_bytes", "unstamped_tombstones", "tombstones_that_may_go")


def state(log_partition: int, complete_from: int | None) -> dict[str, Any]:
    return {"log_partition": log_partition, "log_bytes": 1, "complete_from": complete_from}


def hour(log_partition: int, time: datetime, complete: datetime | None) -> dict[str, Any]:
    return {
        "log_partition": log_partition,
        "hour": time,
        "records": 1,
        "disk_bytes": 70,
        "first_time": time,
        "last_time": time,
        "complete_time": complete,
        "next_horizon": None,
        **dict.fromkeys(COUNTS, 0),
    }


@pytest.mark.parametrize(
    ("states", "hours", "complete"),
    [
        ([state(0, 0)], [hour(0, NOON, NOON), hour(0, NOON + HOUR, NOON)], [True, True]),
        (
            [state(0, 7)],
            [
                hour(0, NOON, None),
                hour(0, NOON + HOUR, NOON + 3 * HOUR / 2),
                hour(0, NOON + 2 * HOUR, NOON + 2 * HOUR),
            ],
            [False, False, True],
        ),
        # What is complete is not among the records that were asked for.
        ([state(0, 7)], [hour(0, NOON, None)], [False]),
        ([state(0, 0), state(1, 7)], [hour(0, NOON, NOON), hour(1, NOON, None)], [False]),
        ([state(0, 0), state(1, 7)], [hour(0, NOON, NOON)], [False]),
        ([state(0, 0), state(1, None)], [hour(0, NOON, NOON)], [True]),
    ],
    ids=[
        "all",
        "cleaned below",
        "cleaned",
        "one cleaned",
        "one cleaned, and nothing of it",
        "damaged",
    ],
)
def test_an_hour_is_complete_where_all_logs_have_all_of_it(
    states: list[dict[str, Any]], hours: list[dict[str, Any]], complete: list[bool]
) -> None:
    counted = pa.Table.from_pylist(hours)
    partitions = log_partition_table(pa.Table.from_pylist(states, LOG_STATES), counted)
    rows = growth(counted, partitions, by_day=False)
    assert rows.column("is_complete").to_pylist() == complete
