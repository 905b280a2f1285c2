"""A restore into a folder, with the room that there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from backups import back_up, repository_of
from log_stores import P0, commit, opened, seeded
from offsetd_coordinator.offline.folder_restore import ChosenBackup, restore_folder
from offsetd_storage.backups.backup_errors import BackupBlocked
from offsetd_storage.backups.restored_folder import begin_restore
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_files import SimulatedFiles
from partition_logs import NOW_MS

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.backups.repository import Repository


class QuotaFiles(OsFiles):
    """A disk on which the segments of a folder may take only so many bytes."""

    def __init__(self, folder: Path, room_bytes: int) -> None:
        self._quota_folder = folder
        self._room_bytes = room_bytes

    def free_bytes(self, path: Path) -> int:
        """What the segments leave."""
        segments = self._quota_folder.glob("*/*.log")
        return self._room_bytes - sum(each.stat().st_size for each in segments)


def backed_up() -> tuple[Repository, ChosenBackup]:
    files = SimulatedFiles()
    store = opened(files)
    for _ in range(20):
        commit(store, P0)
    repository = repository_of(files)
    written = back_up(store, repository)
    return repository, ChosenBackup(backup_id=written.backup_id, manifest=written.manifest)


def restored(files: OsFiles, folder: Path, repository: Repository, chosen: ChosenBackup) -> None:
    clock = ManualClock(NOW_MS + 60_000)
    restore_folder(files, folder, repository, chosen, clock=clock, random=seeded())


def test_what_a_broken_off_restore_left_takes_no_room_from_the_next_one(tmp_path: Path) -> None:
    repository, chosen = backed_up()
    folder, size_bytes = tmp_path / "restored", chosen.manifest.size_bytes
    begin_restore(OsFiles(), folder).release()
    (folder / P0.folder_name).mkdir()
    (folder / P0.folder_name / f"{0:020d}.log").write_bytes(bytes(size_bytes // 2))
    restored(QuotaFiles(folder, size_bytes), folder, repository, chosen)
    assert not (folder / "offsetd.restoring").exists()


def test_a_disk_without_room_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    repository, chosen = backed_up()
    folder, size_bytes = tmp_path / "restored", chosen.manifest.size_bytes
    small = QuotaFiles(folder, size_bytes - 1)
    with pytest.raises(BackupBlocked, match="has room for"):
        restored(small, folder, repository, chosen)
    assert not folder.exists()
    begin_restore(OsFiles(), folder).release()
    with pytest.raises(BackupBlocked, match="has room for"):  # Also where one was broken off.
        restored(small, folder, repository, chosen)
    restored(OsFiles(), folder, repository, chosen)
