"""The file of the cleaner's reports: bounded, and of no consequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from cleaner_reports import REPORT, finished
from offsetd_coordinator.observability import cleaner_log
from offsetd_coordinator.observability.cleaner_log import FILES_KEPT, CleanerLog
from offsetd_coordinator.observability.cleaner_report import report_lines
from offsetd_storage.cleaner.uncleanable_logs import UncleanablePartition
from offsetd_storage.retention.retention_rules import FutureTimestamp

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_report_is_written_down_and_told_in_the_servers_log(tmp_path: Path) -> None:
    path = tmp_path / "log-cleaner.log"
    log = CleanerLog(path)
    assert not path.exists(), "made with the first report"
    with structlog.testing.capture_logs() as events:
        log.note_round(finished())
        log.note_round(finished(thread=1))
    log.close()
    assert path.read_text() == report_lines(0, REPORT) + "\n" + report_lines(1, REPORT) + "\n"
    assert [(event["event"], event["thread"]) for event in events] == [
        ("log cleaned", 0),
        ("log cleaned", 1),
    ]
    assert events[0]["partition"] == "__consumer_offsets-7"


def test_without_a_file_the_servers_log_has_it_still() -> None:
    with structlog.testing.capture_logs() as events:
        CleanerLog(None).note_round(finished())
    assert [event["event"] for event in events] == ["log cleaned"]


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner_log, "FILE_BYTES_MAX", 5000)
    log = CleanerLog(tmp_path / "log-cleaner.log")
    for _ in range(100):
        log.note_round(finished())
    log.close()
    files = list(tmp_path.iterdir())
    assert len(files) == 1 + FILES_KEPT
    assert all(0 < file.stat().st_size <= 5000 for file in files)


def test_a_file_that_cannot_be_written_is_told_once_and_fails_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    log = CleanerLog(folder / "log-cleaner.log")
    with structlog.testing.capture_logs() as events:
        log.note_round(finished())
        log.note_round(finished())
        folder.mkdir()
        log.note_round(finished())
    log.close()
    warnings = [event for event in events if event["log_level"] == "warning"]
    assert [event["event"] for event in warnings] == ["reports of the cleaner cannot be written"]
    assert "No such file" in warnings[0]["error"]
    assert (folder / "log-cleaner.log").read_text() == report_lines(0, REPORT) + "\n"


def test_a_full_disk_is_told_once_and_fails_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log-cleaner.log"
    path.symlink_to("/dev/full")
    log = CleanerLog(path)
    with structlog.testing.capture_logs() as events:
        log.note_round(finished())
        log.note_round(finished())
    warnings = [event for event in events if event["log_level"] == "warning"]
    assert len(warnings) == 1
    assert "No space left" in warnings[0]["error"]
    path.unlink()
    log.note_round(finished(thread=1))
    log.close()
    assert path.read_text() == report_lines(1, REPORT) + "\n", "nothing of the failed ones"


def test_rounds_add_up() -> None:
    log = CleanerLog(None)
    log.note_round(finished())
    log.note_round(finished(map_is_full=True))
    totals = log.totals
    assert (totals.rounds, totals.full_map_rounds) == (2, 1)
    assert (totals.bytes_read, totals.bytes_written) == (
        2 * REPORT.bytes_read,
        2 * REPORT.bytes_written,
    )
    assert (totals.messages_read, totals.messages_written) == (2_000_000, 200_000)


def test_a_partition_that_cannot_be_cleaned_is_warned_of_until_it_can() -> None:
    log = CleanerLog(None)
    failure = UncleanablePartition(
        topic_partition=REPORT.topic_partition,
        reason="CorruptBatch: the checksum is wrong",
        is_damaged=True,
        failures_in_row=2,
        since_ms=0,
        last_ms=1000,
        retry_in_ms=2000,
    )
    with structlog.testing.capture_logs() as events:
        log.note_uncleanable(failure)
        log.note_round(finished())
        log.note_round(finished())
    assert events[0] == {
        "event": "partition uncleanable",
        "log_level": "warning",
        "partition": "__consumer_offsets-7",
        "reason": "CorruptBatch: the checksum is wrong",
        "damaged": True,
        "failures_in_row": 2,
        "retry_in_ms": 2000,
    }
    assert [event["event"] for event in events[1:]] == [
        "log cleaned",
        "partition cleanable again",
        "log cleaned",
    ]


def test_blocked_retention_is_warned_of_until_it_goes_on() -> None:
    log = CleanerLog(None)
    blocked = FutureTimestamp(
        base_offset=17,
        timestamp_ms=1_742_299_840_000,
        held_segments=3,
        held_bytes=4096,
        blocked_until_ms=1_742_299_900_001,
    )
    with structlog.testing.capture_logs() as events:
        log.note_blocked(REPORT.topic_partition, blocked)
        log.note_blocked(REPORT.topic_partition, None)
    assert [(event["event"], event["log_level"]) for event in events] == [
        ("retention blocked by a timestamp in the future", "warning"),
        ("retention is no longer blocked", "info"),
    ]
    assert events[0]["timestamp_ms"] == 1_742_299_840_000
    assert events[0]["held_bytes"] == 4096
