"""Runs a real `offsetd serve` for a benchmark, and measures its start and its memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

import attrs

from benchmarks.harness.bytecode import BYTECODE, with_bytecode

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = "from offsetd_clients.cli.main import main; main()"


@attrs.frozen(kw_only=True)
class Serving:
    """A running server in state SERVING."""

    process: subprocess.Popen[str]
    address: str
    seconds_to_serving: float  # The time from exec to SERVING.
    # The time from the open port to SERVING: it checks the folder, and loads the log.
    seconds_to_load: float

    @property
    def anonymous_bytes(self) -> int:
        """RssAnon: the memory without pages of files."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("the kernel does not say RssAnon")


def process_cpu_s(pid: int) -> float:
    """The CPU time of a process until now, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(folder: Path, *settings: str) -> Iterator[Serving]:
    """Serves `folder` in a `with` block, with settings (NAME=VALUE). Then stops cleanly."""
    command = [sys.executable, "-c", COMMAND, "serve", "--data-dir", str(folder)]
    command += ["--listen", "127.0.0.1:0", "--set", "logging.format=json"]
    for setting in ("metrics.address=", *settings):
        command += ["--set", setting]
    started = time.monotonic()
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=with_bytecode(BYTECODE)
    )
    assert process.stderr is not None
    try:
        events: dict[str, dict[str, str]] = {}
        said = []
        while "serving" not in events:
            said.append(process.stderr.readline())
            if not said[-1]:
                raise RuntimeError(f"the server ended before it served:\n{''.join(said)}")
            if said[-1].startswith("{"):  # The notice that kernels are compiled is not JSON.
                event = json.loads(said[-1])
                events[event["event"]] = event
        # If the log is not read, the server blocks on a full pipe.
        threading.Thread(target=_pass_over, args=(process.stderr,), daemon=True).start()
        yield Serving(
            process=process,
            address=events["serving"]["address"],
            seconds_to_serving=time.monotonic() - started,
            seconds_to_load=(_time(events["serving"]) - _time(events["listening"])).total_seconds(),
        )
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _pass_over(log: IO[str]) -> None:
    with log:
        while log.read(1 << 16):
            pass


def _time(event: dict[str, str]) -> datetime:
    return datetime.fromisoformat(event["timestamp"])


def read_into_cache(folder: Path) -> None:
    """Reads every file of a folder once, so that it is in the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass
