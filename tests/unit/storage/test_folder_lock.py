"""One process at a time on a data folder."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from offsetd_storage.errors import FolderLocked
from offsetd_storage.files import OsFiles
from offsetd_storage.folder_lock import LOCK_NAME, FolderLock
from offsetd_storage.simulated_files import SimulatedFiles

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.files import Files


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
        from offsetd_storage.files import OsFiles
        from offsetd_storage.folder_lock import FolderLock
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
