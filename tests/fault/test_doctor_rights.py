"""`offsetd doctor` on folders that its user may not use, and on ports that have no metrics."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from cli_calls import offsetd_of
from damaged_folders import damaged_folder, offsets_partition, opened
from promised import promised_by
from server_process import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

promised = promised_by("docs/guides/operating.md")

_COMMAND = "from offsetd_clients.cli.main import main; main()"
# The user root may read and write everything, unless a process lacks these capabilities.
_BOUND = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def diagnosed(folder: Path) -> tuple[int, list[dict[str, Any]]]:
    """What the doctor finds, as a user whom the modes of files bind."""
    wrapper: tuple[str, ...] = ()
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("needs setpriv, or another user than root")
        wrapper = _BOUND
    environment = {name: value for name, value in os.environ.items() if "OFFSETD_" not in name}
    ended = subprocess.run(
        [*wrapper, sys.executable, "-c", _COMMAND, "doctor", "--data-dir", folder, "-o", "json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ended.returncode in (0, 1), ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def rights(rows: list[dict[str, Any]]) -> list[str]:
    return [each["what"] for each in rows if each["check"] == "rights" and each["grade"] == "bad"]


@promised(
    "It finds folders and files that its user may not read or write: ask as the user of the server."
)
def test_folders_and_files_without_rights_are_findings(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    damaged_folder(folder, [])
    opened(folder).close()
    code, rows = diagnosed(folder)
    assert (code, rights(rows)) == (0, []), rows
    closed, unwritable, of_file = (
        folder / offsets_partition(each).folder_name for each in range(3)
    )
    segment = of_file / f"{0:020d}.log"
    closed.chmod(0)
    unwritable.chmod(0o555)
    segment.chmod(0o444)
    try:
        code, rows = diagnosed(folder)
        assert code == 1
        assert rights(rows) == [
            f"this user may not read {closed}",
            f"this user may not write to {unwritable}",
            f"this user may not write {segment}",
        ]
        folder.chmod(0)
        code, rows = diagnosed(folder)
        assert code == 1
        assert rights(rows) == [f"this user may not read {folder}"]
    finally:
        for each in (folder, closed, unwritable):
            each.chmod(0o755)


@promised("It warns if the files belong to several users, as after a repair by `sudo`.")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to another user")
def test_files_of_several_users_are_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    damaged_folder(folder, [])
    opened(folder).close()
    segment = folder / offsets_partition(2).folder_name / f"{0:020d}.log"
    os.chown(segment, 12_345, 12_345)
    _, rows = diagnosed(folder)
    [warning] = [each for each in rows if (each["check"], each["grade"]) == ("rights", "warn")]
    assert "belong to several users: root (" in warning["what"]
    assert f"12345 ({segment})" in warning["what"]


@pytest.mark.single_server
def test_a_port_for_clients_is_told_from_one_for_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.wait_until_serving()
        offsetd = offsetd_of(server.address, monkeypatch)
        ended = offsetd("doctor", "--metrics", server.address, "-o", "json")
        server.stop_well()
    told = [each["what"] for each in json.loads(ended.stdout) if each["what"]]
    assert any(
        f"{server.address} is not a metrics port: give --metrics the HOST:PORT of metrics.address"
        in each
        for each in told
    ), told
