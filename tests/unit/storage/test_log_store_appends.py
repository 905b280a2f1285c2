"""What a store takes at the append, by settings that may change while it runs."""

from __future__ import annotations

from random import Random

import attrs
import pytest
from changed_configs import with_settings
from log_stores import FOLDER, P0, SMALL, append, contents
from offsetd_storage.batch.record_batch import Record, decode_batch, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import COMPACT
from offsetd_storage.disk.delayed_deletion import FileDeleter
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import InvalidRecord, InvalidTimestamp, RecordTooLarge
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.log_store import LogStore
from offsetd_storage.timestamp_type import TimestampType
from partition_logs import NOW_MS, batch_of

HOUR_MS = 3_600_000


class Opened:
    """A store, its disk and its clock; settings of P0 are changed as an operator does."""

    def __init__(self, **settings: str) -> None:
        self.clock = ManualClock(NOW_MS)
        self.files = SimulatedFiles(clock=self.clock)
        self.store = LogStore.open(self.files, FOLDER, SMALL, clock=self.clock, random=Random(1))
        self.log = self.store.logs[P0]
        self.set(settings)

    def set(self, settings: dict[str, str]) -> None:
        self.log.config = with_settings(self.log.config, settings)

    def append(self, *, timestamp_ms: int = NOW_MS, size_bytes: int = 100) -> bytes:
        offset = self.log.offset_next
        batch = batch_of(offset, timestamp_ms=timestamp_ms, size_bytes=size_bytes)
        return self.store.append(P0, batch, last_offset=offset, max_timestamp_ms=timestamp_ms)

    def reopened(self) -> LogStore:
        """After a kill."""
        self.store.abandon()
        files = self.files.kill()
        return LogStore.open(files, FOLDER, SMALL, clock=self.clock, random=Random(1))


def names(opened: Opened, suffix: str) -> list[str]:
    folder = FOLDER / P0.folder_name
    return [name for name in opened.files.list_folder(folder) if name.endswith(suffix)]


@pytest.mark.parametrize(
    ("settings", "timestamp_ms", "is_taken"),
    [
        ({}, NOW_MS + HOUR_MS, True),
        ({}, NOW_MS + HOUR_MS + 1, False),
        ({}, 0, True),
        ({"message.timestamp.after.max.ms": "0"}, NOW_MS, True),
        ({"message.timestamp.after.max.ms": "0"}, NOW_MS + 1, False),
        ({"message.timestamp.before.max.ms": "10"}, NOW_MS - 10, True),
        ({"message.timestamp.before.max.ms": "10"}, NOW_MS - 11, False),
        ({"message.timestamp.before.max.ms": "10"}, -1, True),  # It has none.
        ({"message.timestamp.type": "LogAppendTime"}, NOW_MS + 9 * HOUR_MS, True),
    ],
)
def test_a_timestamp_too_far_from_the_clock_is_refused_and_nothing_changes(
    settings: dict[str, str], timestamp_ms: int, is_taken: bool
) -> None:
    opened = Opened()
    append(opened.store, P0)
    opened.set({**settings})
    if is_taken:
        opened.append(timestamp_ms=timestamp_ms)
    else:
        with pytest.raises(InvalidTimestamp):
            opened.append(timestamp_ms=timestamp_ms)
    assert opened.log.offset_next == 1 + is_taken
    assert opened.store.failed is None
    opened.set({"message.timestamp.type": "CreateTime"})
    opened.append()
    opened.store.flush()
    assert opened.reopened().logs[P0].offset_next == 2 + is_taken


def test_the_time_of_the_append_is_in_the_log_in_the_journal_and_in_what_is_returned() -> None:
    opened = Opened(**{"message.timestamp.type": "LogAppendTime"})
    appended = opened.append(timestamp_ms=5)
    opened.store.flush()
    decoded = decode_batch(appended)
    assert decoded.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [each.timestamp_ms for each in decoded.records] == [NOW_MS]
    assert opened.log.segments[-1].largest_timestamp_ms == NOW_MS
    assert contents(opened.store)[P0] == appended
    # The segment was not synced: the batch comes back from the journal.
    opened.store.abandon()
    files = opened.files.power_cut()
    again = LogStore.open(files, FOLDER, SMALL, clock=opened.clock, random=Random(1))
    assert contents(again)[P0] == appended


def test_a_batch_of_anybody_is_placed_and_its_header_returned() -> None:
    opened = Opened()
    opened.append()
    records = [Record(key=b"k", value=b"v", offset=at, timestamp_ms=NOW_MS) for at in (40, 41)]
    header = opened.store.produce(P0, encode_batch(records, base_offset=40))
    assert (header.base_offset, header.last_offset) == (1, 2)
    assert opened.log.offset_next == 3
    opened.set({"message.timestamp.type": "LogAppendTime"})
    opened.clock.advance(7)
    header = opened.store.produce(P0, encode_batch(records, base_offset=40))
    assert header.max_timestamp_ms == NOW_MS + 7
    assert (header.base_offset, opened.log.offset_next) == (3, 5)


def test_records_without_a_key_are_refused_from_when_the_log_is_compacted() -> None:
    opened = Opened()
    unkeyed = encode_batch(
        [Record(key=None, value=b"v", offset=0, timestamp_ms=NOW_MS)], base_offset=0
    )
    opened.store.produce(P0, unkeyed)
    opened.log.config = attrs.evolve(opened.log.config, cleanup_policy=COMPACT)
    with pytest.raises(InvalidRecord):
        opened.store.produce(P0, unkeyed)
    assert opened.log.offset_next == 1
    assert opened.store.failed is None


def test_a_changed_bound_of_a_batch_counts_from_the_next_append_on() -> None:
    opened = Opened()
    opened.append(size_bytes=200)
    opened.set({"max.message.bytes": "199"})
    with pytest.raises(RecordTooLarge):
        opened.append(size_bytes=200)
    opened.append(size_bytes=199)
    opened.set({"max.message.bytes": "200"})
    opened.append(size_bytes=200)
    assert opened.log.offset_next == 3


def test_a_changed_index_interval_counts_from_the_next_append_on() -> None:
    opened = Opened(**{"internal.segment.bytes": "100000", "index.interval.bytes": "1000000"})
    for _ in range(10):
        opened.append()
    opened.set({"index.interval.bytes": "0"})
    for _ in range(4):
        opened.append()
    opened.set({"index.interval.bytes": "250"})
    for _ in range(6):
        opened.append()
    opened.log.write()
    size_bytes = opened.log.size_bytes // 20
    positions = [each.position for each in opened.log.segments[-1].offset_index]
    assert [each // size_bytes for each in positions] == [10, 11, 12, 13, 16, 19]


def test_a_changed_bound_of_indexes_rolls_a_segment_at_the_next_append() -> None:
    opened = Opened(**{"internal.segment.bytes": "100000", "index.interval.bytes": "0"})
    for _ in range(6):
        opened.append()
    assert len(opened.log.segments) == 1
    opened.set({"segment.index.bytes": "40"})  # Five entries of eight bytes.
    opened.append()
    assert [each.base_offset for each in opened.log.segments] == [0, 6]


def test_a_changed_bound_of_segments_rolls_one_at_the_next_append() -> None:
    opened = Opened(**{"internal.segment.bytes": "100000"})
    for _ in range(6):
        opened.append()
    opened.set({"internal.segment.bytes": "300"})
    for _ in range(4):
        opened.append()
    assert [each.base_offset for each in opened.log.segments] == [0, 6, 9]


def test_a_changed_jitter_counts_for_the_segments_that_are_made_from_then_on() -> None:
    opened = Opened(**{"segment.ms": "1000000"})
    opened.set({"segment.jitter.ms": "1000000"})
    opened.append()
    opened.store.roll(P0)
    opened.append()
    jittered = opened.log.segments[-1]
    assert jittered.roll_after_ms < NOW_MS + 1_000_000


def test_a_changed_step_of_reserved_blocks_counts_from_the_next_reservation_on() -> None:
    opened = Opened(
        **{"internal.segment.bytes": "100000", "internal.preallocate.step.bytes": "1000"}
    )
    opened.append()
    before = opened.log.segments[-1].room_bytes
    opened.set({"preallocate.step.bytes": "20000"})
    for _ in range(20):
        opened.append()
    after = opened.log.segments[-1].room_bytes
    assert before <= 2000
    assert after >= 20_000


def test_a_changed_delay_of_deletions_counts_from_the_next_deletion_on() -> None:
    opened = Opened(**{"file.delete.delay.ms": "60000"})
    deleter = FileDeleter(opened.files, opened.clock)
    for _ in range(3):
        opened.append()
        opened.store.roll(P0)
    opened.store.flush()
    opened.store.advance_recovery_points()
    for offset, delay_ms, left in ((1, 60_000, True), (2, 0, False)):
        opened.set({"file.delete.delay.ms": str(delay_ms)})
        opened.store.raise_log_start_offset(P0, offset)
        opened.store.delete_oldest(
            P0,
            1,
            discard=lambda paths: deleter.discard(
                paths, delay_ms=opened.log.config.file_delete_delay_ms
            ),
        )
        gone = segment_path(FOLDER / P0.folder_name, offset - 1).name
        assert any(name.startswith(gone) for name in names(opened, ".deleted")) is left
