"""A backup uses the chunks that one before it has written, even if that was killed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from backups import BACKUPS, back_up, pin, repository_of
from log_stores import P0, P1, commit, opened, seeded
from offsetd_storage.backups.backup_check import chunk_problems
from offsetd_storage.backups.backup_errors import BackupBlocked, TargetFailed
from offsetd_storage.backups.backup_writing import write_backup
from offsetd_storage.backups.chunk_reading import KnownDigests, chunks_of
from offsetd_storage.backups.manifest import digest_of
from offsetd_storage.disk.simulated_faults import Operation, OperationKind
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
    assert not [each for each in whole_chunks(left) if each.endswith(".unfinished")]


def test_what_a_killed_backup_of_an_older_offsetd_wrote_is_not_written_again() -> None:
    files = SimulatedFiles()
    store = filled(files)
    left = killed_before_its_end(store, files, chunks_written=2)
    for each in whole_chunks(left):
        path = BACKUPS / "chunks" / each
        left.rename(path, path.with_name(path.name.partition(".")[0] + ".unfinished"))
    all_chunks = next_backup(store, repository_of(SimulatedFiles()))
    assert next_backup(store, repository_of(left)) == all_chunks - 2
    assert not [each for each in whole_chunks(left) if each.endswith(".unfinished")]


def test_two_backups_that_write_the_same_chunk_do_not_share_a_file() -> None:
    files = SimulatedFiles()
    content = b"chunk" * 100
    digest = digest_of(content)
    first, second = repository_of(files), repository_of(files)
    first.put_chunk(digest, content)
    looked = list[bytes]()

    def look(running: SimulatedFiles, operation: Operation) -> None:
        if operation.kind is OperationKind.TRUNCATE:  # The second one has opened its file.
            running.before_operation = None
            first.target.settle()
            running.before_operation = look
        elif operation.kind is OperationKind.WRITE:
            looked.append(first.chunk(digest))

    files.before_operation = look
    second.put_chunk(digest, content)
    files.before_operation = None
    assert looked == [content]
    second.target.settle()
    assert first.chunk(digest) == content
    assert whole_chunks(files) == [f"{digest[:2]}/{digest}"]


def test_a_backup_survives_that_another_one_tidies_what_it_writes() -> None:
    files = SimulatedFiles()
    content = b"chunk" * 100
    digest = digest_of(content)
    ours, others = repository_of(files), repository_of(files)
    ours.put_chunk(digest, content)
    [unfinished] = whole_chunks(files)
    file = files.open(BACKUPS / "chunks" / unfinished)
    file.truncate(3)  # As if it were half written.
    others.reusable_chunks()
    others.put_chunk(digest, content)
    others.target.settle()
    file.pwrite([content], 0)
    ours.target.settle()
    assert files.power_cut().read_bytes(BACKUPS / "chunks" / digest[:2] / digest) == content


@pytest.mark.parametrize("operations", range(12))
def test_a_prune_that_is_ended_as_it_begins_leaves_no_mark(operations: int) -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    back_up(store, repository)
    until = files.operations + operations

    def end(running: SimulatedFiles, operation: Operation) -> None:
        if operation.number == until:
            running.before_operation = None
            raise Killed  # As SIGTERM and Ctrl-C do, which let `finally` run.

    files.before_operation = end
    with suppress(Killed):
        repository.prune(1, now_ms=NOW_MS)
    files.before_operation = None
    next_backup(store, repository_of(files))


def test_an_unfinished_mark_of_a_killed_backup_stops_no_prune() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    back_up(store, repository)
    repository_of(files).target.put("running/backup-x", str(NOW_MS).encode())
    repository.prune(1, now_ms=NOW_MS)


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
    [unfinished] = files.list_folder(BACKUPS / "chunks" / "00")
    files.unlink(BACKUPS / "chunks" / "00" / unfinished)
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
