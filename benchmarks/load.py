"""Load of a large log to SERVING, after a clean stop, from the page cache, beside Kafka's.

Ours is the whole way from exec to SERVING: the interpreter, the check of every batch, the load.
Kafka's is what its own log says of loading: from the first partition's beginning to the last
one's end, without the start of the broker and of its log layer.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from interop.kafka_broker import OFFSETS_PARTITIONS, KafkaBroker
from interop.kafka_protocol import KafkaOffset
from interop.kafka_runtime import KafkaUnavailable, LocalRuntime

from benchmarks.generate_log import Shape, generate
from benchmarks.our_server import read_into_cache, serving
from benchmarks.rounds import Spread, interleave, ratios

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
# As Kafka's own start script runs a broker.
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


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Seconds of both, and how many times as long Kafka takes, for each shape."""
    found: dict[str, object] = {}
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as folder:
            found.update(_compare(Path(folder), name, _scaled(shape, scale), rounds))
    return found


def _compare(folder: Path, name: str, shape: Shape, rounds: int) -> dict[str, object]:
    ours = folder / "ours"
    ours.mkdir()
    size = generate(ours, shape)
    contestants: dict[str, Callable[[], float]] = {}
    broker = _broker_on(ours, folder / "broker")
    if broker is not None:
        contestants["kafka"] = lambda: _kafka_seconds(broker)
    with serving(ours):  # Makes the journal, and the clean stop that a restart comes after.
        pass
    contestants["ours"] = lambda: _our_seconds(ours)
    figures = interleave(contestants, rounds=rounds)
    title = f"{name}, {size / 1e9:.2f} GB"
    found: dict[str, object] = {f"{title}: ours, s": Spread.of(figures["ours"])}
    if broker is not None:
        found[f"{title}: Kafka, s"] = Spread.of(figures["kafka"])
        found[f"{title}: Kafka over ours"] = ratios(figures["kafka"], figures["ours"])
    return found


def _scaled(shape: Shape, scale: float) -> Shape:
    return Shape(
        records=int(shape.records * scale),
        keys=int(shape.keys * scale),
        batch=shape.batch,
        partitions_per_group=shape.partitions_per_group,
    )


def _our_seconds(folder: Path) -> float:
    read_into_cache(folder)
    with serving(folder) as server:
        return server.seconds_to_serving


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
    for partition in range(OFFSETS_PARTITIONS):
        place = broker.partition_folder(partition)
        topic_id = (place / "partition.metadata").read_bytes()
        shutil.rmtree(place)
        shutil.copytree(ours / place.name, place)
        (place / "partition.metadata").write_bytes(topic_id)
    return broker


def _kafka_seconds(broker: KafkaBroker) -> float:
    read_into_cache(broker.data_folder)
    said_before = len(broker.log_text())
    with broker.running(start_s_max=BROKER_START_S_MAX):
        pass
    begun, ended = [], []
    for finished in _FINISHED.finditer(broker.log_text(), said_before):
        end = datetime.strptime(finished["time"], _LOG_TIME).timestamp()  # noqa: DTZ007
        ended.append(end)
        begun.append(end - int(finished["ms"]) / 1000)
    if len(ended) < OFFSETS_PARTITIONS:
        raise RuntimeError(f"the broker says that it loaded {len(ended)} partitions")
    return max(ended) - min(begun)
