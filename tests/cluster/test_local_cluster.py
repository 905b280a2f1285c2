"""`make cluster`: what it starts, what it says, and what it leaves."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from ports import free_ports
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deploy.kafka.kafka_runtime import Runtime

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).parents[2]
SECONDS_MAX = 300
WHERE = TopicPartition("orders", 0)


class Started:
    """The command in a process of its own, with what it prints."""

    def __init__(self, *arguments: object, environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "deploy.cluster", *map(str, arguments)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def wait_for(self, words: str) -> None:
        poll(lambda: words in self.text or self.process.poll() is not None, SECONDS_MAX, self.text)
        assert words in self.text, self.text

    def wait_for_times(self, words: str, times: int) -> None:
        poll(lambda: self.text.count(words) == times, SECONDS_MAX, self.text)

    def end(self, number: int = signal.SIGINT) -> int:
        """The exit code after a signal to this process alone."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """The exit code."""
        code = self.process.wait(SECONDS_MAX)
        self._reader.join(SECONDS_MAX)
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))


@contextlib.contextmanager
def started(folder: Path, *arguments: object) -> Iterator[Started]:
    """Ended within, or killed after."""
    one = Started("--folder", folder, *arguments)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.end()
        assert not [pid for pid in processes(folder).values() if is_there(pid)]


def processes(folder: Path) -> dict[str, int]:
    """The process ids, by broker and node."""
    file = folder / "processes"
    lines = file.read_text().splitlines() if file.exists() else []
    found = [re.fullmatch(r"(\d+) ((?:broker|node) \w+) at .*", line) for line in lines]
    return {each[2]: int(each[1]) for each in found if each is not None}


def is_there(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.fixture
def ports() -> list[object]:
    """Options for ports of the test's own."""
    for _ in range(1000):
        [first] = free_ports(1)
        wanted = [first + each for each in (0, 1, 2, 100, 101, 102, 200, 201, 202, 300, 301, 302)]
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in wanted:
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return ["--broker-port", first, "--node-port", first + 200]
    raise AssertionError("no ports are free")


def test_the_next_start_goes_on_with_the_data(
    kafka_runtime: Runtime, tmp_path: Path, ports: list[object]
) -> None:
    folder = tmp_path / "cluster"
    with started(folder, *ports) as first:
        first.wait_for("Ctrl-C ends all")
        [address] = re.findall(r"node n1 +(\S+)", first.text)
        with OffsetClient(address) as client:
            client.commit("billing", {WHERE: 42})
        second = Started("--folder", folder, *ports)
        assert second.wait() == 1
        assert f"error: {folder} is in use by another `make cluster`" in second.text
        ended = processes(folder)
        assert first.end() == 0
        assert first.text.endswith("Stopping the brokers …\nAll has ended.\n")
        assert len(ended) == 6
        assert not any(map(is_there, ended.values()))
    with started(folder, *ports) as again:
        again.wait_for("Ctrl-C ends all")
        with OffsetClient(address) as client:
            assert client.fetch("billing")[WHERE].offset == 42
        assert again.end(signal.SIGTERM) == 0


def test_what_is_killed_starts_again(
    kafka_runtime: Runtime, tmp_path: Path, ports: list[object]
) -> None:
    folder = tmp_path / "cluster"
    with started(folder, "--nodes", 1, *ports) as one:
        one.wait_for("Ctrl-C ends all")
        assert set(processes(folder)) == {"broker 1", "broker 2", "broker 3", "node n1"}
        for times, killed in enumerate(("node n1", "broker 2")):
            os.kill(before := processes(folder)[killed], signal.SIGKILL)
            one.wait_for_times("is there again", times + 1)
            assert processes(folder)[killed] != before
        assert one.end() == 0


def test_a_port_that_is_taken_is_told(
    kafka_runtime: Runtime, tmp_path: Path, ports: list[object]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        one = Started("--folder", tmp_path / "cluster", *ports, "--node-port", port)
        assert one.wait() == 1
        assert f"error: cannot listen on 127.0.0.1:{port} for node n1: Address" in one.text
        assert "(ARGS='--node-port PORT')" in one.text
        assert "Starting" not in one.text


def test_a_folder_with_something_else_is_refused(
    kafka_runtime: Runtime, tmp_path: Path, ports: list[object]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    one = Started("--folder", tmp_path, *ports)
    assert one.wait() == 1
    assert f"error: {tmp_path} is there and is not of an offsetd cluster" in one.text
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    one = Started("--folder", tmp_path / "cluster", environment=environment)
    assert one.wait() == 1
    assert "error: cannot run Kafka 4.1.1: no Java. On Debian and Ubuntu: apt install" in one.text
    assert not (tmp_path / "cluster").exists()
