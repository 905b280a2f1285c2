"""The generators of the load: the program in Go, built on demand, and the one in Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from benchmarks.peers.server import Unavailable, pinned
from benchmarks.peers.works import Measured

if TYPE_CHECKING:
    from benchmarks.peers.server import Measurable
    from benchmarks.peers.works import Work

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parent / "generator"
PROGRAM = SOURCES / ".build" / "peers-load"
PROTOC_PYTHON = ROOT / ".venv-protos" / "bin" / "python"
CONNECTED_S_MAX = 120  # The time to connect, in addition to the measured time.


def build() -> None:
    """Builds the program in Go, if it is not up to date. Raises Unavailable."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable("no go: install Go, https://go.dev/dl, 1.21 or newer")
    protos = ROOT / "protos"
    made = SOURCES / "offsetdv1" / "offset_service_vtproto.pb.go"
    made_of = [*protos.glob("offsetd/v1/*.proto"), SOURCES / "generate", SOURCES / "go.mod"]
    newest = max(each.stat().st_mtime for each in made_of)
    if not made.exists() or made.stat().st_mtime < newest:
        _called(
            [str(SOURCES / "generate"), str(protos)], PROTOC=_protoc(), GOOGLEAPIS=_googleapis()
        )
    _called([go, "build", "-o", str(PROGRAM), "."])


def _protoc() -> str:
    if PROTOC_PYTHON.exists():
        return f"{PROTOC_PYTHON} -m grpc_tools.protoc"
    found = shutil.which("protoc")
    if found is None:
        raise Unavailable("neither .venv-protos (make protos-check) nor protoc is there")
    return found


def _googleapis() -> str:
    return sysconfig.get_path("purelib")


def _called(command: list[str], **environment: str) -> None:
    ended = subprocess.run(
        command,
        cwd=SOURCES,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        raise Unavailable(f"the generator cannot be made: {ended.stderr[-500:]}")


@attrs.frozen(kw_only=True)
class Pace:
    """The time in seconds that a work is measured, and the warm-up before."""

    seconds: float
    warm_s: float


@attrs.frozen(kw_only=True)
class Native:
    """The program in Go with one of its clients, for example `offsetd-unary`."""

    client: str
    core: int | None = None

    def measure(self, server: Measurable, work: Work, pace: Pace, *, first: int) -> Measured:
        """Measures one work. Offsets count from `first`. Raises RuntimeError if anything failed."""
        arguments = ["-callers", str(work.callers), "-partitions", str(work.partitions)]
        arguments += ["-seconds", str(pace.seconds), "-warm", str(pace.warm_s)]
        arguments += ["-first", str(first), f"-fetch={str(work.fetch).lower()}"]
        before_s = server.cpu_s()
        told = self._call(server, arguments, pace.seconds + pace.warm_s + CONNECTED_S_MAX)
        return Measured.of(told, server.cpu_s() - before_s)

    def commit(
        self, server: Measurable, *, groups: int, partitions: int, commits: int, first: int
    ) -> Measured:
        """Makes `commits` commits, for the groups in turn, by 64 callers."""
        arguments = ["-callers", "64", "-groups", str(groups), "-partitions", str(partitions)]
        arguments += ["-commits", str(commits), "-first", str(first)]
        before_s = server.cpu_s()
        told = self._call(server, arguments, 3600)
        return Measured.of(told, server.cpu_s() - before_s)

    def prepare(self, server: Measurable, *, groups: int, partitions: int) -> None:
        """Creates the objects that commits of these groups need."""
        arguments = ["-groups", str(groups), "-partitions", str(partitions), "-prepare"]
        self._call(server, arguments, 600)

    def await_offsets(self, server: Measurable, *, groups: int, partitions: int) -> None:
        """Returns when all offsets of a sample of the groups can be fetched."""
        arguments = ["-groups", str(groups), "-partitions", str(partitions), "-await"]
        self._call(server, arguments, 600)

    def _call(self, server: Measurable, arguments: list[str], limit_s: float) -> str:
        command = [str(PROGRAM), "-client", self.client, "-address", server.address]
        command += ["-limit", str(limit_s), *arguments]
        return _told(command, self.core)


@attrs.frozen(kw_only=True)
class Fleet:
    """The program in Go as many programs: each caller has a client and connection of its own.

    The CPU times have no part of connecting or closing. These are not the work, and a thousand of
    them cost some systems as much as a round.
    """

    client: str

    def measure(self, server: Measurable, work: Work, pace: Pace, *, first: int) -> Measured:
        """Does what `Native.measure` does."""
        limit_s = pace.seconds + pace.warm_s + CONNECTED_S_MAX
        counts = {"callers": work.callers, "partitions": work.partitions, "first": first}
        times_s = {"seconds": pace.seconds, "warm": pace.warm_s, "limit": limit_s}
        command = [str(PROGRAM), "-fleet", "-client", self.client, "-address", server.address]
        for name, value in {**counts, **times_s}.items():
            command += [f"-{name}", str(value)]
        with tempfile.TemporaryFile("w+") as errors:
            program = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            with program:
                assert program.stdin is not None
                assert program.stdout is not None
                if program.stdout.readline():  # All are connected; it waits for a line.
                    before_s = server.cpu_s()
                    print(file=program.stdin, flush=True)
                    if told := program.stdout.readline():  # It keeps its connections.
                        return Measured.of(told, server.cpu_s() - before_s)
            errors.seek(0)
            raise RuntimeError(f"{self.client}, a fleet: {errors.read().strip()[-800:]}")


@attrs.frozen(kw_only=True)
class Python:
    """The load in Python, by the system's Python client."""

    client: str

    def measure(self, server: Measurable, work: Work, pace: Pace, *, first: int) -> Measured:
        """Does what `Native.measure` does. Offsets count from the time instead of `first`."""
        del first
        numbers = (work.callers, work.partitions, int(work.fetch), pace.warm_s, pace.seconds)
        command = [sys.executable, "-m", "benchmarks.peers.python_load", self.client]
        before_s = server.cpu_s()
        told = _told([*command, server.address, *map(str, numbers)], None)
        return Measured.of(told, server.cpu_s() - before_s)


def _told(command: list[str], core: int | None) -> str:
    with pinned(core):
        ended = subprocess.run(
            command,
            cwd=ROOT,
            # The benchmark imports `free_ports` from there.
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
            capture_output=True,
            text=True,
            check=False,
        )
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command[1:4])}: {ended.stderr.strip()[-800:]}")
    return ended.stdout
