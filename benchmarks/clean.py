"""Measures one round of cleaning on a large log: our cleaner and Kafka's own, on the same files.

A log is one partition with the records of its shape, cleaned up to its active segment. The files
are in the page cache. Both sides have one thread, Kafka's default settings, and a log that is
already open. Both sync what they write, and leave the files of replaced segments to a later
deletion. Our cleaner also reads the producers of the whole log, which Kafka knows since it opened
the log. Each side has cleaned a small log before. A rate is the number of bytes that the round read
to filter them, divided by all its seconds by the wall clock. These include the indexing, as in
Kafka's report (its MB is a MiB).

It also measures two of our threads on two partitions against one thread on one; the memory of a
round; and keys that collide under well-known hash functions, against random keys of the same sizes.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from compaction.logs import CleanerSettings
from interop.kafka_cleaner import KafkaCleaner
from offsetd_storage.cleaner.cleaning_round import CleanerTools, clean_log
from offsetd_storage.cleaner.offset_map import SLOT_BYTES, OffsetMap
from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import COMPACT, LogConfig
from offsetd_storage.configuration.server_config import CleanerConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.kernels.registry import warm
from offsetd_storage.log.partition_log import PartitionLog
from offsetd_storage.log.segment_files import segment_base_offsets, segment_path
from offsetd_storage.log.segment_scan import scan_segment
from offsetd_storage.topic_partition import TopicPartition

from benchmarks.harness.generate_log import SEGMENT_BYTES, Shape, generate, write_log
from benchmarks.harness.rounds import Spread, interleave, ratios
from benchmarks.load import BROKER_JAVA_OPTIONS, SHAPES
from deploy.kafka.kafka_runtime import KafkaUnavailable, LocalRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from interop.kafka_cleaner import RoundReport
    from offsetd_storage.cleaner.cleaning_round import CleanReport

MIB = 1 << 20
WARM_RECORDS = 500_000
BITMAP_BYTES_MAX = 64 * MIB
SETTINGS = CleanerConfig()
TOPIC = LogConfig(cleanup_policy=COMPACT, segment_bytes_max=SEGMENT_BYTES)
# A group id is a prefix and BLOCKS blocks of 16 bytes. The prefix, with the bytes before it in a
# key, fills one more block.
PREFIX = "orders-group"
BLOCKS = 6
HOSTILE_GROUPS = 20_000
HOSTILE_RECORDS = 4_000_000


@attrs.frozen(kw_only=True)
class Cleaned:
    """The figures of one round. Rates are in millions of bytes a second, by the wall clock."""

    bytes_read: int
    bytes_indexed: int
    messages_kept: int
    whole_s: float
    index_s: float
    reported_s: float  # The time that the cleaner itself reports.

    @property
    def rate(self) -> float:
        return self.bytes_read / self.whole_s / 1e6

    @property
    def index_rate(self) -> float:
        return self.bytes_indexed / self.index_s / 1e6

    @property
    def reported_rate(self) -> float:
        return self.bytes_read / self.reported_s / MIB

    def __str__(self) -> str:
        return f"{self.rate:.4g} MB/s in {self.whole_s:.3g} s, index {self.index_s:.3g} s"


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Returns the rates of both sides, their ratios, and the other figures of this module."""
    warm()
    found: dict[str, object] = {}
    kafka = _kafka()
    for name, shape in SHAPES.items():
        with _work_folder() as folder:
            shape = attrs.evolve(  # noqa: PLW2901
                shape,
                records=int(shape.records * scale),
                keys=int(shape.keys * scale),
                partitions=1,
                segment_bytes=_segment_bytes(scale),
            )
            found |= _compare(folder, name, shape, kafka, rounds)
    with _work_folder() as folder:
        found |= _hostile(folder, scale, rounds)
    return found


@contextmanager
def _work_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as name:
        yield Path(name)


def _segment_bytes(scale: float) -> int:
    """A small log gets smaller segments. The size is at least twice a chunk of the generator."""
    return max(int(SEGMENT_BYTES * min(scale, 1)), 10 * MIB)


def _kafka() -> KafkaCleaner | None:
    try:
        installed = KafkaCleaner.install()
    except KafkaUnavailable as unavailable:
        print(f"  without Kafka: {unavailable}")
        return None
    return KafkaCleaner(LocalRuntime(installed.runtime.jars, BROKER_JAVA_OPTIONS))


def _compare(
    folder: Path, name: str, shape: Shape, kafka: KafkaCleaner | None, rounds: int
) -> dict[str, object]:
    size = generate(folder / "large", shape)
    warm_records = min(shape.records, WARM_RECORDS)
    generate(folder / "small", attrs.evolve(shape, records=warm_records))
    os.sync()
    source, small = (folder / each / "__consumer_offsets-0" for each in ("large", "small"))
    contestants: dict[str, Callable[[], Cleaned]] = {}
    if kafka is not None:
        contestants["Kafka"] = partial(_kafka_round, kafka, source, small)
    contestants["ours"] = partial(_our_round, source, small, threads=1)
    contestants["ours, two threads"] = partial(_our_round, source, small, threads=2)
    figures = interleave(contestants, rounds=rounds)
    ours, two = figures["ours"], figures["ours, two threads"]
    kept = {each.messages_kept for side in figures.values() for each in side if side is not two}
    kept |= {each.messages_kept // 2 for each in two}
    if len(kept) > 1:
        raise RuntimeError(f"not every round keeps the same: {kept}")
    title = f"{name}, {size / 1e9:.2f} GB"
    found: dict[str, object] = {}
    for side, each in figures.items():
        for what, figure in (
            ("MB/s", attrgetter("rate")),
            ("by its report, MiB/s", attrgetter("reported_rate")),
            ("index, MB/s", attrgetter("index_rate")),
        ):
            found[f"{title}: {side}, {what}"] = Spread.of(list(map(figure, each)))
    rates = [each.rate for each in ours]
    if kafka is not None:
        found[f"{title}: ours over Kafka"] = ratios(rates, [one.rate for one in figures["Kafka"]])
    found[f"{title}: two threads over one"] = ratios([one.rate for one in two], rates)
    return found | {f"{title}: {what}": figure for what, figure in _memory(source).items()}


# Kafka ------------------------------------------------------------------------------------------


def _kafka_round(kafka: KafkaCleaner, source: Path, small: Path) -> Cleaned:
    """Runs one round in a new JVM, which cleans the small log first."""
    settings = CleanerSettings(
        segment_bytes=TOPIC.segment_bytes_max,
        segment_index_bytes=TOPIC.segment_index_bytes_max,
        index_interval_bytes=TOPIC.index_interval_bytes,
        delete_retention_ms=TOPIC.delete_retention_ms,
        message_bytes_max=TOPIC.message_bytes_max,
        map_slots=SETTINGS.dedupe_buffer_bytes // SLOT_BYTES,
        map_load_factor=SETTINGS.dedupe_load_factor,
        # Kafka divides it: half to read, half to write.
        io_buffer_bytes=SETTINGS.io_buffer_bytes // 2,
    )
    with _work_folder() as folder:
        folders = [_linked(small, folder / "small"), _linked(source, folder / "large")]
        report: RoundReport = kafka.time_rounds(folders, settings, folder)[-1]
    assert report.bytes_read is not None
    assert report.records_written is not None
    assert report.times_s is not None
    return Cleaned(
        bytes_read=report.bytes_read,
        bytes_indexed=report.cleanable_bytes,
        messages_kept=report.records_written,
        whole_s=report.times_s["whole"],
        index_s=report.times_s["reported_index"],
        reported_s=report.times_s["reported"],
    )


def _linked(source: Path, parent: Path) -> Path:
    """Makes a partition's folder of hard links to the files of `source`.

    No cleaner changes these files.
    """
    folder = parent / source.name
    folder.mkdir(parents=True)
    for path in source.glob("*.log"):
        (folder / path.name).hardlink_to(path)
    return folder


# Ours -------------------------------------------------------------------------------------------


def _our_round(source: Path, small: Path, *, threads: int) -> Cleaned:
    """Runs one round. Each thread has a copy of the log and a part of the buffer.

    Each thread has cleaned the small log before.
    """
    every_tools = [_tools(threads) for _ in range(threads)]
    with _work_folder() as folder, ExitStack() as stack:
        for number, tools in enumerate(every_tools):
            with _opened(_linked(small, folder / f"small-{number}")) as log:
                _clean(log, tools)
        folders = [_linked(source, folder / f"{number}") for number in range(threads)]
        logs = [stack.enter_context(_opened(each)) for each in folders]
        pool = stack.enter_context(ThreadPoolExecutor(threads))
        started = time.perf_counter()
        reports = list(pool.map(_clean, logs, every_tools))
        whole_s = time.perf_counter() - started
    return Cleaned(
        bytes_read=sum(each.bytes_read for each in reports),
        bytes_indexed=sum(each.map_bytes_read for each in reports),
        messages_kept=sum(each.messages_written for each in reports),
        whole_s=whole_s,
        index_s=max(each.index_ms for each in reports) / 1e3,
        reported_s=max(each.elapsed_ms for each in reports) / 1e3,
    )


def _tools(threads: int = 1) -> CleanerTools:
    """The tools of one of `threads` threads. They keep the files of replaced segments."""
    offset_map = OffsetMap(
        SETTINGS.dedupe_buffer_bytes // threads,
        load_factor=SETTINGS.dedupe_load_factor,
        hash_key=os.urandom(32),
        bitmap_bytes_max=BITMAP_BYTES_MAX,
    )
    offset_map.table.fill(0)  # Allocates its pages, as Kafka's map and a first round do.
    return CleanerTools(
        files=OsFiles(), offset_map=offset_map, clock=SystemClock(), discard=lambda _: None
    )


def _clean(log: PartitionLog, tools: CleanerTools) -> CleanReport:
    """Cleans everything below the active segment."""
    return clean_log(
        log,
        tools,
        first_dirty=log.segments[0].base_offset,
        first_uncleanable=log.segments[-1].base_offset,
    )


@contextmanager
def _opened(folder: Path) -> Iterator[PartitionLog]:
    """Opens a log, syncs it, and writes its indexes."""
    files = OsFiles()
    scans = {}
    for base_offset in segment_base_offsets(files, folder):
        file = files.open(segment_path(folder, base_offset), read_only=True)
        scans[base_offset] = scan_segment(
            file,
            size=file.size(),
            base_offset=base_offset,
            offset_min=base_offset,
            index_interval_bytes=TOPIC.index_interval_bytes,
        )
        file.close()
    topic_partition = TopicPartition.of_folder(folder.name)
    assert topic_partition is not None
    log = PartitionLog.open(files, folder, topic_partition, TOPIC, scans, synced=True)
    log.sync()
    try:
        yield log
    finally:
        log.abandon()


def _memory(source: Path) -> dict[str, object]:
    """The memory of one more round, which runs alone."""
    with _work_folder() as folder, _opened(_linked(source, folder / "log")) as log:
        Path("/proc/self/clear_refs").write_text("5")  # Resets the peak.
        before = _status_bytes("VmRSS")
        tools = _tools()
        report = _clean(log, tools)
        peak = _status_bytes("VmHWM") - before
    map_bytes = tools.offset_map.table.nbytes
    return {
        "map over its buffer": round(map_bytes / SETTINGS.dedupe_buffer_bytes, 6),
        "map in use": round(report.map_utilization, 4),
        "bitmap, MB": tools.offset_map.bits.nbytes / 1e6,
        "buffer, MB": SETTINGS.dedupe_buffer_bytes / 1e6,
        "resident memory of a round at its peak, MB": peak / 1e6,
    }


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"the kernel does not say {field}")


# Hostile keys -----------------------------------------------------------------------------------


def _hostile(folder: Path, scale: float, rounds: int) -> dict[str, object]:
    """Divides the seconds with keys that collide by those with random keys, on equal logs."""
    groups = min(max(1000, int(HOSTILE_GROUPS * scale)), HOSTILE_GROUPS)
    shape = Shape(
        records=int(HOSTILE_RECORDS * scale),
        batch=10,
        keys=groups * 10,
        partitions_per_group=10,
        segment_bytes=_segment_bytes(scale),
    )
    small = folder / "small" / "__consumer_offsets-0"
    contestants: dict[str, Callable[[], Cleaned]] = {}
    for number, (name, group_ids) in enumerate(_hostile_group_ids(groups).items()):
        source = folder / str(number) / "__consumer_offsets-0"
        source.mkdir(parents=True)
        write_log(source, group_ids, shape.records // shape.batch, shape, seed=shape.seed)
        if number == 0:
            small.mkdir(parents=True)
            write_log(small, group_ids, 1000, shape, seed=shape.seed)
        contestants[name] = partial(_our_round, source, small, threads=1)
    os.sync()
    figures = interleave(contestants, rounds=rounds)
    if len({each.messages_kept for side in figures.values() for each in side}) > 1:
        raise RuntimeError("hostile keys cost records")
    seconds = {name: [one.whole_s for one in each] for name, each in figures.items()}
    usual = seconds.pop("random keys")
    found: dict[str, object] = {f"random keys, {shape.keys:,}, s": Spread.of(usual)}
    return found | {f"{name} over random": ratios(each, usual) for name, each in seconds.items()}


def _hostile_group_ids(count: int) -> dict[str, list[str]]:
    """Returns `count` ids of each kind, all of the same size."""
    source = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"

    def word(size: int) -> str:
        return "".join(source.choices(letters, k=size))

    # "Aa" and "BB" have the same `String.hashCode`, so all sequences of them have the same one too.
    pairs = ("".join(each) for each in itertools.product(("Aa", "BB"), repeat=8 * BLOCKS))
    return {
        "random keys": [PREFIX + word(16 * BLOCKS) for _ in range(count)],
        "keys with one String.hashCode": [PREFIX + each for each in itertools.islice(pairs, count)],
        "keys with one hash of ours, were it unkeyed": _rearranged(
            [(word(8), word(8)) for _ in range(BLOCKS)], count
        ),
    }


def _rearranged(blocks: Sequence[tuple[str, str]], count: int) -> list[str]:
    """Returns ids that our hash without its secret would map to the same value.

    That hash would be a sum of products of the two words of each block. So it would depend neither
    on the order of the blocks, nor on the order of the words in a block.
    """
    assert count <= math.factorial(len(blocks)) * 2 ** len(blocks), "more than there are"
    found = []
    for order in itertools.permutations(blocks):
        for swaps in itertools.product((1, -1), repeat=len(blocks)):
            if len(found) == count:
                return found
            words = ("".join(pair[::way]) for pair, way in zip(order, swaps, strict=True))
            found.append(PREFIX + "".join(words))
    return found
