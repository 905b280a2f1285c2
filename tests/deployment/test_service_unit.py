"""deploy/systemd/offsetd.service, run by a systemd."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from deployment.service_machine import SECONDS_MAX, UNIT_FOLDER, booted
from offsetd_coordinator.configuration.settings_sources import load_settings
from promised import promised_by
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from deployment.service_machine import Machine

promised = promised_by("docs/guides/deploying.md")

UNIT = UNIT_FOLDER / "offsetd.service"
EXPOSURE_MAX = 1.3  # Of 10.
LEAVING_SECONDS = 30  # For the last flush, and for a node to leave its cluster.


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with booted(tmp_path_factory.mktemp("machine")) as running:
        yield running


@pytest.fixture
def serving(machine: Machine) -> Machine:
    """With the unit as it is, started."""
    machine.configure()
    machine.did("systemctl", "restart", "offsetd")
    return machine


@promised("`systemctl start` returns when the server serves.")
@pytest.mark.root
def test_a_started_unit_serves(serving: Machine) -> None:
    # Type=notify: the start has ended, so there is nothing to wait for.
    committed = serving.offsetd("commit", "billing", "orders:0=42", "--timeout", "1")
    assert committed.returncode == 0, committed.stderr + serving.log()
    assert serving.shows("ActiveState") == "active"
    assert serving.did("stat", "-c", "%U %a", "/var/lib/offsetd/data").split()[0] == "offsetd"


@promised("The service has no capabilities")
@pytest.mark.root
def test_the_process_has_no_rights(serving: Machine) -> None:
    status = serving.did("cat", f"/proc/{serving.shows('MainPID')}/status")
    values = dict(re.findall(r"^(\w+):\s*(\w+)", status, re.MULTILINE))
    assert values["Uid"] != "0"
    assert {values[name] for name in ("CapEff", "CapPrm", "CapBnd")} == {"0" * 16}
    assert (values["NoNewPrivs"], values["Seccomp"]) == ("1", "2")


@promised("A server that was killed or failed starts again")
@pytest.mark.root
def test_a_killed_server_is_started_again_with_its_commits(serving: Machine) -> None:
    serving.offsetd("commit", "billing", "orders:0=43")
    killed = serving.shows("MainPID")
    serving.did("systemctl", "kill", "--signal=KILL", "offsetd")
    poll(lambda: serving.shows("MainPID") not in ("0", killed), SECONDS_MAX)
    poll(lambda: serving.shows("ActiveState") == "active", SECONDS_MAX)
    assert "43" in serving.offsetd("fetch", "billing", "-o", "csv").stdout


@promised("A stop answers the calls in flight, flushes and closes the log.")
@pytest.mark.root
def test_a_stop_drains(serving: Machine) -> None:
    serving.did("systemctl", "stop", "offsetd")
    assert (serving.shows("Result"), serving.shows("ExecMainStatus")) == ("success", "0")
    assert '"event": "stopped"' in serving.log().splitlines()[-1]


@promised("Wrong settings (exit code 2) end the unit at once.")
@pytest.mark.root
def test_wrong_settings_end_the_unit_at_once(machine: Machine) -> None:
    machine.did("systemctl", "stop", "offsetd")
    machine.configure("Environment=OFFSETD_SEGMENT_MS=-5")
    assert machine.run("systemctl", "start", "offsetd").returncode != 0
    assert (machine.shows("ExecMainStatus"), machine.shows("NRestarts")) == ("2", "0")
    assert machine.shows("ActiveState") == "failed"


@pytest.mark.root
def test_an_address_for_everybody_is_refused_here_too(machine: Machine) -> None:
    machine.did("systemctl", "stop", "offsetd")
    machine.configure("Environment=OFFSETD_LISTEN_ADDRESS=0.0.0.0:7171", "Restart=no")
    assert machine.run("systemctl", "start", "offsetd").returncode != 0
    assert "security.allow.insecure" in machine.log().splitlines()[-1]


@promised("`MemoryDenyWriteExecute` is missing, because kernels are linked when the server starts.")
@pytest.mark.root
def test_kernels_need_memory_that_becomes_executable(machine: Machine) -> None:
    """If this fails one day, the unit can have MemoryDenyWriteExecute."""
    machine.did("systemctl", "stop", "offsetd")
    machine.configure("MemoryDenyWriteExecute=yes", "Restart=no", "TimeoutStartSec=60")
    assert machine.run("systemctl", "start", "offsetd").returncode != 0


def test_the_time_for_a_stop_is_longer_than_a_drain() -> None:
    settings = load_settings()
    drain_s = (settings.drain_notice_ms + settings.drain_max_ms) / 1000
    assert float(unit()["Service"]["TimeoutStopSec"]) >= drain_s + LEAVING_SECONDS


def test_the_settings_are_known_also_the_suggested_ones() -> None:
    toml = (UNIT_FOLDER / "offsetd.toml").read_text()
    assert load_settings(toml=toml).data_dir == "/var/lib/offsetd/data"
    suggested = load_settings(toml=toml.replace('#"', '"'))
    assert suggested.listen_address == "0.0.0.0:7171"
    assert suggested.has_tls
    assert suggested.backup_target == "/var/lib/offsetd-backups"


@promised("The service can write backups to `/var/lib/offsetd-backups`")
def test_the_unit_may_write_where_it_suggests_to_put_backups() -> None:
    folders = unit()["Service"]["StateDirectory"].split()
    target = load_settings(
        toml=(UNIT_FOLDER / "offsetd.toml").read_text().replace('#"', '"')
    ).backup_target
    assert target.removeprefix("/var/lib/") in folders


@promised("The service can write backups to `/var/lib/offsetd-backups`")
@pytest.mark.root
def test_a_started_unit_makes_backups(machine: Machine) -> None:
    machine.did("systemctl", "stop", "offsetd")
    machine.configure("Environment=OFFSETD_BACKUP_TARGET=/var/lib/offsetd-backups")
    machine.did("systemctl", "start", "offsetd")
    poll(lambda: '"backup made"' in machine.log(), SECONDS_MAX)
    machine.configure("Environment=OFFSETD_BACKUP_TARGET=/var/lib/elsewhere", "Restart=no")
    assert machine.run("systemctl", "restart", "offsetd").returncode != 0
    assert "cannot be written to" in machine.log().splitlines()[-1]


@promised("`systemd-analyze security` gives it 1.3 of 10")
def test_systemd_finds_no_mistake_and_little_exposure(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze here")
    # The command is not installed here.
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/offsetd/bin/offsetd", "/bin/true"))
    for arguments in (
        ["verify", "--man=no"],
        ["security", "--offline=true", f"--threshold={EXPOSURE_MAX * 10:.0f}", "--no-pager"],
    ):
        ended = subprocess.run(
            [analyze, *arguments, copy], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert not ended.stderr


def unit() -> configparser.RawConfigParser:
    """Without the names that are there twice."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(UNIT.read_text())
    return parser
