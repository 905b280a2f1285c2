"""A store that appends, cleans, rolls and deletes: what it acknowledged outlives every crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from cleaned_logs import offsets_of, record_batch, replayed
from log_stores import (
    FOLDER,
    P0,
    P1,
    P2,
    SMALL,
    SMALL_LOG,
    log_bytes,
    opened,
    runs_of,
    seeded,
    tree,
)
from offsetd_storage.cleaner.cleaned_transactions import ProducerHistory
from offsetd_storage.cleaner.cleaning_plan import LogToClean, log_to_clean
from offsetd_storage.cleaner.cleaning_round import CleanerTools, clean_and_checkpoint
from offsetd_storage.cleaner.log_summaries import log_summary
from offsetd_storage.cleaner.offset_map import SLOT_BYTES, OffsetMap
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
from partition_logs import NOW_MS

if TYPE_CHECKING:
    from random import Random

    from offsetd_storage.disk.simulated_faults import Operation
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

pytestmark = pytest.mark.long(minutes=1)

RETENTION_MS = 100
CONFIG = attrs.evolve(
    SMALL,
    log=attrs.evolve(SMALL_LOG, segment_bytes_max=400, delete_retention_ms=RETENTION_MS),
    journal_file_bytes=8192,
)
COMPACTED = (P0, P1)
KEYS = "abcde"

Batch = tuple["TopicPartition", bytes]


def after(said: dict[TopicPartition, bytes], frame: list[Batch]) -> dict[TopicPartition, bytes]:
    """All batches ever acknowledged, by partition."""
    held = dict(said)
    for topic_partition, batch in frame:
        held[topic_partition] = held.get(topic_partition, b"") + batch
    return held


# By chance a run may clean little, and delete nothing: then others follow.
RUNS_MIN, RUNS_MAX = 2, 8
CLEANED_MIN = 10


class Run:
    """A store, and what it has promised."""

    def __init__(self, files: SimulatedFiles, random: Random) -> None:
        self.files = files
        self.random = random
        self.clock = ManualClock(NOW_MS)
        self.acknowledged: dict[TopicPartition, bytes] = {}
        self.pending: list[Batch] = []
        self.in_flight: list[list[Batch]] = []
        self.log_start = 0  # Of P2, which is not compacted: its oldest segments go.
        self.states = self.cleaned = self.deleted = 0
        self.seen: set[int] = set()
        self.store = opened(files, CONFIG, random=random)
        self.checkpoint = CleanerCheckpoint(files, FOLDER)
        offset_map = OffsetMap(
            6 * SLOT_BYTES, load_factor=1.0, hash_key=random.randbytes(16), bitmap_bytes_max=64
        )
        self.tools = CleanerTools(files=files, offset_map=offset_map, clock=self.clock)

    # What is done.

    def append(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            topic_partition = self.random.choice((*COMPACTED, *COMPACTED, P2))
            offset = self.store.logs[topic_partition].offset_next
            value = None if self.random.random() < 0.25 else f"v{offset}"
            batch = record_batch(offset, self.random.choice(KEYS), value)
            self.store.append(topic_partition, batch, last_offset=offset, max_timestamp_ms=NOW_MS)
            self.pending.append((topic_partition, batch))

    def flush(self) -> None:
        self.in_flight = list(map(runs_of, self.store._pending_frames.frames()))
        self.pending = []
        self.store.flush()
        for frame in self.in_flight:
            self.acknowledged = after(self.acknowledged, frame)
        self.in_flight = []

    def advance(self) -> None:
        self.store.advance_recovery_points()

    def roll(self) -> None:
        self.store.roll(self.random.choice((*COMPACTED, P2)))

    def plan(self, topic_partition: TopicPartition) -> LogToClean:
        log = self.store.logs[topic_partition]
        summary = log_summary(
            self.files,
            log,
            recovery_point=self.store.recovery_point(topic_partition),
            history=ProducerHistory(),
            checkpoint=self.checkpoint.first_dirty(topic_partition),
        )
        return log_to_clean(summary, log.config, now_ms=self.clock.now_ms())

    def clean(self) -> None:
        topic_partition = self.random.choice(COMPACTED)
        found = self.plan(topic_partition)
        with self.store.latching():
            log = self.store.logs[topic_partition]
            report = clean_and_checkpoint(log, self.tools, found, self.checkpoint)
        self.cleaned += report.segments_before - report.segments_left_alone
        self.clock.advance(self.random.choice((0, RETENTION_MS // 2, RETENTION_MS)))

    def delete(self) -> None:
        log, point = self.store.logs[P2], self.store.recovery_point(P2)
        bases = [each.base_offset for each in log.segments if each.base_offset <= point.offset]
        offset = self.random.choice(bases)
        self.store.raise_log_start_offset(P2, offset)
        self.log_start = max(self.log_start, offset)
        bound = min(self.log_start, self.store.recovery_point(P2).segment_base_offset)
        below = [each for each in bases if each < bound]
        if below and len(log.segments) > len(below):
            self.store.delete_oldest(P2, len(below))
            self.deleted += len(below)

    def reopen(self) -> None:
        self.flush()
        self.store.close()
        self.take(self.files)

    def take(self, files: SimulatedFiles) -> None:
        """Goes on with a store on some disk."""
        hook = self.files.before_operation
        self.files.before_operation = None
        self.files = files
        self.store = opened(files, CONFIG, random=self.random)
        self.acknowledged = self.held(self.store)
        self.pending, self.in_flight = [], []
        self.checkpoint = CleanerCheckpoint(files, FOLDER)
        self.tools = attrs.evolve(self.tools, files=files)
        files.before_operation = hook

    # What has to hold.

    def watch(self) -> None:
        def look(files: SimulatedFiles, operation: Operation) -> None:
            for state in (
                *files.crash_states(samples=3, exhaustive_pending_max=2, random=self.random),
                files.kill(),
            ):
                self.check(state, f"before {operation}")

        self.files.before_operation = look

    def check(self, disk: SimulatedFiles, what: str) -> None:
        found = hash(tuple(sorted((str(path), raw) for path, raw in tree(disk).items())))
        if found in self.seen:
            return
        self.seen.add(found)
        self.states += 1
        store = opened(disk, CONFIG, random=self.random)
        self.held(store, what)
        if self.random.random() < 0.05:
            self.clean_all(store, disk)
            self.held(store, f"{what}, and cleaned after it")
        store.abandon()

    def clean_all(self, store: LogStore, disk: SimulatedFiles) -> None:
        """Cleans what a start has found, by the checkpoint that it has found."""
        run = object.__new__(Run)
        run.__dict__.update(self.__dict__)
        run.files, run.store = disk, store
        run.clock = ManualClock(NOW_MS + RETENTION_MS * 1000)
        run.checkpoint = CleanerCheckpoint(disk, FOLDER)
        run.tools = attrs.evolve(
            self.tools,
            files=disk,
            clock=run.clock,
            offset_map=OffsetMap(
                6 * SLOT_BYTES, load_factor=1.0, hash_key=bytes(16), bitmap_bytes_max=64
            ),
        )
        run.cleaned = 0
        for _ in range(6):
            run.clean()

    def held(self, store: LogStore, what: str = "") -> dict[TopicPartition, bytes]:
        """Which of the possible histories the store holds."""
        assert not store.quarantined, f"{what}: {[*map(str, store.quarantined.values())]}"
        outcomes = [self.acknowledged]
        for frame in self.in_flight:
            outcomes.append(after(outcomes[-1], frame))
        matching = [each for each in outcomes if self.is_held(store, each)]
        assert matching, what
        return matching[0]

    def is_held(self, store: LogStore, said: dict[TopicPartition, bytes]) -> bool:
        for topic_partition in COMPACTED:
            log = store.logs[topic_partition]
            batches = said.get(topic_partition, b"")
            if log.offset_next != max(offsets_of(batches), default=-1) + 1:
                return False
            if replayed(log_bytes(log)) != replayed(batches):
                return False
        log = store.logs[P2]
        offsets = offsets_of(log_bytes(log))
        expected = [each for each in offsets_of(said.get(P2, b"")) if each >= log.log_start_offset]
        return (
            log.log_start_offset >= self.log_start
            and [each for each in offsets if each >= log.log_start_offset] == expected
        )


def test_what_was_acknowledged_outlives_a_crash_of_a_store_that_cleans_and_deletes() -> None:
    random = seeded()
    states = cleaned = deleted = 0
    for runs in range(RUNS_MAX):
        if runs >= RUNS_MIN and cleaned > CLEANED_MIN and deleted > 0:
            break
        run = Run(SimulatedFiles(), random)
        weighted = [run.append] * 5 + [run.flush] * 4 + [run.advance] * 3 + [run.clean] * 3
        weighted += [run.roll, run.roll, run.delete, run.reopen]
        for step in range(70):
            if step == 35:
                run.watch()
            random.choice(weighted)()
        run.files.before_operation = None
        run.flush()
        for disk in (run.files.power_cut(), run.files.kill()):
            run.check(disk, "at the end")
        states, cleaned = states + run.states, cleaned + run.cleaned
        deleted += run.deleted
    assert states > 100
    assert cleaned > CLEANED_MIN
    assert deleted > 0
