"""Compares the load of a large log with Kafka's, after a clean stop, from the page cache.

There are two figures for each. The first is the load alone. For Kafka, it is the time in its own
log from the beginning of the first partition to the end of the last one, without its log layer. For
ours, it is the time from the open port to SERVING, with the check of every batch. The second is the
time from exec until every partition is loaded.
"""

from __future__ import annotations

import re
import tempfile
import time
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from interop.kafka_broker import OFFSETS_PARTITIONS, KafkaBroker
from interop.kafka_protocol import KafkaOffset
from offsetd_storage.kernels.registry import warm

from benchmarks.harness.generate_log import Shape, generate
from benchmarks.harness.our_server import read_into_cache, serving
from benchmarks.harness.rounds import Spread, interleave, ratios
from deploy.kafka.kafka_runtime import KafkaUnavailable, LocalRuntime

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPES = {
    "8.5 M single-record batches, 1 M keys": Shape(
        records=8_500_000, batch=1, keys=1_000_000, partitions_per_group=20
    ),
    "21 M records in batches of 10, 250 k keys": Shape(
        records=21_000_000, batch=10, keys=250_000, partitions_per_group=20
    ),
}
# The options with which Kafka's own start script runs a broker.
BROKER_JAVA_OPTIONS = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
BROKER_START_S_MAX = 600
_LOG_TIME = "%Y-%m-%d %H:%M:%S,%f"
_FINISHED = re.compile(
    r"^\[(?P<time>[^\]]+)\].*Finished loading of metadata from __consumer_offsets-\d+"
    r".* in (?P<ms>\d+)\s*ms",
    re.MULTILINE,
)


@attrs.frozen(kw_only=True)
class Loaded:
    """The times of one server."""

    load_s: float
    whole_s: float

    def __str__(self) -> str:
        return f"{self.load_s:.3g} s, from exec {self.whole_s:.3g} s"


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """The seconds of both, and the ratio of Kafka's to ours, for each shape."""
    warm()
    found: dict[str, object] = {}
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as folder:
            found.update(_compare(Path(folder), name, _scaled(shape, scale), rounds))
    return found


def _compare(folder: Path, name: str, shape: Shape, rounds: int) -> dict[str, object]:
    ours = folder / "ours"
    ours.mkdir()
    size = generate(ours, shape)
    contestants: dict[str, Callable[[], Loaded]] = {}
    broker = _broker_on(ours, folder / "broker")
    if broker is not None:
        contestants["Kafka"] = lambda: _kafka_load(broker)
    with serving(ours):  # Makes the journal, and a clean stop before the restarts.
        pass
    contestants["ours"] = lambda: _our_load(ours)
    loads = interleave(contestants, rounds=rounds)
    found: dict[str, object] = {}
    for part, of in (("load", attrgetter("load_s")), ("from exec", attrgetter("whole_s"))):
        title = f"{name}, {size / 1e9:.2f} GB, {part}"
        figures = {side: list(map(of, each)) for side, each in loads.items()}
        found |= {f"{title}: {side}, s": Spread.of(each) for side, each in figures.items()}
        if broker is not None:
            found[f"{title}: Kafka over ours"] = ratios(figures["Kafka"], figures["ours"])
    return found


def _scaled(shape: Shape, scale: float) -> Shape:
    return Shape(
        records=int(shape.records * scale),
        keys=int(shape.keys * scale),
        batch=shape.batch,
        partitions_per_group=shape.partitions_per_group,
    )


def _our_load(folder: Path) -> Loaded:
    read_into_cache(folder)
    with serving(folder) as server:
        return Loaded(load_s=server.seconds_to_load, whole_s=server.seconds_to_serving)


def _broker_on(ours: Path, folder: Path) -> KafkaBroker | None:
    """A stopped broker with copies of our partition folders in place of its own."""
    try:
        jars = LocalRuntime.install().jars
    except KafkaUnavailable as unavailable:
        print(f"  without Kafka: {unavailable}")
        return None
    broker = KafkaBroker.format(LocalRuntime(jars, BROKER_JAVA_OPTIONS), folder)
    with broker.running():
        broker.create_topic("orders", 1)
        broker.commit(
            "group", {("orders", 0): KafkaOffset(offset=1, leader_epoch=None, metadata="")}
        )
    broker.take_offsets_topic(ours)
    return broker


def _kafka_load(broker: KafkaBroker) -> Loaded:
    read_into_cache(broker.data_folder)
    said_before = len(broker.log_text())
    started = time.time()
    with broker.running(start_s_max=BROKER_START_S_MAX):
        pass
    begun, ended = [], []
    for finished in _FINISHED.finditer(broker.log_text(), said_before):
        end = datetime.strptime(finished["time"], _LOG_TIME).timestamp()  # noqa: DTZ007
        ended.append(end)
        begun.append(end - int(finished["ms"]) / 1000)
    if len(ended) < OFFSETS_PARTITIONS:
        raise RuntimeError(f"the broker says that it loaded {len(ended)} partitions")
    return Loaded(load_s=max(ended) - min(begun), whole_s=max(ended) - started)
