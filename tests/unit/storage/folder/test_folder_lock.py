"""One process at a time on a data folder."""

from __future__ import annotations

import errno
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import FolderGone, FolderLocked, FolderMismatch
from offsetd_storage.folder.folder_lock import LOCK_NAME, FolderLock, check_usable
from offsetd_storage.folder.unfinished_restore import RESTORE_MARK

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.disk.files import Files


@pytest.fixture(params=["operating system", "simulated"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "operating system":
        return OsFiles()
    disk = SimulatedFiles()
    disk.put_durable(tmp_path / "something", b"")
    return disk


def test_a_folder_is_held_until_it_is_released(files: Files, tmp_path: Path) -> None:
    lock = FolderLock.acquire(files, tmp_path)
    with pytest.raises(FolderLocked, match="in use by another process"):
        FolderLock.acquire(files, tmp_path)
    lock.release()
    FolderLock.acquire(files, tmp_path).release()


def test_a_restore_that_began_before_the_lock_was_taken_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = OsFiles.lock

    def restored_meanwhile(files: OsFiles, path: Path) -> object:
        (tmp_path / RESTORE_MARK).touch()
        return take(files, path)

    monkeypatch.setattr(OsFiles, "lock", restored_meanwhile)
    with pytest.raises(FolderMismatch, match="has not ended"):
        FolderLock.acquire(OsFiles(), tmp_path)
    monkeypatch.undo()
    FolderLock.acquire(OsFiles(), tmp_path, ends_restore=True).release()


def test_the_locks_file_has_kafkas_name_and_stays(files: Files, tmp_path: Path) -> None:
    FolderLock.acquire(files, tmp_path).release()
    assert LOCK_NAME == ".lock"
    assert files.exists(tmp_path / ".lock")


def test_a_folder_that_is_not_there_cannot_be_locked(files: Files, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FolderLock.acquire(files, tmp_path / "none")


def test_a_second_process_is_refused_and_a_killed_one_leaves_the_folder_free(
    tmp_path: Path,
) -> None:
    script = """if True:
        import sys
        from pathlib import Path
        from offsetd_storage.disk.files import OsFiles
        from offsetd_storage.folder.folder_lock import FolderLock
        lock = FolderLock.acquire(OsFiles(), Path(sys.argv[1]))
        print("held", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(FolderLocked):
            FolderLock.acquire(OsFiles(), tmp_path)
        process.kill()
    FolderLock.acquire(OsFiles(), tmp_path).release()


def test_a_refused_process_has_written_nothing(tmp_path: Path) -> None:
    disk = SimulatedFiles()
    disk.put_durable(tmp_path / "something", b"")
    held = FolderLock.acquire(disk, tmp_path)
    before = disk.operations
    with pytest.raises(FolderLocked):
        FolderLock.acquire(disk, tmp_path)
    assert disk.operations == before
    held.release()


# A folder that is not at its path any more ------------------------------------------------------


def put(files: Files, path: Path, content: bytes) -> None:
    """Writes a file, made where missing."""
    file = files.open(path, create=True)
    file.pwrite([content], 0)
    file.close()


@pytest.fixture
def replaced(files: Files, tmp_path: Path) -> FolderLock:
    """The lock of a folder that was moved to `moved`; another one is in its place."""
    folder = tmp_path / "data"
    files.make_folder(folder)
    lock = FolderLock.acquire(files, folder)
    put(lock.files, folder / "journal", b"ours")
    lock.files.make_folder(folder / "log")
    lock.check()
    files.rename(folder, tmp_path / "moved")
    files.make_folder(folder)
    put(files, folder / "journal", b"theirs")
    return lock


def test_what_is_reached_through_a_lock_is_the_folder_that_was_locked(
    files: Files, tmp_path: Path, replaced: FolderLock
) -> None:
    folder, ours = tmp_path / "data", replaced.files
    assert ours.read_bytes(folder / "journal") == b"ours"
    put_again = ours.open(folder / "journal")
    put_again.pwrite([b"OURS"], 0)
    put_again.close()
    ours.sync_folder(folder)
    assert ours.list_folder(folder) == [".lock", "journal", "log"]
    assert ours.is_folder(folder)
    assert ours.is_folder(folder / "log")
    assert ours.exists(folder / "journal")
    assert not ours.exists(folder / "journal" / "none")
    assert not ours.is_folder(folder / "journal")
    assert ours.size(folder / "journal") == 4
    assert ours.stamp(folder / "journal") == files.stamp(tmp_path / "moved" / "journal")
    assert ours.stamp(folder / "journal") != files.stamp(folder / "journal")
    ours.set_modified_ms(folder / "journal", 5000)
    assert ours.modified_ms(folder / "journal") == 5000
    assert ours.free_bytes(folder) <= ours.total_bytes(folder)
    assert files.read_bytes(folder / "journal") == b"theirs"
    assert files.read_bytes(tmp_path / "moved" / "journal") == b"OURS"


def test_no_name_changes_in_a_folder_that_is_not_at_its_path(
    files: Files, tmp_path: Path, replaced: FolderLock
) -> None:
    folder, ours = tmp_path / "data", replaced.files
    for change in (
        lambda: ours.open(folder / "new", create=True),
        lambda: ours.make_folder(folder / "new"),
        lambda: ours.rename(folder / "journal", folder / "new"),
        lambda: ours.unlink(folder / "journal"),
        lambda: ours.remove_folder(folder / "log"),
    ):
        with pytest.raises(OSError, match="not at its path") as refused:
            change()
        assert refused.value.errno == errno.ESTALE
    assert files.list_folder(tmp_path / "moved") == [".lock", "journal", "log"]
    assert files.list_folder(folder) == ["journal"]
    with pytest.raises(FolderGone, match="no longer the folder"):
        replaced.check()


def test_what_lies_outside_of_the_folder_is_reached_as_ever(
    files: Files, tmp_path: Path, replaced: FolderLock
) -> None:
    replaced.files.make_folder(tmp_path / "data-2")
    put(replaced.files, tmp_path / "data-2" / "file", b"1")
    assert files.read_bytes(tmp_path / "data-2" / "file") == b"1"
    replaced.files.sync_folder(tmp_path)


def test_a_folder_that_is_moved_back_is_in_its_place_again(
    files: Files, tmp_path: Path, replaced: FolderLock
) -> None:
    files.rename(tmp_path / "data", tmp_path / "theirs")
    with pytest.raises(FolderGone):
        replaced.check()
    files.rename(tmp_path / "moved", tmp_path / "data")
    replaced.check()
    replaced.files.unlink(tmp_path / "data" / "journal")


def test_a_lock_whose_file_was_removed_or_replaced_is_none(files: Files, tmp_path: Path) -> None:
    lock = FolderLock.acquire(files, tmp_path)
    files.unlink(tmp_path / LOCK_NAME)
    with pytest.raises(FolderGone):
        lock.check()
    second = FolderLock.acquire(files, tmp_path)
    second.check()
    with pytest.raises(FolderGone):
        lock.check()


# What is known before ----------------------------------------------------------------------------


def test_whether_a_folder_can_be_used_is_known_before_it_is_made(
    files: Files, tmp_path: Path
) -> None:
    check_usable(files, tmp_path)
    check_usable(files, tmp_path / "new")
    assert not files.exists(tmp_path / "new")
    with pytest.raises(FolderMismatch, match="none does not exist"):
        check_usable(files, tmp_path / "none" / "new")
    put(files, tmp_path / "file", b"")
    with pytest.raises(FolderMismatch, match="file is not a folder"):
        check_usable(files, tmp_path / "file")
    with pytest.raises(FolderMismatch, match="file is not a folder"):
        check_usable(files, tmp_path / "file" / "below")


def test_a_folder_that_may_not_be_written_to_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = OsFiles()
    monkeypatch.setattr(OsFiles, "may_write", lambda *_: False)  # Root may write anywhere.
    with pytest.raises(FolderMismatch, match=f"{tmp_path} cannot be written to: no permission"):
        check_usable(files, tmp_path)
    with pytest.raises(FolderMismatch, match="new cannot be made: no permission in"):
        check_usable(files, tmp_path / "new")
