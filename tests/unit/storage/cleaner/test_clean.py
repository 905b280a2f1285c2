"""One round on one log: what is left of it, what it says of itself, and what ends it early."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from cleaned_logs import CONFIG, keyed_log, offsets_of, put, recovered, replayed
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.cleaner.cleaning_round import (
    CleanerTools,
    CleanReport,
    clean_log,
    read_history,
)
from offsetd_storage.cleaner.offset_map import SLOT_BYTES, OffsetMap
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import (
    CleaningAborted,
    CorruptBatch,
    StorageFailed,
    StorageFull,
)
from offsetd_storage.log.segment_files import segment_path
from partition_logs import FOLDER, NOW_MS, bases, contents, everything

if TYPE_CHECKING:
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.partition_log import PartitionLog

pytestmark = pytest.mark.kernel

RETENTION_MS = 1000
CONFIG = attrs.evolve(CONFIG, delete_retention_ms=RETENTION_MS)
WORDS = ["aab", "abc", "ca", "b"]  # The last one is active; its offset is 8.


def tools_of(files: Files, *, slots: int = 100, **fields: Any) -> CleanerTools:
    offset_map = OffsetMap(
        slots * SLOT_BYTES, load_factor=1.0, hash_key=bytes(range(16)), bitmap_bytes_max=1 << 16
    )
    fields.setdefault("clock", ManualClock(NOW_MS))
    return CleanerTools(files=files, offset_map=offset_map, **fields)


def log_of(files: Files, *words: str) -> PartitionLog:
    return keyed_log(files, words or WORDS, config=CONFIG)


def clean(
    log: PartitionLog, tools: CleanerTools, first_dirty: int = 0, **fields: Any
) -> CleanReport:
    fields.setdefault("first_uncleanable", log.segments[-1].base_offset)
    return clean_log(log, tools, first_dirty=first_dirty, **fields)


def test_the_last_record_of_each_key_stays_with_its_offset() -> None:
    files = SimulatedFiles()
    log = log_of(files)
    before = replayed(everything(log))
    report = clean(log, tools_of(files))
    assert offsets_of(everything(log)) == [4, 6, 7, 8]
    assert replayed(everything(log)) == before
    assert bases(log) == [0, 8]
    assert (report.first_dirty, report.first_uncleanable, report.offset_next) == (0, 8, 8)
    assert (report.segments_before, report.segments_after) == (3, 1)
    assert (report.map_messages_read, report.messages_read, report.messages_written) == (8, 8, 3)
    assert report.bytes_written == log.segments[0].size_bytes
    assert report.map_bytes_read == report.bytes_read > report.bytes_written
    assert report.map_utilization == 0.03
    assert not report.map_is_full
    assert everything(recovered(files.power_cut(), config=CONFIG)) == everything(log)


def test_appends_and_a_second_round_find_the_cleaned_segments() -> None:
    files = SimulatedFiles()
    log, tools = log_of(files), tools_of(files)
    first = clean(log, tools)
    for letter in "abab":
        put(log, letter, f"{letter}{log.offset_next}")
    log.roll()
    put(log, "c", "last")
    log.write()
    log.sync()
    before = replayed(everything(log))
    second = clean(log, tools, first.offset_next)
    assert replayed(everything(log)) == before
    assert offsets_of(everything(log)) == [6, 11, 12, 13]
    assert (second.first_dirty, second.offset_next) == (8, 13)
    assert second.messages_read == 3 + 5
    assert second.map_messages_read == 5


def test_a_map_that_is_full_ends_the_round_early_and_the_next_one_goes_on_there() -> None:
    files = SimulatedFiles()
    log = log_of(files, "abcdef", "ghijkl", "abcdefghijkl", "x")
    before = replayed(everything(log))
    tools = tools_of(files, slots=7)
    ends, first_dirty = [], 0
    while first_dirty < 24:
        report = clean(log, tools, first_dirty)
        assert report.offset_next > first_dirty
        assert report.map_is_full == (report.offset_next < 24)
        ends.append(first_dirty := report.offset_next)
        assert replayed(everything(log)) == before
    assert ends == [7, 14, 21, 24]
    assert offsets_of(everything(log)) == list(range(12, 25))


def test_a_tombstone_goes_when_its_horizon_has_come_in_a_pass_without_anything_dirty() -> None:
    files = SimulatedFiles()
    log = log_of(files, "ab", "A", "c", "x")
    clock = ManualClock(NOW_MS)
    tools = tools_of(files, clock=clock)
    first = clean(log, tools)
    assert offsets_of(everything(log)) == [1, 2, 3, 4]
    assert first.delete_horizon_ms == NOW_MS + RETENTION_MS
    clock.advance(RETENTION_MS - 1)
    early = clean(log, tools, first.offset_next)
    assert offsets_of(everything(log)) == [1, 2, 3, 4]
    assert early.segments_left_alone == early.segments_before
    assert early.delete_horizon_ms == first.delete_horizon_ms
    clock.advance(1)
    due = clean(log, tools, first.offset_next)
    assert offsets_of(everything(log)) == [1, 3, 4]
    assert (due.offset_next, due.delete_horizon_ms) == (first.offset_next, None)
    assert due.map_bytes_read == 0


def test_a_group_of_which_nothing_stays_leaves_no_segment() -> None:
    files = SimulatedFiles()
    config = attrs.evolve(CONFIG, segment_bytes_max=400)
    log = keyed_log(files, ["ab", "AB", "cdef", "x"], config=config)
    clock = ManualClock(NOW_MS)
    clean(log, tools_of(files, clock=clock))
    assert bases(log) == [0, 4, 8]
    clock.advance(RETENTION_MS)
    report = clean(log, tools_of(files, clock=clock), 8)
    assert bases(log) == [4, 8]
    assert (report.segments_before, report.segments_after) == (2, 1)
    again = recovered(files.power_cut(), config=config)
    assert (bases(again), everything(again)) == ([4, 8], everything(log))


def test_the_last_batch_of_the_range_stays_as_a_header() -> None:
    files = SimulatedFiles()
    log = log_of(files, "aA", "x")
    clock = ManualClock(NOW_MS)
    clean(log, tools_of(files, clock=clock))
    clock.advance(RETENTION_MS)
    clean(log, tools_of(files, clock=clock), 2)
    assert [(each.last_offset, each.count) for each in decode_batches(everything(log))] == [
        (1, 0),
        (2, 1),
    ]


def test_what_has_nothing_to_gain_is_not_rewritten() -> None:
    files = SimulatedFiles()
    log = keyed_log(
        files,
        ["abcdefghijkl", "mnopqrstuvwx", "yz", "a"],
        config=attrs.evolve(CONFIG, segment_bytes_max=900),
    )
    before, sources = contents(files), list(log.segments)
    operations = files.operations
    report = clean(log, tools_of(files))
    assert files.operations == operations
    assert (report.segments_before, report.segments_left_alone) == (3, 3)
    assert report.segments_after == 3
    assert report.bytes_written == report.bytes_read
    assert log.segments == sources
    assert contents(files) == before


@pytest.mark.parametrize(
    "words",
    [
        ["abcdef", "ghiaj", "x"],  # The first batch goes.
        ["abcdef", "ghibj", "x"],
        ["abcdef", "ghifj", "x"],  # The last one of a segment does.
        ["abcdef", "ghijj", "x"],
        ["abcdef", "ghjij", "k", "x"],
        ["aaaaaa", "bcdef", "x"],
        ["abcdef", "aabbccddeeff", "x"],
    ],
)
def test_what_is_rewritten_holds_what_was_read_before_the_first_change(words: list[str]) -> None:
    files = SimulatedFiles()
    log = log_of(files, *words)
    before = replayed(everything(log))
    raws = {each.base_offset: each for each in decode_batches(everything(log))}
    report = clean(log, tools_of(files))
    assert report.segments_left_alone == 0
    after = list(decode_batches(everything(log)))
    assert [each.base_offset for each in after] == sorted(
        max(o for o, each in raws.items() if each.records[0].key == key)
        for key in {each.records[0].key for each in raws.values()}
    )
    assert all(each == raws[each.base_offset] for each in after)
    assert replayed(everything(log)) == before


def test_small_segments_with_nothing_to_lose_are_joined() -> None:
    files = SimulatedFiles()
    log = log_of(files, "a", "b", "c", "x")
    before = everything(log)
    clean(log, tools_of(files))
    assert bases(log) == [0, 3]
    assert everything(log) == before


def test_nothing_from_the_first_uncleanable_offset_on_is_touched() -> None:
    files = SimulatedFiles()
    log = log_of(files)
    report = clean(log, tools_of(files), first_uncleanable=3)
    assert offsets_of(everything(log)) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert report.offset_next == 3


def test_of_a_segment_that_may_not_be_cleaned_nothing_is_even_if_it_is_half_clean() -> None:
    files = SimulatedFiles()
    log = log_of(files)
    report = clean(log, tools_of(files), 4, first_uncleanable=3)
    assert report.offset_next == 4
    assert offsets_of(everything(log)) == list(range(9))


def test_a_dry_run_says_what_would_be_left_and_changes_nothing() -> None:
    files = SimulatedFiles()
    log = log_of(files)
    before, operations = contents(files), files.operations
    told = clean(log, tools_of(files), dry_run=True)
    assert contents(files) == before
    assert files.operations == operations
    assert clean(log, tools_of(files)) == told


@pytest.mark.parametrize("calls", range(6))
def test_a_round_that_is_told_to_stop_leaves_a_log_that_says_the_same(calls: int) -> None:
    files = SimulatedFiles()
    log = log_of(files)
    before = replayed(everything(log))
    left = [calls]

    def should_stop() -> bool:
        left[0] -= 1
        return left[0] < 0

    with pytest.raises(CleaningAborted):
        clean(log, tools_of(files, should_stop=should_stop))
    assert replayed(everything(log)) == before
    assert bases(log) == [0, 3, 6, 8]
    assert not [name for name in files.list_folder(FOLDER) if name.endswith(".cleaned")]


def test_the_throttle_hears_of_all_that_is_read_and_written() -> None:
    files = SimulatedFiles()
    log = log_of(files)
    heard: list[int] = []
    report = clean(log, tools_of(files, throttle=heard.append))
    gone = 213  # The first segment: of it nothing stays, so it is not read to be filtered.
    assert sum(heard) == report.map_bytes_read + report.bytes_read - gone + report.bytes_written


def test_the_headers_of_what_was_opened_are_not_read_again_where_they_say_nothing() -> None:
    files = SimulatedFiles()
    keyed_log(files, WORDS, config=CONFIG)
    log = recovered(files.power_cut(), config=CONFIG)
    heard: list[int] = []
    assert not read_history(log, throttle=heard.append).has_producers
    assert heard == []
    put(log, "a", "new")
    log.write()
    read_history(log, throttle=heard.append)
    assert heard == [log.segments[-1].size_bytes - log.segments[-1].plain_bytes] != [0]


def test_the_producers_and_horizons_of_what_was_opened_are_found() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, WORDS, config=CONFIG)
    marks = {"producer_id": 5, "producer_epoch": 0}, {"delete_horizon_ms": NOW_MS}
    for fields in marks:
        log.roll()
        record = Record(key=b"a", value=b"v", offset=log.offset_next, timestamp_ms=NOW_MS)
        batch = encode_batch([record], base_offset=record.offset, **fields)
        log.append(batch, last_offset=record.offset, max_timestamp_ms=NOW_MS, now_ms=NOW_MS)
    log.write()
    log.sync()
    history = read_history(recovered(files.power_cut(), config=CONFIG))
    assert list(history.last_records) == [5]
    assert history.delete_horizon_ms == NOW_MS


def test_a_full_disk_ends_a_round_and_the_next_one_does_it_all() -> None:
    files = SimulatedFiles()
    log = log_of(files)
    before = contents(files)
    # Neither with blocks ahead nor without.
    files.faults += [
        Fault(errno=errno.ENOSPC, kind=OperationKind.ALLOCATE, nth=nth) for nth in (1, 2)
    ]
    with pytest.raises(StorageFull):
        clean(log, tools_of(files))
    assert contents(files) == before
    clean(log, tools_of(files))
    assert bases(log) == [0, 8]


def test_a_disk_that_fails_ends_the_process() -> None:
    files = SimulatedFiles()
    log = log_of(files)
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC, nth=1))
    with pytest.raises(StorageFailed):
        clean(log, tools_of(files))


@pytest.mark.parametrize("damage", ["bit", "unreadable"])
def test_damage_ends_a_round_and_nothing_is_lost(damage: str) -> None:
    files = SimulatedFiles()
    log = log_of(files)
    path = segment_path(FOLDER, 3)
    if damage == "bit":
        raw = bytearray(files.read_bytes(path))
        raw[-1] ^= 1
        files.put_durable(path, bytes(raw))
    else:
        files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.READ, path=str(path)))
    before = bases(log)
    with pytest.raises(CorruptBatch):
        clean(log, tools_of(files))
    assert bases(log) == before


def test_what_a_failed_round_left_is_removed_first() -> None:
    files = SimulatedFiles()
    log = log_of(files)
    files.put_durable(segment_path(FOLDER, 0, ".log.cleaned"), b"left")
    files.put_durable(segment_path(FOLDER, 3, ".index.cleaned"), b"left")
    clean(log, tools_of(files))
    assert not [name for name in files.list_folder(FOLDER) if name.endswith(".cleaned")]
    assert offsets_of(everything(log)) == [4, 6, 7, 8]
