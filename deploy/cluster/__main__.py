"""`make cluster`: three Kafka brokers and nodes of offsetd on this machine.

It needs Java 17 or newer. Maven fetches Kafka from Maven Central once. Ctrl-C ends all. The data
stays in the folder, and the next start goes on with it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.kafka.kafka_runtime import KAFKA_VERSION, KafkaUnavailable, LocalRuntime

if TYPE_CHECKING:
    from deploy.cluster.local_cluster import LocalCluster

INSTALL = {
    "Java": "On Debian and Ubuntu: apt install openjdk-17-jre-headless.",
    "Maven": "On Debian and Ubuntu: apt install maven.",
}
NEXT = """
{count} brokers and {nodes} nodes serve. Started in {seconds:.0f} s.

  brokers   {brokers}
{addresses}
  folder    {folder} (data, and the logs of all)

Type in another terminal:

  .venv/bin/offsetd --address {first} commit billing orders:0=42
  .venv/bin/offsetd --address {last} groups describe billing
  .venv/bin/offsetd --address {first} admin status

Try a fault. What ends starts again after some seconds:

  kill -9 {pid}      # node {name}

Ctrl-C ends all: the nodes first, then the brokers. The next start goes on with the data.
"""


def main() -> int:
    """Runs until a signal; returns the exit code."""
    options = _options()
    try:
        from deploy.cluster.local_cluster import CannotStart, LocalCluster, cluster_folder
        from deploy.kafka.kafka_cluster import JAVA_OPTIONS
    except ModuleNotFoundError as error:
        return _fail(f"{error.name} is not installed. `make cluster` installs it.")
    if not LocalRuntime.is_installed():
        _say(f"Fetching Kafka {KAFKA_VERSION} from Maven Central, this once …")
    try:
        runtime = LocalRuntime.install(JAVA_OPTIONS)
    except KafkaUnavailable as unavailable:
        known = [hint for name, hint in INSTALL.items() if name in str(unavailable)]
        return _fail(f"cannot run Kafka {KAFKA_VERSION}: {unavailable}. {' '.join(known)}")
    end = _ending_signals()
    try:
        with cluster_folder(options.folder) as folder:
            cluster = LocalCluster(
                runtime,
                folder.resolve(),
                broker_port=options.broker_port,
                node_port=options.node_port,
                nodes=options.nodes,
            )
            _run(cluster, end)
    except CannotStart as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("killed all at once, at the second signal. The data is kept.")
    return 0


def _run(cluster: LocalCluster, end: threading.Event) -> None:
    """Until `end` is set. Whatever happens, nothing of the cluster runs after it."""
    started = time.monotonic()
    cluster.check_ports()
    try:
        try:
            cluster.start(end, _say)
            if not end.is_set():
                _say(_next_steps(cluster, time.monotonic() - started))
            cluster.keep_up(end, _say)
        finally:
            cluster.stop(_say)
    except KeyboardInterrupt:
        cluster.kill()
        raise
    _say("All has ended.")


def _next_steps(cluster: LocalCluster, seconds: float) -> str:
    first, last = cluster.nodes[0], cluster.nodes[-1]
    return NEXT.format(
        count=len(cluster.kafka.brokers),
        nodes=len(cluster.nodes),
        seconds=seconds,
        brokers=cluster.kafka.addresses,
        addresses="\n".join(
            f"  node {node.name:<4} {node.address}   metrics http://{node.metrics_address}/metrics"
            for node in cluster.nodes
        ),
        folder=cluster.folder,
        first=first.address,
        last=last.address,
        pid=last.process_id(),
        name=last.name,
    )


def _ending_signals() -> threading.Event:
    """Set by the first signal that asks for the end. The second one kills all at once."""
    end = threading.Event()

    def ask(*_: object) -> None:
        if end.is_set():
            raise KeyboardInterrupt
        end.set()

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, ask)
    return end


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make cluster ARGS=",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("offsetd-cluster"), help="data and logs"
    )
    parser.add_argument("--nodes", type=_node_count, default=3, help="how many nodes, 1 to 9")
    parser.add_argument(
        "--broker-port", type=int, default=9092, help="of the first broker; controllers have +100"
    )
    parser.add_argument(
        "--node-port", type=int, default=7171, help="of the first node; metrics have +100"
    )
    return parser.parse_args()


def _node_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 9:
        raise argparse.ArgumentTypeError(f"{text}: not a number from 1 to 9")
    return int(text)


def _say(text: str) -> None:
    print(text, flush=True)


def _fail(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
