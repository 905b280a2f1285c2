"""The simulated disk as a program sees it: like a real one, killed at will, watched."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pytest
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.files import File, Files, OsFiles
from offsetd_storage.disk.simulated_faults import Fault, Operation, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from simulated_disks import FOLDER, A, B, contents, disk_with, write

if TYPE_CHECKING:
    from collections.abc import Callable

Answer: TypeAlias = object


class Driver:
    """Does random things to a file system and notes every answer."""

    def __init__(self, files: Files, root: Path, seed: int) -> None:
        self.files = files
        self.root = root
        self.random = Random(seed)
        self.opened: list[File] = []

    def path(self) -> Path:
        folder = self.random.choice(["", "d", "e"])
        return self.root / folder / self.random.choice(["a", "b", "c", "d", "e"])

    def step(self) -> tuple[str, Answer]:
        steps: list[Callable[[], Answer]] = [
            self.open, self.open, self.write, self.write, self.write, self.truncate, self.read,
            self.allocate, self.make_folder, self.rename, self.rename, self.unlink, self.look,
            self.close, self.sync, self.remove_folder,
        ]  # fmt: skip
        step = self.random.choice(steps)
        try:
            return step.__name__, step()
        except OSError as error:
            return step.__name__, error.errno

    def file(self) -> File:
        if not self.opened:
            raise OSError(errno.EBADF, "nothing is open")
        return self.random.choice(self.opened)

    def open(self) -> Answer:
        create, read_only = self.random.random() < 0.7, self.random.random() < 0.1
        path = self.path()
        if self.files.is_folder(path):
            raise OSError(errno.EISDIR, "folders are not opened")
        self.opened.append(self.files.open(path, create=create, read_only=read_only))
        return None

    def write(self) -> Answer:
        chunks = [self.random.randbytes(self.random.randrange(900)) for _ in range(2)]
        position = self.random.randrange(3000)
        self.file().pwrite(chunks, position)
        return None

    def truncate(self) -> Answer:
        size = self.random.randrange(4000)
        self.file().truncate(size)
        return None

    def allocate(self) -> Answer:
        position, size = self.random.randrange(9000), self.random.randrange(1, 9000)
        self.file().allocate(position, size)
        return None

    def read(self) -> Answer:
        size, position = self.random.randrange(5000), self.random.randrange(5000)
        file = self.file()
        buffer = np.zeros(5000, np.uint8)
        read = file.pread_into(buffer, size, position)
        return file.pread(size, position), read, buffer.tobytes(), file.size()

    def make_folder(self) -> Answer:
        self.files.make_folder(self.path())
        return None

    def rename(self) -> Answer:
        source = self.path()
        target = source.with_name(self.random.choice("abcde"))
        if self.files.is_folder(target) and target != source:
            raise OSError(errno.EISDIR, "folders are not replaced")
        self.files.rename(source, target)
        return None

    def unlink(self) -> Answer:
        self.files.unlink(self.path())
        return None

    def remove_folder(self) -> Answer:
        self.files.remove_folder(self.path())
        return None

    def look(self) -> Answer:
        path = self.path()
        folder = self.files.is_folder(path)
        answer = self.files.exists(path), folder, self.files.list_folder(path.parent)
        return answer if folder else (answer, self.files.size(path), self.files.read_bytes(path))

    def close(self) -> Answer:
        file = self.file()
        file.close()
        if self.random.random() < 0.9:
            self.opened.remove(file)
        return None

    def sync(self) -> Answer:
        folder = self.path().parent
        self.files.sync_folder(folder)
        file = self.file()
        self.random.choice([file.sync, file.datasync, file.drop_cache])()
        return None


@pytest.mark.parametrize("seed", range(25))
def test_it_answers_like_the_operating_system(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    simulated = SimulatedFiles()
    simulated.make_folder(Path("/root"))
    drivers = [
        Driver(OsFiles(), tmp_path, seed),
        Driver(simulated, Path("/root"), seed),
    ]
    for number in range(300):
        real, ours = (driver.step() for driver in drivers)
        assert ours == real, f"step {number} differs"
    for file in drivers[0].opened:
        file.close()


def test_relative_paths_start_at_the_root() -> None:
    disk = disk_with(b"x", Path("folder/a"))
    assert disk.read_bytes(Path("/folder/a")) == b"x"
    assert disk.list_folder(Path()) == ["folder"]


@pytest.mark.parametrize(
    ("call", "number"),
    [
        (lambda disk: disk.rename(A, FOLDER / "x"), errno.EXDEV),
        (lambda disk: disk.rename(A, FOLDER), errno.EISDIR),
        (lambda disk: disk.rename(FOLDER, A), errno.ENOTDIR),
        (lambda disk: disk.rename(B, A), errno.ENOENT),
        (lambda disk: disk.open(FOLDER), errno.EISDIR),
        (lambda disk: disk.lock(FOLDER), errno.EISDIR),
        (lambda disk: disk.unlink(FOLDER), errno.EISDIR),
        (lambda disk: disk.make_folder(A), errno.EEXIST),
        (lambda disk: disk.make_folder(Path("/none/x")), errno.ENOENT),
        (lambda disk: disk.remove_folder(FOLDER), errno.ENOTEMPTY),
        (lambda disk: disk.remove_folder(A), errno.ENOTDIR),
        (lambda disk: disk.list_folder(A), errno.ENOTDIR),
        (lambda disk: disk.sync_folder(B), errno.ENOENT),
        (lambda disk: disk.free_bytes(B), errno.ENOENT),
        (lambda disk: disk.modified_ms(B), errno.ENOENT),
    ],
)
def test_what_makes_no_sense_is_refused_and_is_no_operation(
    call: Callable[[SimulatedFiles], object], number: int
) -> None:
    disk = disk_with(b"x")
    disk.put_durable(FOLDER / "inner", b"")
    with pytest.raises(OSError, match=str(number)) as raised:
        call(disk)
    assert raised.value.errno == number
    assert disk.operations == 0


def test_the_time_of_the_last_write_is_that_of_the_clock() -> None:
    clock = ManualClock(now_ms=1000)
    disk = SimulatedFiles(clock=clock)
    write(disk, b"x")
    clock.advance(50)
    assert disk.modified_ms(A) == 1000
    write(disk, b"y")
    assert disk.modified_ms(A) == disk.kill().modified_ms(A) == 1050


def test_a_file_removed_or_replaced_lives_on_for_those_who_have_it_open() -> None:
    disk = disk_with(b"old")
    file = disk.open(A)
    write(disk, b"new", path=B)
    disk.rename(B, A)
    assert (file.pread(9, 0), disk.read_bytes(A)) == (b"old", b"new")
    disk.unlink(A)
    assert (file.pread(9, 0), disk.exists(A)) == (b"old", False)


def test_threads_take_turns() -> None:
    disk = SimulatedFiles()
    file = disk.open(A, create=True)

    def write_many(thread: int) -> None:
        for number in range(200):
            file.pwrite([bytes([thread])], 200 * thread + number)

    threads = [threading.Thread(target=write_many, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert disk.operations == 1 + 4 * 200
    assert file.pread(1000, 0) == b"".join(bytes([thread]) * 200 for thread in range(4))


def test_a_lock_is_held_once_until_release() -> None:
    disk = SimulatedFiles()
    lock = disk.lock(Path("/.lock"))
    assert lock is not None
    assert disk.lock(Path("/.lock")) is None
    lock.release()
    again = disk.lock(Path("/.lock"))
    assert again is not None
    lock.release()
    assert disk.lock(Path("/.lock")) is None, "a second release must not free another's lock"


def test_the_death_of_the_process_frees_its_locks() -> None:
    disk = SimulatedFiles()
    assert disk.lock(Path("/.lock")) is not None
    assert disk.kill().lock(Path("/.lock")) is not None
    assert disk.power_cut().lock(Path("/.lock")) is not None
    assert disk.lock(Path("/.lock")) is None


def test_operations_are_announced_before_they_happen_and_counted() -> None:
    disk = disk_with(b"old")
    seen: list[tuple[Operation, dict[str, bytes]]] = []
    disk.before_operation = lambda disk, one: seen.append((one, contents(disk.kill())))
    file = disk.open(A)
    file.pwrite([b"n", b"ew"], 7)
    file.sync()
    file.drop_cache()
    file.pread(3, 0)
    disk.rename(A, B)
    assert disk.operations == 3
    written = b"old\0\0\0\0new"
    assert seen == [
        (
            Operation(number=0, kind=OperationKind.WRITE, path=A, position=7, size=3),
            {"a": b"old"},
        ),
        (Operation(number=1, kind=OperationKind.SYNC, path=A), {"a": written}),
        (Operation(number=2, kind=OperationKind.RENAME, path=A, target=B), {"a": written}),
    ]


def test_a_kill_keeps_the_page_cache_seen_and_unsynced() -> None:
    disk = disk_with(b"old")
    write(disk, b"new")
    write(disk, b"2", path=B)
    restarted = disk.kill()
    assert contents(restarted) == {"a": b"new", "b": b"2"}
    assert contents(restarted.power_cut()) == {"a": b"old"}
    restarted.open(A).sync()
    assert contents(restarted.power_cut()) == {"a": b"new"}


def test_a_kill_forgets_faults_and_whoever_looked_on() -> None:
    disk = disk_with(b"old")
    disk.faults = [Fault(errno=errno.EIO)]
    disk.before_operation = lambda disk, _: disk.unlink(A)
    write(disk.kill(), b"new")
    write(disk.power_cut(), b"new")


@pytest.mark.parametrize(
    "copy", [SimulatedFiles.kill, SimulatedFiles.power_cut], ids=["kill", "power cut"]
)
def test_a_copy_and_its_origin_do_not_see_each_others_changes(
    copy: Callable[[SimulatedFiles], SimulatedFiles],
) -> None:
    disk = disk_with(b"shared" * 100)
    disk.put_durable(FOLDER / "x", b"1")
    file = disk.open(A)
    file.pwrite([b"SHARED"], 0)  # So that the bytes are the origin's own before they are shared.
    file.sync()
    copied = copy(disk)
    file.pwrite([b"origin"], 0)
    assert copied.read_bytes(A) == copied.power_cut().read_bytes(A) == b"SHARED" + b"shared" * 99
    file.sync()
    assert copied.read_bytes(A) == copied.power_cut().read_bytes(A) == b"SHARED" + b"shared" * 99
    write(copied, b"copied")
    copied.open(A).sync()
    disk.unlink(FOLDER / "x")
    copied.rename(FOLDER / "x", FOLDER / "y")
    assert disk.power_cut().read_bytes(A) == b"origin" + b"shared" * 99
    assert copied.read_bytes(A) == b"copied" + b"shared" * 99
    assert (disk.list_folder(FOLDER), copied.list_folder(FOLDER)) == ([], ["y"])
    assert copied.operations == 3
