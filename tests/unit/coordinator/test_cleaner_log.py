"""The file of the cleaner's reports: bounded, and of no consequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from cleaner_reports import REPORT
from offsetd_coordinator import cleaner_log
from offsetd_coordinator.cleaner_log import FILES_KEPT, CleanerLog
from offsetd_coordinator.cleaner_report import report_lines

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_report_is_written_down_and_told_in_the_servers_log(tmp_path: Path) -> None:
    path = tmp_path / "log-cleaner.log"
    log = CleanerLog(path)
    assert not path.exists(), "made with the first report"
    with structlog.testing.capture_logs() as events:
        log.note(0, REPORT)
        log.note(1, REPORT)
    log.close()
    assert path.read_text() == report_lines(0, REPORT) + "\n" + report_lines(1, REPORT) + "\n"
    assert [(event["event"], event["thread"]) for event in events] == [
        ("log cleaned", 0),
        ("log cleaned", 1),
    ]
    assert events[0]["partition"] == "__consumer_offsets-7"


def test_without_a_file_the_servers_log_has_it_still() -> None:
    with structlog.testing.capture_logs() as events:
        CleanerLog(None).note(0, REPORT)
    assert [event["event"] for event in events] == ["log cleaned"]


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner_log, "FILE_BYTES_MAX", 5000)
    log = CleanerLog(tmp_path / "log-cleaner.log")
    for _ in range(100):
        log.note(0, REPORT)
    log.close()
    files = list(tmp_path.iterdir())
    assert len(files) == 1 + FILES_KEPT
    assert all(0 < file.stat().st_size <= 5000 for file in files)


def test_a_file_that_cannot_be_written_is_told_once_and_fails_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    log = CleanerLog(folder / "log-cleaner.log")
    with structlog.testing.capture_logs() as events:
        log.note(0, REPORT)
        log.note(0, REPORT)
        folder.mkdir()
        log.note(0, REPORT)
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
        log.note(0, REPORT)
        log.note(0, REPORT)
    warnings = [event for event in events if event["log_level"] == "warning"]
    assert len(warnings) == 1
    assert "No space left" in warnings[0]["error"]
    path.unlink()
    log.note(1, REPORT)
    log.close()
    assert path.read_text() == report_lines(1, REPORT) + "\n", "nothing of the failed ones"
