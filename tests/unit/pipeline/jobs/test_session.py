"""What a job says that cannot have a Spark session."""

from __future__ import annotations

import logging
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_pipeline.jobs.session import SparkOptions, is_not_of_py4j, job_session
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("java_home", "said"),
    [
        ("{empty}", "JAVA_HOME={empty} has no bin/java"),
        (None, "no `java` is found, and JAVA_HOME is not set"),
    ],
)
def test_that_there_is_no_java_is_a_line(
    java_home: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if java_home is not None:
        monkeypatch.setenv("JAVA_HOME", java_home.format(empty=tmp_path))
    stderr = StringIO()
    with (
        pytest.raises(SystemExit) as ended,
        job_session("compare", SparkOptions(), Terminal(StringIO(), stderr), failed=2),
    ):
        pass
    assert ended.value.code == 2
    expected = said.format(empty=tmp_path)
    assert stderr.getvalue() == f"error: Spark needs Java 17 or newer: {expected}\n"


@pytest.mark.parametrize(
    ("path", "is_told"),
    [
        ("/lib/site-packages/py4j/java_gateway.py", False),
        ("/lib/site-packages/offsetd_pipeline/latest.py", True),
    ],
)
def test_what_py4j_raises_is_not_logged_too(path: str, is_told: bool) -> None:
    record = logging.LogRecord("root", logging.ERROR, path, 1, "while sending", None, None)
    assert is_not_of_py4j(record) is is_told
