"""A real server in a process of its own: started, watched by its log, stopped, killed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, Self

import grpc
from offsetd.v1 import (
    acl_service_pb2_grpc,
    admin_service_pb2_grpc,
    group_service_pb2_grpc,
    offset_service_pb2_grpc,
)
from owners_channel import OwnersChannel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

# Generous: a machine that is busy with other tests is slow, and kernels may have to be compiled.
START_SECONDS_MAX = 240
STOP_SECONDS_MAX = 60
_POLL_SECONDS = 0.005
_RESERVE_BYTES = 1 << 20  # Of each of many folders.
_RUN = uuid.uuid4().hex
_COMMAND = "from offsetd_clients.cli.main import main; main()"


class ServerProcess:
    """`offsetd serve` on a folder, on ports of the machine's choosing.

    If OFFSETD_TEST_BROKERS names Kafka brokers, it is a cluster of three nodes: this one, and two
    `others` in folders beside. So the tests of a server and of clients run on a cluster, too.
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, object] | None = None,
        wrapper: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        ports = {"listen.address": "127.0.0.1:0", "metrics.address": "127.0.0.1:0"}
        # Most tests want to see cleaned at once what they have written.
        values = {"data.dir": folder, "history.ms": 0, **ports, **_in_cluster(folder)}
        if (transport := os.environ.get("OFFSETD_TEST_TRANSPORT")) is not None:
            values["transport"] = transport
        values |= settings or {}
        self.others: list[ServerProcess] = []
        if values.get("cluster.id") and "node.id" not in values:
            values["node.id"] = "n1"
            self.others = [_node_beside(folder, name, values) for name in ("n2", "n3")]
        given = [item for item in values.items() if item[1] is not None]  # None: not said.
        assignments = [part for item in given for part in ("--set", "{}={}".format(*item))]
        inherited = {key: value for key, value in os.environ.items() if "OFFSETD_" not in key}
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, "-c", _COMMAND, "serve", *assignments, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**inherited, **(environment or {})},
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read_lines, daemon=True)
        self._reader.start()

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
    def events(self) -> list[dict[str, Any]]:
        """The log so far: its JSON lines."""
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    @property
    def log(self) -> str:
        """Everything on stderr so far."""
        return "".join(self.lines)

    @property
    def address(self) -> str:
        """HOST:PORT, once it listens; of each node of a cluster, with commas between them."""
        return ",".join([self.own_address, *(each.address for each in self.others)])

    @property
    def own_address(self) -> str:
        """HOST:PORT of this process, once it listens."""
        return str(self.wait_for_event("listening")["address"])

    @property
    def pid(self) -> int:
        """The server's own process, also where it runs under a wrapper; once it listens."""
        return int(self.wait_for_event("listening")["pid"])

    def wait_for_event(self, name: str) -> dict[str, Any]:
        """The first event of that name. Fails if the process ends without it."""

        def found() -> dict[str, Any] | None:
            return next((event for event in self.events if event["event"] == name), None)

        poll(lambda: found() or self.process.poll() is not None, START_SECONDS_MAX, self)
        event = found()
        if event is None:
            self._reader.join(STOP_SECONDS_MAX)
            event = found()
        assert event is not None, f"the server ended without {name!r}:\n{self.log}"
        return event

    def wait_until_serving(self) -> ServerProcess:
        """Returns once the log is loaded."""
        for each in (self, *self.others):
            each.wait_for_event("serving")
        return self

    def wait_for_exit(self, seconds_max: float = START_SECONDS_MAX) -> int:
        """The exit code, once the process has ended by itself."""
        try:
            code = self.process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended in {seconds_max} s:\n{self.log}") from None
        self._reader.join(STOP_SECONDS_MAX)
        return code

    def stop(self) -> int:
        """SIGTERM, and the exit code. The other nodes of a cluster stop first."""
        for each in self.others:
            each.stop_well()
        self.process.send_signal(signal.SIGTERM)
        return self.wait_for_exit()

    def stop_well(self) -> None:
        """Stops it. Fails unless it ends as it should, and never had an error to tell."""
        assert self.stop() == 0, self.log
        assert not [event for event in self.events if event["level"] == "error"], self.log

    def kill(self) -> None:
        """SIGKILL, also to what a wrapper started, and to the other nodes of a cluster."""
        for each in self.others:
            each.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS_MAX)
        self._reader.join(STOP_SECONDS_MAX)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def channel(self, **options: int) -> grpc.Channel:
        """A connection of its own; to a cluster of nodes, one that finds the owners of groups."""
        arguments = [("grpc.use_local_subchannel_pool", 1)]
        arguments += [(f"grpc.{name}", value) for name, value in options.items()]
        channels = {
            each: grpc.insecure_channel(each, options=arguments) for each in self.address.split(",")
        }
        if not self.others:
            return channels[self.address]
        nodes = OwnersChannel(channels)
        nodes.wait_until_shared()
        return nodes

    def _read_lines(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)


class Stubs:
    """The services of one server over one channel."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self.offsets: Any = _untyped(offset_service_pb2_grpc).OffsetServiceStub(channel)
        self.groups: Any = _untyped(group_service_pb2_grpc).GroupServiceStub(channel)
        self.admin: Any = _untyped(admin_service_pb2_grpc).AdminServiceStub(channel)
        self.acls: Any = _untyped(acl_service_pb2_grpc).AclServiceStub(channel)


def _untyped(generated: Any) -> Any:
    """Generated stubs have no types."""
    return generated


def servers_are_clusters() -> bool:
    """Whether each server that a test starts is a cluster of three nodes."""
    return bool(os.environ.get("OFFSETD_TEST_BROKERS"))


def _node_beside(folder: Path, name: str, values: Mapping[str, object]) -> ServerProcess:
    """Another node of the same cluster, in a folder beside."""
    beside = folder.with_name(f"{folder.name}-{name}")
    own = {"data.dir": beside, "node.id": name, "listen.address": "127.0.0.1:0"}
    return ServerProcess(beside, settings={**values, **own})


def _in_cluster(folder: Path) -> dict[str, object]:
    """Settings of a node of a cluster, if OFFSETD_TEST_BROKERS names the brokers.

    Each folder of this run of the tests is a cluster of its own.
    """
    brokers = os.environ.get("OFFSETD_TEST_BROKERS")
    if not brokers:
        return {}
    return {
        "cluster.bootstrap.servers": brokers,
        "cluster.id": f"f{hashlib.sha256(f'{_RUN} {folder}'.encode()).hexdigest()[:16]}",
        "cluster.read.lease.ms": 200,
    }


def poll(condition: Callable[[], object], seconds_max: float, about: object = "") -> None:
    """Returns once the condition holds. Fails when it does not in a generous time."""
    end = time.monotonic() + seconds_max
    while not condition():
        if time.monotonic() > end:
            log = about.log if isinstance(about, ServerProcess) else about
            raise AssertionError(f"waited {seconds_max} s in vain; {log}")
        time.sleep(_POLL_SECONDS)
