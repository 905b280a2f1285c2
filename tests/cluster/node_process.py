"""A node of an offsetd cluster: a process with a folder, a name and a port that it keeps."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Self

from ports import free_ports
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType


class NodeProcess:
    """One node over all of its starts. It does not run before `start`."""

    def __init__(self, folder: Path, name: str, settings: Mapping[str, object]) -> None:
        [port] = free_ports(1)
        self.name = name
        self.address = f"127.0.0.1:{port}"
        self.data_folder = folder / name
        self.settings = {"node.id": name, **settings, "listen.address": self.address}
        self.environment: Mapping[str, str] = {}  # Of its next start.
        self._server: ServerProcess | None = None
        self._earlier_output: list[str] = []
        self._is_paused = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def server(self) -> ServerProcess:
        """The process that runs now."""
        assert self._server is not None, f"{self.name} does not run"
        return self._server

    def process_id(self) -> int | None:
        """Of its process, while it runs."""
        return None if self._server is None else self._server.process.pid

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._server is not None and self._server.process.poll() is None

    @property
    def is_paused(self) -> bool:
        """Whether it was stopped with SIGSTOP."""
        return self._is_paused

    @property
    def output(self) -> str:
        """Everything on stderr so far, over all its starts."""
        now = "" if self._server is None else self._server.log
        return "".join(self._earlier_output) + now

    def launch(self) -> None:
        """Starts the process, and does not wait for it."""
        self._forget()
        self._server = ServerProcess(
            self.data_folder, settings=self.settings, environment=self.environment
        )

    def start(self) -> NodeProcess:
        """Starts it, and waits until it serves."""
        self.launch()
        self.server.wait_until_serving()
        return self

    def stop(self) -> int:
        """SIGTERM, and the exit code. A node that is paused goes on first."""
        self.begin_stop()
        return self.end_stop()

    def begin_stop(self) -> None:
        """SIGTERM, if it runs."""
        self.resume()
        if self.is_running:
            self.server.process.send_signal(signal.SIGTERM)

    def end_stop(self) -> int:
        """The exit code, once it has ended."""
        code = self.server.wait_for_exit()
        self._forget()
        return code

    def kill(self) -> None:
        """Kill -9, if it runs."""
        self._forget()

    def pause(self) -> None:
        """SIGSTOP: the whole process."""
        if self.is_running:
            os.kill(self.server.process.pid, signal.SIGSTOP)
            self._is_paused = True

    def resume(self) -> None:
        """SIGCONT, if it was paused."""
        if self._is_paused and self.is_running:
            os.kill(self.server.process.pid, signal.SIGCONT)
        self._is_paused = False

    def _forget(self) -> None:
        """Ends the process if it runs, and keeps what it said."""
        if self._server is not None:
            self._server.kill()
            self._earlier_output.append(self._server.log)
            self._server = None
        self._is_paused = False
