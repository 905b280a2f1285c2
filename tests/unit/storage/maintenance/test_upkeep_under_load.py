"""Appends, flushes, rolls, cleaning, deletion and settings at the same time, on a real folder."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs
import pytest
from cleaned_logs import record_batch, replayed
from kept_stores import CLEANER, CONFIG, EVENTS, LOG, P0, P1, P2, UPKEEP
from log_stores import log_bytes, seeded
from offsetd_storage.batch.record_batch import decode_batches
from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import DELETE
from offsetd_storage.configuration.server_config import BackgroundConfig, RetentionConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.log.store_config import TopicSpec
from offsetd_storage.log_store import LogStore
from offsetd_storage.maintenance.upkeep import Upkeep, UpkeepConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from offsetd_storage.topic_partition import TopicPartition

APPENDS_MIN = 2000
ROUNDS_MIN = 10
BURST = 20
RECORD_BYTES = 80
PATIENCE_SECONDS = 60
KEYS = 40
COMPACTED = (P0, P1, P2)
SMALL = attrs.evolve(LOG, segment_bytes_max=4000, segment_ms=200, delete_retention_ms=50)
STORE = attrs.evolve(
    CONFIG,
    log=SMALL,
    journal_file_bytes=64 << 10,
    other_topics=(
        TopicSpec(
            topic=EVENTS.topic,
            partitions=1,
            log=attrs.evolve(SMALL, cleanup_policy=DELETE, retention_bytes=6000),
        ),
    ),
)
HASTY = UpkeepConfig(
    cleaner=attrs.evolve(CLEANER, threads=2, dedupe_buffer_bytes=4 << 20, backoff_ms=5),
    retention=RetentionConfig(check_interval_ms=10),
    background=BackgroundConfig(
        initial_delay_ms=0,
        flush_interval_ms=15,
        recovery_point_interval_ms=10,
        log_start_interval_ms=10,
    ),
    disk=UPKEEP.disk,
)


class Load:
    """The one thread that appends, one that flushes, and what was acknowledged."""

    def __init__(self, store: LogStore, random: Random) -> None:
        self.store, self.random = store, random
        self.values: dict[TopicPartition, dict[bytes, bytes]] = {each: {} for each in COMPACTED}
        self.events = self.appends = 0
        self.rounds: list[object] = []
        self.finished = threading.Event()

    def append_all(self) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        try:
            while self.appends < APPENDS_MIN or len(self.rounds) < ROUNDS_MIN:
                assert time.monotonic() < end, f"{self.appends} appends, {len(self.rounds)} rounds"
                for _ in range(BURST):
                    self.append(self.appends)
                time.sleep(0.02)
        finally:
            self.finished.set()

    def append(self, number: int) -> None:
        self.appends += 1
        topic_partition = self.random.choice((*COMPACTED, EVENTS))
        offset = self.store.logs[topic_partition].offset_next
        key, value = f"k{self.random.randrange(KEYS)}", f"value {number}"
        is_tombstone = self.random.random() < 0.2 and topic_partition != EVENTS
        now_ms = SystemClock().now_ms()
        batch = record_batch(offset, key, None if is_tombstone else value, timestamp_ms=now_ms)
        self.store.append(topic_partition, batch, last_offset=offset, max_timestamp_ms=now_ms)
        if topic_partition == EVENTS:
            self.events += 1
        elif is_tombstone:
            self.values[topic_partition].pop(key.encode(), None)
        else:
            self.values[topic_partition][key.encode()] = value.encode()

    def flush_on(self) -> None:
        while not self.finished.is_set():
            self.store.flush()

    def again(self, pause_seconds: float, act: Callable[[], object]) -> None:
        while not self.finished.wait(pause_seconds):
            act()


def check(store: LogStore, load: Load) -> None:
    """All that was appended, and flushed, is what the logs say."""
    for topic_partition, values in load.values.items():
        assert replayed(log_bytes(store.logs[topic_partition])) == values
    events = store.logs[EVENTS]
    batches = decode_batches(log_bytes(events))
    offsets = [record.offset for batch in batches for record in batch.records]
    assert offsets == list(range(offsets[0], load.events))
    assert offsets[0] <= events.log_start_offset


def opened(folder: Path, random: Random) -> LogStore:
    return LogStore.open(OsFiles(), folder, STORE, clock=SystemClock(), random=random)


def disturbances(store: LogStore, upkeep: Upkeep) -> list[tuple[float, Callable[[], object]]]:
    """What operators do meanwhile, and how many seconds apart."""

    def delete_records() -> None:
        log = store.logs[EVENTS]
        bound = (log.log_start_offset + log.offset_next) // 2
        upkeep.retention.delete_records(EVENTS, bound)

    def change_threads() -> None:
        threads = 3 - upkeep.config.cleaner.threads
        cleaner = attrs.evolve(upkeep.config.cleaner, threads=threads)
        upkeep.configure(attrs.evolve(upkeep.config, cleaner=cleaner))

    def compact() -> None:
        answers = upkeep.cleaner.compact(COMPACTED, rolls_active=True)
        for answer in answers.values():
            answer.result(timeout=60)

    return [
        (0.02, delete_records),
        (1.0, change_threads),
        (0.05, compact),
        (0.5, lambda: upkeep.cleaner.abort(P0)),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["closed", "killed"])
def test_nothing_acknowledged_is_lost_while_segments_roll_and_are_cleaned_and_deleted(
    tmp_path: Path, ends: str
) -> None:
    random = seeded()
    store = opened(tmp_path, random)
    load = Load(store, random)
    failures: list[object] = []
    upkeep = Upkeep(
        store,
        tmp_path,
        HASTY,
        files=OsFiles(),
        clock=SystemClock(),
        random=random,
        on_failed=failures.append,
        on_round=load.rounds.append,
        on_uncleanable=failures.append,
    )

    upkeep.start()
    with ThreadPoolExecutor(6) as pool:
        try:
            running = [
                pool.submit(load.append_all),
                pool.submit(load.flush_on),
                *(pool.submit(load.again, *each) for each in disturbances(store, upkeep)),
            ]
            for each in running:
                each.result()
        finally:
            load.finished.set()
            upkeep.stop()
    assert not failures
    assert all(not each.failures for each in upkeep.tasks), upkeep.tasks
    store.flush()
    check(store, load)
    kept_bytes = sum(store.logs[each].size_bytes for each in COMPACTED)
    assert kept_bytes < load.appends * RECORD_BYTES * 3 / 4 / 2
    if ends == "closed":
        store.close()
    else:
        store.abandon()
    after = opened(tmp_path, random)
    assert not after.quarantined
    check(after, load)
    after.close()
