"""Faults of the simulated disk strike what they are told to, and nothing else changes."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from offsetd_storage.disk.simulated_faults import Fault, Operation, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from simulated_disks import FOLDER, A, B, contents, disk_with, write

if TYPE_CHECKING:
    from collections.abc import Callable


EVERY_OPERATION: list[tuple[OperationKind, Callable[[SimulatedFiles], object]]] = [
    (OperationKind.CREATE, lambda disk: disk.open(Path("/new"), create=True)),
    (OperationKind.WRITE, lambda disk: disk.open(A).pwrite([b"x"], 0)),
    (OperationKind.TRUNCATE, lambda disk: disk.open(A).truncate(0)),
    (OperationKind.ALLOCATE, lambda disk: disk.open(A).allocate(0, 10)),
    (OperationKind.SYNC, lambda disk: disk.open(A).sync()),
    (OperationKind.SYNC, lambda disk: disk.open(A).datasync()),
    (OperationKind.RENAME, lambda disk: disk.rename(A, B)),
    (OperationKind.UNLINK, lambda disk: disk.unlink(A)),
    (OperationKind.MAKE_FOLDER, lambda disk: disk.make_folder(FOLDER)),
    (OperationKind.SYNC_FOLDER, lambda disk: disk.sync_folder(Path("/"))),
]
EVERY_READ: list[Callable[[SimulatedFiles], object]] = [
    lambda disk: disk.open(A).pread(1, 0),
    lambda disk: disk.open(A).pread_into(np.zeros(1, np.uint8), 1, 0),
    lambda disk: disk.read_bytes(A),
]


@pytest.mark.parametrize(
    ("kind", "operation"),
    [*EVERY_OPERATION, *((OperationKind.READ, read) for read in EVERY_READ)],
)
def test_every_operation_can_be_made_to_fail_and_then_changes_nothing(
    kind: OperationKind, operation: Callable[[SimulatedFiles], object]
) -> None:
    disk = disk_with(b"kept")
    disk.faults = [Fault(errno=errno.ENOSPC, kind=kind)]
    with pytest.raises(OSError, match="No space left"):
        operation(disk)
    disk.faults = []
    assert contents(disk) == contents(disk.kill()) == {"a": b"kept"}
    assert [contents(state) for state in disk.crash_states(samples=9, random=Random(1))] == [
        {"a": b"kept"}
    ]


def test_a_failed_lock_that_has_to_make_its_file_is_an_error() -> None:
    disk = SimulatedFiles()
    disk.faults = [Fault(errno=errno.EROFS)]
    with pytest.raises(OSError, match="Read-only"):
        disk.lock(Path("/.lock"))


def test_a_fault_strikes_the_nth_operation_that_matches() -> None:
    disk = disk_with(b"x")
    disk.put_durable(FOLDER / "1.log", b"x")
    disk.faults = [Fault(errno=errno.EIO, kind=OperationKind.WRITE, path="*.log", nth=2)]
    write(disk, b"y")
    write(disk, b"y", path=FOLDER / "1.log")
    write(disk, b"z")
    with pytest.raises(OSError, match="Input/output"):
        write(disk, b"z", path=FOLDER / "1.log")
    write(disk, b"!", path=FOLDER / "1.log")
    assert disk.faults[0].matched == 3


def test_a_fault_of_any_kind_counts_changes_and_not_reads() -> None:
    disk = disk_with(b"x")
    disk.faults = [Fault(errno=errno.EIO, nth=2)]
    write(disk, b"y")
    disk.read_bytes(A)
    with pytest.raises(OSError, match="Input/output"):
        disk.unlink(A)


def test_a_failed_write_may_have_written_some_bytes() -> None:
    disk = disk_with(b"....")
    disk.faults = [Fault(errno=errno.EIO, kind=OperationKind.WRITE, written_bytes=2)]
    with pytest.raises(OSError, match="Input/output"):
        write(disk, b"xxxx")
    assert disk.read_bytes(A) == b"xx.."
    assert disk.power_cut().read_bytes(A) == b"...."


class Killed(BaseException):
    """Stands for the death of the process."""


@pytest.mark.parametrize(("kind", "operation"), EVERY_OPERATION)
def test_a_kill_before_an_operation_keeps_it_from_happening(
    kind: OperationKind, operation: Callable[[SimulatedFiles], object]
) -> None:
    disk = disk_with(b"kept")

    def kill(_: SimulatedFiles, operation: Operation) -> None:
        raise Killed(operation.kind)

    disk.before_operation = kill
    with pytest.raises(Killed, match=kind.value):
        operation(disk)
    assert disk.operations == 0
    assert contents(disk) == {"a": b"kept"}


@pytest.mark.parametrize("read", EVERY_READ)
def test_reads_are_not_operations(read: Callable[[SimulatedFiles], object]) -> None:
    disk = disk_with(b"kept")
    disk.before_operation = lambda _, operation: pytest.fail(f"{operation} was announced")
    read(disk)
    assert disk.operations == 0
