"""What the simulated disk holds: in its page cache, durably, after a failed sync, and when full."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from simulated_disks import BLOCK, FOLDER, A, B, contents, disk_with, write


def test_reads_see_what_is_written_and_a_power_cut_loses_it() -> None:
    disk = disk_with(b"old")
    write(disk, b"new")
    assert disk.read_bytes(A) == b"new"
    assert disk.power_cut().read_bytes(A) == b"old"


@pytest.mark.parametrize("sync", ["sync", "datasync"])
def test_a_sync_keeps_contents_and_length_but_not_the_name(sync: str) -> None:
    disk = SimulatedFiles()
    file = disk.open(A, create=True)
    file.pwrite([b"x" * 1000], 5)
    getattr(file, sync)()
    assert not disk.power_cut().exists(A)
    disk.sync_folder(Path("/"))
    assert disk.power_cut().read_bytes(A) == b"\0" * 5 + b"x" * 1000


def test_a_synced_name_of_an_unsynced_file_is_left_empty() -> None:
    disk = SimulatedFiles()
    write(disk, b"x" * 1000)
    disk.sync_folder(Path("/"))
    assert contents(disk.power_cut()) == {"a": b""}


def test_a_sync_takes_only_its_own_file() -> None:
    disk = disk_with(b"old")
    disk.put_durable(B, b"old")
    write(disk, b"new", path=A)
    write(disk, b"new", path=B)
    disk.open(B).sync()
    assert contents(disk.power_cut()) == {"a": b"old", "b": b"new"}


def test_a_sync_through_another_opening_of_the_file_counts() -> None:
    disk = disk_with(b"old")
    write(disk, b"new")
    disk.open(A, read_only=True).datasync()
    assert disk.power_cut().read_bytes(A) == b"new"


def test_what_is_written_after_a_sync_is_pending_again() -> None:
    disk = disk_with(b"1")
    write(disk, b"2")
    disk.open(A).sync()
    write(disk, b"3")
    assert disk.power_cut().read_bytes(A) == b"2"


@pytest.mark.parametrize("size", [0, 3, 20])
def test_a_truncation_is_lost_or_kept_like_a_write(size: int) -> None:
    disk = disk_with(b"0123456789")
    file = disk.open(A)
    file.truncate(size)
    assert disk.power_cut().read_bytes(A) == b"0123456789"
    file.sync()
    assert disk.power_cut().read_bytes(A) == b"0123456789".ljust(size, b"\0")[:size]


def test_names_inside_a_folder_need_the_folder_and_its_own_name_synced() -> None:
    disk = SimulatedFiles()
    disk.make_folder(FOLDER)
    write(disk, b"x", path=FOLDER / "x")
    disk.sync_folder(FOLDER)
    assert not disk.power_cut().exists(FOLDER)
    disk.sync_folder(Path("/"))
    assert disk.power_cut().list_folder(FOLDER) == ["x"]


def test_an_unsynced_rename_is_undone_and_a_synced_one_stays() -> None:
    disk = disk_with(b"1")
    disk.put_durable(B, b"2")
    disk.rename(A, B)
    assert contents(disk) == {"b": b"1"}
    assert contents(disk.power_cut()) == {"a": b"1", "b": b"2"}
    disk.sync_folder(Path("/"))
    assert contents(disk.power_cut()) == {"b": b"1"}


def test_an_unsynced_unlink_is_undone_and_a_synced_one_stays() -> None:
    disk = disk_with(b"1")
    disk.unlink(A)
    assert contents(disk.power_cut()) == {"a": b"1"}
    disk.sync_folder(Path("/"))
    assert contents(disk.power_cut()) == {}


def test_contents_follow_a_renamed_file_and_its_folder() -> None:
    disk = disk_with(b"1", FOLDER / "a")
    file = disk.open(FOLDER / "a")
    disk.rename(FOLDER, Path("/moved"))
    file.pwrite([b"2"], 0)
    file.sync()
    assert disk.power_cut().read_bytes(FOLDER / "a") == b"2"
    disk.sync_folder(Path("/"))
    assert disk.power_cut().read_bytes(Path("/moved/a")) == b"2"


def failing_sync(disk: SimulatedFiles, **settings: int) -> None:
    """Syncs A with EIO, once; the faults are gone afterwards."""
    disk.faults = [Fault(errno=errno.EIO, kind=OperationKind.SYNC, path="/a", **settings)]
    with pytest.raises(OSError, match="Input/output"):
        disk.open(A).datasync()
    disk.faults = []


def test_a_failed_sync_gives_up_writes_that_a_retried_one_passes_by() -> None:
    disk = disk_with(b"old")
    write(disk, b"new")
    failing_sync(disk)
    disk.open(A).datasync()
    assert disk.read_bytes(A) == b"new", "the page cache shows what is not on the disk"
    assert disk.power_cut().read_bytes(A) == b"old"


def test_what_a_failed_sync_gave_up_survives_no_power_cut() -> None:
    disk = disk_with(b"old")
    write(disk, b"new")
    failing_sync(disk)
    states = disk.crash_states(samples=100, random=Random(1))
    assert [state.read_bytes(A) for state in states] == [b"old"]


def test_dropping_the_cache_shows_what_a_failed_sync_gave_up() -> None:
    disk = disk_with(b"old")
    write(disk, b"new")
    failing_sync(disk)
    other = disk.open(A)
    disk.open(A).drop_cache()
    assert disk.read_bytes(A) == other.pread(9, 0) == b"old"


def test_dropping_the_cache_keeps_what_still_waits_for_a_sync() -> None:
    disk = disk_with(b"....")
    write(disk, b"12")
    failing_sync(disk)
    write(disk, b"3", position=3)
    disk.open(A).drop_cache()
    assert disk.read_bytes(A) == b"...3"
    disk.open(A).sync()
    assert disk.power_cut().read_bytes(A) == b"...3"


def test_the_length_outlives_a_failed_sync_with_zeros_in_place_of_the_bytes() -> None:
    disk = disk_with(b"old")
    write(disk, b"tail", position=3)
    failing_sync(disk)
    disk.open(A).drop_cache()
    assert disk.read_bytes(A) == b"old\0\0\0\0"
    states = disk.crash_states(samples=9, random=Random(1))
    assert [state.read_bytes(A) for state in states] == [b"old", b"old\0\0\0\0"]


def test_what_is_written_again_after_a_failed_sync_becomes_durable() -> None:
    disk = disk_with(b"old")
    write(disk, b"new")
    failing_sync(disk)
    write(disk, b"new")
    disk.open(A).sync()
    assert disk.power_cut().read_bytes(A) == b"new"


def test_a_failed_sync_may_have_brought_some_writes_to_the_disk() -> None:
    disk = disk_with(b"....")
    for position in range(4):
        write(disk, b"x", position=position)
    failing_sync(disk, synced_writes=2)
    assert disk.read_bytes(A) == b"xxxx"
    disk.open(A).drop_cache()
    disk.open(A).sync()
    assert disk.read_bytes(A) == disk.power_cut().read_bytes(A) == b"xx.."


def test_what_a_failed_sync_gave_up_is_still_seen_after_a_kill_and_still_lost() -> None:
    disk = disk_with(b"old")
    write(disk, b"new")
    failing_sync(disk)
    restarted = disk.kill()
    assert restarted.read_bytes(A) == b"new"
    restarted.open(A).sync()
    assert restarted.power_cut().read_bytes(A) == b"old"
    restarted.open(A).drop_cache()
    assert restarted.read_bytes(A) == b"old"


def test_a_failed_sync_of_another_file_costs_nothing() -> None:
    disk = disk_with(b"old")
    disk.put_durable(B, b"old")
    write(disk, b"new", path=B)
    failing_sync(disk)
    disk.open(B).sync()
    assert disk.power_cut().read_bytes(B) == b"new"


def test_a_failed_sync_of_a_folder_leaves_its_names_pending() -> None:
    disk = SimulatedFiles()
    write(disk, b"x")
    disk.faults = [Fault(errno=errno.EIO, kind=OperationKind.SYNC_FOLDER, nth=1)]
    with pytest.raises(OSError, match="Input/output"):
        disk.sync_folder(Path("/"))
    assert not disk.power_cut().exists(A)
    disk.sync_folder(Path("/"))
    assert disk.power_cut().exists(A)


def test_a_full_disk_takes_what_fits_and_then_raises() -> None:
    disk = SimulatedFiles()
    disk.capacity_bytes = 2 * BLOCK
    with pytest.raises(OSError, match="No space left"):
        write(disk, b"x" * (3 * BLOCK), position=100)
    assert disk.size(A) == 2 * BLOCK
    assert disk.free_bytes(A) == 0


def test_a_full_disk_takes_writes_over_blocks_that_are_there() -> None:
    disk = SimulatedFiles()
    write(disk, b"x" * 10)
    disk.capacity_bytes = BLOCK
    write(disk, b"y" * (BLOCK - 10), position=10)
    with pytest.raises(OSError, match="No space left"):
        write(disk, b"z", position=BLOCK)
    assert disk.size(A) == BLOCK


def test_a_write_that_skips_a_full_disks_missing_block_stops_before_it() -> None:
    disk = SimulatedFiles()
    file = disk.open(A, create=True)
    file.allocate(0, BLOCK)
    file.allocate(2 * BLOCK, BLOCK)
    disk.capacity_bytes = 2 * BLOCK
    with pytest.raises(OSError, match="No space left"):
        file.pwrite([b"x" * (2 * BLOCK)], 10)
    assert disk.read_bytes(A) == b"\0" * 10 + b"x" * (BLOCK - 10)
    file.pwrite([b"y"], 3 * BLOCK - 1)


def test_a_reservation_keeps_room_for_a_write_on_a_disk_filled_meanwhile() -> None:
    disk = SimulatedFiles()
    disk.capacity_bytes = 4 * BLOCK
    file = disk.open(A, create=True)
    file.allocate(0, 3 * BLOCK)
    assert (file.size(), disk.free_bytes(A)) == (0, BLOCK)
    write(disk, b"x" * BLOCK, path=B)
    with pytest.raises(OSError, match="No space left"):
        write(disk, b"x", position=BLOCK, path=B)
    file.pwrite([b"x" * 3 * BLOCK], 0)
    assert file.size() == 3 * BLOCK


def test_a_reservation_that_does_not_fit_reserves_nothing() -> None:
    disk = SimulatedFiles()
    disk.capacity_bytes = 4 * BLOCK
    file = disk.open(A, create=True)
    with pytest.raises(OSError, match="No space left"):
        file.allocate(0, 5 * BLOCK)
    assert disk.free_bytes(A) == 4 * BLOCK


def test_truncating_to_the_same_length_gives_reserved_blocks_back() -> None:
    disk = SimulatedFiles()
    disk.capacity_bytes = 4 * BLOCK
    file = disk.open(A, create=True)
    file.pwrite([b"x"], 0)
    file.allocate(0, 4 * BLOCK)
    assert disk.free_bytes(A) == 0
    file.truncate(1)
    assert disk.free_bytes(A) == 3 * BLOCK
    assert file.pread(9, 0) == b"x"


def test_a_removed_file_gives_its_blocks_back_once_nobody_has_it_open() -> None:
    disk = SimulatedFiles()
    disk.capacity_bytes = 4 * BLOCK
    write(disk, b"x" * 3 * BLOCK)
    file = disk.open(A)
    disk.unlink(A)
    assert disk.free_bytes(Path("/")) == BLOCK
    file.close()
    assert disk.free_bytes(Path("/")) == 4 * BLOCK


def test_a_killed_process_gives_removed_files_back_and_keeps_reservations() -> None:
    disk = SimulatedFiles()
    disk.capacity_bytes = 8 * BLOCK
    write(disk, b"x" * 3 * BLOCK)
    held = disk.open(A)
    disk.unlink(A)
    disk.open(B, create=True).allocate(0, 2 * BLOCK)
    assert disk.free_bytes(B) == 3 * BLOCK
    assert disk.kill().free_bytes(B) == 6 * BLOCK
    assert held.size() == 3 * BLOCK


def test_a_power_cut_keeps_the_capacity_and_drops_reservations() -> None:
    disk = disk_with(b"x")
    disk.capacity_bytes = 4 * BLOCK
    disk.open(A).allocate(0, 4 * BLOCK)
    assert disk.power_cut().free_bytes(A) == 3 * BLOCK


def test_a_disk_without_a_bound_has_room() -> None:
    assert SimulatedFiles().free_bytes(Path("/")) >= 1 << 40
