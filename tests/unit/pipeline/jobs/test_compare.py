"""What `compare` says before it starts Spark."""

from __future__ import annotations

import socket
import sys
from io import StringIO
from typing import TYPE_CHECKING

from offsetd_clients.cli.application import run
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_pipeline.jobs.application import JOBS
from offsetd_pipeline.offset_sources import opening

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_server_that_does_not_answer_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "offsets.csv").write_text('"orders",0,120\n')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    arguments = [str(tmp_path / "offsets.csv"), f"127.0.0.1:{port}"]
    monkeypatch.setattr(sys, "argv", ["offsetd_pipeline", "compare", *arguments])
    monkeypatch.setattr(opening, "_LOOK_TIMEOUT_S", 0.1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # Spark would say that there is no Java.
    stderr = StringIO()
    assert run(Terminal(StringIO(), stderr), JOBS) == 2
    assert stderr.getvalue().startswith("error: no answer: ")
