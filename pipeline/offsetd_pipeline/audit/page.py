"""An audit as a report: the problems, then each question with its table and its picture."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from offsetd_pipeline.reports import Plot, Report, Section, Table, plots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import pyarrow as pa

    from offsetd_pipeline.audit.result import Audit

_BARS_MAX: Final = 15
_POINTS_MAX: Final = 14 * 24
_NOTHING_WRITTEN: Final = {"disk_bytes": 0, "records": 0}
_ROWS_SHOWN: Final = 20


def report_of(audit: Audit) -> Report:
    """The report of an audit: a page and its tables."""
    totals = audit.totals
    return Report(
        title=f"Audit of {audit.folder}",
        time=audit.now,
        facts={
            **{name: totals[name] for name in ("log_bytes", "records", "groups", "commits")},
            "first_record": totals["first_time"],
            "last_record": totals["last_time"],
            "a_compaction_saves_bytes": totals["saved_bytes"],
            "expiry_counts_from": _COUNTS_FROM[audit.expiry_base.value],
            **_asked(audit),
        },
        findings=audit.findings,
        sections=tuple(_sections(audit)),
    )


def _asked(audit: Audit) -> dict[str, object]:
    """The part of the folder that was read, if it was not the whole folder."""
    scope = audit.scope
    prefix = [f"{scope.group_prefix}…"] if scope.group_prefix else []
    asked = {
        "only_groups": [*scope.groups, *prefix],
        "only_records_since": scope.since,
        "only_records_until": scope.until,
    }
    return {name: value for name, value in asked.items() if value}


_COUNTS_FROM: Final = {"latest": "the later of commit and empty", "kafka": "when it became empty"}


def _sections(audit: Audit) -> Iterator[Section]:
    if audit.damage.num_rows:
        yield Section(title="Damage", parts=(_table(audit, "damage", "Not read"),))
    yield Section(title="Groups that lose offsets", parts=(_expiring(audit),))
    if audit.group_lags is not None:
        yield Section(title="Lag", parts=tuple(_lag(audit)))
    yield Section(title="Rewinds and skips", parts=(_moves(audit),))
    yield Section(
        title="Commits",
        note="Of the part of each log that no cleaner has gone over yet.",
        parts=tuple(_commits(audit)),
    )
    yield Section(title="Growth", parts=tuple(_growth(audit)))
    yield Section(title="Log partitions and the cleaner", parts=tuple(_log_partitions(audit)))
    yield Section(title="Hot groups", parts=tuple(_hot(audit)))
    yield Section(title="Records of the future, and strange ones", parts=tuple(_odd(audit)))


def _table(
    audit: Audit, name: str, title: str, note: str = "", rows: pa.Table | None = None
) -> Table:
    """One of the audit's tables; `rows`: the same rows in another order."""
    return Table(
        name=name,
        title=title,
        rows=audit.tables()[name] if rows is None else rows,
        note=note,
        shown_rows=_ROWS_SHOWN,
        row_count=audit.row_counts.get(name),
    )


def _expiring(audit: Audit) -> Table:
    note = "Expired ones are still there; the last expiry is not known where one stays."
    return _table(audit, "expiring", "About to expire", note)


def _moves(audit: Audit) -> Table:
    note = "From one commit of a partition to the next; a negative distance is a rewind."
    return _table(audit, "moves", "The farthest first", note)


def _lag(audit: Audit) -> Iterator[Table | Plot]:
    yield _bars(audit, "group_lags", "Lag by group, in records", "lag")
    yield _table(audit, "group_lags", "By group")
    note = (
        "OK, or: STOPPED (no commit for long), STALLED (the same offset again and again), REWIND"
        " (it went back last), AHEAD (of the topic's end)."
    )
    yield _table(audit, "lags", "By partition", note)


def _commits(audit: Audit) -> Iterator[Table | Plot]:
    gaps = audit.gaps.to_pydict()
    if gaps["gap_ms"]:
        yield Plot(
            title="Gaps between two commits of a partition",
            svg=plots.histogram(
                gaps["gap_ms"], unit="_ms", y_label="commits", counts=gaps["commits"]
            ),
            note="All groups together; gaps are rounded to two digits.",
        )
    yield _table(audit, "groups", "How often groups commit", "By the bytes they take.")
    yield _table(audit, "repeats", "The same offset again", "What it costs, by partition.")
    yield _table(audit, "gaps", "Gaps, counted")


def _growth(audit: Audit) -> Iterator[Table | Plot]:
    hours = _filled(audit.hours, timedelta(hours=1))
    drawn, what = hours, "hour"
    if len(hours) > _POINTS_MAX:
        drawn, what = _filled(audit.days, timedelta(days=1)), "day"
    for name, title, unit in (("disk_bytes", "Bytes", "_bytes"), ("records", "Records", "")):
        if len(drawn) > 1:
            values = {name: [row[name] for row in drawn.values()]}
            yield Plot(
                title=f"{title} written in each {what}",
                svg=plots.lines(list(drawn), values, unit=unit),
                note="Where a cleaner was, only what it left is counted." if unit else "",
            )
    newest_first = [("time", "descending")]
    yield _table(audit, "hours", "By hour", rows=audit.hours.sort_by(newest_first))
    yield _table(audit, "days", "By day", rows=audit.days.sort_by(newest_first))


def _filled(rows: pa.Table, step: timedelta) -> dict[datetime, dict[str, Any]]:
    """The last rows by time, with empty rows for times without records; one more than is drawn."""
    by_time = {row["time"]: row for row in rows.to_pylist()}
    if not by_time:
        return {}
    first, last = min(by_time), max(by_time)
    count = min((last - first) // step, _POINTS_MAX) + 1
    times = [last - step * back for back in reversed(range(count))]
    return {time: by_time.get(time, _NOTHING_WRITTEN) for time in times}


def _log_partitions(audit: Audit) -> Iterator[Table | Plot]:
    rows = audit.log_partitions
    for title, name, unit in (
        ("Bytes of each log partition", "log_bytes", "_bytes"),
        ("Dirty ratio: what no compaction went over yet", "dirty_ratio", "_ratio"),
    ):
        values = dict(zip(rows["log_partition"].to_pylist(), rows[name].to_pylist(), strict=True))
        yield Plot(
            title=title,
            svg=plots.columns(
                [values.get(number) or 0 for number in range(max(values, default=0) + 1)],
                unit=unit,
                x_label="log partition",
            ),
        )
    note = (
        "Saved bytes: by a compaction as it would go now; rolled: if the active segment were closed"
        " before. Both by the cleaner itself, without writing."
    )
    yield _table(audit, "log_partitions", "How each stands with the cleaner", note)


def _hot(audit: Audit) -> Iterator[Table | Plot]:
    yield _bars(audit, "hot_groups", "Bytes of the log by group", "disk_bytes", "_bytes")
    yield _table(audit, "hot_groups", "By bytes")


def _odd(audit: Audit) -> Iterator[Table]:
    yield _table(audit, "future", "Of the future")
    yield _table(audit, "strange", "Without a key, of an unknown type, undecodable")


def _bars(audit: Audit, table: str, title: str, name: str, unit: str = "") -> Plot:
    count = audit.row_count(table)
    first = audit.tables()[table].slice(0, _BARS_MAX).to_pylist()
    return Plot(
        title=title,
        svg=plots.bars({row["group"]: row[name] for row in first}, unit=unit),
        note=f"The first {_BARS_MAX} of {count:,}." if count > _BARS_MAX else "",
    )
