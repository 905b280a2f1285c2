"""Brokers and nodes on one machine, with one folder for the data and the logs of all."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from deploy.cluster.node import Node
from deploy.kafka.kafka_cluster import (
    CLIENTS,
    CONTROLLERS,
    HOST,
    BrokerDoesNotStart,
    BrokerPorts,
    ClusterBroker,
    KafkaCluster,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from deploy.kafka.kafka_runtime import Runtime

BROKER_COUNT: Final = 3
CONTROLLER_PORTS_FROM: Final = 100  # A broker's port plus this.
METRICS_PORTS_FROM: Final = 100
POLL_S: Final = 0.2
RESTART_AFTER_S: Final = 5
SERVING_S_MAX: Final = 300  # The kernels may have to be compiled first.
RESTARTS_MAX: Final = 5
_MARK: Final = "offsetd-cluster"  # The file that makes a folder ours; it is the lock, too.


class CannotStart(Exception):
    """The cluster cannot start, or cannot go on. Says why, and what to do."""


@contextmanager
def cluster_folder(folder: Path) -> Iterator[Path]:
    """The folder, for this process alone. A new one is made. Raises CannotStart."""
    mark = folder / _MARK
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not mark.exists())):
        raise CannotStart(
            f"{folder} is there and is not of an offsetd cluster: name another folder"
            " (ARGS='--folder DIR')."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = mark.open("a+")
    except OSError as error:
        raise CannotStart(f"{folder} cannot be used: {error.strerror}.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStart(
                f"{folder} is in use by another `make cluster`. End that one, or name another"
                " folder and other ports (ARGS='--folder DIR --broker-port PORT --node-port PORT')."
            ) from None
        yield folder


class LocalCluster:
    """Three brokers, and nodes whose log is on them."""

    def __init__(
        self, runtime: Runtime, folder: Path, *, broker_port: int, node_port: int, nodes: int
    ) -> None:
        self.folder = folder
        self.kafka = KafkaCluster(
            runtime,
            folder,
            [
                BrokerPorts(listens={CLIENTS: port, CONTROLLERS: port + CONTROLLER_PORTS_FROM})
                for port in range(broker_port, broker_port + BROKER_COUNT)
            ],
        )
        self.nodes = [
            Node(
                name=f"n{number}",
                folder=folder / f"n{number}",
                address=f"{HOST}:{port}",
                metrics_address=f"{HOST}:{port + METRICS_PORTS_FROM}",
                brokers=self.kafka.addresses,
            )
            for number, port in enumerate(range(node_port, node_port + nodes), 1)
        ]

    def check_ports(self) -> None:
        """Raises CannotStart if one is taken."""
        for what, option, port in self._ports():
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((HOST, port))
                except (OSError, OverflowError) as error:
                    reason = getattr(error, "strerror", None) or str(error)
                    raise CannotStart(
                        f"cannot listen on {HOST}:{port} for {what}: {reason}. Choose other ports"
                        f" (ARGS='{option} PORT').{self._left_over()}"
                    ) from None

    def start(self, end: threading.Event, say: Callable[[str], None]) -> None:
        """Brokers first, then nodes. Returns when all serve, or when `end` is set.

        Raises CannotStart.
        """
        say(f"Starting {BROKER_COUNT} Kafka brokers …")
        self.kafka.format()
        for broker in self.kafka.brokers:
            broker.launch()
        self._note_processes()
        for broker in self.kafka.brokers:
            if end.is_set():
                return
            _wait_for_broker(broker)
        say(f"Starting {len(self.nodes)} offsetd nodes …")
        for node in self.nodes:
            node.launch()
        self._note_processes()
        for node in self.nodes:
            self._wait_for_node(node, end)

    def keep_up(self, end: threading.Event, say: Callable[[str], None]) -> None:
        """Starts again what ends by itself or by hand, until `end` is set. Raises CannotStart."""
        restarts = 0
        while not end.wait(POLL_S):
            ended = [each for each in self._members() if not each.is_running]
            if not ended:
                continue
            for each in ended:
                say(f"{each} has ended. It starts again in {RESTART_AFTER_S} s.")
            if restarts == RESTARTS_MAX:
                raise CannotStart(f"{ended[0]} ends each time. Its log:\n{_log_tail(ended[0])}")
            if end.wait(RESTART_AFTER_S):
                return
            for each in ended:
                each.launch()
            self._note_processes()
            restarts = restarts + 1 if self._fail_again(ended, end) else 0
            for each in ended:
                if each.is_running and not end.is_set():
                    say(f"{each} is there again (process {each.process_id()}).")

    def stop(self, say: Callable[[str], None]) -> None:
        """Nodes first, each cleanly; then the brokers."""
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            try:
                say("Stopping the nodes …")
                for node, code in zip(self.nodes, threads.map(Node.stop, self.nodes), strict=True):
                    if code:
                        say(f"{node} ended with exit code {code}: see {node.log}")
                say("Stopping the brokers …")
                threads.submit(self.kafka.stop).result()
            except KeyboardInterrupt:
                self.kill()  # So that no thread waits any longer.
                raise
        (self.folder / "processes").unlink(missing_ok=True)

    def kill(self) -> None:
        """Kill -9 for all."""
        for node in self.nodes:
            node.kill()
        self.kafka.kill()

    def _members(self) -> list[ClusterBroker | Node]:
        return [*self.kafka.brokers, *self.nodes]

    def _ports(self) -> list[tuple[str, str, int]]:
        """All that it listens on: what for, the option that moves it, and the port."""
        ports: list[tuple[str, str, int]] = []
        for broker in self.kafka.brokers:
            listens = broker.ports.listens
            ports.append((f"broker {broker.node_id}", "--broker-port", listens[CLIENTS]))
            what = f"broker {broker.node_id}, controller"
            ports.append((what, "--broker-port", listens[CONTROLLERS]))
        for node in self.nodes:
            for address, what in ((node.address, ""), (node.metrics_address, ", metrics")):
                port = int(address.rpartition(":")[2])
                ports.append((f"node {node.name}{what}", "--node-port", port))
        by_port = {port: what for what, _, port in reversed(ports)}
        for what, option, port in ports:
            if by_port[port] != what:
                raise CannotStart(
                    f"port {port} would be of {by_port[port]} and of {what}. Choose others"
                    f" (ARGS='{option} PORT')."
                )
        return ports

    def _note_processes(self) -> None:
        """Leaves all process ids in the folder, in case that this process is killed."""
        lines = [f"{each.process_id()} {each}\n" for each in self._members() if each.process_id()]
        (self.folder / "processes").write_text("".join(lines))

    def _left_over(self) -> str:
        """Processes of an earlier start that still run, as a sentence."""
        try:
            lines = (self.folder / "processes").read_text().splitlines()
        except OSError:
            return ""
        running = []
        for line in lines:
            pid = line.partition(" ")[0]
            with suppress(OSError):
                os.kill(int(pid), 0)
                running.append(pid)
        return f" An earlier start left processes: kill {' '.join(running)}" if running else ""

    def _wait_for_node(self, node: Node, end: threading.Event) -> None:
        deadline_s = time.monotonic() + SERVING_S_MAX
        while not node.is_serving() and not end.wait(POLL_S):
            if not node.is_running or time.monotonic() > deadline_s:
                raise CannotStart(f"{node} does not start. Its log:\n{node.log_tail()}")

    def _fail_again(self, started: list[ClusterBroker | Node], end: threading.Event) -> bool:
        """Whether one of them ends before it can serve."""
        try:
            for each in started:
                if isinstance(each, Node):
                    self._wait_for_node(each, end)
                else:
                    each.wait_until_ready()
        except (CannotStart, BrokerDoesNotStart):
            return not end.is_set()
        return False


def _wait_for_broker(broker: ClusterBroker) -> None:
    try:
        broker.wait_until_ready()
    except BrokerDoesNotStart as error:
        raise CannotStart(str(error)) from None


def _log_tail(ended: ClusterBroker | Node) -> str:
    return ended.log_text()[-3000:] if isinstance(ended, ClusterBroker) else ended.log_tail()
