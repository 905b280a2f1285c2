"""A node: `offsetd serve` in a process of its own, with a folder and a log file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import attrs
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

if TYPE_CHECKING:
    from pathlib import Path

STOP_S_MAX: Final = 60
CALL_S_MAX: Final = 2
LOG_TAIL_CHARACTERS: Final = 3000
_COMMAND: Final = "from offsetd_clients.cli.main import main; main()"


@attrs.define(eq=False)
class Node:
    """One node of the cluster, over all of its starts."""

    name: str
    folder: Path
    address: str
    metrics_address: str
    brokers: str
    _process: subprocess.Popen[bytes] | None = None

    def __str__(self) -> str:
        return f"node {self.name} at {self.address}"

    @property
    def log(self) -> Path:
        """The file with everything that it has said."""
        return self.folder.parent / f"{self.name}.log"

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def process_id(self) -> int | None:
        """Of its process, while it runs."""
        return None if self._process is None else self._process.pid

    def launch(self) -> None:
        """Starts the process, and does not wait for it."""
        settings = {
            "data.dir": str(self.folder),
            "listen.address": self.address,
            "metrics.address": self.metrics_address,
            "node.id": self.name,
            "cluster.bootstrap.servers": self.brokers,
        }
        arguments = [part for item in settings.items() for part in ("--set", "{}={}".format(*item))]
        # What the caller's shell sets for a server is not meant for three.
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("OFFSETD_") and name != "MAKELEVEL"
        }
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, "serve", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=inherited,
                start_new_session=True,  # Ctrl-C is for the caller, which ends it in its turn.
            )

    def is_serving(self) -> bool:
        """Whether its health says so."""
        with grpc.insecure_channel(self.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            try:
                answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=CALL_S_MAX)
            except grpc.RpcError:
                return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def log_tail(self) -> str:
        """What it said last."""
        return self.log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]

    def stop(self) -> int:
        """SIGTERM; SIGKILL if it does not end. Returns its exit code, 0 if it never ran."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            # It may have been stopped with SIGSTOP, by hand.
            for number in (signal.SIGCONT, signal.SIGTERM):
                self._process.send_signal(number)
        try:
            return self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def kill(self) -> None:
        """Kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_S_MAX)
