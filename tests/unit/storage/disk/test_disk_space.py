"""The disk's two states, and the reserve that is given back in one and made in the other."""

from __future__ import annotations

import errno
from pathlib import Path

import attrs
import pytest
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.server_config import DiskConfig
from offsetd_storage.disk.disk_space import (
    RESERVE_NAME,
    DiskMarks,
    DiskSpace,
    SpaceState,
    give_back_reserve,
    make_reserve,
    next_state,
    opened_with_reserve,
    reserve_bytes_for,
)
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_disk import BLOCK_BYTES
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import StorageFailed, StorageFull

MIB = 1 << 20
FOLDER = Path("/data")
RESERVE = FOLDER / RESERVE_NAME
OTHER = Path("/other")
FULL = StorageFull("no room")
MARKS = DiskMarks(reserve_bytes=100, free_bytes_min=10)
OK, LOW = SpaceState.OK, SpaceState.LOW
# With a disk of 1024 blocks: a reserve of 64, a mark of 16, enough from 96 on.
CAPACITY = 1024 * BLOCK_BYTES
CONFIG = DiskConfig(reserve_bytes=64 * BLOCK_BYTES, free_bytes_min=16 * BLOCK_BYTES)


@pytest.mark.parametrize(
    ("state", "free", "held", "was_full", "expected"),
    [
        (OK, 10, 100, False, OK),
        (OK, 9, 100, False, LOW),
        (OK, 10, 0, False, OK),  # A disk that was nearly full at the start has no reserve.
        (OK, 9, 0, False, LOW),
        (OK, 1000, 100, True, LOW),  # A quota is not seen in what is free.
        (LOW, 10, 0, False, LOW),
        (LOW, 109, 0, False, LOW),  # It held the reserve, and nothing was freed since.
        (LOW, 119, 0, False, LOW),
        (LOW, 120, 0, False, OK),
        (LOW, 19, 100, False, LOW),
        (LOW, 20, 100, False, OK),
        (LOW, 1000, 0, True, LOW),  # Not even a deletion found room.
    ],
)
def test_the_states_follow_what_is_free(
    state: SpaceState, free: int, held: int, was_full: bool, expected: SpaceState
) -> None:
    assert (
        next_state(state, MARKS, free_bytes=free, reserve_bytes_held=held, was_full=was_full)
        is expected
    )


@pytest.mark.parametrize("marks", [MARKS, DiskMarks(reserve_bytes=0, free_bytes_min=1)])
@pytest.mark.parametrize("free", range(200))
def test_what_is_enough_to_leave_the_state_does_not_lead_back_into_it(
    marks: DiskMarks, free: int
) -> None:
    state = next_state(LOW, marks, free_bytes=free, reserve_bytes_held=0, was_full=False)
    if state is OK:  # Then the reserve is made.
        left = free - marks.reserve_bytes
        again = next_state(
            OK, marks, free_bytes=left, reserve_bytes_held=marks.reserve_bytes, was_full=False
        )
        assert again is OK
        assert left >= 2 * marks.free_bytes_min


@pytest.mark.parametrize(
    ("total_bytes", "reserve_bytes", "free_bytes_min"),
    [
        (1 << 40, 128 * MIB, 64 * MIB),
        (2 << 30, 128 * MIB, 64 * MIB),
        (1 << 30, 64 * MIB, 32 * MIB),
        (64 * MIB, 4 * MIB, 2 * MIB),
        (0, 0, 0),
    ],
)
def test_a_small_file_system_gives_a_share_of_itself(
    total_bytes: int, reserve_bytes: int, free_bytes_min: int
) -> None:
    marks = DiskMarks.of(DiskConfig(), total_bytes=total_bytes, reserve_bytes_needed=128 * MIB)
    assert marks == DiskMarks(reserve_bytes=reserve_bytes, free_bytes_min=free_bytes_min)


@pytest.mark.parametrize(
    ("said_bytes", "reserve_bytes"), [(None, 7 * MIB), (128 * MIB, 128 * MIB), (0, 0)]
)
def test_a_reserve_is_as_large_as_is_said_or_else_as_needed(
    said_bytes: int | None, reserve_bytes: int
) -> None:
    marks = DiskMarks.of(
        DiskConfig(reserve_bytes=said_bytes), total_bytes=1 << 40, reserve_bytes_needed=7 * MIB
    )
    assert marks.reserve_bytes == reserve_bytes


@pytest.mark.parametrize(
    ("segment_bytes", "logs", "reserve_bytes"),
    [
        (100 * MIB, 51, 128 * MIB),
        (50 * MIB, 51, 64 * MIB),
        (2**31 - 1, 51, 2_748_779_068),
        (1 * MIB, 1, 2 * MIB),
        (1 * MIB, 51, 2 * MIB),
        (1 * MIB, 501, 1 * MIB + 501 * 20_480),  # Each is rolled, and may get tombstones.
        (65_536, 51, 1 * MIB + 65_536),
        (3 * MIB, 51, 4 * MIB),
        (10 * MIB, 51, 10 * MIB + 2_936_012),  # From some 3.6 MiB on, 28 % are more.
    ],
)
def test_what_is_needed_is_the_largest_segment_and_room_for_deletions_in_each_log(
    segment_bytes: int, logs: int, reserve_bytes: int
) -> None:
    assert reserve_bytes_for(segment_bytes_most=segment_bytes, logs=logs) == reserve_bytes


class Disk:
    """A disk of 1024 blocks, and the state of a folder on it."""

    def __init__(self, *, taken_blocks: int = 0, config: DiskConfig = CONFIG) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(clock=self.clock)
        self.files.make_folder(FOLDER)
        self.files.sync_folder(Path("/"))
        self.files.capacity_bytes = CAPACITY
        self.take(taken_blocks)
        self.low_calls = 0
        self.reserve_bytes = 0
        self.space = self.opened(config)

    def opened(self, config: DiskConfig = CONFIG) -> DiskSpace:
        return DiskSpace(
            self.files,
            FOLDER,
            config,
            clock=self.clock,
            reserve_bytes_needed=lambda: self.reserve_bytes,
            on_low=self._note_low,
        )

    def _note_low(self) -> None:
        self.low_calls += 1

    def take(self, blocks: int) -> None:
        """Others have so many blocks."""
        file = self.files.open(OTHER, create=True)
        file.truncate(blocks * BLOCK_BYTES)
        file.allocate(0, max(blocks, 1) * BLOCK_BYTES)
        file.close()

    @property
    def reserve_blocks(self) -> int:
        if not self.files.exists(RESERVE):
            return 0
        blocks, left = divmod(self.files.size(RESERVE), BLOCK_BYTES)
        assert left == 0
        free = self.files.free_bytes(FOLDER)
        self.files.unlink(RESERVE)
        assert self.files.free_bytes(FOLDER) == free + blocks * BLOCK_BYTES, "it holds its blocks"
        file = self.files.open(RESERVE, create=True)
        file.truncate(blocks * BLOCK_BYTES)
        file.allocate(0, blocks * BLOCK_BYTES)
        file.close()
        return blocks


def test_a_disk_with_room_gets_a_reserve_of_real_blocks() -> None:
    disk = Disk()
    disk.space.check()
    assert not disk.space.is_low
    assert disk.reserve_blocks == 64
    assert disk.space.status.reserve_bytes_held == 64 * BLOCK_BYTES
    assert disk.space.status.free_bytes == disk.files.free_bytes(FOLDER)


@pytest.mark.parametrize(
    ("taken_blocks", "is_low", "reserve_blocks"),
    [
        (1024 - 96, False, 64),
        (1024 - 95, False, 0),  # Room for commits, but not for a reserve too.
        (1024 - 16, False, 0),
        (1024 - 15, True, 0),
        (1024, True, 0),
    ],
)
def test_a_disk_that_is_full_at_the_start_has_no_reserve_and_serves(
    taken_blocks: int, is_low: bool, reserve_blocks: int
) -> None:
    disk = Disk(taken_blocks=taken_blocks)
    disk.space.check()
    assert disk.space.is_low is is_low
    assert disk.reserve_blocks == reserve_blocks


def test_a_disk_gets_low_gives_the_reserve_back_and_makes_it_again_when_there_is_room() -> None:
    disk = Disk()
    disk.space.check()
    disk.take(1024 - 64 - 16)
    disk.space.check()
    assert (disk.space.is_low, disk.reserve_blocks) == (False, 64)
    disk.clock.advance(5)
    disk.take(1024 - 64 - 15)
    disk.space.check()
    assert (disk.space.is_low, disk.reserve_blocks) == (True, 0)
    status = disk.space.status
    assert (status.state, status.times_low, status.reserve_bytes_held) == (LOW, 1, 0)
    assert status.low_since_ms == disk.clock.now_ms()
    for taken_blocks in (1024 - 80, 1024 - 95):
        disk.take(taken_blocks)
        disk.space.check()
        assert (disk.space.is_low, disk.reserve_blocks) == (True, 0)
    disk.take(1024 - 96)
    disk.space.check()
    assert (disk.space.is_low, disk.reserve_blocks) == (False, 64)
    assert disk.space.status.low_since_ms is None


def test_an_append_without_room_makes_the_disk_low_at_once() -> None:
    disk = Disk()
    disk.space.check()
    disk.space.note_full(FULL)
    disk.space.note_full(FULL)
    assert disk.space.is_low
    assert disk.low_calls == 1, "who is told looks again and again by himself"
    assert disk.reserve_blocks == 64, "not on the thread that appends"
    disk.space.check()
    assert (disk.space.is_low, disk.reserve_blocks) == (True, 0)
    disk.space.check()  # There was room all the time: the quota's, perhaps, and now there is.
    assert (disk.space.is_low, disk.reserve_blocks) == (False, 64)


@pytest.mark.parametrize(
    ("number", "is_low"),
    [
        (errno.ENOSPC, True),
        (errno.EDQUOT, True),
        (errno.EMFILE, False),
        (errno.ENFILE, False),
        (errno.EFBIG, False),
    ],
)
def test_only_want_of_room_makes_the_disk_low(number: int, is_low: bool) -> None:
    disk = Disk()
    refusal = StorageFull("refused")
    refusal.__cause__ = OSError(number, "why")
    disk.space.note_full(refusal)
    assert disk.space.is_low is is_low


def test_an_append_without_room_during_a_look_counts() -> None:
    disk = Disk()
    disk.space.check()
    disk.space.note_full(FULL)
    disk.space.check()
    disk.files.before_operation = lambda _, operation: (
        disk.space.note_full(FULL) if operation.kind is OperationKind.ALLOCATE else None
    )
    disk.space.check()
    assert disk.space.is_low
    disk.files.before_operation = None
    disk.space.check()
    assert (disk.space.is_low, disk.reserve_blocks) == (True, 0)


def test_where_only_a_quota_is_full_the_disk_is_low_until_the_reserve_can_be_made() -> None:
    disk = Disk()
    disk.space.check()
    disk.space.note_full(FULL)
    disk.space.check()
    disk.files.faults.append(Fault(errno=errno.EDQUOT, kind=OperationKind.ALLOCATE, nth=1))
    disk.space.check()
    assert disk.space.is_low
    assert disk.reserve_blocks == 0, "a part of it is of no use"
    disk.files.faults.clear()
    disk.space.check()
    assert (disk.space.is_low, disk.reserve_blocks) == (False, 64)


def test_a_disk_that_fails_says_so_and_leaves_no_part_of_a_reserve() -> None:
    disk = Disk()
    disk.files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC, nth=1))
    with pytest.raises(OSError, match="Input/output"):
        disk.space.check()
    assert not disk.files.exists(RESERVE)


def test_a_reserve_is_found_again_at_the_next_start() -> None:
    disk = Disk()
    disk.space.check()
    disk.take(1024 - 64 - 20)  # Not enough to make one.
    again = disk.opened()
    again.check()
    assert (again.is_low, disk.reserve_blocks) == (False, 64)


def test_a_reserve_that_lost_its_blocks_in_a_copy_gets_them_again() -> None:
    disk = Disk()
    disk.files.put_durable(RESERVE, b"")
    file = disk.files.open(RESERVE)
    file.truncate(64 * BLOCK_BYTES)
    file.close()
    before = disk.files.free_bytes(FOLDER)
    disk.opened().check()
    assert disk.files.free_bytes(FOLDER) == before - 64 * BLOCK_BYTES


@pytest.mark.parametrize("blocks", [0, 10, 100])
def test_a_reserve_follows_its_setting(blocks: int) -> None:
    disk = Disk()
    disk.space.check()
    disk.space.configure(attrs.evolve(CONFIG, reserve_bytes=blocks * BLOCK_BYTES))
    disk.space.check()
    assert disk.reserve_blocks == min(blocks, 64)  # A sixteenth of the disk at most.
    assert not disk.space.is_low


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("blocks", [10, 64, 60])
def test_a_reserve_changes_its_size_and_never_is_less_than_the_smaller_one(
    blocks: int, is_restarted: bool
) -> None:
    disk = Disk(config=attrs.evolve(CONFIG, reserve_bytes=50 * BLOCK_BYTES))
    disk.space.check()
    held = []
    disk.files.before_operation = lambda _, __: held.append(
        disk.files.exists(RESERVE) and disk.files.size(RESERVE) // BLOCK_BYTES
    )
    config = attrs.evolve(CONFIG, reserve_bytes=blocks * BLOCK_BYTES)
    if is_restarted:
        disk.space = disk.opened(config)
    else:
        disk.space.configure(config)
    disk.space.check()
    disk.files.before_operation = None
    assert held, "it changes"
    assert min(held) >= min(blocks, 50)
    assert disk.reserve_blocks == blocks


def test_a_smaller_reserve_needs_no_room_and_a_larger_one_waits_for_it() -> None:
    disk = Disk()
    disk.space.check()
    disk.take(1024 - 64 - 16)
    for blocks, expected in ((10, 10), (64, 10), (0, 0)):
        disk.space.configure(attrs.evolve(CONFIG, reserve_bytes=blocks * BLOCK_BYTES))
        disk.take(1024 - 16 - disk.reserve_blocks)
        disk.space.check()
        assert (disk.space.is_low, disk.reserve_blocks) == (False, expected)


def test_a_reserve_that_is_not_set_follows_what_is_needed_at_the_next_look() -> None:
    disk = Disk()
    disk.files.capacity_bytes = 1 << 30
    disk.space.configure(attrs.evolve(CONFIG, reserve_bytes=None))
    for reserve_mib in (2, 13, 2):
        disk.reserve_bytes = reserve_mib * MIB
        disk.space.check()
        assert disk.space.status.reserve_bytes_held == reserve_mib * MIB
        assert disk.reserve_blocks * BLOCK_BYTES == reserve_mib * MIB


def test_without_a_reserve_and_a_mark_the_disk_is_low_while_nothing_finds_room() -> None:
    disk = Disk(taken_blocks=1024, config=DiskConfig(reserve_bytes=0, free_bytes_min=0))
    disk.space.check()
    assert not disk.space.is_low
    disk.space.note_full(FULL)
    disk.space.check()
    assert disk.space.is_low
    disk.space.check()
    assert not disk.space.is_low


@pytest.mark.parametrize("reserves", [True, False])
def test_a_reserve_has_blocks_whether_or_not_the_file_system_can_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reserves: bool
) -> None:
    if not reserves:
        monkeypatch.setattr("offsetd_storage.disk.system_calls._fallocate", lambda *_: -1)
        monkeypatch.setattr(
            "offsetd_storage.disk.system_calls.ctypes.get_errno", lambda: errno.EOPNOTSUPP
        )
    path = tmp_path / RESERVE_NAME
    size_bytes = 3 * MIB + BLOCK_BYTES
    make_reserve(OsFiles(), path, size_bytes)
    assert path.stat().st_size == size_bytes
    assert path.stat().st_blocks * 512 >= size_bytes
    assert give_back_reserve(OsFiles(), tmp_path)
    assert not give_back_reserve(OsFiles(), tmp_path)


def test_a_folder_without_room_to_open_is_opened_without_its_reserve() -> None:
    disk = Disk()
    disk.space.check()
    found = []

    def open_store() -> str:
        found.append(disk.files.exists(RESERVE))
        if found[-1]:
            raise StorageFull("no room")
        return "opened"

    assert opened_with_reserve(disk.files, FOLDER, open_store) == "opened"
    assert found == [True, False]


@pytest.mark.parametrize(("error", "calls"), [(StorageFull("no"), 2), (StorageFailed("no"), 1)])
def test_what_stays_in_the_way_of_opening_is_raised(error: Exception, calls: int) -> None:
    disk = Disk()
    called = []

    def open_store() -> None:
        called.append(1)
        raise error

    with pytest.raises(type(error)):
        opened_with_reserve(disk.files, FOLDER, open_store)
    assert len(called) == calls
