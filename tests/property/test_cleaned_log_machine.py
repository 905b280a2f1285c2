"""A keyed log that is written, cleaned, restarted and crashed in any order, and its readers.

Whatever happens, the log says what all records ever acknowledged say, so nothing that was deleted
comes back; what is left of it has the order, offsets and contents that it was written with; a
reader that is never further behind than `min.compaction.lag.ms` sees every record; and one that
starts at offset 0 and is done within `delete.retention.ms` has seen every tombstone, and knows what
the log says.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import attrs
import hypothesis.strategies as st
import pytest
from cleaned_logs import record_batch, replayed
from cleaned_stores import CONFIG, DELETE_RETENTION_MS, LOG, CleanedStore
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from partition_logs import NOW_MS, everything
from sim.crash_explorer import Killed, crashed

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.disk.simulated_faults import Operation

pytestmark = pytest.mark.slow

KEYS = "abcdef"
LAGS_MS = (0, 300)
MANY_SLOTS = 1000
LONG = bool(os.environ.get("OFFSETD_NIGHTLY"))

letters = st.text(KEYS + KEYS.upper(), min_size=1, max_size=4)  # A capital one is a tombstone.
crash_points = st.integers(0, 60)
seeds = st.integers(0, 2**32)


@attrs.define
class Reader:
    """Reads at its own pace what is acknowledged, from where it is on."""

    started_ms: int
    offset: int
    seen: set[int] = attrs.Factory(set)
    values: dict[bytes, bytes] = attrs.Factory(dict)

    def read(self, node: CleanedStore, bytes_max: int) -> bool:
        """Whether there was anything to read."""
        batches = node.log().read(self.offset, bytes_max=bytes_max)
        offset = self.offset
        for batch in decode_batches(batches):
            if batch.last_offset >= node.acknowledged[0]:
                break
            self._take(batch.records)
            self.offset = max(self.offset, batch.last_offset + 1)
        return self.offset > offset

    def _take(self, records: tuple[Record, ...]) -> None:
        for record in records:
            if record.offset < self.offset:
                continue
            assert record.key is not None
            self.seen.add(record.offset)
            if record.value is None:
                self.values.pop(record.key, None)
            else:
                self.values[record.key] = record.value

    def read_to_the_end(self, node: CleanedStore) -> None:
        while self.read(node, bytes_max=500):
            pass


class CleanedLog(RuleBasedStateMachine):
    """One partition; the other one is there for its share of the journal."""

    @initialize(lag_ms=st.sampled_from(LAGS_MS), maps_are_large=st.booleans())
    def open(self, lag_ms: int, maps_are_large: bool) -> None:
        self.lag_ms, self.maps_are_large = lag_ms, maps_are_large
        config = attrs.evolve(CONFIG, log=attrs.evolve(LOG, compaction_lag_ms_min=lag_ms))
        self.clock = ManualClock(NOW_MS)
        self.node = CleanedStore(
            SimulatedFiles(clock=self.clock), Random(lag_ms), self.clock, config
        )
        self.tail = Reader(started_ms=NOW_MS, offset=0)
        self.from_start: Reader | None = None

    # Writing.

    @rule(
        batches=st.lists(letters, min_size=1, max_size=4), partition=st.sampled_from([0, 0, 0, 1])
    )
    def append(self, batches: list[str], partition: int) -> None:
        for letters in batches:
            offset = self.node.log(partition).offset_next
            records = [
                Record(
                    key=letter.lower().encode(),
                    value=None if letter.isupper() else f"{letter}{at}".encode(),
                    offset=at,
                    timestamp_ms=self.clock.now_ms(),
                )
                for at, letter in enumerate(letters, offset)
            ]
            self.node.append_batch(partition, encode_batch(records, base_offset=offset))

    @rule()
    def flush(self) -> None:
        self.node.flush()

    @rule()
    def roll(self) -> None:
        self.node.roll(0)

    # Cleaning.

    @rule(
        slots=st.sampled_from([1, 2, 4]),
        bits=st.sampled_from([0, 1, 1 << 10]),
        rolls=st.booleans(),
        reads=st.none() | seeds,
    )
    def clean(self, slots: int, bits: int, rolls: bool, reads: int | None) -> None:
        """One round, and between its operations both readers go on."""
        if rolls:
            self.node.roll(0)
        self.node.advance()
        self.hurry(self.clock.now_ms())
        if reads is not None:
            self.read_between_operations(Random(reads))
        slots = MANY_SLOTS if self.maps_are_large else slots
        self.node.clean(0, slots=slots, bitmap_bytes_max=bits)
        self.node.files.before_operation = None

    def read_between_operations(self, random: Random) -> None:
        def read(_: SimulatedFiles, __: Operation) -> None:
            # Where another thread would not have to wait for a name.
            if not any(each._name_lock.locked() for each in self.node.log().segments):
                for reader in (self.tail, self.from_start):
                    if reader is not None and random.random() < 0.3:
                        reader.read(self.node, 200)

        self.node.files.before_operation = read

    def hurry(self, now_ms: int) -> None:
        """The reader at the tail reads on if it would be too late for what is not young then.

        It need not for what lies in the active segment.
        """
        written = self.node.appended[0].records(self.node.acknowledged[0])
        active_base = self.node.log().segments[-1].base_offset
        if any(
            self.tail.offset <= offset < active_base and record.timestamp_ms <= now_ms - self.lag_ms
            for offset, record in written.items()
        ):
            self.tail.read_to_the_end(self.node)

    @rule(milliseconds=st.sampled_from([1, 299, 300, 301, 999, 1000]) | st.integers(1, 2500))
    def wait(self, milliseconds: int) -> None:
        """Time passes; who is too slow for what is promised hurries."""
        now_ms = self.clock.now_ms() + milliseconds
        self.hurry(now_ms)
        reader = self.from_start
        if reader is not None and now_ms >= reader.started_ms + DELETE_RETENTION_MS:
            self.finish_from_start()
        self.clock.advance(milliseconds)

    # Reading.

    @rule(bytes_max=st.sampled_from([1, 200, 2000]))
    def read_the_tail(self, bytes_max: int) -> None:
        self.tail.read(self.node, bytes_max)

    @precondition(lambda self: self.from_start is None)
    @rule()
    def start_from_the_start(self) -> None:
        self.from_start = Reader(started_ms=self.clock.now_ms(), offset=0)

    @precondition(lambda self: self.from_start is not None)
    @rule(bytes_max=st.sampled_from([1, 200, 2000]))
    def read_from_the_start(self, bytes_max: int) -> None:
        assert self.from_start is not None
        self.from_start.read(self.node, bytes_max)

    @precondition(lambda self: self.from_start is not None)
    @rule()
    def finish_from_start(self) -> None:
        reader, self.from_start = self.from_start, None
        assert reader is not None
        reader.read_to_the_end(self.node)
        end = self.node.acknowledged[0]
        last = {record.key: record for record in self.node.appended[0].records(end).values()}
        tombstones = {
            record.offset
            for record in last.values()
            if record.value is None
            and record.timestamp_ms + DELETE_RETENTION_MS > self.clock.now_ms()
        }
        assert tombstones <= reader.seen
        # What a map has no room for is stamped all the same, as Kafka does; see the test below.
        if self.maps_are_large:
            assert reader.values == replayed(b"".join(self.node.appended[0].before(end)))

    # Stopping and crashing.

    @rule()
    def restart(self) -> None:
        self.node.restart()

    @rule(seed=seeds)
    def crash(self, seed: int) -> None:
        self.node.crash(crashed(self.node.files, Random(seed)))

    @rule(point=crash_points, in_recovery=st.none() | crash_points, seed=seeds)
    def crash_in_a_flush(self, point: int, in_recovery: int | None, seed: int) -> None:
        self.crash_in(self.node.flush, point, in_recovery, seed)

    @rule(point=crash_points, in_recovery=st.none() | crash_points, seed=seeds)
    def crash_while_recovery_points_move(
        self, point: int, in_recovery: int | None, seed: int
    ) -> None:
        self.crash_in(self.node.advance, point, in_recovery, seed)

    @rule(point=crash_points, in_recovery=st.none() | crash_points, seed=seeds)
    def crash_in_a_round(self, point: int, in_recovery: int | None, seed: int) -> None:
        self.node.roll(0)
        self.node.advance()
        self.hurry(self.clock.now_ms())
        slots = MANY_SLOTS if self.maps_are_large else 3
        self.crash_in(lambda: self.node.clean(0, slots=slots), point, in_recovery, seed)

    def crash_in(
        self, act: Callable[[], object], point: int, in_recovery: int | None, seed: int
    ) -> None:
        """Crashes before an operation of what is done, or behind it; maybe in recovery, too."""
        random = Random(seed)
        disk = crash_at(self.node.files, act, point, random)
        if in_recovery is not None:
            disk = crash_at(disk, partial(self.node.twin, disk), in_recovery, random)
        self.node.crash(disk)

    # What has to hold.

    @invariant()
    def the_log_says_what_all_records_ever_written_say(self) -> None:
        for partition in self.node.partitions:
            log = self.node.log(partition)
            batches = self.node.appended[partition].before(log.offset_next_written)
            assert replayed(everything(log)) == replayed(b"".join(batches))

    @invariant()
    def what_is_left_is_as_it_was_written(self) -> None:
        self.node.check_offsets(0)

    @invariant()
    def the_reader_at_the_tail_has_seen_every_record(self) -> None:
        written = self.node.appended[0].records(self.node.acknowledged[0])
        assert self.tail.seen == {offset for offset in written if offset < self.tail.offset}


def crash_at(
    files: SimulatedFiles, act: Callable[[], object], point: int, random: Random
) -> SimulatedFiles:
    """The disk that a crash leaves before the operation of that number, at the latest behind."""
    last = files.operations + point

    def kill(_: SimulatedFiles, operation: Operation) -> None:
        if operation.number > last:
            raise Killed

    files.before_operation = kill
    with contextlib.suppress(Killed):
        act()
    files.before_operation = None
    return crashed(files, random)


CleanedLog.TestCase.settings = settings(
    max_examples=2000 if LONG else 60, stateful_step_count=60 if LONG else 40
)
TestCleanedLog = CleanedLog.TestCase


def test_the_time_of_a_tombstone_beyond_a_full_map_runs_from_its_first_pass_as_kafkas_does() -> (
    None
):
    """So a reader may miss it that begins within it, but before what it hides was mapped, too.

    A map that takes all dirty keys has it go together with what it hides, and keeps the promise.
    """
    clock = ManualClock(NOW_MS)
    node = CleanedStore(SimulatedFiles(clock=clock), Random(1), clock)
    for offset, (key, value) in enumerate([("b", "0"), ("a", "1"), ("a", None), ("c", "3")]):
        node.append_batch(0, record_batch(offset, key, value))
    node.roll(0)
    node.advance()
    report = node.clean(0, slots=1)  # One key: `b`.
    assert report.offset_next == 1
    assert report.delete_horizon_ms == clock.now_ms() + DELETE_RETENTION_MS
    clock.advance(DELETE_RETENTION_MS - 1)
    reader = Reader(started_ms=clock.now_ms(), offset=0)
    for _ in range(2):
        reader.read(node, bytes_max=1)
    assert reader.values == {b"a": b"1", b"b": b"0"}
    clock.advance(1)
    for _ in range(2):
        node.clean(0, slots=1)
    reader.read_to_the_end(node)
    assert 2 not in reader.seen
    # Who begins now knows what the log says.
    reader = Reader(started_ms=clock.now_ms(), offset=0)
    reader.read_to_the_end(node)
    assert reader.values == {b"b": b"0", b"c": b"3"}
