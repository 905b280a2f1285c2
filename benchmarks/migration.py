"""Measures a move off ZooKeeper: 2,000 groups of 50 partitions are planned, moved and verified.

The commands run as for users: their stderr is a terminal, so that the progress bar is drawn. A real
ZooKeeper runs on this machine, and the server is another process.
"""

from __future__ import annotations

import os
import pty
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from interop.zookeeper_server import (
    ZooKeeperServer,
    ZooKeeperUnavailable,
    find_runtime,
    running_zookeeper,
)
from offsetd_storage.kernels.registry import warm

from benchmarks.harness.our_server import COMMAND, serving
from benchmarks.harness.rounds import Spread

if TYPE_CHECKING:
    import resource
    from collections.abc import Mapping

GROUPS = 2000
TOPICS = 5
PARTITIONS = 10
_WINDOW = 200
_STEPS = {
    "plan": ("plan", "--hosts", "{hosts}", "--file", "{plan}"),
    "run": ("run", "{plan}", "--execute"),
    "verify": ("verify", "{plan}"),
}


@attrs.frozen
class Ran:
    """A successful command: its time, its peak memory, and whether it drew a progress bar."""

    seconds: float
    rss_bytes: int
    has_bar: bool


def run(*, rounds: int, scale: float) -> dict[str, str]:
    """The time of each step, in seconds, and the largest peak memory of a step."""
    groups = max(1, round(GROUPS * scale))
    try:
        runtime = find_runtime()
    except ZooKeeperUnavailable as unavailable:
        return {"no ZooKeeper": str(unavailable)}
    warm()
    found: dict[str, list[Ran]] = {name: [] for name in _STEPS}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with (
                running_zookeeper(runtime, folder / "zookeeper") as zookeeper,
                serving(folder / "data", "disk.reserve.bytes=0") as server,
            ):
                _populate(zookeeper, groups)
                values = {"hosts": zookeeper.address, "plan": str(folder / "plan.jsonl")}
                for step, arguments in _STEPS.items():
                    command = [argument.format(**values) for argument in arguments]
                    found[step].append(
                        _ran(
                            ["migrate", "zookeeper", *command], {"OFFSETD_ADDRESS": server.address}
                        )
                    )
    offsets = groups * TOPICS * PARTITIONS
    figures = {
        f"{step} of {groups:,} groups, {offsets:,} znodes, seconds": str(
            Spread.of([each.seconds for each in ran])
        )
        for step, ran in found.items()
    }
    both = [a.seconds + b.seconds for a, b in zip(found["plan"], found["run"], strict=True)]
    figures["plan and run together, seconds"] = str(Spread.of(both))
    every = [each for ran in found.values() for each in ran]
    figures["the most memory of a command, MiB"] = f"{max(e.rss_bytes for e in every) / 2**20:.0f}"
    figures["each drew a progress bar"] = str(all(each.has_bar for each in every))
    return figures


def _populate(zookeeper: ZooKeeperServer, groups: int) -> None:
    with zookeeper.client() as client:
        client.ensure_path("/consumers")
        under_way = []
        for number in range(groups):
            group = f"/consumers/group-{number:05}"
            transaction = client.transaction()
            for folder in (group, f"{group}/offsets", f"{group}/ids", f"{group}/owners"):
                transaction.create(folder)
            for topic in range(TOPICS):
                transaction.create(f"{group}/offsets/topic-{topic}")
                for partition in range(PARTITIONS):
                    offset = str(number * 1000 + partition).encode()
                    transaction.create(f"{group}/offsets/topic-{topic}/{partition}", offset)
            under_way.append(transaction.commit_async())
            if len(under_way) == _WINDOW:
                _settle(under_way)
        _settle(under_way)


def _settle(under_way: list[Any]) -> None:
    for each in under_way:
        failed = [result for result in each.get() if isinstance(result, Exception)]
        if failed:
            raise failed[0]
    under_way.clear()


def _ran(arguments: list[str], environment: Mapping[str, str]) -> Ran:
    """Runs `offsetd` with a terminal as its stderr. Raises RuntimeError if it fails."""
    said: list[bytes] = []
    ours, its = pty.openpty()
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.dup2(its, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.environ.update(environment, TERM="xterm", COLUMNS="100")
        os.execv(sys.executable, [sys.executable, "-c", COMMAND, *arguments])
    os.close(its)
    reader = threading.Thread(target=_read, args=(ours, said))
    reader.start()
    _, status, usage = os.wait4(pid, 0)
    seconds = time.monotonic() - started
    reader.join()
    text = b"".join(said).decode(errors="replace")
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {text[-2000:]}")
    return Ran(seconds, _rss_bytes(usage), "━" in text)


def _read(descriptor: int, said: list[bytes]) -> None:
    while True:
        try:
            said.append(os.read(descriptor, 1 << 16))
        except OSError:  # The other end was closed.
            os.close(descriptor)
            return


def _rss_bytes(usage: resource.struct_rusage) -> int:
    return usage.ru_maxrss * 1024
