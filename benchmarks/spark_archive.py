"""Measures the time and the memory of a first run of `archive` over a large log.

It is compared with Spark's own Parquet writer, which reads the table `history` and uses the same
partitions. Each is a process of its own, measured from exec to exit, with two cores. The memory is
that of the process and its descendants, the JVM and the Python workers, measured ten times a
second. Shared pages count once (Pss).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs

from benchmarks.harness.generate_log import Shape, generate
from benchmarks.harness.our_server import read_into_cache
from benchmarks.harness.rounds import Spread, interleave, ratios

RECORDS = 20_000_000
CORES = "local[2]"
POLL_SECONDS = 0.1
SPARKS_WRITER = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession, functions
from offsetd_pipeline import register
spark = (
    SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.session.timeZone", "UTC").getOrCreate()
)
register(spark)
rows = spark.read.format("offsetd").option("mode", "history").load(sys.argv[2])
rows = rows.withColumn("dt", functions.to_date("timestamp"))
rows.write.partitionBy("dt", "log_partition").parquet(sys.argv[3])
"""


@attrs.frozen
class Ran:
    """The time of a process, and the peak memory of it and its descendants."""

    seconds: float
    peak_bytes: int

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, {self.peak_bytes / 1e9:.2f} GB"


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Seconds, peak memory and Parquet bytes, and the ratio."""
    shape = Shape(
        records=int(RECORDS * scale),
        batch=10,
        keys=max(int(250_000 * scale), 20_000),
        partitions_per_group=20,
    )
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as name:
        log = Path(name) / "log"
        size = generate(log, shape)
        read_into_cache(log)
        written: dict[str, int] = {}

        def archived() -> Ran:
            to = Path(name) / "archive"
            job = ["-m", "offsetd_pipeline", "archive", str(log), "--to", str(to)]
            return _ran([*job, "--master", CORES], to, written)

        def by_spark() -> Ran:
            to = Path(name) / "parquet"
            return _ran(["-c", SPARKS_WRITER, CORES, str(log), str(to)], to, written)

        found = interleave({"archive": archived, "Spark's writer": by_spark}, rounds=rounds)
    title = f"{shape.records:,} records, {size / 1e9:.2f} GB"
    figures: dict[str, object] = {}
    for side, runs in found.items():
        figures[f"{title}: {side}, s"] = Spread.of([each.seconds for each in runs])
        peaks = [each.peak_bytes / 2**30 for each in runs]
        figures[f"{title}: {side}, peak GiB"] = Spread.of(peaks)
    figures[f"{title}: Spark's writer over archive, time"] = ratios(
        [each.seconds for each in found["Spark's writer"]],
        [each.seconds for each in found["archive"]],
    )
    figures |= {f"{title}: {side}, MB of Parquet": size / 1e6 for side, size in written.items()}
    return figures


def _ran(arguments: list[str], to: Path, written: dict[str, int]) -> Ran:
    """Runs Python with arguments. Measures and removes its output."""
    started = time.monotonic()
    peak = 0
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, _memory_bytes(process.pid))
            time.sleep(POLL_SECONDS)
    seconds = time.monotonic() - started
    if process.returncode:
        raise RuntimeError(f"{arguments[:3]} ended with {process.returncode}")
    files = [each for each in to.rglob("*") if each.is_file()]
    written[to.name] = sum(each.stat().st_size for each in files if each.suffix == ".parquet")
    subprocess.run(["rm", "-r", "--", str(to)], check=True)
    return Ran(seconds, peak)


def _memory_bytes(top: int) -> int:
    """The memory of a process and its descendants, without those that end during the call."""
    below: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of the process, in brackets, may have spaces. The state and the parent follow
            # it.
            parent = int(each.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        below.setdefault(parent, []).append(int(each.parent.name))
    total = 0
    left = [top]
    while left:
        process = left.pop()
        left += below.get(process, [])
        try:
            rollup = (Path("/proc") / str(process) / "smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(
            int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:")
        )
    return total
