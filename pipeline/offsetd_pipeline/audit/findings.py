"""The findings of an audit as sentences, the worst first."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from offsetd_clients.cli.arguments.time_spans import duration_text

from offsetd_pipeline.plurals import counted
from offsetd_pipeline.reports.formats import shown
from offsetd_pipeline.reports.report import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from offsetd_pipeline.audit.result import Audit

_WARNING, _NOTE, _GOOD = Level.WARNING, Level.NOTE, Level.GOOD
_LEVELS: Final = (_WARNING, _NOTE, _GOOD)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


def findings_of(audit: Audit) -> list[Finding]:
    """A sentence for each question, warnings first."""
    found = [finding for question in _QUESTIONS for finding in question(audit)]
    return sorted(found, key=lambda each: _LEVELS.index(each.level))


def _damage(audit: Audit) -> Iterator[Finding]:
    rows, totals = audit.damage.to_pylist(), _counts(audit)
    if rows:
        size = shown("_bytes", totals["damaged_bytes"])
        yield Finding(
            _WARNING,
            f"{size} of the log are damaged, in {counted(totals['damaged_places'], 'place')}: what"
            f" they held is in none of these figures. The largest: byte {rows[0]['position']} of"
            f" {rows[0]['file']}.",
        )
    broken = [row for row in audit.log_partitions.to_pylist() if row["problem"]]
    if broken:
        yield Finding(
            _WARNING,
            f"Of {counted(len(broken), 'damaged log partition')} it is not known what a cleaner"
            f" would do: {_numbers(row['log_partition'] for row in broken)}.",
        )


def _expiring(audit: Audit) -> Iterator[Finding]:
    totals, rows = _counts(audit), audit.expiring.to_pylist()
    expired, soon = ([row for row in rows if row[each]] for each in ("expired", "expiring"))
    window = _span(audit.thresholds.expiry_warning_ms)
    if count := totals["expired_groups"]:
        yield Finding(
            _WARNING,
            f"{counted(count, 'group')} {_have(count)} offsets that have expired; they go with the"
            f" next check that nothing holds back{_named(expired, count)}.",
        )
    if count := totals["expiring_groups"]:
        first = shown("", totals["next_expiry"])
        yield Finding(
            _WARNING,
            f"{counted(count, 'group')} will lose offsets within {window}, the first {first},"
            f" unless they are committed again{_named(soon, count)}.",
        )
    if not rows:
        yield Finding(
            _GOOD,
            f"No group is about to lose offsets (within {window}, and past half of their life).",
        )


def _moves(audit: Audit) -> Iterator[Finding]:
    totals, rows = _counts(audit), audit.moves.to_pylist()
    if not totals["commits"]:
        yield Finding(
            _NOTE,
            "There is no commit to look at in the part that has all its records: nothing is known"
            " of rewinds, skips and repeats.",
        )
        return
    for event, groups, word in (
        ("rewind", "groups_with_rewinds", "back"),
        ("skip", "groups_with_skips", "ahead"),
    ):
        count = totals[f"{event}s"]
        if not count:
            yield Finding(_GOOD, f"No {event}s in {counted(totals['commits'], 'commit')}.")
            continue
        told = f"{counted(count, event)}, of {counted(totals[groups], 'group')}"
        # All rows of the table may be of the other kind.
        farthest = next((row for row in rows if row["event"] == event), None)
        if farthest:
            told += (
                f"; the farthest: {farthest['group']}, {farthest['topic']}-{farthest['partition']},"
                f" {abs(farthest['distance']):,} {word}, to {farthest['offset']:,},"
                f" {shown('', farthest['time'])}"
            )
        yield Finding(_WARNING, f"{told}.")


def _repeats(audit: Audit) -> Iterator[Finding]:
    totals: Any = audit.totals
    if not totals["commits"]:
        return
    part = shown("_ratio", totals["repeats"] / totals["commits"])
    cost = shown("_bytes", totals["repeat_bytes"])
    if not totals["repeating_groups"]:
        yield Finding(_GOOD, f"{part} of the commits say the same offset again: {cost} of the log.")
        return
    count = totals["repeating_groups"]
    yield Finding(
        _WARNING,
        f"{counted(count, 'group')} {'commits' if count == 1 else 'commit'} the same offsets again"
        f" and again{_named(_repeating(audit), count)}. Of all commits {part} say nothing new:"
        f" {cost} of the log.",
    )


def _repeating(audit: Audit) -> list[dict[str, Any]]:
    """The groups of the table that repeat too much, the most expensive first."""
    limits = audit.thresholds
    rows = audit.groups.sort_by([("repeat_bytes", "descending")]).to_pylist()
    return [
        row
        for row in rows
        if row["repeats"] >= limits.repeats_min and row["repeat_ratio"] >= limits.repeat_ratio_min
    ]


def _future(audit: Audit) -> Iterator[Finding]:
    rows, totals = audit.future.to_pylist(), _counts(audit)
    limit = _span(audit.thresholds.future_ms)
    if not rows:
        yield Finding(_GOOD, f"No record is more than {limit} in the future.")
        return
    count = totals["future_records"]
    yield Finding(
        _WARNING,
        f"{counted(count, 'record')} more than {limit} in the future, up to"
        f" {shown('', rows[0]['latest_time'])}{_named(rows, totals['future_groups'])}. Offsets in"
        " them expire that much later.",
    )


def _strange(audit: Audit) -> Iterator[Finding]:
    rows = audit.strange.to_pylist()
    for what, said in _STRANGE.items():
        found = [row for row in rows if row["strange"] == what]
        if found:
            first = found[0]
            types = sorted({row["record_type"] for row in found} - {None})
            of_types = f" (type {_numbers(types)})" if types else ""
            yield Finding(
                _NOTE if what == "unknown type" else _WARNING,
                f"{counted(sum(row['records'] for row in found), 'record')} with {said}{of_types};"
                f" one is at offset {first['first_log_offset']:,} of log partition"
                f" {first['log_partition']}.",
            )
    if not rows:
        said = "Every record looked at has a key, of a type that is known, and can be read."
        yield Finding(_GOOD, said)


_STRANGE: Final = {
    "unkeyed": "no key",
    "unknown type": "an unknown type",
    "undecodable key": "a key that cannot be read",
    "undecodable value": "a value that cannot be read",
}


def _cleaning(audit: Audit) -> Iterator[Finding]:
    totals: Any = audit.totals
    rows = audit.log_partitions.to_pylist()
    due = [row for row in rows if row["is_due"]]
    log_bytes = totals["log_bytes"]
    saved = max(totals["saved_bytes"], 0)
    told = f"A compaction would free {shown('_bytes', saved)} of {shown('_bytes', log_bytes)}"
    if totals["rolled_saved_bytes"] > saved:
        told += f", {shown('_bytes', totals['rolled_saved_bytes'])} with the active segments rolled"
    is_much = log_bytes and saved / log_bytes >= audit.thresholds.saving_ratio_min
    yield Finding(_WARNING if is_much else _NOTE, f"{told}.")
    limit = shown("_ratio", audit.thresholds.dirty_ratio_max)
    if due:
        yield Finding(
            _WARNING,
            f"{counted(len(due), 'log partition')} should have been compacted (dirtier than"
            f" {limit}, or a horizon is due): {_numbers(row['log_partition'] for row in due)}.",
        )
    else:
        yield Finding(_GOOD, f"No log partition is due for the cleaner (dirtier than {limit}).")
    if totals["tombstones"]:
        yield Finding(
            _NOTE,
            f"{counted(totals['tombstones'], 'tombstone')} {_are(totals['tombstones'])} waiting;"
            f" {totals['tombstones_that_may_go']:,} may go with the next compaction.",
        )


def _hot(audit: Audit) -> Iterator[Finding]:
    least = audit.thresholds.hot_group_ratio_min
    hot = [row for row in audit.hot_groups.to_pylist() if row["log_ratio"] >= least]
    if hot and len(audit.hot_groups) > 1:
        parts = ", ".join(f"{row['group']} ({shown('_ratio', row['log_ratio'])})" for row in hot)
        yield Finding(_NOTE, f"Hot groups, by their part of the bytes looked at: {parts}.")
    sizes = {
        row["log_partition"]: row["disk_bytes"]
        for row in audit.log_partitions.to_pylist()
        if row["disk_bytes"]
    }
    mean = sum(sizes.values()) / len(sizes) if sizes else 0
    factor = audit.thresholds.hot_partition_factor
    above = [number for number, size in sizes.items() if size > factor * mean]
    if above:
        yield Finding(
            _NOTE,
            f"{counted(len(above), 'log partition')} {_have(above)} more than {factor:g} times the"
            f" mean of {shown('_bytes', round(mean))}: {_numbers(above)}.",
        )


def _growth(audit: Audit) -> Iterator[Finding]:
    whole = [row for row in audit.hours.to_pylist() if row["is_complete"]]
    if not whole:
        return
    end = whole[-1]["time"] + _HOUR
    begin = max(end - _DAY, whole[0]["time"])
    last = [row for row in whole if row["time"] >= begin]
    size = shown("_bytes", sum(row["disk_bytes"] for row in last))
    of_whom = " of the groups that were asked for" if audit.scope.is_of_some_groups else ""
    # The last hour may be incomplete.
    until = audit.now if whole[-1]["time"] <= audit.now < end else end
    yield Finding(
        _NOTE,
        f"From {shown('', begin)} to {shown('', until)} {size} were written{of_whom},"
        f" {counted(sum(row['records'] for row in last), 'record')}.",
    )


def _lag(audit: Audit) -> Iterator[Finding]:
    if audit.group_lags is None:
        return
    totals, rows = _counts(audit), audit.group_lags.to_pylist()
    for verdict, said in _VERDICTS.items():
        if count := totals[f"{verdict}_groups"]:
            found = _named([row for row in rows if row[verdict]], count)
            yield Finding(_WARNING, f"{counted(count, 'group')} {_are(count)} {said}{found}.")
    limit = audit.thresholds.time_lag_max_ms
    if count := totals["late_groups"]:
        late = [row for row in rows if (row["time_lag_max_ms"] or 0) > limit]
        late.sort(key=lambda row: -row["time_lag_max_ms"])
        yield Finding(
            _WARNING,
            f"{counted(count, 'group')} {_are(count)} more than {_span(limit)} behind"
            f"{_named(late, count)}.",
        )
    if rows and not any(totals[f"{each}_groups"] for each in (*_VERDICTS, "late")):
        yield Finding(_GOOD, "No group is stopped, stalled, or far behind.")


_VERDICTS: Final = {
    "stopped": "behind, with partitions that are no longer committed",
    "stalled": "behind, and committing the same offset",
    "rewind": "behind after going back",
    "ahead": "ahead of the end of a topic (was the topic created again?)",
}
_QUESTIONS: Final[tuple[Callable[[Audit], Iterator[Finding]], ...]] = (
    *(_damage, _expiring, _lag, _moves, _repeats, _future, _strange, _cleaning, _growth, _hot),
)
_NAMED: Final = 3


def _counts(audit: Audit) -> Mapping[str, Any]:
    """The totals for all questions."""
    return audit.totals


def _span(span_ms: int) -> str:
    return duration_text(timedelta(milliseconds=span_ms))


def _have(count: Any) -> str:
    return "has" if count == 1 else "have"


def _are(count: Any) -> str:
    return "is" if count == 1 else "are"


def _named(rows: list[dict[str, Any]], count: Any) -> str:
    """Text such as `: a, b, c and 7 more` about `count` groups; `rows` has some of them."""
    groups = (row["group"] for row in rows if row["group"] is not None)
    names = list(dict.fromkeys(groups))[:_NAMED]
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    return f": {', '.join(names)}{more}" if names else ""


def _numbers(numbers: Any) -> str:
    found = [str(each) for each in numbers]
    more = f" and {len(found) - 10:,} more" if len(found) > 10 else ""
    return ", ".join(found[:10]) + more
