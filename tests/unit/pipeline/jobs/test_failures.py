"""What goes wrong in Spark ends a job with a line, whichever job it is. Without Spark."""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients.cli.application import run
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_pipeline.jobs import archive, audit, restore
from offsetd_pipeline.jobs.application import JOBS
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOLD = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times:
Traceback (most recent call last):
  File "worker.py", line 1, in main
OSError: [Errno 28] No space left on device
    at java.base/java.lang.Thread.run(Thread.java:840)"""


@contextmanager
def no_session(*_: Any) -> Iterator[None]:
    yield


def fails(*_: Any, **__: Any) -> None:
    raise PySparkException(TOLD)


@pytest.mark.parametrize(
    ("job", "arguments"),
    [(archive, ("archive", "folder", "--to", "a")), (restore, ("restore", "a"))],
)
def test_what_fails_in_a_task_is_a_line(
    monkeypatch: pytest.MonkeyPatch, job: Any, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(job, "job_session", no_session)
    monkeypatch.setattr(job, "told_progress", lambda *_: nullcontext())
    monkeypatch.setattr(job, arguments[0], fails)
    monkeypatch.setattr(sys, "argv", ["python -m offsetd_pipeline", *arguments])
    stderr = StringIO()
    assert run(Terminal(StringIO(), stderr), JOBS) == 1
    assert stderr.getvalue() == "error: OSError: [Errno 28] No space left on device\n"


def test_an_audit_whose_report_cannot_be_written_is_printed_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(audit, "_audited", lambda *_: None)
    monkeypatch.setattr(audit, "report_of", lambda _: None)
    monkeypatch.setattr(audit, "_print", lambda _found, _top, terminal: terminal.lines(["found"]))
    arguments = ["audit", "folder", "--report", str(tmp_path / "file")]
    monkeypatch.setattr(sys, "argv", ["python -m offsetd_pipeline", *arguments])
    stdout, stderr = StringIO(), StringIO()
    assert run(Terminal(stdout, stderr), JOBS) == 1
    assert stdout.getvalue() == "found\n"
    assert "error: the report could not be written: [Errno 17] File exists" in stderr.getvalue()
