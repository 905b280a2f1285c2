"""The report pages of `archive` and `restore`."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from offsetd_pipeline.archive.restored_groups import Outcome
from offsetd_pipeline.plurals import counted, were
from offsetd_pipeline.reports import Finding, Level, Plot, Report, Section, Table, plots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_pipeline.archive.manifests import DamagedBytes, Gap, Manifest
    from offsetd_pipeline.archive.restored_groups import Restored
    from offsetd_pipeline.archive.run import Archived

_DAYS_SHOWN_MAX = 40
_TIME = pa.timestamp("ms", tz="UTC")


def archived_report(archived: Archived, archive: str) -> Report:
    """Reports the records that a run added, and those that it could not read."""
    manifest = archived.manifest
    sections: tuple[Section, ...] = ()
    facts: dict[str, object] = {"archive": archive, "new_records": 0}
    if manifest is not None:
        facts = {
            "archive": archive,
            "manifest": manifest.number,
            "source": manifest.source,
            "new_records": manifest.record_count,
            "new_files": len(manifest.files),
            "written_bytes": sum(each.size_bytes for each in manifest.files),
            "log_partitions": len(manifest.positions),
            "latest_record": moment(manifest.latest_ms),
        }
        sections = (_log_section(manifest), _day_section(manifest), *_lacking_sections(manifest))
    return Report(
        title="Archive of offsets",
        time=datetime.now(UTC),
        facts=facts,
        findings=tuple(_archive_findings(archived)),
        sections=sections,
    )


def _archive_findings(archived: Archived) -> list[Finding]:
    found = []
    if archived.manifest is None:
        found.append(Finding(Level.NOTE, "There was nothing new."))
    found += [Finding(Level.WARNING, gap_told(each)) for each in archived.gaps]
    found += [Finding(Level.NOTE, text) for text in beginnings_told(archived)]
    found += [Finding(Level.WARNING, damage_told(each)) for each in archived.damage]
    found += [
        Finding(
            Level.WARNING,
            f"Log partition {each.log_partition} is archived up to {each.log_offset:,} only: a"
            f" transaction of producer {each.producer_id} is open there since"
            f" {moment(each.since_ms)}.",
        )
        for each in archived.held_up
    ]
    if archived.orphan_count:
        found.append(Finding(Level.NOTE, orphans_told(archived)))
    if archived.vanished_count:
        found.append(Finding(Level.NOTE, vanished_told(archived)))
    if not found:
        found.append(Finding(Level.GOOD, "Everything that was new is archived."))
    return found


def _log_section(manifest: Manifest) -> Section:
    counts: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    for file in manifest.files:
        counts[file.log_partition] += file.record_count
        sizes[file.log_partition] += file.size_bytes
    numbers = sorted(manifest.positions)
    rows = {
        "log_partition": numbers,
        "new_records": [counts[each] for each in numbers],
        "written_bytes": [sizes[each] for each in numbers],
        "next_log_offset": [manifest.positions[each].log_offset for each in numbers],
        "latest_record": pa.array(
            [manifest.positions[each].latest_ms for each in numbers], pa.int64()
        ).cast(_TIME),
    }
    filled = [counts[each] for each in range(max(numbers, default=0) + 1)]
    return Section(
        title="Log partitions",
        parts=(
            Plot(title="New records of each", svg=plots.columns(filled, x_label="log partition")),
            Table(name="log_partitions", title="How far each is archived", rows=pa.table(rows)),
        ),
    )


def _day_section(manifest: Manifest) -> Section:
    counts: Counter[str] = Counter()
    for file in manifest.files:
        counts[file.day or "none"] += file.record_count
    days = sorted(counts)
    rows = {"day": days, "new_records": [counts[each] for each in days]}
    table = Table(name="days", title="Records of each day", rows=pa.table(rows))
    shown = days[-_DAYS_SHOWN_MAX:]
    if not shown:
        return Section(title="Days", parts=(table,))
    drawn = plots.bars({each: counts[each] for each in shown})
    return Section(title="Days", parts=(Plot(title="Records of the last days", svg=drawn), table))


def _lacking_sections(manifest: Manifest) -> list[Section]:
    parts = []
    if manifest.gaps:
        note = (
            "Log offsets that were gone before they were archived. What is current is known again"
            " from the time at which a gap ends."
        )
        parts.append(
            Table(name="gaps", title="Gaps", note=note, rows=_table(map(_gap_row, manifest.gaps)))
        )
    if manifest.damage:
        rows = _table(attrs.asdict(each) for each in manifest.damage)
        parts.append(Table(name="damage", title="Damaged bytes that were passed over", rows=rows))
    return [Section(title="What is not archived", parts=tuple(parts))] if parts else []


def restored_report(restored: Restored, archive: str, server: str) -> Report:
    """The outcome of each group, or the outcome that an execution would have."""
    groups = restored.groups
    outcomes = {each.value: restored.count(each) for each in Outcome if restored.count(each)}
    rows = _table(attrs.asdict(each) | {"outcome": each.outcome.value} for each in groups)
    parts: list[Plot | Table] = [Table(name="groups", title="Each group", rows=rows)]
    if outcomes:
        parts.insert(0, Plot(title="Groups", svg=plots.bars(outcomes)))
    return Report(
        title="Restore of offsets" + (" (dry run)" if restored.is_dry_run else ""),
        time=datetime.now(UTC),
        facts={
            "archive": archive,
            "server": server,
            "state_at": restored.at or "the archive's end",
            "archive_ends": restored.archive_latest,
            "groups": len(groups),
            "offsets": sum(each.offset_count for each in groups),
            "written_offsets": sum(each.written_count for each in groups),
            "deleted_offsets": sum(each.deleted_count for each in groups),
        },
        findings=tuple(_restore_findings(restored)),
        sections=(Section(title="Groups", parts=tuple(parts)),),
    )


def _restore_findings(restored: Restored) -> list[Finding]:
    found = [Finding(Level.WARNING, text) for text in warnings_of(restored)]
    if restored.is_dry_run:
        found.append(Finding(Level.NOTE, "This was a dry run: nothing was changed."))
    if not restored.groups:
        found.append(Finding(Level.NOTE, "No group was restored: none had offsets then."))
    if not found:
        found.append(Finding(Level.GOOD, "Every group is as it was."))
    return found


def warnings_of(restored: Restored) -> list[str]:
    """Warnings about a restore, as text for users."""
    found = [gap_told(each) for each in restored.gaps]
    if restored.other_source is not None:
        found.append(
            f"The archive is of {restored.other_source}, not of this server's folder"
            " (--execute wants --from-other-source)."
        )
    if restored.begins_later:
        found.append("The archive begins later: it has nothing from then.")
    if restored.damaged_bytes:
        found.append(
            f"The archive lacks what {restored.damaged_bytes:,} damaged bytes of the log held:"
            " offsets may be older than they were, or missing."
        )
    if restored.ends_before:
        found.append(
            f"The archive's newest record is of {restored.archive_latest}: if anything was"
            f" committed from then to {restored.at}, it is not in the archive."
        )
    expiring = sum(each.expiring_count for each in restored.groups)
    if expiring:
        found.append(
            f"Older than the retention: {counted(expiring, 'offset')}. The server removes these"
            " with its next check, unless the retention of their groups is raised."
        )
    others = sum(each.other_count - each.deleted_count for each in restored.groups)
    if others:
        found.append(
            f"Not there then, and kept: {counted(others, 'offset')} of today (--delete-others"
            " deletes)."
        )
    failed = [each for each in restored.groups if each.outcome is Outcome.FAILED]
    undeleted = sum(each.other_count > 0 for each in failed)
    if undeleted:
        found.append(
            f"{counted(undeleted, 'group')} failed in part: what was not there then could not be"
            " deleted."
        )
    if len(failed) > undeleted:
        nothing = "would be" if restored.is_dry_run else "was"
        count = counted(len(failed) - undeleted, "group")
        found.append(f"{count} failed: nothing {nothing} restored there.")
    if restored.stopped_by is not None:
        found.append(f"It stopped early: {restored.stopped_by}")
    return found


def gaps_of(archived: Archived) -> Sequence[Gap]:
    """All gaps of a run, also those of log partitions archived for the first time."""
    return () if archived.manifest is None else archived.manifest.gaps


def gap_told(gap: Gap) -> str:
    """A gap, as text for users."""
    until = moment(gap.to_ms)
    when = f"until {until}" if gap.from_ms is None else f"between {moment(gap.from_ms)} and {until}"
    return (
        f"Log partition {gap.log_partition} lacks {counted(gap.missing_count, 'record')}"
        " (compacted away, deleted, or damaged before they were archived): what was committed"
        f" {when} is not known for sure."
    )


def beginnings_told(archived: Archived) -> list[str]:
    """Text for users about records missing when log partitions were first archived.

    In a damaged log, damage or a cleaner may have removed a record.
    """
    first = [each for each in gaps_of(archived) if each not in archived.gaps]
    damaged = {each.log_partition for each in archived.damage}
    found = []
    for gaps, why in (
        (
            [each for each in first if each.log_partition not in damaged],
            "compacted away or deleted",
        ),
        ([each for each in first if each.log_partition in damaged], "damaged, or compacted away"),
    ):
        if gaps:
            count = sum(each.missing_count for each in gaps)
            found.append(
                f"The archive begins here: {counted(count, 'record')} of"
                f" {counted(len(gaps), 'log partition')} {were(count)} {why}"
                " before."
            )
    return found


def damage_told(damage: DamagedBytes) -> str:
    """Skipped bytes, as text for users."""
    return (
        f"Passed over {counted(damage.size_bytes, 'byte')} of {damage.file} at byte"
        f" {damage.position}: {damage.reason}."
    )


def orphans_told(archived: Archived) -> str:
    """A note for users about files that earlier runs left."""
    count = archived.orphan_count
    return f"{counted(count, 'file')} of runs that did not end {were(count)} removed."


def vanished_told(archived: Archived) -> str:
    """A note for users about the rows that stand for deletions that the log no longer has."""
    return (
        f"{counted(archived.vanished_count, 'row')} of the new ones stand for deletions that"
        " the log no longer has (kind vanished)."
    )


def moment(time_ms: int | None) -> datetime | None:
    """A time in UTC."""
    return None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC)


def _gap_row(gap: Gap) -> dict[str, Any]:
    row = attrs.asdict(gap)
    return row | {"from_time": moment(row.pop("from_ms")), "to_time": moment(row.pop("to_ms"))}


def _table(rows: Any) -> pa.Table:
    return pa.Table.from_pylist(list(rows))
