"""The few columns of an audit that fit a terminal, in units for users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_pipeline.reports.formats import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_pipeline.audit.result import Audit

_CELLS_MAX: Final = 40
_TABLES: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "expiring": (
        "About to expire",
        {
            "group": "group",
            "state": "state",
            "offsets": "offsets",
            "expired": "expired",
            "expiring": "soon",
            "first_expiry": "first",
        },
    ),
    "group_lags": (
        "Behind",
        {
            "group": "group",
            "lag": "lag",
            "time_lag_max_ms": "time lag",
            "stopped": "stopped",
            "stalled": "stalled",
            "rewind": "rewind",
            "ahead": "ahead",
        },
    ),
    "moves": (
        "Rewinds and skips",
        {
            "group": "group",
            "topic": "topic",
            "partition": "part.",
            "time": "time",
            "offset_before": "from",
            "offset": "to",
        },
    ),
    "repeats": (
        "The same offset again",
        {
            "group": "group",
            "topic": "topic",
            "partition": "part.",
            "commits": "commits",
            "repeats": "repeats",
            "repeat_bytes": "cost",
        },
    ),
    "groups": (
        "What commits take of the log",
        {
            "group": "group",
            "commits": "commits",
            "commits_an_hour": "an hour",
            "gap_p50_ms": "gap p50",
            "gap_p99_ms": "p99",
            "commit_bytes": "bytes",
        },
    ),
    "log_partitions": (
        "Log partitions",
        {
            "log_partition": "log part.",
            "log_bytes": "bytes",
            "dirty_ratio": "dirty",
            "saved_bytes": "to save",
            "rolled_saved_bytes": "if rolled",
            "tombstones": "tombstones",
        },
    ),
    "future": (
        "Of the future",
        {"group": "group", "future_records": "records", "latest_time": "latest"},
    ),
    "strange": (
        "Strange records",
        {
            "strange": "what",
            "record_type": "type",
            "log_partition": "log part.",
            "records": "records",
            "first_log_offset": "first at",
        },
    ),
}


def summary_tables(audit: Audit, top: int) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Titles, and the first `top` rows of each table that has rows.

    For log partitions, these are the largest ones.
    """
    tables = audit.tables()
    for name, (title, headings) in _TABLES.items():
        rows = tables.get(name)
        if rows is None or not rows.num_rows:
            continue
        if name == "log_partitions":
            rows = rows.sort_by([("log_bytes", "descending")])
        count = audit.row_count(name)
        more = f" ({top} of {count:,})" if count > top else ""
        first = rows.select(list(headings)).slice(0, top).to_pylist()
        yield (
            f"{title}{more}",
            [{headings[each]: _cell(each, value) for each, value in row.items()} for row in first],
        )


def _cell(column: str, value: object) -> object:
    """Plain numbers stay numbers, which are aligned to the right; None is shown as such."""
    if isinstance(value, int) and shown(column, value) == f"{value:,}":
        return value
    if value is None:
        return None
    text = shown(column, value)
    return text if len(text) <= _CELLS_MAX else f"{text[: _CELLS_MAX - 1]}…"
