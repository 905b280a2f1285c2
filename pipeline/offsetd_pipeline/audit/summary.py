"""The few columns of an audit that fit a terminal, in units that people read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_pipeline.reports.formats import heading, shown

if TYPE_CHECKING:
    from offsetd_pipeline.audit.result import Audit

_TABLES: Final = {
    "expiring": (
        "About to expire",
        ("group", "state", "offsets", "expired", "expiring", "first_expiry"),
    ),
    "group_lags": (
        "Behind",
        ("group", "lag", "time_lag_max_ms", "stopped", "stalled", "rewind", "ahead"),
    ),
    "moves": (
        "Rewinds and skips",
        ("event", "group", "topic", "partition", "time", "offset_before", "offset"),
    ),
    "repeats": (
        "The same offset again",
        ("group", "topic", "partition", "commits", "repeats", "repeat_bytes"),
    ),
    "groups": (
        "Groups by what their commits take",
        ("group", "commits", "commits_an_hour", "gap_p50_ms", "gap_p99_ms", "commit_bytes"),
    ),
    "log_partitions": (
        "Log partitions",
        ("log_partition", "log_bytes", "dirty_ratio", "saved_bytes", "tombstones"),
    ),
    "future": ("Of the future", ("group", "log_partition", "future_records", "latest_time")),
    "strange": ("Strange records", ("strange", "record_type", "log_partition", "records")),
}


def summary_tables(audit: Audit, top: int) -> dict[str, list[dict[str, object]]]:
    """By title, the first `top` rows of each table that has any, the largest log partitions."""
    found = {}
    for name, rows in audit.tables().items():
        if name in _TABLES and rows.num_rows:
            title, columns = _TABLES[name]
            order = [("log_bytes", "descending")] if name == "log_partitions" else []
            worst = (rows.sort_by(order) if order else rows).slice(0, top).select(columns)
            more = f" ({top} of {rows.num_rows:,})" if rows.num_rows > top else ""
            found[name, f"{title}{more}"] = [
                {heading(column): _cell(column, value) for column, value in row.items()}
                for row in worst.to_pylist()
            ]
    return {title: found[name, title] for name in _TABLES for each, title in found if each == name}


def _cell(column: str, value: object) -> object:
    """Plain numbers stay numbers, which stand to the right; None is shown as such."""
    if isinstance(value, int) and shown(column, value) == f"{value:,}":
        return value
    return None if value is None else shown(column, value)
