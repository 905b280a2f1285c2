"""One segment: what it takes, what it indexes, what it leaves on the disk."""

from __future__ import annotations

import attrs
import pytest
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log import segment as segment_module
from offsetd_storage.log.segment import Segment
from offsetd_storage.log.segment_files import segment_base_offsets, segment_path
from offsetd_storage.log.segment_scan import SegmentScan, index_rows, scan_segment
from partition_logs import FOLDER, NOW_MS, batch_of
from simulated_disks import contents

CONFIG = LogConfig(
    segment_bytes_max=100_000,
    segment_ms=1000,
    index_interval_bytes=500,
    preallocate_step_bytes=4096,
)
INDEX = segment_path(FOLDER, 0, ".index")
TIME_INDEX = segment_path(FOLDER, 0, ".timeindex")


def disk() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    return files


def made(files: SimulatedFiles, config: LogConfig = CONFIG, *, jitter_ms: int = 0) -> Segment:
    return Segment(files, FOLDER, 0, config, create=True, jitter_ms=jitter_ms)


def put(
    segment: Segment,
    *,
    size_bytes: int = 100,
    timestamp_ms: int = NOW_MS,
    count: int = 1,
    now_ms: int = NOW_MS,
) -> bytes:
    """Appends a batch and writes it."""
    batch = batch_of(
        segment.offset_next, count=count, size_bytes=size_bytes, timestamp_ms=timestamp_ms
    )
    segment.wake()
    segment.make_room(batch_bytes=len(batch), max_timestamp_ms=timestamp_ms, now_ms=now_ms)
    last_offset = segment.offset_next + count - 1
    segment.append(batch, last_offset, timestamp_ms, last_offset)
    segment.file.pwrite([segment.take_unwritten()], segment.written_bytes)
    segment.written_bytes += len(batch)
    return batch


def scan_of(files: SimulatedFiles, config: LogConfig = CONFIG) -> SegmentScan:
    file = files.open(segment_path(FOLDER, 0), read_only=True)
    return scan_segment(
        file,
        size=file.size(),
        base_offset=0,
        offset_min=0,
        index_interval_bytes=config.index_interval_bytes,
    )


def reopened(files: SimulatedFiles, config: LogConfig = CONFIG) -> Segment:
    segment = Segment(files, FOLDER, 0, config)
    segment.take_scan(scan_of(files, config))
    return segment


def sync(segment: Segment) -> None:
    segment.sync(segment.take_unsynced(segment.offset_next))


def test_files_are_named_by_the_base_offset_in_twenty_digits() -> None:
    assert segment_path(FOLDER, 42).name == "00000000000000000042.log"
    assert segment_path(FOLDER, 2**63 - 1, ".index").name == "09223372036854775807.index"


def test_only_log_files_with_twenty_digits_are_segments() -> None:
    files = disk()
    for name in [
        "00000000000000000042.log",
        "00000000000000000007.log",
        "00000000000000000007.index",
        "00000000000000000008.log.deleted",
        "8.log",
        "0000000000000000000x.log",
        "09223372036854775808.log",  # No 64-bit number.
        "99999999999999999999.log",
        "leader-epoch-checkpoint",
    ]:
        files.open(FOLDER / name, create=True)
    assert segment_base_offsets(files, FOLDER) == [7, 42]


@pytest.mark.parametrize(
    ("size_bytes", "timestamp_ms", "last_offset", "rolls"),
    [
        (99_900, NOW_MS, 1, False),
        (99_901, NOW_MS, 1, True),  # Beyond segment.bytes.
        (100, NOW_MS + 1000, 1, False),
        (100, NOW_MS + 1001, 1, True),  # Beyond segment.ms, by the records' time.
        (100, NOW_MS - 5000, 1, False),
        (100, NOW_MS, 2**31 - 1, False),
        (100, NOW_MS, 2**31, True),  # Beyond what an index entry can hold.
    ],
)
def test_a_segment_rolls_by_size_time_and_offset_span(
    size_bytes: int, timestamp_ms: int, last_offset: int, rolls: bool
) -> None:
    segment = made(disk())
    put(segment, size_bytes=100)
    assert rolls == segment.must_roll(
        batch_bytes=size_bytes,
        last_offset=last_offset,
        max_timestamp_ms=timestamp_ms,
        now_ms=NOW_MS + 10**9,
    )


def test_jitter_makes_a_segment_roll_earlier() -> None:
    segment = made(disk(), jitter_ms=300)
    put(segment)
    late = [
        segment.must_roll(
            batch_bytes=100, last_offset=1, max_timestamp_ms=NOW_MS + waited, now_ms=0
        )
        for waited in (700, 701)
    ]
    assert late == [False, True]


def test_without_timestamps_a_segment_rolls_by_the_clock() -> None:
    segment = made(disk())
    put(segment, timestamp_ms=-1)
    late = [
        segment.must_roll(
            batch_bytes=100, last_offset=1, max_timestamp_ms=-1, now_ms=NOW_MS + waited
        )
        for waited in (1000, 1001)
    ]
    assert late == [False, True]
    assert segment.roll_after_ms < -1, "every batch has to ask the clock"


def test_an_empty_segment_rolls_for_the_offset_span_only() -> None:
    segment = made(disk())
    rolls = [
        segment.must_roll(
            batch_bytes=10**9, last_offset=offset, max_timestamp_ms=10**15, now_ms=10**15
        )
        for offset in (2**31 - 1, 2**31)
    ]
    assert rolls == [False, True]


@pytest.mark.parametrize(
    ("index_bytes_max", "entries_before_the_roll"),
    [(8 * 6, 3), (12 * 8, 7), (12 * 8 + 11, 7)],  # A time index keeps one slot free.
)
def test_a_full_index_makes_a_segment_roll(
    index_bytes_max: int, entries_before_the_roll: int
) -> None:
    config = attrs.evolve(CONFIG, segment_index_bytes_max=index_bytes_max, index_interval_bytes=0)
    segment = made(disk(), config)
    for number in range(entries_before_the_roll + 1):  # The first batch gets no entry.
        rolls = segment.must_roll(batch_bytes=100, last_offset=9, max_timestamp_ms=0, now_ms=0)
        assert not rolls
        put(segment, timestamp_ms=number)
    assert len(segment.time_index) == entries_before_the_roll
    assert segment.must_roll(batch_bytes=100, last_offset=9, max_timestamp_ms=0, now_ms=0)
    assert not segment.takes(1, 9, 0), "another look is due"


def reservations(files: SimulatedFiles) -> list[tuple[int, int]]:
    """Fills with what is reserved for the log from now on: position and size."""
    reserved: list[tuple[int, int]] = []
    files.before_operation = lambda _, operation: (
        reserved.append((operation.position, operation.size))
        if operation.kind is OperationKind.ALLOCATE and operation.path.suffix == ".log"
        else None
    )
    return reserved


def test_blocks_are_reserved_in_steps_ahead_of_the_appends() -> None:
    files = disk()
    reserved = reservations(files)
    segment = made(files)
    for second in range(41):
        put(segment, size_bytes=100, now_ms=NOW_MS + 1000 * second)
    put(segment, size_bytes=10_000, now_ms=NOW_MS + 41_000)
    assert reserved == [(0, 4096), (4096, 4096), (8192, 14_100 - 8192)]
    assert segment.room_bytes == 14_100


def test_a_segment_that_grows_fast_reserves_more_and_more_at_a_time() -> None:
    files = disk()
    reserved = reservations(files)
    segment = made(files, attrs.evolve(CONFIG, segment_bytes_max=2_000_000))
    while len(reserved) < 7:
        put(segment, size_bytes=1000)
    assert [size // 4096 for _, size in reserved] == [1, 2, 4, 8, 16, 16, 16]
    assert segment.room_bytes == sum(size for _, size in reserved)
    while len(reserved) < 9:
        put(segment, size_bytes=1000, now_ms=NOW_MS + 1000 * len(reserved))
    assert [size // 4096 for _, size in reserved[7:]] == [1, 1]


@pytest.mark.parametrize("interval_bytes", [0, 100, 4096])
def test_index_entries_find_their_blocks_on_a_full_disk(interval_bytes: int) -> None:
    config = attrs.evolve(
        CONFIG,
        index_interval_bytes=interval_bytes,
        preallocate_step_bytes=65_536,
        segment_index_bytes_max=2**20,
    )
    files = disk()
    segment = made(files, config)
    put(segment, timestamp_ms=0)
    files.capacity_bytes = 0
    number = 0
    while segment.size_bytes + 100 <= segment.room_bytes:
        number += 1
        put(segment, timestamp_ms=number)
        if number % 100 == 0:
            sync(segment)
    segment.rest()
    sync(segment)
    assert number > 600
    assert files.read_bytes(INDEX) == segment.offset_index.entries
    assert files.read_bytes(TIME_INDEX) == segment.time_index.entries
    assert not reopened(files, config).needs_mending


def test_no_more_is_reserved_than_a_segment_may_hold() -> None:
    segment = made(disk(), attrs.evolve(CONFIG, segment_bytes_max=5000))
    put(segment, size_bytes=4000)
    put(segment, size_bytes=500)
    assert segment.room_bytes == 5000


def test_a_refused_reservation_changes_nothing() -> None:
    files = disk()
    segment = made(files)
    put(segment)
    files.faults.append(Fault(errno=28, kind=OperationKind.ALLOCATE))
    before = (segment.size_bytes, segment.offset_next, segment.room_bytes)
    with pytest.raises(OSError, match="28"):
        segment.make_room(batch_bytes=50_000, max_timestamp_ms=NOW_MS, now_ms=NOW_MS)
    assert (segment.size_bytes, segment.offset_next, segment.room_bytes) == before


def test_a_batch_is_indexed_when_more_than_the_interval_lies_before_it() -> None:
    segment = made(disk())
    for timestamp_ms in (10, 30, 20, 20, 20, 20, 50, 20, 20, 20, 20, 20):
        put(segment, size_bytes=100, timestamp_ms=timestamp_ms, count=2)
    # 500 bytes are not more than 500: the first entry is that of the batch at 600.
    assert list(map(tuple, segment.offset_index)) == [(13, 600)]
    assert list(map(tuple, segment.time_index)) == [(50, 13)]


def test_indexes_grow_as_a_scan_makes_them() -> None:
    files = disk()
    segment = made(files)
    for number in range(60):
        put(segment, size_bytes=90 + number, timestamp_ms=NOW_MS + number * 7 % 50, count=3)
    scan = scan_of(files)
    assert segment.offset_index.entries == scan.offset_index.tobytes()
    assert segment.time_index.entries == scan.time_index.tobytes()
    assert len(segment.time_index) > 1


def test_a_segment_at_rest_has_its_last_timestamp_indexed_and_no_blocks_reserved() -> None:
    files = disk()
    segment = made(files)
    put(segment, timestamp_ms=77, count=4)
    operations: list[tuple[OperationKind, int]] = []
    segment.rest()
    files.before_operation = lambda _, each: operations.append((each.kind, each.size))
    sync(segment)
    assert contents(files, FOLDER)[INDEX.name] == b""
    assert list(map(tuple, segment.time_index)) == [(77, 3)]
    assert contents(files, FOLDER)[TIME_INDEX.name] == bytes(segment.time_index.entries)
    assert (OperationKind.TRUNCATE, 100) in operations


def test_a_segment_that_takes_appends_again_loses_its_last_time_entry() -> None:
    files = disk()
    segment = made(files)
    put(segment, timestamp_ms=77)
    segment.rest()
    sync(segment)
    again = reopened(files)
    assert not again.needs_mending
    assert list(map(tuple, again.time_index)) == [(77, 0)]
    put(again, timestamp_ms=78)
    assert len(again.time_index) == 0
    again.rest()
    sync(again)
    assert files.read_bytes(TIME_INDEX) == bytes(again.time_index.entries)
    assert list(map(tuple, again.time_index)) == [(78, 1)]


def test_only_entries_of_batches_in_the_file_go_into_index_files() -> None:
    files = disk()
    segment = made(files)
    for number in range(12):
        put(segment, timestamp_ms=number)
    batch = batch_of(segment.offset_next, size_bytes=1000, timestamp_ms=90)
    for _ in range(3):
        segment.make_room(batch_bytes=1000, max_timestamp_ms=90, now_ms=NOW_MS)
        segment.append(batch, segment.offset_next, 90, segment.offset_next)
    segment.index_queued()
    assert len(segment.offset_index) == 4
    segment.sync(segment.take_unsynced(12))
    assert files.read_bytes(INDEX) == segment.offset_index.entries[:8]
    assert files.read_bytes(TIME_INDEX) == segment.time_index.entries[:12]


def test_what_is_queued_is_indexed_when_it_is_written() -> None:
    files = disk()
    segment = made(files)
    segment.make_room(batch_bytes=3000, max_timestamp_ms=0, now_ms=NOW_MS)
    for number in range(30):
        batch = batch_of(number, size_bytes=100, timestamp_ms=number)
        segment.append(batch, number, number, number)
        if number in {7, 20}:  # Looked at in between, as for a roll.
            segment.index_queued()
    assert segment.offset_index.last.position < 2100
    segment.file.pwrite([segment.take_unwritten()], 0)
    scan = scan_of(files)
    assert segment.offset_index.entries == scan.offset_index.tobytes()
    assert segment.time_index.entries == scan.time_index.tobytes()


def test_each_batch_is_looked_at_once_for_the_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where every one wants a look at the clock, as it has no timestamp."""
    looked_at: list[int] = []

    def counted(batches: bytearray, **where: int) -> list[list[int]]:
        looked_at.append(len(batches))
        return index_rows(batches, **where)

    monkeypatch.setattr(segment_module, "index_rows", counted)
    segment = made(disk())
    for number in range(30):
        segment.make_room(batch_bytes=100, max_timestamp_ms=-1, now_ms=NOW_MS)
        segment.append(batch_of(number, size_bytes=100, timestamp_ms=-1), number, -1, number)
    assert len(segment.take_unwritten()) == sum(looked_at) == 3000


def broken_index(raw: bytes) -> bytes:
    return raw[:8] + b"\xff" * 8 + raw[16:]


@pytest.mark.parametrize(
    ("suffix", "damage", "is_a_problem"),
    [
        (".index", lambda raw: raw[:-3], True),
        (".index", broken_index, True),
        (".index", lambda raw: raw + b"\x7f" * 8, True),
        (".index", lambda raw: raw + bytes(10_000), False),  # A broker's preallocation.
        (".index", lambda raw: raw[:8], False),  # A crash before the last sync.
        (".index", lambda raw: raw[:7] + b"\x00" + raw[8:], False),  # Plausible, but wrong.
        (".timeindex", lambda raw: raw[:-3], True),
        (".timeindex", lambda raw: raw + raw[-12:], True),
        (".timeindex", lambda raw: raw + bytes(12_000), False),
        (".timeindex", lambda raw: raw[:12], False),
    ],
)
def test_a_damaged_index_file_is_put_right_by_the_next_sync(
    suffix: str, damage: object, is_a_problem: bool
) -> None:
    files = disk()
    segment = made(files)
    for number in range(30):
        put(segment, timestamp_ms=number)
    segment.rest()
    sync(segment)
    good = contents(files, FOLDER)
    path = segment_path(FOLDER, 0, suffix)
    assert callable(damage)
    files.put_durable(path, damage(files.read_bytes(path)))
    again = reopened(files)
    assert again.needs_mending
    assert bool(again.index_problems) == is_a_problem
    assert all(path.name in problem for problem in again.index_problems)
    assert again.offset_index.entries == segment.offset_index.entries
    sync(again)
    assert contents(files, FOLDER) == good
    assert not again.needs_mending


def test_a_missing_index_file_is_made_again() -> None:
    files = disk()
    segment = made(files)
    for number in range(30):
        put(segment, timestamp_ms=number)
    segment.rest()
    sync(segment)
    good = contents(files, FOLDER)
    for path in (INDEX, TIME_INDEX):
        files.unlink(path)
    again = reopened(files)
    assert again.index_problems == (
        f"{INDEX.name}: it is missing",
        f"{TIME_INDEX.name}: it is missing",
    )
    sync(again)
    assert contents(files, FOLDER) == good


@pytest.mark.parametrize("by", ["an append", "a sync"])
def test_bytes_behind_the_valid_batches_are_cut_off_by(by: str) -> None:
    files = disk()
    batch = put(made(files))
    log = files.open(segment_path(FOLDER, 0))
    log.pwrite([b"torn" * 5000], len(batch))
    segment = reopened(files)
    assert segment.needs_mending
    assert files.size(segment.path) == len(batch) + 20_000, "opening changes nothing"
    expected = batch
    if by == "an append":
        expected += put(segment)
    else:
        sync(segment)
        assert not segment.needs_mending
    assert files.read_bytes(segment.path) == expected


@pytest.mark.parametrize("offset_next", [0, 1, 2, 3, 29, 30, 31, 57, 60, 88, 89, 90, 500])
def test_truncation_leaves_what_a_scan_of_the_kept_bytes_finds(offset_next: int) -> None:
    files = disk()
    segment = made(files)
    batches = [
        put(segment, size_bytes=90 + number, timestamp_ms=number * 7 % 50, count=3)
        for number in range(30)
    ]
    segment.rest()
    sync(segment)
    segment.truncate(offset_next)
    assert files.read_bytes(segment.path) == b"".join(batches[: offset_next // 3])
    expected = reopened(files)
    for name in (
        "size_bytes",
        "written_bytes",
        "offset_next",
        "first_timestamp_ms",
        "largest_timestamp_ms",
        "largest_timestamp_offset",
    ):
        assert getattr(segment, name) == getattr(expected, name), name
    segment.rest()
    assert segment.offset_index.entries == expected.offset_index.entries
    assert segment.time_index.entries == expected.time_index.entries
    sync(segment)
    assert files.read_bytes(INDEX) == expected.offset_index.entries
    assert files.read_bytes(TIME_INDEX) == expected.time_index.entries


def test_appends_go_on_after_a_truncation_as_if_nothing_had_followed() -> None:
    files, others = disk(), disk()
    segment, other = made(files), made(others)
    for number in range(40):
        put(segment, timestamp_ms=number)
        if number < 17:
            put(other, timestamp_ms=number)
    segment.truncate(17)
    for each in (segment, other):
        for number in range(30):
            put(each, timestamp_ms=number, size_bytes=130)
        each.rest()
        sync(each)
    assert contents(files, FOLDER) == contents(others, FOLDER)
