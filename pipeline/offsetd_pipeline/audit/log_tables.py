"""Tables of log partitions and of time, from counts by partition and hour."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from offsetd_pipeline.audit.cleaner_state import LOG_STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
_FIRST_TIME: Final = datetime.min.replace(tzinfo=UTC)
_TIME: Final = pa.timestamp("us", tz="UTC")
_COUNTS: Final = (
    *("records", "disk_bytes", "tombstones", "tombstone_bytes", "unstamped_tombstones"),
    "tombstones_that_may_go",
)
LOG_PARTITIONS: Final = pa.schema(
    [
        *(LOG_STATES.field(name) for name in ("log_partition", "log_bytes", "segments")),
        ("records", pa.int64()),
        ("disk_bytes", pa.int64()),
        *(LOG_STATES.field(name) for name in ("dirty_ratio", "is_due", "dirty_bytes")),
        *(LOG_STATES.field(name) for name in ("saved_bytes", "rolled_saved_bytes")),
        *((name, pa.int64()) for name in _COUNTS[2:]),
        ("next_horizon", _TIME),
        ("first_time", _TIME),
        ("last_time", _TIME),
        ("complete_since", _TIME),
        *(
            LOG_STATES.field(name)
            for name in (
                *("log_start_offset", "end_offset", "complete_from", "first_dirty_offset"),
                *("first_uncleanable_offset", "clean_bytes", "saved_records"),
                *("rolled_saved_records", "problem"),
            )
        ),
    ]
)
GROWTH: Final = pa.schema(
    [
        ("time", _TIME),
        ("records", pa.int64()),
        ("disk_bytes", pa.int64()),
        ("is_complete", pa.bool_()),
    ]
)


def log_partition_table(states: pa.Table, hours: pa.Table) -> pa.Table:
    """A row for each log partition, by its number.

    `complete_since`: the time since when it has all records; null if its whole log is complete.
    """
    counted: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in hours.to_pylist():
        counted[row["log_partition"]].append(row)
    rows = []
    for state in states.to_pylist():
        found = counted[state["log_partition"]]
        row = state | {name: sum(each[name] or 0 for each in found) for name in _COUNTS}
        row |= {
            "next_horizon": _least(each["next_horizon"] for each in found),
            "first_time": _least(each["first_time"] for each in found),
            "last_time": max(
                (each["last_time"] for each in found if each["last_time"]), default=None
            ),
            "complete_since": (
                _least(each["complete_time"] for each in found) if state["complete_from"] else None
            ),
        }
        rows.append({name: row[name] for name in LOG_PARTITIONS.names})
    return pa.Table.from_pylist(rows, schema=LOG_PARTITIONS)


def _complete_since(log_partitions: pa.Table) -> datetime | None:
    """The time since when all logs have all records; None if a log has no such part."""
    latest = _FIRST_TIME
    for row in log_partitions.select(["log_bytes", "complete_from", "complete_since"]).to_pylist():
        if row["complete_from"] and row["log_bytes"]:
            if row["complete_since"] is None:
                return None
            latest = max(latest, row["complete_since"])
    return latest


def _least(times: Iterable[datetime | None]) -> datetime | None:
    return min((each for each in times if each is not None), default=None)


def growth(hours: pa.Table, log_partitions: pa.Table, *, by_day: bool) -> pa.Table:
    """The present records by the hour, or day, in which they were written; the oldest first.

    `is_complete`: all logs still have all records of that time.
    """
    since = _complete_since(log_partitions)
    added: dict[datetime, dict[str, int]] = defaultdict(lambda: {"records": 0, "disk_bytes": 0})
    for row in hours.to_pylist():
        if row["hour"] is not None:
            time = row["hour"].replace(hour=0) if by_day else row["hour"]
            added[time]["records"] += row["records"]
            added[time]["disk_bytes"] += row["disk_bytes"]
    rows: list[Mapping[str, object]] = [
        {"time": time, **added[time], "is_complete": since is not None and time >= since}
        for time in sorted(added)
    ]
    return pa.Table.from_pylist(rows, schema=GROWTH)
