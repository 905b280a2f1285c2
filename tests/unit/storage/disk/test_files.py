"""The one door to the disk, on the operating system's side."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from offsetd_storage.disk.files import Buffer, OsFile, OsFiles, read_start, replace_file
from offsetd_storage.disk.simulated_faults import Fault, Operation, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

FILES = OsFiles()


def opened(path: Path, content: bytes = b"") -> OsFile:
    path.write_bytes(content)
    return FILES.open(path)


def test_a_file_is_made_only_when_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FILES.open(tmp_path / "a")
    FILES.open(tmp_path / "a", create=True).close()
    assert FILES.read_bytes(tmp_path / "a") == b""


def test_opening_to_create_keeps_what_is_there(tmp_path: Path) -> None:
    opened(tmp_path / "a", b"kept").close()
    FILES.open(tmp_path / "a", create=True).close()
    assert FILES.read_bytes(tmp_path / "a") == b"kept"


def test_a_file_opened_read_only_cannot_be_written(tmp_path: Path) -> None:
    opened(tmp_path / "a", b"kept").close()
    file = FILES.open(tmp_path / "a", read_only=True)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pwrite([b"x"], 0)
    assert file.pread(4, 0) == b"kept"
    file.close()


@pytest.mark.parametrize(
    ("size", "position", "expected"),
    [
        (5, 0, b"01234"),
        (5, 3, b"34567"),
        (5, 8, b"89"),
        (5, 10, b""),
        (5, 99, b""),
        (0, 3, b""),
    ],
)
def test_reads_are_short_only_where_the_file_ends(
    tmp_path: Path, size: int, position: int, expected: bytes
) -> None:
    file = opened(tmp_path / "a", b"0123456789")
    assert file.pread(size, position) == expected
    buffer = np.full(16, 255, np.uint8)
    assert file.pread_into(buffer, size, position) == len(expected)
    assert buffer.tobytes() == expected + b"\xff" * (16 - len(expected))
    file.close()


def test_reads_go_on_after_a_short_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened(tmp_path / "a", b"0123456789")
    pread, preadv = os.pread, os.preadv

    def short_preadv(descriptor: int, buffers: Sequence[memoryview], position: int) -> int:
        return preadv(descriptor, [buffers[0][:3]], position)

    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 3), at))
    monkeypatch.setattr(os, "preadv", short_preadv)
    buffer = np.zeros(9, np.uint8)
    assert file.pread(8, 1) == b"12345678"
    assert file.pread_into(buffer, 9, 1) == 9
    assert buffer.tobytes() == b"123456789"


def test_a_read_larger_than_its_buffer_is_our_own_mistake(tmp_path: Path) -> None:
    file = opened(tmp_path / "a", b"0123456789")
    with pytest.raises(AssertionError, match="buffer is smaller"):
        file.pread_into(np.zeros(3, np.uint8), 4, 0)


def test_chunks_of_every_kind_are_written_one_behind_the_other(tmp_path: Path) -> None:
    file = opened(tmp_path / "a", b"..........")
    chunks: list[Buffer] = [
        b"ab",
        bytearray(b"c"),
        b"",
        memoryview(b"xdex")[1:3],
        np.array([102], np.uint8),
    ]
    file.pwrite(chunks, 2)
    assert FILES.read_bytes(tmp_path / "a") == b"..abcdef.."


def test_a_write_beyond_the_end_leaves_zeros_between(tmp_path: Path) -> None:
    file = opened(tmp_path / "a", b"ab")
    file.pwrite([b"c"], 4)
    assert FILES.read_bytes(tmp_path / "a") == b"ab\0\0c"


def test_more_chunks_than_one_call_takes_are_all_written(tmp_path: Path) -> None:
    file = opened(tmp_path / "a")
    chunks = [bytes([number % 251]) * (number % 7) for number in range(5000)]
    file.pwrite(chunks, 3)
    assert FILES.read_bytes(tmp_path / "a") == b"\0\0\0" + b"".join(chunks)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
def test_writes_go_on_after_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    def short_pwritev(descriptor: int, buffers: Sequence[memoryview], position: int) -> int:
        return os.pwrite(descriptor, b"".join(buffers)[:most], position)

    monkeypatch.setattr(os, "pwritev", short_pwritev)
    file = opened(tmp_path / "a")
    file.pwrite([b"012", b"3", b"456789", b"ab"], 1)
    assert FILES.read_bytes(tmp_path / "a") == b"\x000123456789ab"


def test_a_disk_that_takes_nothing_is_an_error_not_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    file = opened(tmp_path / "a")
    with pytest.raises(OSError, match="took no bytes"):
        file.pwrite([b"0"], 0)


def test_a_file_over_its_limit_raises_after_writing_what_fits(tmp_path: Path) -> None:
    script = """if True:
        import resource, signal, sys
        from pathlib import Path
        from offsetd_storage.disk.files import OsFiles
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        try:
            OsFiles().open(Path(sys.argv[1]), create=True).pwrite([b"x" * 8, b"y" * 8], 0)
        except OSError as error:
            sys.exit(error.errno)
    """
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "a")], check=False)
    assert done.returncode == errno.EFBIG
    assert FILES.read_bytes(tmp_path / "a") == b"x" * 8 + b"yy"


def test_allocating_reserves_blocks_and_leaves_the_length(tmp_path: Path) -> None:
    file = opened(tmp_path / "a", b"abc")
    try:
        file.allocate(0, 1 << 20)
    except OSError as error:
        pytest.fail(f"reserving failed: {error}")
    if os.stat(tmp_path / "a").st_blocks * 512 < 1 << 20:
        pytest.skip("this file system cannot reserve blocks")
    assert file.size() == 3
    assert file.pread(10, 0) == b"abc"
    file.truncate(3)
    assert os.stat(tmp_path / "a").st_blocks * 512 <= 64 << 10


@pytest.mark.parametrize("unsupported", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_allocating_where_the_file_system_cannot_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unsupported: int
) -> None:
    monkeypatch.setattr("offsetd_storage.disk.system_calls._fallocate", lambda *_: -1)
    monkeypatch.setattr("ctypes.get_errno", lambda: unsupported)
    assert opened(tmp_path / "a").allocate(0, 4096) is False


def test_allocating_reports_a_full_disk_and_tries_again_when_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [errno.EINTR, errno.EINTR, errno.ENOSPC]
    monkeypatch.setattr("offsetd_storage.disk.system_calls._fallocate", lambda *_: -1)
    monkeypatch.setattr("ctypes.get_errno", lambda: errors.pop(0))
    with pytest.raises(OSError, match="No space left") as raised:
        opened(tmp_path / "a").allocate(0, 4096)
    assert raised.value.errno == errno.ENOSPC


def test_allocating_beyond_what_a_file_may_hold_raises(tmp_path: Path) -> None:
    file = opened(tmp_path / "a")
    with pytest.raises(OSError, match=r"too large|No space|Invalid"):
        file.allocate(0, 1 << 62)


@pytest.mark.parametrize("size", [0, 2, 4, 9])
def test_truncating_cuts_or_extends_with_zeros(tmp_path: Path, size: int) -> None:
    file = opened(tmp_path / "a", b"abcd")
    file.truncate(size)
    assert file.size() == FILES.size(tmp_path / "a") == size
    assert file.pread(100, 0) == b"abcd".ljust(size, b"\0")[:size]


def test_syncing_and_dropping_the_cache_keep_the_contents(tmp_path: Path) -> None:
    file = opened(tmp_path / "a")
    file.pwrite([b"abcd"], 0)
    file.begin_writeback(0, 4)
    file.datasync()
    file.sync()
    FILES.sync_folder(tmp_path)
    file.drop_cache()
    assert file.pread(4, 0) == b"abcd"


def test_a_closed_file_stays_closed_and_can_be_closed_again(tmp_path: Path) -> None:
    file = opened(tmp_path / "a")
    file.close()
    other = FILES.open(tmp_path / "a")  # Likely to be given the same descriptor.
    file.close()
    assert other.size() == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.size()


def test_folders_list_their_names_sorted(tmp_path: Path) -> None:
    FILES.make_folder(tmp_path / "d")
    for name in ["b", "a", ".lock", "10", "9"]:
        opened(tmp_path / "d" / name).close()
    assert FILES.list_folder(tmp_path / "d") == [".lock", "10", "9", "a", "b"]


@pytest.mark.parametrize(
    ("name", "error"), [("there", FileExistsError), ("missing/inner", FileNotFoundError)]
)
def test_a_folder_is_made_alone_and_once(tmp_path: Path, name: str, error: type[OSError]) -> None:
    FILES.make_folder(tmp_path / "there")
    with pytest.raises(error):
        FILES.make_folder(tmp_path / name)


def test_names_are_told_apart(tmp_path: Path) -> None:
    FILES.make_folder(tmp_path / "folder")
    opened(tmp_path / "file").close()
    seen = {
        name: (FILES.exists(tmp_path / name), FILES.is_folder(tmp_path / name))
        for name in ["folder", "file", "none"]
    }
    assert seen == {"folder": (True, True), "file": (True, False), "none": (False, False)}


def test_renaming_replaces_and_unlinking_removes(tmp_path: Path) -> None:
    opened(tmp_path / "a", b"new").close()
    opened(tmp_path / "b", b"old").close()
    FILES.rename(tmp_path / "a", tmp_path / "b")
    assert FILES.list_folder(tmp_path) == ["b"]
    assert FILES.read_bytes(tmp_path / "b") == b"new"
    FILES.unlink(tmp_path / "b")
    assert FILES.list_folder(tmp_path) == []


def test_the_time_of_the_last_write_is_in_milliseconds(tmp_path: Path) -> None:
    opened(tmp_path / "a").close()
    os.utime(tmp_path / "a", ns=(0, 1_700_000_000_123_456_789))
    assert FILES.modified_ms(tmp_path / "a") == 1_700_000_000_123


@pytest.mark.parametrize("simulated", [False, True])
def test_the_time_of_the_last_write_can_be_set(tmp_path: Path, simulated: bool) -> None:
    files = SimulatedFiles() if simulated else FILES
    path = Path("/a") if simulated else tmp_path / "a"
    files.open(path, create=True).close()
    files.set_modified_ms(path, 1_600_000_000_123)
    assert files.modified_ms(path) == 1_600_000_000_123


def test_free_room_is_that_of_an_ordinary_user(tmp_path: Path) -> None:
    status = os.statvfs(tmp_path)
    assert 0 < FILES.free_bytes(tmp_path) <= status.f_blocks * status.f_frsize


@pytest.mark.parametrize("is_locked", [False, True])
def test_free_room_is_known_where_no_more_files_can_be_opened(
    tmp_path: Path, is_locked: bool
) -> None:
    lock = FILES.lock(tmp_path / ".lock") if is_locked else None
    files = FILES if lock is None else lock.files
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each) for each in os.listdir("/proc/self/fd"))
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
        with pytest.raises(OSError, match="Too many open files"):
            taken.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(highest + 2))
        assert 0 < files.free_bytes(tmp_path) <= files.total_bytes(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for each in taken:
            os.close(each)
        if lock is not None:
            lock.release()


def test_a_lock_is_held_once_and_can_be_taken_again_after_release(tmp_path: Path) -> None:
    lock = FILES.lock(tmp_path / ".lock")
    assert lock is not None
    assert FILES.lock(tmp_path / ".lock") is None
    lock.release()
    lock.release()
    again = FILES.lock(tmp_path / ".lock")
    assert again is not None
    again.release()


def test_a_lock_survives_the_closing_of_another_descriptor(tmp_path: Path) -> None:
    lock = FILES.lock(tmp_path / ".lock")
    FILES.open(tmp_path / ".lock").close()  # Would drop a plain fcntl lock.
    assert lock is not None
    assert FILES.lock(tmp_path / ".lock") is None
    lock.release()


def test_a_lock_conflicts_with_the_fcntl_lock_of_a_broker_both_ways(tmp_path: Path) -> None:
    broker = """if True:
        import fcntl, sys
        file = open(sys.argv[1], "a")
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(3)
        print("locked", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", broker, str(tmp_path / ".lock")]
    lock = FILES.lock(tmp_path / ".lock")
    assert lock is not None
    assert subprocess.run(command, check=False, input=b"").returncode == 3
    lock.release()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        assert FILES.lock(tmp_path / ".lock") is None
        process.communicate()
    assert FILES.lock(tmp_path / ".lock") is not None


def test_a_lock_that_cannot_be_asked_for_is_an_error_not_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    descriptors = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with pytest.raises(OSError, match="No locks available"):
        FILES.lock(tmp_path / ".lock")
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_descriptors_do_not_leak(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        FILES.open(tmp_path / "a", create=True).close()
        FILES.read_bytes(tmp_path / "a")
        FILES.sync_folder(tmp_path)
        replace_file(FILES, tmp_path / "b", b"x")
        lock = FILES.lock(tmp_path / ".lock")
        assert lock is not None
        assert FILES.lock(tmp_path / ".lock") is None
        lock.release()
    assert len(os.listdir("/proc/self/fd")) == before
    assert before < resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_replacing_a_file_leaves_nothing_else(tmp_path: Path) -> None:
    opened(tmp_path / "c.tmp", b"left over, and longer than what comes").close()
    replace_file(FILES, tmp_path / "c", b"first")
    assert FILES.read_bytes(tmp_path / "c") == b"first"
    replace_file(FILES, tmp_path / "c", b"second")
    assert FILES.list_folder(tmp_path) == ["c"]
    assert FILES.read_bytes(tmp_path / "c") == b"second"


def test_replacing_a_file_whose_sync_fails_keeps_the_old_one(tmp_path: Path) -> None:
    files = SimulatedFiles()
    files.put_durable(tmp_path / "c", b"old")
    files.faults = [Fault(errno=errno.EIO, kind=OperationKind.SYNC)]
    with pytest.raises(OSError, match="Input/output"):
        replace_file(files, tmp_path / "c", b"new")
    assert files.read_bytes(tmp_path / "c") == b"old"


def test_a_power_cut_anywhere_in_a_replacement_leaves_the_old_or_the_new_contents() -> None:
    path = Path("/folder/checkpoint")
    old, new = b"o" * 1500, b"n" * 1300
    files = SimulatedFiles()
    files.put_durable(path, old)
    files.put_durable(path.with_name("checkpoint.tmp"), b"left over")
    found: list[bytes] = []

    def cut_power(disk: SimulatedFiles, _: Operation) -> None:
        states = disk.crash_states(samples=1000, random=Random(1))
        found.extend(state.read_bytes(path) for state in states)

    files.before_operation = cut_power
    replace_file(files, path, new)
    assert set(found) == {old, new}
    assert {
        state.read_bytes(path) for state in files.crash_states(samples=9, random=Random(1))
    } == {new}


@pytest.mark.parametrize(("bytes_max", "read"), [(0, b""), (2, b"ab"), (3, b"abc"), (99, b"abc")])
def test_the_start_of_a_file_is_read(tmp_path: Path, bytes_max: int, read: bytes) -> None:
    opened(tmp_path / "a", b"abc").close()
    assert read_start(FILES, tmp_path / "a", bytes_max) == read


def test_the_start_of_a_file_takes_no_more_memory_than_it_has_bytes(tmp_path: Path) -> None:
    opened(tmp_path / "a", b"abc").close()
    os.truncate(tmp_path / "a", 1 << 40)
    assert read_start(FILES, tmp_path / "a", 5) == b"abc\0\0"
    assert read_start(FILES, tmp_path / "a", 1 << 20) == b"abc".ljust(1 << 20, b"\0")
