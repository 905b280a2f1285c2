"""A log against a plain model: a list of batches, and Kafka's rule for rolling, written out."""

from __future__ import annotations

import attrs
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from offsetd_storage.batch.batch_runs import read_runs
from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.kernels import padded_copy
from partition_logs import FOLDER, NOW_MS, batch_of, created, opened, scans_of

pytestmark = pytest.mark.slow

SIZES = st.integers(70, 400)
TIMESTAMPS = st.integers(-1, 3000)
CONFIGS = st.builds(
    LogConfig,
    segment_bytes_max=st.integers(500, 5000),
    segment_ms=st.integers(100, 3000),
    segment_index_bytes_max=st.integers(24, 150),
    index_interval_bytes=st.integers(0, 1000),
    preallocate_step_bytes=st.integers(1, 5000),
)


@attrs.frozen(kw_only=True)
class Batch:
    """What the model knows of one."""

    raw: bytes
    base_offset: int
    last_offset: int
    max_timestamp_ms: int


@attrs.define(kw_only=True)
class ModelSegment:
    """The batches of one segment, and of which of them its indexes have entries."""

    base_offset: int
    batches: list[Batch] = attrs.Factory(list)
    created_ms: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(len(each.raw) for each in self.batches)

    def positions(self) -> list[int]:
        starts, position = [], 0
        for each in self.batches:
            starts.append(position)
            position += len(each.raw)
        return starts

    def offset_entries(self, interval_bytes: int) -> list[tuple[int, int]]:
        entries: list[tuple[int, int]] = []
        for batch, position in zip(self.batches, self.positions(), strict=True):
            if position - (entries[-1][1] if entries else 0) > interval_bytes:
                entries.append((batch.last_offset, position))
        return entries

    def time_entries(
        self, offset_entries: list[tuple[int, int]], *, at_rest: bool
    ) -> list[tuple[int, int]]:
        entries: list[tuple[int, int]] = []
        indexed = {offset for offset, _ in offset_entries}
        largest = (-1, self.base_offset)
        for place, batch in enumerate(self.batches):
            if batch.max_timestamp_ms > largest[0]:
                largest = (batch.max_timestamp_ms, batch.last_offset)
            is_last = at_rest and place == len(self.batches) - 1
            if (batch.last_offset in indexed or is_last) and largest[0] > (
                entries[-1][0] if entries else -1
            ):
                entries.append(largest)
        return entries

    def must_roll(self, config: LogConfig, batch: Batch) -> bool:
        if not self.batches:
            return False
        first_ms = self.batches[0].max_timestamp_ms
        waited_ms = batch.max_timestamp_ms - first_ms if first_ms >= 0 else 0  # The clock stands.
        offset_entries = self.offset_entries(config.index_interval_bytes)
        time_entries = self.time_entries(offset_entries, at_rest=False)
        return (
            self.size_bytes + len(batch.raw) > config.segment_bytes_max
            or waited_ms > config.segment_ms
            or len(offset_entries) >= config.segment_index_bytes_max // 8
            or len(time_entries) >= config.segment_index_bytes_max // 12 - 1
        )


class PartitionLogMachine(RuleBasedStateMachine):
    """Appends, rolls, cuts, syncs, closes and kills a log, and compares all that it shows."""

    @initialize(config=CONFIGS, base_offset=st.integers(0, 2**40))
    def create(self, config: LogConfig, base_offset: int) -> None:
        self.files = SimulatedFiles()
        self.config = config
        self.log = created(self.files, config=config, base_offset=base_offset)
        self.segments = [ModelSegment(base_offset=base_offset)]
        self.offset_next = base_offset
        self.written = base_offset
        self.appended_since_open = False

    def batches(self) -> list[Batch]:
        return [batch for segment in self.segments for batch in segment.batches]

    def written_batches(self) -> list[Batch]:
        return [batch for batch in self.batches() if batch.last_offset < self.written]

    @rule(size_bytes=SIZES, timestamp_ms=TIMESTAMPS, count=st.integers(1, 3), gap=st.integers(0, 2))
    def append(self, size_bytes: int, timestamp_ms: int, count: int, gap: int) -> None:
        base_offset = self.offset_next + gap
        raw = batch_of(base_offset, count=count, size_bytes=size_bytes, timestamp_ms=timestamp_ms)
        batch = Batch(
            raw=raw,
            base_offset=base_offset,
            last_offset=base_offset + count - 1,
            max_timestamp_ms=timestamp_ms,
        )
        self.log.append(
            raw, last_offset=batch.last_offset, max_timestamp_ms=timestamp_ms, now_ms=NOW_MS
        )
        if self.segments[-1].must_roll(self.config, batch):
            self.segments.append(ModelSegment(base_offset=base_offset))
        self.segments[-1].batches.append(batch)
        self.offset_next = batch.last_offset + 1
        self.appended_since_open = True

    @rule(
        sizes_bytes=st.lists(SIZES, min_size=1, max_size=4),
        timestamps_ms=st.lists(TIMESTAMPS, min_size=4, max_size=4),
    )
    def append_run(self, sizes_bytes: list[int], timestamps_ms: list[int]) -> None:
        batches = [
            batch_of(self.offset_next + number, size_bytes=size_bytes, timestamp_ms=timestamp_ms)
            for number, (size_bytes, timestamp_ms) in enumerate(
                zip(sizes_bytes, timestamps_ms, strict=False)
            )
        ]
        content = padded_copy(b"".join(batches))
        [run] = read_runs(content, np.array([[0, sum(map(len, batches))]]))
        if not self.log.append_run(run):
            for size_bytes, timestamp_ms in zip(sizes_bytes, timestamps_ms, strict=False):
                self.append(size_bytes, timestamp_ms, count=1, gap=0)
            return
        for number, (raw, timestamp_ms) in enumerate(zip(batches, timestamps_ms, strict=False)):
            batch = Batch(
                raw=raw,
                base_offset=self.offset_next + number,
                last_offset=self.offset_next + number,
                max_timestamp_ms=timestamp_ms,
            )
            assert not self.segments[-1].must_roll(self.config, batch)
            self.segments[-1].batches.append(batch)
        self.offset_next = run.last_offset + 1
        self.appended_since_open = True

    @rule()
    def write(self) -> None:
        self.log.write()
        self.written = self.offset_next

    @rule()
    def sync(self) -> None:
        assert self.log.sync() == self.written

    @rule(config=CONFIGS)
    def reconfigure_and_reopen(self, config: LogConfig) -> None:
        self.log.close()
        self.config = config
        self.reopened(synced=True)

    @rule()
    def close_and_reopen(self) -> None:
        self.log.close()
        before = self.segment_files()
        self.reopened(synced=True)
        assert not any(each.needs_mending for each in self.log.segments)
        self.log.close()
        assert self.segment_files() == before
        self.reopened(synced=True)

    @rule()
    def kill_and_reopen(self) -> None:
        self.log.write()
        self.log.abandon()
        self.files = self.files.kill()
        self.reopened(synced=False)

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        self.log.write()
        first = self.segments[0].base_offset
        end = first + round((self.offset_next - first) * part)
        self.log.truncate(end)
        self.segments = [each for each in self.segments if each.base_offset <= end]
        last = self.segments[-1]
        last.batches = [each for each in last.batches if each.last_offset < end]
        self.offset_next = self.written = end
        # What was at rest is so no more, if anything was cut.
        self.appended_since_open = True

    def reopened(self, *, synced: bool) -> None:
        self.log = opened(self.files, config=self.config, synced=synced)
        batches = self.batches()
        end = batches[-1].last_offset + 1 if batches else self.segments[-1].base_offset
        end = max(end, self.segments[-1].base_offset)
        self.offset_next = self.written = end
        self.appended_since_open = False

    def segment_files(self) -> dict[str, bytes]:
        names = self.files.list_folder(FOLDER)
        return {name: self.files.read_bytes(FOLDER / name) for name in names if name[0] == "0"}

    @invariant()
    @precondition(lambda self: hasattr(self, "log"))
    def segments_and_ends_are_the_models(self) -> None:
        assert self.log.offset_next == self.offset_next
        assert self.log.offset_next_written == self.written
        assert [each.base_offset for each in self.log.segments] == [
            each.base_offset for each in self.segments
        ]
        assert [each.size_bytes for each in self.log.segments] == [
            each.size_bytes for each in self.segments
        ]

    @invariant()
    @precondition(lambda self: hasattr(self, "log"))
    def indexes_are_those_of_a_linear_scan(self) -> None:
        interval = self.config.index_interval_bytes
        for place, (segment, model) in enumerate(
            zip(self.log.segments, self.segments, strict=True)
        ):
            expected = model.offset_entries(interval)
            offsets = [(each.offset, each.position) for each in segment.offset_index]
            written = [each for each in expected if each[1] < segment.written_bytes]
            # What is queued is indexed when it is written, if not before.
            assert expected[: len(offsets)] == offsets
            assert offsets[: len(written)] == written
            at_rest = model.time_entries(expected, at_rest=True)
            is_active = place == len(self.segments) - 1
            if not (is_active and self.appended_since_open):
                assert (offsets, list(segment.time_index)) == (expected, at_rest)
            else:
                awake = model.time_entries(offsets, at_rest=False)
                assert list(segment.time_index) in (awake, at_rest)

    @rule(bytes_max=st.integers(0, 3000), at=st.integers(-3, 60))
    def read(self, bytes_max: int, at: int) -> None:
        offset = max(0, self.segments[0].base_offset + at)
        self.written = self.offset_next
        written = self.written_batches()
        found = next((each for each in written if each.last_offset >= offset), None)
        if found is None:
            assert self.log.read(offset, bytes_max=bytes_max) == b""
            return
        segment = next(each for each in self.segments if found in each.batches)
        same = [each for each in segment.batches if each in written]
        expected = b""
        for batch in same[same.index(found) :]:
            if expected and len(expected) + len(batch.raw) > bytes_max:
                break
            expected += batch.raw
        assert self.log.read(offset, bytes_max=bytes_max) == expected

    @rule(chunk_bytes=st.integers(1, 3000), at=st.integers(0, 60), span=st.integers(0, 60))
    def read_chunks(self, chunk_bytes: int, at: int, span: int) -> None:
        offset = self.segments[0].base_offset + at
        limit = offset + span
        if limit > self.written:
            self.written = self.offset_next
        found = b""
        for buffer, end in self.log.read_chunks(chunk_bytes, offset=offset, offset_limit=limit):
            chunk = buffer[:end].tobytes()
            position = 0
            while position < end:
                position += batch_header(chunk, position).size_bytes
            assert position == end, "chunks hold whole batches"
            found += chunk
        expected = [
            each.raw
            for each in self.written_batches()
            if each.last_offset >= offset and each.last_offset < limit
        ]
        assert found == b"".join(expected)

    @rule(timestamp_ms=st.integers(-1, 3001))
    def find_a_time(self, timestamp_ms: int) -> None:
        self.written = self.offset_next
        expected = [
            each.base_offset
            for each in self.written_batches()
            if each.max_timestamp_ms >= timestamp_ms
        ]
        assert self.log.offset_for_timestamp(timestamp_ms) == min(expected, default=None)

    @rule()
    def scan(self) -> None:
        """The files hold what the model does, and a scan of them gives the same indexes."""
        self.write()
        logs = [raw for name, raw in self.segment_files().items() if name.endswith(".log")]
        assert logs == [b"".join(batch.raw for batch in each.batches) for each in self.segments]
        for base_offset, scan in scans_of(self.files, FOLDER, self.config).items():
            segment = next(each for each in self.log.segments if each.base_offset == base_offset)
            assert segment.offset_index.entries == scan.offset_index.tobytes()
            assert segment.largest_timestamp_ms == scan.largest_timestamp_ms
            assert segment.first_timestamp_ms == scan.first_timestamp_ms


TestPartitionLog = PartitionLogMachine.TestCase
