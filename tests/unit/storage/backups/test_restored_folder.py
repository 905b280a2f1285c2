"""Which folders a restore takes, what it removes there, and that it is alone there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from backups import BACKUPS, RESTORED, back_up, fill, opened_restored, repository_of, restore
from log_stores import OFFSETS_TOPIC, P0, SMALL, commit, contents, opened, tree
from offsetd_storage.backups.backup_errors import BackupRefused
from offsetd_storage.backups.restored_folder import begin_restore, end_restore
from offsetd_storage.backups.targets import FolderTarget, check_apart
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import FolderLocked, FolderMismatch
from offsetd_storage.folder.folder_lock import FolderLock
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.log_store import LogStore


def filled(files: SimulatedFiles) -> LogStore:
    store = opened(files)
    for _ in range(20):
        commit(store, P0)
    return store


def test_a_folder_belongs_to_one_restore_at_a_time_until_its_end() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    manifest = back_up(store, repository).manifest
    lock = fill(files, repository, manifest)
    half = tree(files, RESTORED)
    with pytest.raises(FolderLocked):
        begin_restore(files, RESTORED)
    assert tree(files, RESTORED) == half
    opened_restored(files, lock).close()
    with pytest.raises(FolderLocked):  # The mark is there: another one would empty the folder.
        begin_restore(files, RESTORED)
    end_restore(files, RESTORED)
    lock.release()
    assert contents(opened(files, folder=RESTORED)) == contents(store)


def test_an_empty_folder_that_a_server_has_is_refused() -> None:
    files = SimulatedFiles()
    files.make_folder(RESTORED)
    lock = FolderLock.acquire(files, RESTORED)
    with pytest.raises(FolderLocked, match="is in use by another process"):
        begin_restore(files, RESTORED)
    lock.release()
    begin_restore(files, RESTORED).release()


def test_a_restore_that_fails_as_it_begins_lets_the_folder_go() -> None:
    files = SimulatedFiles()
    begin_restore(files, RESTORED).release()
    files.put_durable(RESTORED / "notes.txt", b"mine")
    for _ in range(2):
        with pytest.raises(FolderMismatch, match=r"notes\.txt is not from it"):
            begin_restore(files, RESTORED)
    FolderLock.acquire(files, RESTORED, ends_restore=True).release()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("notes.txt", "notes.txt"),
        ("offsetd.yaml", "offsetd.yaml"),
        ("orders-0/notes.txt", "orders-0/notes.txt"),
        ("orders-0/a/b.log", "orders-0/a"),
        ("photos/1.jpg", "photos"),
    ],
)
def test_a_folder_with_a_mark_is_emptied_only_of_what_a_restore_writes(
    name: str, told: str
) -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    manifest = back_up(store, repository).manifest
    lock = fill(files, repository, manifest)
    opened_restored(files, lock).abandon()
    lock.release()
    files.put_durable(RESTORED / "lost+found" / "x", b"of the file system")
    files.put_durable(RESTORED / "offsetd.last-up", b"of the server's package")
    files.put_durable(RESTORED / name, b"mine")
    before = tree(files, RESTORED)
    with pytest.raises(FolderMismatch, match=f"{told} is not from it: move that away"):
        fill(files, repository, manifest)
    assert tree(files, RESTORED) == before
    files.unlink(RESTORED / name)
    if told == name:  # No folder of its own is left.
        assert contents(restore(files, repository, manifest)) == contents(store)


def test_a_backup_with_fewer_partitions_is_restored_where_another_one_was_broken_off() -> None:
    large, small = SimulatedFiles(), SimulatedFiles()
    more = opened(large, attrs.evolve(SMALL, partitions=5))
    commit(more, TopicPartition(OFFSETS_TOPIC, 4))
    fill(small, repository_of(large), back_up(more, repository_of(large)).manifest).release()
    assert small.is_folder(RESTORED / "__consumer_offsets-4")
    store, repository = filled(small), repository_of(small)
    manifest = back_up(store, repository).manifest
    assert contents(restore(small, repository, manifest)) == contents(store)


def test_a_restore_into_the_target_is_refused(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    backups.mkdir()
    (tmp_path / "link").symlink_to(backups)
    target = FolderTarget(OsFiles(), backups)
    for folder in (backups, backups / "restored", tmp_path / "link" / "a" / "b"):
        with pytest.raises(BackupRefused, match="where the backups are: restore elsewhere"):
            check_apart(target, folder)
    check_apart(target, tmp_path / "backups-restored")
    check_apart(repository_of(SimulatedFiles()).target, BACKUPS.parent / "restored")
