"""A backup uses the chunks that one before it has written, even if that was killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from backups import BACKUPS, back_up, pin, repository_of
from log_stores import P0, P1, commit, opened, seeded
from offsetd_storage.backups.backup_check import chunk_problems
from offsetd_storage.backups.backup_errors import BackupBlocked, TargetFailed
from offsetd_storage.backups.backup_writing import write_backup
from offsetd_storage.backups.chunk_reading import KnownDigests, chunks_of
from offsetd_storage.disk.simulated_files import SimulatedFiles
from partition_logs import NOW_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.backups.chunk_reading import Chunk
    from offsetd_storage.backups.repository import Repository
    from offsetd_storage.log_store import LogStore


class Killed(BaseException):
    """Ends a backup without any of its clean-up."""


def filled(files: SimulatedFiles) -> LogStore:
    store = opened(files)
    for _ in range(20):
        commit(store, P0)
    commit(store, P1, size_bytes=300)
    return store


def whole_chunks(files: SimulatedFiles) -> list[str]:
    """The files below `chunks`, with `.unfinished` if that is at their end."""
    found = []
    for folder in files.list_folder(BACKUPS / "chunks"):
        found += [f"{folder}/{each}" for each in files.list_folder(BACKUPS / "chunks" / folder)]
    return found


def killed_before_its_end(
    store: LogStore, files: SimulatedFiles, *, chunks_written: int
) -> SimulatedFiles:
    """The disk after a backup that was killed when it had written so many chunks."""
    repository, left = repository_of(files), list[SimulatedFiles]()

    def until_killed(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        for number, each in enumerate(chunks):
            if number == chunks_written:
                left.append(files.kill())
                raise Killed
            yield each

    with pin(store) as pinned, pytest.raises(Killed):
        write_backup(
            repository,
            pinned.head,
            until_killed(chunks_of(pinned, (), known=KnownDigests())),
            held={},
            random=seeded(),
            now_ms=NOW_MS,
        )
    return left[0]


def next_backup(store: LogStore, repository: Repository) -> int:
    """How many chunks the next backup writes; it has to be intact."""
    written = back_up(store, repository, moment_ms=NOW_MS + 1)
    assert not list(chunk_problems(repository, written.manifest, checked=set()))
    return written.new_chunks


def test_what_a_killed_backup_wrote_is_not_written_again() -> None:
    files = SimulatedFiles()
    store = filled(files)
    left = killed_before_its_end(store, files, chunks_written=2)
    unfinished = whole_chunks(left)
    assert len(unfinished) == 2
    assert all(each.endswith(".unfinished") for each in unfinished)
    all_chunks = next_backup(store, repository_of(SimulatedFiles()))
    assert next_backup(store, repository_of(left)) == all_chunks - 2
    assert not [each for each in whole_chunks(left) if each.endswith(".unfinished")]


def test_a_chunk_that_was_cut_off_is_written_again() -> None:
    files = SimulatedFiles()
    store = filled(files)
    left = killed_before_its_end(store, files, chunks_written=2)
    torn, _ = whole_chunks(left)
    content = left.read_bytes(BACKUPS / "chunks" / torn)
    left.put_durable(BACKUPS / "chunks" / torn, content[:-1])
    all_chunks = next_backup(store, repository_of(SimulatedFiles()))
    assert next_backup(store, repository_of(left)) == all_chunks - 1


def test_two_backups_may_complete_the_same_chunk() -> None:
    files = SimulatedFiles()
    store, ours, others = filled(files), repository_of(files), repository_of(files)

    def look(done_bytes: int) -> None:
        if done_bytes:
            others.reusable_chunks()

    with pin(store) as pinned:
        written = write_backup(
            ours,
            pinned.head,
            chunks_of(pinned, (), known=KnownDigests()),
            held={},
            random=seeded(),
            now_ms=NOW_MS,
            on_bytes=look,
        )
    assert not list(chunk_problems(ours, written.manifest, checked=set()))


def test_a_chunk_that_vanishes_before_it_has_its_name_is_an_error() -> None:
    files = SimulatedFiles()
    repository = repository_of(files)
    repository.put_chunk("0" * 64, b"chunk")
    files.unlink(BACKUPS / "chunks" / "00" / ("0" * 64 + ".unfinished"))
    with pytest.raises(TargetFailed):
        repository.target.settle()


def test_no_mark_stays_if_a_backup_ends_while_it_puts_its_mark() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    repository.target.put("running/prune", str(NOW_MS).encode())
    repository.target.settle()
    with pytest.raises(BackupBlocked, match="is being pruned"):
        back_up(store, repository)
    assert files.list_folder(BACKUPS / "running") == ["prune"]
