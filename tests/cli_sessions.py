"""The command line in processes of its own, on a terminal or through pipes.

They are forked from one that has imported everything, and so cost little. What they print is what
the installed command prints: they have its file descriptors, its terminal, its exit code.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import pty
import selectors
import shlex
import signal
import struct
import sys
import termios
import time
from contextlib import contextmanager
from multiprocessing.reduction import DupFd
from typing import TYPE_CHECKING, Any

import attrs
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

LINES = 24
_READ_BYTES = 1 << 16
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "cli_sessions",
        "offsetd_clients.cli.application",
        "offsetd_clients.cli.admin",
        "offsetd_clients.cli.groups.group_commands",
        "offsetd_clients.cli.groups.group_history",
        "offsetd_coordinator.commands.log_commands",
        "offsetd_coordinator.commands.serve",
        "rich.progress",
        "typer.main",
    ]
)


@attrs.frozen
class Printed:
    """What came of a command. On a terminal `stdout` is all that it showed."""

    code: int
    stdout: str
    stderr: str = ""


@attrs.define
class Running:
    """A command that runs; `stdout` is what it has printed so far."""

    process: ForkServerProcess
    stdout: bytearray
    stderr: bytearray
    _readers: selectors.BaseSelector
    _ours: list[int]
    _terminal: int | None = None

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Returns once what was printed fulfils the condition."""
        end_s = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert self._read(), f"it ended: {bytes(self.stdout + self.stderr)!r}"
            assert time.monotonic() < end_s, f"in vain: {bytes(self.stdout + self.stderr)!r}"

    def type(self, keys: bytes) -> None:
        """Presses keys at its terminal."""
        assert self._terminal is not None
        os.write(self._terminal, keys)

    def stop_reading(self) -> None:
        """Closes our end of its stdout, as `head` does once it has enough."""
        [key] = [key for key in self._readers.get_map().values() if key.data is self.stdout]
        self._readers.unregister(key.fd)
        self._ours.remove(key.fd)
        os.close(key.fd)

    def ended(self) -> Printed:
        """All that it printed, once it has ended."""
        while self._read():
            pass
        self.process.join(PATIENCE_SECONDS)
        assert self.process.exitcode is not None, bytes(self.stdout)
        return Printed(self.process.exitcode, self.stdout.decode(), self.stderr.decode())

    def _read(self) -> bool:
        """Reads what there is, and waits for some; False once all is closed."""
        if not self._readers.get_map():
            return False
        ready = self._readers.select(PATIENCE_SECONDS)
        assert ready, f"nothing more comes: {bytes(self.stdout + self.stderr)!r}"
        for key, _ in ready:
            try:
                piece = os.read(key.fd, _READ_BYTES)
            except OSError:  # So a terminal says that nobody writes to it any more.
                piece = b""
            if piece:
                key.data.extend(piece)
            else:
                self._readers.unregister(key.fd)
        return True


@attrs.frozen(kw_only=True)
class Shell:
    """Where commands run: a folder, and what is in their environment beside the usual."""

    folder: Path
    environment: Mapping[str, str] = attrs.field(factory=dict)
    columns: int = 100

    def piped(self, line: str, *, stdin: bytes = b"") -> Printed:
        """Runs `offsetd …` through pipes; `stdin` is small."""
        with self.started(_words(line), stdin=stdin) as running:
            return running.ended()

    def unread(self, line: str) -> Printed:
        """Runs `offsetd …` with a stdout that nobody reads any more."""
        nobody, its = os.pipe()
        os.close(nobody)
        ours, errors = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        with self._running(_words(line), [nothing, its, errors], [ours]) as running:
            ended = running.ended()
            return Printed(ended.code, "", ended.stdout)

    def on_a_terminal(self, line: str) -> Printed:
        """Runs `offsetd …` on a terminal; all that it shows is in `stdout`, lines end by `\\n`."""
        with self.started_on_a_terminal(_words(line)) as running:
            ended = running.ended()
            return attrs.evolve(ended, stdout=ended.stdout.replace("\r\n", "\n"))

    @contextmanager
    def started(self, arguments: Sequence[str], *, stdin: bytes = b"") -> Iterator[Running]:
        """A command that runs, with pipes; `running.stop_reading()` closes that of its stdout."""
        pipes = [os.pipe() for _ in range(3)]
        its = [pipes[0][0], pipes[1][1], pipes[2][1]]
        os.write(pipes[0][1], stdin)
        os.close(pipes[0][1])
        with self._running(arguments, its, [pipes[1][0], pipes[2][0]]) as running:
            yield running

    @contextmanager
    def started_on_a_terminal(self, arguments: Sequence[str]) -> Iterator[Running]:
        """A command that runs, with a terminal for all three streams."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, self.columns, 0, 0))
        with self._running(arguments, [its, its, its], [ours]) as running:
            running._terminal = ours
            yield running

    @contextmanager
    def _running(
        self, arguments: Sequence[str], its: Sequence[int], ours: Sequence[int]
    ) -> Iterator[Running]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("OFFSETD_") and name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        environment = {**inherited, "TERM": "xterm", **self.environment}
        process = _context.Process(
            target=_run,
            args=(list(arguments), environment, str(self.folder), list(map(DupFd, its))),
        )
        with selectors.DefaultSelector() as readers:
            running = Running(process, bytearray(), bytearray(), readers, list(ours))
            for ours_of_it, kept in zip(ours, (running.stdout, running.stderr), strict=False):
                readers.register(ours_of_it, selectors.EVENT_READ, kept)
            process.start()
            for descriptor in set(its):
                os.close(descriptor)
            try:
                yield running
            finally:
                if process.is_alive():
                    process.kill()
                process.join(PATIENCE_SECONDS)
                for descriptor in running._ours:
                    os.close(descriptor)


def _words(line: str) -> list[str]:
    name, *arguments = shlex.split(line)
    assert name == "offsetd", line
    return arguments


def _run(
    arguments: list[str], environment: dict[str, str], folder: str, streams: list[Any]
) -> None:
    """In the child: the command, with these streams."""
    descriptors = [each.detach() for each in streams]
    os.setsid()
    if os.isatty(descriptors[0]):
        fcntl.ioctl(descriptors[0], termios.TIOCSCTTY, 0)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    for descriptor in set(descriptors) - {0, 1, 2}:
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, closefd=False) for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    sys.argv = ["offsetd", *arguments]
    from offsetd_clients.cli.main import main

    main()
