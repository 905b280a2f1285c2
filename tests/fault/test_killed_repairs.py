"""`offsetd log repair`, killed with kill -9 between two partitions."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from damaged_folders import damaged_folder, offsets_partition, repairs_in_audit_log
from log_commands import tree
from promised import promised_by
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.single_server
promised = promised_by("docs/guides/copies-of-the-folder.md")

SECONDS_MAX = 240
_COMMAND = "from offsetd_clients.cli.main import main; main()"


def repair(folder: Path, stderr: int) -> subprocess.Popen[str]:
    """`offsetd log repair --execute` in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if "OFFSETD_" not in name}
    arguments = ["log", "repair", "--data-dir", str(folder), "--execute"]
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def kill_after_first(folder: Path) -> None:
    """Kills a repair that has done its first partition, and cannot print that: stderr is full."""
    reads, writes = os.pipe()
    os.write(writes, bytes(fcntl.fcntl(writes, fcntl.F_GETPIPE_SZ)))
    first = folder / offsets_partition(0).folder_name / f"{0:020d}.log"
    before = first.read_bytes()
    process = repair(folder, writes)
    try:
        poll(
            lambda: first.read_bytes() != before or process.poll() is not None,
            SECONDS_MAX,
        )
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()
        os.close(reads)
        os.close(writes)


@promised(
    "If the repair is broken off, the next `offsetd log repair --execute` or the next start writes"
    " the entries of the partitions that were begun."
)
def test_the_entry_of_a_killed_repair_is_written_by_the_next_one_or_by_a_start(
    tmp_path: Path,
) -> None:
    folder = damaged_folder(tmp_path / "offsets", [0, 1])
    second = folder / offsets_partition(1).folder_name
    before = tree(second)
    kill_after_first(folder)
    assert tree(second) == before
    copied = tmp_path / "copied"
    shutil.copytree(folder, copied)

    again = repair(folder, subprocess.PIPE)
    _, told = again.communicate(timeout=SECONDS_MAX)
    assert again.returncode == 0, told
    assert "the audit log lacks the entry of the repair of __consumer_offsets-0, begun" in told
    assert "the audit log has the entry of the repair of __consumer_offsets-0, begun" in told
    noted = repairs_in_audit_log(folder)
    assert {each.what["partition"] for each in noted} == {0, 1}
    assert noted[0].what["groups"] == ["g0-1"]

    with ServerProcess(copied) as server:
        server.wait_until_serving()
        assert server.wait_for_event("audit entry of an earlier repair written")["partition"] == (
            "__consumer_offsets-0"
        )
        server.stop()
    assert [each.what["partition"] for each in repairs_in_audit_log(copied)] == [0]
