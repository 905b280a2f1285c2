"""Files that are no longer needed wait for their time, and go whatever stands in the way."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.delayed_deletion import DeletionQueue, FileDeleter, WaitingFile
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles

FOLDER = Path("/t-0")
A, B, C = (FOLDER / f"{name}.log.deleted" for name in "abc")


def disk(*paths: Path) -> SimulatedFiles:
    files = SimulatedFiles()
    for path in paths:
        files.put_durable(path, b"x" * 10)
    return files


def waiting(path: Path, due_ms: int) -> WaitingFile:
    return WaitingFile(path=path, size_bytes=10, due_ms=due_ms)


def test_a_queue_gives_what_is_due_in_the_order_of_time() -> None:
    queue = DeletionQueue()
    for path, due_ms in ((A, 30), (B, 10), (C, 20)):
        queue.add(waiting(path, due_ms))
    assert queue.due(9) == []
    assert [each.path for each in queue.due(20)] == [B, C]
    assert queue.next_due_ms == 10
    assert (queue.waiting_files, queue.waiting_bytes) == (3, 30)
    queue.remove(waiting(B, 10))
    assert queue.waiting_files == 3  # An equal one, but not that one.
    queue.remove(queue.due(10)[0])
    assert queue.next_due_ms == 20
    assert queue.waiting_files == 2


@pytest.mark.parametrize("times", [(10, 20), (20, 10), (20, 20)])
def test_a_name_that_is_used_again_waits_for_the_later_time(times: tuple[int, int]) -> None:
    queue = DeletionQueue()
    for due_ms in times:
        queue.add(waiting(A, due_ms))
    assert (queue.next_due_ms, queue.waiting_files) == (20, 1)


def test_files_are_removed_after_their_delay() -> None:
    files, clock = disk(A, B), ManualClock()
    deleter = FileDeleter(files, clock)
    deleter.discard([A], delay_ms=100)
    clock.advance(40)
    deleter.discard([B], delay_ms=100)
    assert (deleter.waiting_files, deleter.waiting_bytes) == (2, 20)
    clock.advance(59)
    deleter.run()
    assert files.list_folder(FOLDER) == [A.name, B.name]
    clock.advance(1)
    deleter.run()
    assert files.list_folder(FOLDER) == [B.name]
    clock.advance(1000)
    deleter.run()
    assert files.list_folder(FOLDER) == []
    assert (deleter.waiting_files, deleter.waiting_bytes) == (0, 0)


def test_without_a_delay_they_go_at_once() -> None:
    files = disk(A, B)
    deleter = FileDeleter(files, ManualClock())
    deleter.discard([B], delay_ms=100)
    deleter.discard([A], delay_ms=0)
    assert files.list_folder(FOLDER) == [B.name]
    assert deleter.waiting_files == 1


def test_what_is_not_there_is_passed_by() -> None:
    files, clock = disk(A, B), ManualClock()
    deleter = FileDeleter(files, clock)
    deleter.discard([A, B, C], delay_ms=1)
    assert deleter.waiting_files == 2
    files.unlink(A)  # With its folder, say.
    clock.advance(1)
    deleter.run()
    assert (deleter.waiting_files, files.list_folder(FOLDER)) == (0, [])


def test_a_full_disk_is_not_kept_full_by_a_delay() -> None:
    files = disk(A, B)
    deleter = FileDeleter(files, ManualClock())
    deleter.discard([A, B], delay_ms=2**63 - 1)
    deleter.run_now()
    assert (deleter.waiting_files, files.list_folder(FOLDER)) == (0, [])


@pytest.mark.parametrize("delay_ms", [0, 10])
def test_what_cannot_be_removed_is_tried_again_and_holds_up_nothing(delay_ms: int) -> None:
    files, clock = disk(A, B), ManualClock()
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.UNLINK, path=str(A)))
    deleter = FileDeleter(files, clock)
    deleter.discard([A, B], delay_ms=delay_ms)
    clock.advance(10)
    for _ in range(2):
        with pytest.raises(OSError, match=str(errno.EIO)):
            deleter.run()
        assert files.list_folder(FOLDER) == [A.name]
    files.faults.clear()
    deleter.run()
    assert (deleter.waiting_files, files.list_folder(FOLDER)) == (0, [])


def test_the_wall_clock_going_back_delays_nothing() -> None:
    files, clock = disk(A), ManualClock()
    deleter = FileDeleter(files, clock)
    deleter.discard([A], delay_ms=10)
    clock.advance(-1_000_000)
    clock.advance(10)
    deleter.run()
    assert files.list_folder(FOLDER) == []


def test_nobody_waits_while_another_removes_a_file() -> None:
    files, clock = disk(A, B), ManualClock()
    deleter = FileDeleter(files, clock)
    unlink, begun, go_on = files.unlink, threading.Event(), threading.Event()

    def unlink_slowly(path: Path) -> None:
        if path == A:
            begun.set()
            assert go_on.wait(60)
        unlink(path)

    files.unlink = unlink_slowly  # type: ignore[method-assign]
    deleter.discard([A], delay_ms=1)
    clock.advance(1)
    slow = threading.Thread(target=deleter.run)
    slow.start()
    assert begun.wait(60)
    deleter.discard([B], delay_ms=0)
    assert files.list_folder(FOLDER) == [A.name]
    assert (deleter.waiting_files, deleter.waiting_bytes) == (1, 10)
    go_on.set()
    slow.join()
    assert (deleter.waiting_files, files.list_folder(FOLDER)) == (0, [])


def test_a_file_that_another_removes_at_this_moment_is_passed_by() -> None:
    files = disk(A)
    deleter = FileDeleter(files, ManualClock())
    size = files.size

    def size_too_late(path: Path) -> int:
        files.unlink(path)
        return size(path)

    files.size = size_too_late  # type: ignore[method-assign]
    deleter.discard([A], delay_ms=1)
    assert deleter.waiting_files == 0
