"""Measures commits beside backups of a large log, at the rate limit of the settings.

Commits come at a fixed rate; their latencies count from the time at which a commit was due. A
process of its own makes one backup after the other, each to a new folder on the same disk, so each
reads and writes the whole log.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.harness.commit_latency import commit_p99_ms
from benchmarks.harness.generate_log import Shape, generate
from benchmarks.harness.our_server import COMMAND, serving
from benchmarks.harness.rounds import Spread, interleave, ratios

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS: Final = 20.0
COMMITS_PER_SECOND: Final = 400
SHAPE: Final = Shape(records=4_000_000, batch=10, keys=250_000, partitions_per_group=20)


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Milliseconds of commits, and the ratio of their p99. `scale` is of the log and the time."""
    seconds = max(4.0, SECONDS * scale)
    shape = Shape(
        records=int(SHAPE.records * scale) // SHAPE.batch * SHAPE.batch,
        batch=SHAPE.batch,
        keys=SHAPE.keys,
        partitions_per_group=SHAPE.partitions_per_group,
    )
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as name:
        folder = Path(name)
        size = generate(folder / "data", shape)
        made: list[int] = []
        with serving(folder / "data", "log.cleaner.enable=false") as server:
            figures = interleave(
                {
                    "alone": lambda: _p99_ms(server.address, seconds),
                    "beside backups": lambda: _p99_beside_ms(
                        server.address, seconds, folder / "backups", made
                    ),
                },
                rounds=rounds,
            )
    shown: dict[str, object] = {
        f"commit, p99, {name}, ms": Spread.of(each) for name, each in figures.items()
    }
    shown["p99 beside backups / alone"] = ratios(figures["beside backups"], figures["alone"])
    shown["MiB of the log"] = size >> 20
    shown["MiB backed up in each round"] = [each >> 20 for each in made]
    return shown


def _p99_ms(address: str, seconds: float) -> float:
    return commit_p99_ms(address, commits_per_second=COMMITS_PER_SECOND, seconds=seconds)


def _p99_beside_ms(address: str, seconds: float, target: Path, made: list[int]) -> float:
    with _backups(address, target):
        p99_ms = _p99_ms(address, seconds)
        made.append(sum(each.stat().st_size for each in target.rglob("*") if each.is_file()))
    shutil.rmtree(target, ignore_errors=True)
    return p99_ms


@contextmanager
def _backups(address: str, target: Path) -> Iterator[None]:
    """Backups in a process of its own, until the block ends."""
    target.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.backup", address, str(target)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "begun\n"
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # The backup that goes on, too.
        process.wait()


def _back_up_for_ever(address: str, target: str) -> None:
    environment = {**os.environ, "OFFSETD_ADDRESS": address}
    print("begun", flush=True)
    for number in itertools.count():
        command = [sys.executable, "-c", COMMAND, "backup", "create", f"{target}/{number}"]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    _back_up_for_ever(sys.argv[1], sys.argv[2])
