"""What the benchmark beside peers starts: found or told, pinned, looked at."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import ClassVar

import pytest

from benchmarks.peers import __main__ as command
from benchmarks.peers import contestants, states, targets
from benchmarks.peers.results import Results
from benchmarks.peers.server import (
    Server,
    Unavailable,
    pinned,
    program,
    version_of,
)

LISTENER = """
import socket, subprocess, sys, time
while time.process_time() < 0.05:  # More than what is counted at a time.
    pass
with open("kept", "wb") as kept:  # Before anybody can connect.
    kept.write(bytes(1 << 20))
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
held = bytearray(b"x" * (8 << 20))
child = subprocess.Popen([sys.executable, "-c", "held = bytearray(b'x' * (8 << 20)); input()"],
                         stdin=subprocess.PIPE)
while True:
    listener.accept()[0].close()
"""


class Listener(Server):
    name: ClassVar[str] = "listener"
    acknowledged: ClassVar[str] = "nothing"
    program: ClassVar[str] = LISTENER

    @classmethod
    def find(cls) -> str:
        return "1"

    def command(self) -> list[str]:
        return [sys.executable, "-c", self.program, str(self.port)]


class Failing(Listener):
    name: ClassVar[str] = "failing"
    program: ClassVar[str] = "raise SystemExit('it has no licence')"


class Missing(Listener):
    name: ClassVar[str] = "missing"

    @classmethod
    def find(cls) -> str:
        raise Unavailable("no missing: install it")


def test_a_server_runs_within_and_is_looked_at_with_its_children(tmp_path: Path) -> None:
    server = Listener(tmp_path / "listener")
    with server.running():
        assert server.disk_bytes() >= 1 << 20
        while server.memory_bytes() < 16 << 20:  # Until the child has its part.
            pass
        assert server.cpu_s() > 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)


def test_one_that_does_not_start_is_left_out_and_why_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    systems = {"failing": Failing, "listener": Listener}
    monkeypatch.setattr(contestants, "SYSTEMS", systems)
    results = Results(machine={}, versions={})
    with contestants.serving(systems, tmp_path, results) as servers:
        assert list(servers) == ["listener"]
    assert "it has no licence" in results.left_out["failing"]
    assert "without failing" in capfd.readouterr().err


def test_one_that_is_not_installed_is_left_out_and_why_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(contestants, "SYSTEMS", {"missing": Missing, "listener": Listener})
    results = Results(machine={}, versions={})
    assert contestants.installed(["missing", "listener"], results) == ["listener"]
    assert results.versions == {"listener": "1"}
    assert results.left_out == {"missing": "no missing: install it"}
    assert "install it" in capfd.readouterr().err


def test_a_program_that_is_not_there_names_its_package() -> None:
    with pytest.raises(Unavailable, match="install the-package"):
        program("no-such-program", "the-package")


def test_a_programs_version_is_its_number_alone() -> None:
    said = "the server v=7.0.15 sha=00000000:0 bits=64 build=ae4d7c971a948f0"
    assert version_of(sys.executable, "-c", f"print('{said}')") == "7.0.15"


def test_what_is_started_within_is_pinned_and_nothing_after() -> None:
    before = os.sched_getaffinity(0)
    ask = [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"]
    core = min(before)
    with pinned(core):
        told = subprocess.run(ask, check=True, capture_output=True, text=True).stdout
    assert told.strip() == str({core})
    assert os.sched_getaffinity(0) == before
    with pinned(None):
        assert os.sched_getaffinity(0) == before


def test_scale_makes_everything_smaller_down_to_one_group() -> None:
    whole, least = states.Sizes.of(1.0), states.Sizes.of(1e-9)
    assert (whole.loaded_groups, whole.overwritten_groups) == (20_000, 2_000)
    assert (whole.overwriting_commits, whole.wait_s) == (200_000, 120.0)
    assert (least.loaded_groups, least.overwritten_groups, least.overwriting_commits) == (1, 1, 1)


def test_the_disk_is_looked_at_some_time_after_each_systems_own_last_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Listening(Listener):
        name: ClassVar[str] = "listening"

    happened: list[str] = []
    last_is_written = threading.Event()

    def commit(name: str, server: Server, groups: int, commits: int) -> None:
        assert (groups, commits) == (sizes.overwritten_groups, sizes.overwriting_commits)
        happened.append(f"{name} is overwritten")

    def disk_bytes(server: Server, wait_s: float) -> int:
        assert wait_s == sizes.wait_s
        if server.name == "listening":
            last_is_written.set()
        assert last_is_written.wait(60), "the first one's wait holds up the second"
        assert server.cpu_s() >= 0, "it still runs"
        return len(server.name)

    sizes = states.Sizes.of(1.0)
    systems = {"listener": Listener, "listening": Listening}
    monkeypatch.setattr(contestants, "SYSTEMS", systems)
    monkeypatch.setattr(states, "_commit_in_turn", commit)
    monkeypatch.setattr(states, "_disk_bytes", disk_bytes)
    results = Results(machine={}, versions={})
    states.run_disk(["bare", *systems], sizes, folder=tmp_path, results=results)
    assert happened == ["listener is overwritten", "listening is overwritten"]
    assert results.failed == []
    assert results.states == {targets.DISK: {"listener": [8], "listening": [9]}}


def test_a_system_that_cannot_be_overwritten_has_no_disk_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit(name: str, *_: object) -> None:
        raise RuntimeError("no space")

    monkeypatch.setattr(contestants, "SYSTEMS", {"listener": Listener})
    monkeypatch.setattr(states, "_commit_in_turn", commit)
    results = Results(machine={}, versions={})
    states.run_disk(["listener"], states.Sizes.of(1.0), folder=tmp_path, results=results)
    assert (results.failed, results.states) == (["listener: no space"], {})


def test_the_folder_is_one_for_servers_that_run_elsewhere() -> None:
    assert command.parsed(["--folder", "somewhere"]).folder == Path.cwd() / "somewhere"


@pytest.mark.parametrize("arguments", [["--systems", "oracle"], ["--parts", "native,sleep"]])
def test_a_name_that_is_none_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        command.parsed(arguments)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [([10_000, 10_000, 1], 10_000), ([10_000, 14_000, 15_000, 15_010, 1], 15_010), ([9, 5, 1], 5)],
)
def test_memory_is_looked_at_until_it_grows_no_more(looks: list[int], expected: int) -> None:
    assert states.settled(iter(looks).__next__, pause_s=0) == expected


def test_memory_that_never_settles_is_what_it_was_in_the_end() -> None:
    assert states.settled(iter(range(1000, 100_000, 100)).__next__, pause_s=0) == 2000
