"""Starts, stops and measures a system's server, from its ordinary package, on loopback."""

from __future__ import annotations

import abc
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar, Protocol

from ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

START_S_MAX = 120
STOP_S_MAX = 120
_TRY_S = 0.005
_BLOCK_BYTES = 512  # The unit of st_blocks.
_KIB = 1024
_JAVA_TOTAL = "Total"


class Unavailable(Exception):
    """A system cannot be run here; the text says why, and what to install."""


class Measurable(Protocol):
    """What a generator needs of a server."""

    @property
    def address(self) -> str:
        """HOST:PORT."""

    def cpu_s(self) -> float:
        """The CPU time that its processes have used."""


class Server(abc.ABC):
    """One system's server, with its own folder.

    `settings` are the settings that a part of the benchmark changes, under the system's own names.
    """

    name: ClassVar[str]
    acknowledged: ClassVar[str]  # The meaning of an answer to a commit.
    is_durable: ClassVar[bool] = True
    is_java: ClassVar[bool] = False
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.settings = dict(settings or {})
        self.port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @abc.abstractmethod
    def find(cls) -> str:
        """The version of the system that is installed. Raises Unavailable."""

    @abc.abstractmethod
    def command(self) -> list[str]:
        """The command that serves `folder` on `port` of loopback until it gets `stop_signal`."""

    def make(self) -> None:  # noqa: B027  # not all need any
        """Fills a new folder with the files that the command needs."""

    def environment(self) -> dict[str, str]:
        """The environment variables of the command."""
        return dict(os.environ)

    @property
    def user(self) -> str | None:
        """The user who runs the server. None is the user who runs the benchmark."""
        return None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    def start(self, *, core: int | None = None) -> float:
        """Starts the server, pinned to `core` if that is given. Returns when its port is open.

        Returns the time of the start, by the monotonic clock. A server whose port is open may not
        answer yet.
        """
        if not self.folder.exists():
            self.folder.mkdir()
            self.make()
        with pinned(core), self._log() as log:
            started_s = time.monotonic()
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self.user,
            )
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > started_s + START_S_MAX:
                self.stop()
                raise RuntimeError(f"{self.name} does not start:\n{self.log_text()[-2000:]}")
            time.sleep(_TRY_S)
        return started_s

    def stop(self) -> None:
        """Stops the server as an operator would."""
        if self._process is not None:
            self._process.send_signal(self.stop_signal)
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def running(self, *, core: int | None = None) -> Iterator[float]:
        """Runs the server within a `with` block; yields the time of its start."""
        started_s = self.start(core=core)
        try:
            yield started_s
        finally:
            self.stop()

    def log_text(self) -> str:
        """The server's output until now."""
        return self._log_path.read_text(errors="replace")

    def cpu_s(self) -> float:
        """The CPU time of the server's processes and of their children that have ended."""
        spent_s = 0.0
        for pid in self._pids():
            with contextlib.suppress(OSError):  # A process may end at any time.
                spent_s += cpu_s_of(Path(f"/proc/{pid}"))
        return spent_s

    def memory_bytes(self) -> int:
        """Its memory without pages of files; for Java, the heap that is live after a collection."""
        if self.is_java:
            return self._live_heap_bytes()
        held = 0
        for pid in self._pids():
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                    if line.startswith(("Pss_Anon:", "Pss_Shmem:")):  # Counts shared pages once.
                        held += int(line.split()[1]) * _KIB
        return held

    def disk_bytes(self) -> int:
        """The disk space of its folder, in whole blocks, without the server's output."""
        taken = 0
        for path in self.folder.rglob("*"):
            with contextlib.suppress(OSError):
                taken += path.lstat().st_blocks * _BLOCK_BYTES
        return taken

    @property
    def _log_path(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def _log(self) -> IO[bytes]:
        return self._log_path.open("ab")

    def _accepts(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False

    @property
    def _pid(self) -> int:
        assert self._process is not None, "it runs"
        return self._process.pid

    def _pids(self) -> list[int]:
        found = [self._pid]
        for pid in found:
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (task / "children").read_text().split())
        return found

    def _live_heap_bytes(self) -> int:
        """The live heap, from a histogram of objects. The JVM runs a collection before it."""
        told = subprocess.run(
            ["jcmd", str(self._pid), "GC.class_histogram"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        total = next(line for line in told.splitlines() if line.startswith(_JAVA_TOTAL))
        return int(total.split()[2])


def cpu_s_of(process: Path) -> float:
    """The CPU time of a process, and of its children that have ended.

    `stat` counts whole ticks of 10 ms. A thousand processes with a connection each would lose most
    of their time, so the time of a process with one thread is read in nanoseconds.
    """
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    own_s, ended_s = (
        sum(map(int, of_two)) / os.sysconf("SC_CLK_TCK")
        for of_two in (fields[11:13], fields[13:15])
    )
    exact = process / "schedstat"
    if exact.exists() and len(list((process / "task").iterdir())) == 1:
        own_s = int(exact.read_text().split()[0]) / 1e9
    return own_s + ended_s


@contextlib.contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Runs everything that is started in the `with` block on this core only."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def program(name: str, package: str, *, folders: tuple[str, ...] = ()) -> str:
    """The path of a program. Raises Unavailable, which names the package that has it."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])
    found = shutil.which(name, path=path)
    if found is None:
        raise Unavailable(f"no {name}: install {package}")
    return found


def version_of(*command: str) -> str:
    """The first number with dots in the output of a program."""
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    found = re.search(r"\d+(\.\d+)+", told.stdout)
    assert found is not None, told.stdout
    return found[0]
