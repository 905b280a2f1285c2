"""An audit of a log of which all answers are known, as it was written by hand."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from audited_logs import WrittenLog
from offsetd_pipeline.audit import Audit, AuditScope, Thresholds, audit
from offsetd_pipeline.audit.lag import read_end_offsets
from offsetd_pipeline.audit.page import report_of
from offsetd_pipeline.audit.summary import summary_tables
from offsetd_pipeline.reports.writing import rendered
from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings
from offsetd_storage.offsets_topic.schemas.keys import GroupSettingsKey, OffsetKey, encode_key

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NOW = datetime(2026, 6, 10, 12, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
START_MS = NOW_MS - 2 * HOUR
END_OFFSETS = """\
topic,partition,end_offset,sampled_at
t,0,1000,2026-06-10T11:00:00Z
t,0,3000,2026-06-10T11:20:00Z
t,0,5000,2026-06-10T12:00:00Z
ahead,0,5,2026-06-10T12:00:00Z
"""


def written() -> tuple[WrittenLog, dict[str, int]]:
    """The log, and bytes of records that are asked for below."""
    log = WrittenLog()
    sizes = {}
    for number in range(20):
        log.commit("steady", 100 * number, START_MS + 5 * SECOND * number)
    for number in range(150):
        sizes["spam"] = log.commit("spam", 7, START_MS + SECOND * number)
    for number, offset in enumerate((100, 500, 450, 460)):
        log.commit("rewinder", offset, START_MS + MINUTE * number)
    for number, offset in enumerate((0, 10, 20, 30, 40, 50, 1_000_050)):
        log.commit("skipper", offset, START_MS + 5 * SECOND * number, partition=3)
    log.roll()
    log.commit("old", 1, NOW_MS - 6 * DAY - 12 * HOUR)
    log.commit("older", 1, NOW_MS - 8 * DAY)
    log.commit("older", 2, NOW_MS - HOUR, partition=1)
    log.commit("kept", 1, NOW_MS - 30 * DAY)
    log.put(key_of("kept"), GroupSettings(never_expires=True).encode(), START_MS)
    log.commit("short", 1, NOW_MS - 50 * MINUTE)
    log.put(key_of("short"), GroupSettings(retention_ms=HOUR).encode(), START_MS)
    log.commit("deleted", 900, START_MS)
    log.delete("deleted", START_MS + SECOND)
    log.commit("deleted", 5, START_MS + 2 * SECOND)
    log.commit("future", 1, NOW_MS + 2 * HOUR)
    log.commit("nearly", 1, NOW_MS + HOUR)
    log.put(None, b"v", START_MS)
    log.put(struct.pack(">h", 99) + b"k", b"v", START_MS)
    log.put(struct.pack(">h", 99) + b"k", b"v", START_MS)
    log.put(b"\0", b"v", START_MS)
    log.put(encode_key(OffsetKey(group="g", topic="t", partition=0))[:-1], b"v", START_MS)
    log.put(encode_key(OffsetKey(group="strange", topic="t", partition=0)), b"?", START_MS)
    log.delete("gone", START_MS, delete_horizon_ms=NOW_MS)
    log.delete("going", START_MS, delete_horizon_ms=NOW_MS + 1)
    log.commit("ahead", 9, NOW_MS - SECOND, topic="ahead")
    log.commit("late", 1500, NOW_MS - SECOND)
    for number in range(5):
        log.commit("stalled", 4999, NOW_MS - 10 * SECOND + number)
    log.commit("aborted", 77, START_MS, producer_id=9, producer_epoch=0, is_transactional=True)
    log.roll()
    log.commit("active", 1, START_MS)
    return log, sizes


def key_of(group: str) -> bytes:
    return encode_key(GroupSettingsKey(group=group))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audited")
    written()[0].write(path)
    (path / "ends.csv").write_text(END_OFFSETS)
    return path


@pytest.fixture(scope="module")
def audited(spark: SparkSession, folder: Path) -> Audit:
    return audit(
        spark,
        AuditScope(folder=str(folder)),
        now=NOW,
        end_offsets=str(folder / "ends.csv"),
    )


def by_group(table: Any) -> dict[str, dict[str, Any]]:
    return {row["group"]: row for row in table.to_pylist()}


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def test_how_often_groups_commit_and_how_far_apart(audited: Audit) -> None:
    steady = by_group(audited.groups)["steady"]
    assert steady["commits"] == 20
    assert steady["partitions"] == 1
    assert steady["commits_an_hour"] == 720
    assert {steady[f"gap_{name}_ms"] for name in ("p50", "p90", "p99", "max")} == {5000}
    assert steady["first_time"] == at(START_MS)
    assert steady["last_time"] == at(START_MS + 95 * SECOND)
    assert by_group(audited.groups)["old"]["commits_an_hour"] is None
    gaps = {row["gap_ms"]: row["commits"] for row in audited.gaps.to_pylist()}
    assert gaps == {1: 4, 1000: 149, 5000: 19 + 6, 60_000: 3}


def test_the_same_offset_again_is_counted_and_what_it_costs(audited: Audit) -> None:
    spam = audited.repeats.to_pylist()[0]
    assert (spam["group"], spam["topic"], spam["partition"]) == ("spam", "t", 0)
    assert (spam["commits"], spam["repeats"]) == (150, 149)
    assert spam["repeat_bytes"] == 149 * written()[1]["spam"]
    assert {row["group"] for row in audited.repeats.to_pylist()} == {"spam", "stalled"}
    assert audited.totals["repeating_groups"] == 1


def test_rewinds_and_skips_are_told_with_who_when_from_and_to(audited: Audit) -> None:
    found = {row["group"]: row for row in audited.moves.to_pylist()}
    assert found.keys() == {"rewinder", "skipper"}
    rewind, skip = found["rewinder"], found["skipper"]
    assert (rewind["event"], rewind["topic"], rewind["partition"]) == ("rewind", "t", 0)
    assert (rewind["offset_before"], rewind["offset"], rewind["distance"]) == (500, 450, -50)
    assert (rewind["time"], rewind["gap_ms"]) == (at(START_MS + 2 * MINUTE), MINUTE)
    assert rewind["log_offset"] == 172
    assert (skip["event"], skip["partition"]) == ("skip", 3)
    assert (skip["offset_before"], skip["offset"], skip["distance"]) == (50, 1_000_050, 1_000_000)


def test_groups_about_to_expire_are_told_and_what_expired(audited: Audit) -> None:
    found = by_group(audited.expiring)
    assert found.keys() == {"old", "older", "short"}
    assert (found["old"]["expired"], found["old"]["expiring"]) == (0, 1)
    assert found["old"]["first_expiry"] == NOW + timedelta(hours=12)
    older = found["older"]
    assert (older["offsets"], older["expired"], older["expiring"]) == (2, 1, 0)
    assert older["first_expiry"] == NOW - timedelta(days=1)
    assert older["last_expiry"] == NOW + timedelta(days=7) - timedelta(hours=1)
    assert (found["short"]["expiring"], found["short"]["retention_ms"]) == (1, HOUR)


def test_records_of_the_future_are_those_beyond_the_limit(audited: Audit) -> None:
    [row] = audited.future.to_pylist()
    assert (row["group"], row["future_records"]) == ("future", 1)
    assert row["latest_time"] == NOW + timedelta(hours=2)


def test_what_has_no_key_or_cannot_be_read_is_counted(audited: Audit) -> None:
    found = {
        (row["strange"], row["record_type"]): (row["records"], row["first_log_offset"])
        for row in audited.strange.to_pylist()
    }
    first = 193
    assert found == {
        ("unkeyed", None): (1, first),
        ("unknown type", 99): (2, first + 1),
        ("undecodable key", None): (1, first + 3),
        ("undecodable key", 1): (1, first + 4),
        ("undecodable value", 1): (1, first + 5),
    }


def test_tombstones_wait_for_their_horizon(audited: Audit) -> None:
    [row] = audited.log_partitions.to_pylist()
    assert row["tombstones"] == 3
    assert row["unstamped_tombstones"] == 1
    assert row["tombstones_that_may_go"] == 1
    assert row["next_horizon"] == at(NOW_MS + 1)


def test_the_log_is_as_large_as_its_files_and_as_dirty_as_kafka_says(audited: Audit) -> None:
    [row] = audited.log_partitions.to_pylist()
    log = written()[0]
    assert row["log_bytes"] == row["disk_bytes"] == sum(map(len, log.batches))
    assert (row["records"], row["segments"]) == (log.offset_next, 3)
    # The open transaction holds back its segment; nothing was cleaned yet.
    assert row["dirty_bytes"] == sum(map(len, log.batches[: log.rolls[1]]))
    assert (row["dirty_ratio"], row["is_due"]) == (1.0, True)
    assert sum(row["disk_bytes"] for row in audited.hot_groups.to_pylist()) < row["log_bytes"]
    assert audited.hot_groups.to_pylist()[0]["group"] == "spam"


def test_growth_is_by_hour_and_day(audited: Audit) -> None:
    hours = {row["time"]: row for row in audited.hours.to_pylist()}
    log = written()[0]
    assert hours[at(NOW_MS - 30 * DAY)]["records"] == 1
    # Not the record of the future.
    assert sum(row["records"] for row in hours.values()) == log.offset_next - 1
    days = {row["time"]: row["records"] for row in audited.days.to_pylist()}
    assert days[NOW - timedelta(hours=12)] == log.offset_next - 1 - 3
    assert all(row["is_complete"] for row in hours.values())


def test_lag_is_told_in_records_and_in_time(audited: Audit) -> None:
    found = by_group(audited.lags)
    late = found["late"]
    # At 11:00 the topic ended at 1000, at 11:20 at 3000: so at 11:05 at 1500.
    assert (late["lag"], late["time_lag_ms"]) == (3500, 55 * MINUTE)
    assert (late["is_at_least"], late["verdict"]) == (False, "OK")
    assert (found["spam"]["time_lag_ms"], found["spam"]["is_at_least"]) == (HOUR, True)
    assert found["spam"]["verdict"] == "STOPPED"
    assert (found["stalled"]["lag"], found["stalled"]["verdict"]) == (1, "STALLED")
    assert (found["ahead"]["lag"], found["ahead"]["time_lag_ms"]) == (0, 0)
    assert found["ahead"]["verdict"] == "AHEAD"
    assert "skipper" not in found  # Of its partition there is no end.
    assert by_group(audited.group_lags)["late"]["lag"] == 3500


def test_what_is_wrong_comes_first_and_the_page_has_it_all(audited: Audit) -> None:
    levels = [each.level.value for each in audited.findings]
    assert levels == sorted(levels, key=("warning", "note", "good").index)
    said = "\n".join(each.text for each in audited.findings)
    for words in (
        "1 group commits the same offsets again and again: spam",
        "the farthest: rewinder, t-0, 50 back, to 450",
        "the farthest: skipper, t-3, 1,000,000 ahead",
        "2 groups will lose offsets within 1d",
        "1 record more than 1h in the future",
        "2 records with an unknown type (type 99)",
        "2 records with a key that cannot be read (type 1)",
        "3 tombstones are waiting; 1 may go",
        "From 2026-06-09 14:00:00 to 2026-06-10 14:00:00",
    ):
        assert words in said
    page = rendered(report_of(audited))
    assert page.count("<svg") == 7
    assert "rewinder" in page


def test_an_audit_of_some_groups_and_hours_is_of_those(spark: SparkSession, folder: Path) -> None:
    scope = AuditScope(
        folder=str(folder),
        groups=("steady",),
        group_prefix="rew",
        since=at(START_MS + 10 * SECOND),
        until=at(START_MS + 2 * MINUTE),
    )
    found = audit(spark, scope, now=NOW, thresholds=Thresholds(rewind_min=51))
    assert {row["group"]: row["commits"] for row in found.groups.to_pylist()} == {
        "steady": 18,
        "rewinder": 1,
    }
    assert found.moves.num_rows == found.expiring.num_rows == found.strange.num_rows == 0


def test_what_has_no_place_in_a_table_still_counts(
    spark: SparkSession, folder: Path, audited: Audit
) -> None:
    ends = str(folder / "ends.csv")
    scope = AuditScope(folder=str(folder))
    found = audit(spark, scope, now=NOW, end_offsets=ends, rows_max=1)
    assert {len(each) for name, each in found.tables().items() if name in _CUT} == {1}
    assert found.expiring.column("group").to_pylist() == ["older"]
    said = "\n".join(each.text for each in found.findings)
    for words in (
        "1 group has offsets that have expired; they go with the next check",
        "that nothing holds back: older.",
        "2 groups will lose offsets within 1d, the first 20",
        "1 rewind, of 1 group.",
        "the farthest: skipper",
        "1 group is behind, and committing the same offset.",
    ):
        assert words in said
    page = rendered(report_of(found))
    for name in ("groups", "moves", "expiring"):
        whole = audited.tables()[name].num_rows
        assert (found.row_count(name), whole > 1) == (whole, True), name
        assert (
            f"The first 1 of {whole} rows; the first 1 are in <code>{name}.parquet</code>" in page
        )
    titles = [title for title, _ in summary_tables(found, 1)]
    assert "What commits take of the log (1 of 15)" in titles


def test_a_table_that_has_all_rows_says_so(audited: Audit) -> None:
    assert audited.row_counts == {}
    assert "the first 1 are in" not in rendered(report_of(audited))


_CUT = ("groups", "repeats", "moves", "expiring", "hot_groups", "lags", "group_lags")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("ends.txt", "", "are read from .csv, .parquet"),
        ("ends.csv", "topic,partition\nt,0\n", "no column 'end_offset'"),
        ("ends.csv", "topic,partition,end_offset\nt,zero,1\n", "1 row in which"),
    ],
)
def test_a_file_of_end_offsets_that_is_none_is_refused(
    spark: SparkSession, tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_end_offsets(spark, str(path), now=NOW)


def test_end_offsets_are_read_from_json_and_parquet(spark: SparkSession, tmp_path: Path) -> None:
    csv = tmp_path / "ends.csv"
    csv.write_text(END_OFFSETS)
    rows = read_end_offsets(spark, str(csv), now=NOW)
    expected = sorted(rows.collect())
    assert len(expected) == 4
    header, *lines = END_OFFSETS.splitlines()
    objects = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    (tmp_path / "ends.jsonl").write_text("\n".join(map(json.dumps, objects)))
    (tmp_path / "ends.json").write_text(json.dumps(objects))
    rows.coalesce(1).write.parquet(str(tmp_path / "ends.parquet"))
    for kind in ("jsonl", "json", "parquet"):
        found = read_end_offsets(spark, str(tmp_path / f"ends.{kind}"), now=NOW)
        assert sorted(found.collect()) == expected
