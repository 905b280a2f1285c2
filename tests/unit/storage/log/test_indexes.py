"""The sparse indexes of a segment, and the files that hold them."""

from __future__ import annotations

import struct

import pytest
from offsetd_storage.disk.simulated_faults import OperationKind
from offsetd_storage.log.indexes import (
    IndexFile,
    OffsetEntry,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
    offset_index_problem,
    time_index_problem,
)
from partition_logs import GOLDEN, GOLDEN_PARTITIONS
from simulated_disks import A, B, disk_with

BASE = 1000


def offset_index() -> OffsetIndex:
    index = OffsetIndex(BASE)
    for offset, position in [(1010, 5000), (1020, 10_000), (1030, 15_000)]:
        index.append(offset, position)
    return index


def time_index() -> TimeIndex:
    index = TimeIndex(BASE)
    for timestamp_ms, offset in [(100, 1010), (200, 1020), (300, 1030)]:
        index.maybe_append(timestamp_ms, offset)
    return index


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (1000, (1000, 0)),
        (1009, (1000, 0)),
        (1010, (1010, 5000)),
        (1011, (1010, 5000)),
        (1029, (1020, 10_000)),
        (1030, (1030, 15_000)),
        (9999, (1030, 15_000)),
    ],
)
def test_a_lookup_gives_the_last_entry_at_or_below_the_offset(
    offset: int, expected: tuple[int, int]
) -> None:
    assert offset_index().lookup(offset) == OffsetEntry(*expected)


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [(99, (-1, 1000)), (100, (100, 1010)), (299, (200, 1020)), (301, (300, 1030))],
)
def test_a_lookup_of_a_time_gives_the_last_entry_at_or_below_it(
    timestamp_ms: int, expected: tuple[int, int]
) -> None:
    assert time_index().lookup(timestamp_ms) == TimeEntry(*expected)


@pytest.mark.parametrize(
    ("position", "up_to", "above"),
    [
        (0, 0, 5000),
        (4999, 0, 5000),
        (5000, 5000, 10_000),
        (14_999, 10_000, 15_000),
        (15_000, 15_000, None),
    ],
)
def test_indexed_positions_are_found_from_a_position(
    position: int, up_to: int, above: int | None
) -> None:
    assert offset_index().last_position_up_to(position) == up_to
    assert offset_index().first_position_above(position) == above


def test_empty_indexes_answer_with_the_segments_start() -> None:
    assert OffsetIndex(BASE).lookup(5000) == OffsetIndex(BASE).last == (BASE, 0)
    assert TimeIndex(BASE).lookup(5000) == TimeIndex(BASE).last == (-1, BASE)


def test_a_time_index_takes_only_timestamps_that_grow() -> None:
    index = time_index()
    index.maybe_append(300, 1040)
    index.maybe_append(299, 1050)
    assert index.last == (300, 1030)
    index.maybe_append(301, 1060)
    assert index.last == (301, 1060)


def test_a_time_index_takes_no_batch_without_a_timestamp() -> None:
    index = TimeIndex(BASE)
    index.maybe_append(-1, 1010)
    assert len(index) == 0


@pytest.mark.parametrize(("offset_next", "left"), [(1010, 0), (1011, 1), (1030, 2), (1031, 3)])
def test_truncation_drops_entries_at_and_above_the_offset(offset_next: int, left: int) -> None:
    offsets, times = offset_index(), time_index()
    offsets.truncate(offset_next)
    times.truncate(offset_next)
    assert len(offsets) == len(times) == left
    assert times.last_timestamp_ms == (-1, 100, 200, 300)[left]


def test_entries_are_big_endian_and_relative_as_in_the_file() -> None:
    assert offset_index().entries[:8] == struct.pack(">ii", 10, 5000)
    assert time_index().entries[:12] == struct.pack(">qi", 100, 10)


@pytest.mark.parametrize("partition", GOLDEN_PARTITIONS)
def test_the_indexes_a_broker_wrote_have_no_problem(partition: str) -> None:
    log_bytes = (GOLDEN / partition / f"{0:020d}.log").stat().st_size
    offset_raw = (GOLDEN / partition / f"{0:020d}.index").read_bytes()
    time_raw = (GOLDEN / partition / f"{0:020d}.timeindex").read_bytes()
    assert offset_index_problem(offset_raw, log_bytes=log_bytes) is None
    largest, offset = TimeIndex(0, time_raw).last
    problem = time_index_problem(time_raw, largest_timestamp_ms=largest, offset_span=offset + 1)
    assert problem is None


def offset_entries(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_entries(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", None),
        (offset_entries((10, 5000), (20, 9999)), None),
        (offset_entries((10, 256)) + bytes(8000), None),  # A killed broker's preallocation.
        (bytes(8000), None),
        (offset_entries((10, 5000)) + b"\x00", "multiple of 8"),
        (offset_entries((10, 5000), (10, 6000)), "grow"),
        (offset_entries((10, 5000), (20, 5000)), "grow"),
        (offset_entries((10, 5000), (0, 0), (20, 6000)), "grow"),
        (offset_entries((-1, 5000)), "outside"),
        (offset_entries((10, -5)), "outside"),
        (offset_entries((10, 10_000)), "outside"),
    ],
)
def test_a_damaged_offset_index_is_recognised(raw: bytes, problem: str | None) -> None:
    found = offset_index_problem(raw, log_bytes=10_000)
    assert (found is None) if problem is None else (problem in str(found))


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", None),
        (time_entries((10, 5), (20, 9)), None),
        (time_entries((256, 0)) + bytes(12_000), None),
        (time_entries((10, 5)) + b"\x00", "multiple of 12"),
        (time_entries((10, 5), (10, 6)), "grow"),
        (time_entries((10, 5), (20, 5)), "grow"),
        (time_entries((10, 10)), "outside"),
        (time_entries((10, -1)), "outside"),
        (time_entries((301, 5)), "outside"),
    ],
)
def test_a_damaged_time_index_is_recognised(raw: bytes, problem: str | None) -> None:
    found = time_index_problem(raw, largest_timestamp_ms=300, offset_span=10)
    assert (found is None) if problem is None else (problem in str(found))


ENTRIES = bytearray(offset_index().entries)


@pytest.mark.parametrize(
    ("found", "cut", "written"),
    [
        (b"", False, ENTRIES),
        (ENTRIES[:8], False, ENTRIES[8:]),
        (ENTRIES + bytes(800), True, b""),
        (ENTRIES[:16] + b"otherwise", True, ENTRIES[16:]),
        (b"x" * 24, False, ENTRIES),
        (ENTRIES[:21], False, ENTRIES[21:]),
    ],
)
def test_a_file_is_put_right_from_where_it_differs(found: bytes, cut: bool, written: bytes) -> None:
    disk = disk_with(bytes(found))
    file = IndexFile(disk, A)
    file.compare(file.read(100), ENTRIES)
    assert not file.holds(ENTRIES)
    tail = file.take_tail(ENTRIES, len(ENTRIES))
    assert tail == (24 - len(written), written, cut)
    file.write(tail)
    assert disk.power_cut().read_bytes(A) == ENTRIES
    assert file.holds(ENTRIES)
    assert file.take_tail(ENTRIES, len(ENTRIES)) is None


def test_only_the_start_of_a_file_is_read() -> None:
    disk = disk_with(bytes(ENTRIES) + bytes(10_000))
    file = IndexFile(disk, A)
    assert file.read(24) == ENTRIES
    assert file.read(30) == ENTRIES + bytes(6)
    file.compare(file.read(30), ENTRIES)
    assert not file.holds(ENTRIES)


def test_a_file_that_is_right_is_left_alone() -> None:
    disk = disk_with(bytes(ENTRIES))
    file = IndexFile(disk, A)
    file.compare(file.read(100), ENTRIES)
    assert file.holds(ENTRIES)
    assert file.take_tail(ENTRIES, len(ENTRIES)) is None


def test_a_missing_file_is_made_even_for_no_entries() -> None:
    disk = disk_with(b"", B)
    file = IndexFile(disk, A)
    assert file.is_missing
    tail = file.take_tail(bytearray(), 0)
    assert tail == (0, b"", False)
    file.write(tail)
    assert disk.read_bytes(A) == b""
    assert not file.is_missing


def test_entries_that_change_are_written_again() -> None:
    disk = disk_with(bytes(ENTRIES))
    file = IndexFile(disk, A)
    file.compare(file.read(100), ENTRIES)
    changed = ENTRIES[:16] + bytearray(offset_entries((31, 16_000)))
    file.changed_from(16)
    tail = file.take_tail(changed, len(changed))
    assert tail is not None
    file.write(tail)
    assert disk.read_bytes(A) == changed


def test_what_is_wrong_in_a_file_goes_before_blocks_are_reserved() -> None:
    disk = disk_with(bytes(ENTRIES[:16]) + b"x" * 10_000)
    file = IndexFile(disk, A)
    file.compare(file.read(100), ENTRIES)
    file.reserve(8000)
    assert disk.read_bytes(A) == ENTRIES[:16]
    disk.capacity_bytes = 0
    opened = disk.open(A)
    opened.pwrite([bytes(8000 - 16)], 16)
    with pytest.raises(OSError, match="28"):
        opened.pwrite([b"x"], 8192)


def test_blocks_are_reserved_once_and_given_back_by_the_last_tail() -> None:
    disk = disk_with(b"", B)
    file = IndexFile(disk, A)
    operations: list[tuple[OperationKind, int, int]] = []
    disk.before_operation = lambda _, each: operations.append((each.kind, each.position, each.size))
    for size in (8, 2000, 4096, 4097, 20_000):
        file.reserve(size)
    assert operations == [
        (OperationKind.CREATE, 0, 0),
        (OperationKind.ALLOCATE, 0, 4096),
        (OperationKind.ALLOCATE, 4096, 4096),
        (OperationKind.ALLOCATE, 8192, 20_000 - 8192),
    ]
    assert file.take_tail(bytearray(), 0) is None
    tail = file.take_tail(ENTRIES, 24, last=True)
    assert tail is not None
    assert tail == (0, bytes(ENTRIES), True)
    file.write(tail)
    assert disk.power_cut().exists(B)
    assert disk.read_bytes(A) == ENTRIES
    assert file.take_tail(ENTRIES, 24, last=True) is None
