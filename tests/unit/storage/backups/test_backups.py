"""Backups of a store, and restores of them: what is in them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from backups import (
    BACKUPS,
    LATER_MS,
    RESTORED,
    back_up,
    fill,
    opened_restored,
    pin,
    repository_of,
    restore,
)
from log_stores import (
    FOLDER,
    P0,
    P1,
    P2,
    append,
    commit,
    contents,
    log_bytes,
    opened,
    seeded,
    tree,
)
from offsetd_storage.backups.backup_check import chunk_problems
from offsetd_storage.backups.backup_errors import BackupDamaged, BackupRefused, TargetFailed
from offsetd_storage.backups.backup_writing import write_backup
from offsetd_storage.backups.chunk_reading import ByteRate, Chunk, KnownDigests, chunks_of
from offsetd_storage.backups.log_restoring import (
    CLOCK_SLACK_MS,
    OFFSETS_PER_MS_MAX,
    check_chunks_there,
    offset_after_restore,
)
from offsetd_storage.backups.manifest import digest_of
from offsetd_storage.backups.repository import MARK_MS_MAX
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import FolderMismatch, NewerFormat
from offsetd_storage.recovery.quarantine import DamageFound
from partition_logs import NOW_MS

if TYPE_CHECKING:
    from offsetd_storage.log_store import LogStore


def filled(files: SimulatedFiles) -> LogStore:
    store = opened(files)
    for _ in range(20):
        commit(store, P0)
    commit(store, P1, size_bytes=300)
    return store


def test_a_restored_folder_has_what_was_durable_and_nothing_else() -> None:
    files = SimulatedFiles()
    store = filled(files)
    durable = contents(store)
    append(store, P2)  # Not flushed: nobody was told.
    written = back_up(store, repository_of(files))
    commit(store, P0)
    restored = restore(files, repository_of(files), written.manifest)
    assert contents(restored) == durable
    assert not restored.quarantined
    assert not restored.report.warnings


def test_no_offset_that_was_given_out_since_is_given_out_again() -> None:
    files = SimulatedFiles()
    store = filled(files)
    manifest = back_up(store, repository_of(files)).manifest
    ends = {each.topic_partition: each.end_offset for each in manifest.logs}
    first = restore(files, repository_of(files), manifest)
    jump = (LATER_MS + CLOCK_SLACK_MS) * OFFSETS_PER_MS_MAX
    assert {each: log.offset_next for each, log in first.logs.items()} == {
        each: end + jump for each, end in ends.items()
    }
    commit(first, P0)
    given_out = first.logs[P0].offset_next
    first.close()
    # The same backup once more, a little later: above what the first restored server gave out.
    again = restore(
        files, repository_of(files), manifest, FOLDER.parent / "b", now_ms=NOW_MS + LATER_MS + 1
    )
    assert again.logs[P0].offset_next > given_out


def test_a_clock_before_the_backup_is_refused() -> None:
    assert offset_after_restore(5, moment_ms=NOW_MS, now_ms=NOW_MS) > 5
    with pytest.raises(BackupRefused, match="clock of this machine is 1 ms before"):
        offset_after_restore(5, moment_ms=NOW_MS, now_ms=NOW_MS - 1)


def test_offsets_stay_below_2_to_the_53_for_decades() -> None:
    decades_ms = 20 * 366 * 86_400_000
    assert offset_after_restore(10**12, moment_ms=0, now_ms=decades_ms) < 2**53


def test_the_second_backup_writes_only_what_is_new() -> None:
    files = SimulatedFiles()
    store, repository, known = filled(files), repository_of(files), KnownDigests()
    first = back_up(store, repository, known=known)
    assert first.new_bytes == first.manifest.size_bytes
    assert back_up(store, repository, known=known).new_bytes == 0
    sealed = {each.base_offset: each.size_bytes for each in first.manifest.logs[0].segments[:-1]}
    commit(store, P0)
    third = back_up(store, repository, known=known)
    assert 0 < third.new_bytes <= 700  # The segment that takes appends.
    again = {each.base_offset: each.size_bytes for each in third.manifest.logs[0].segments}
    assert sealed.items() <= again.items()


def test_a_sealed_segment_is_read_once() -> None:
    files = SimulatedFiles()
    store, repository, known = filled(files), repository_of(files), KnownDigests()
    back_up(store, repository, known=known)
    with pin(store) as pinned:
        sealed = [each for each in pinned.segments if each.sealed is not None]
        assert len(sealed) > 1
        assert all(known.get(each) for each in sealed)
        active = [each for each in pinned.segments if each.sealed is None]
        assert not any(known.get(each) for each in active)
    known.keep(())
    assert not any(known.get(each) for each in sealed)


def test_a_pin_keeps_what_the_log_had_whatever_happens_to_the_log() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    before = contents(store)
    with pin(store) as pinned:
        for _ in range(20):
            commit(store, P0)
        store.settle_points()
        store.raise_log_start_offset(P0, 14)
        store.delete_oldest(P0, 2)
        kept = {
            each.topic_partition: b"".join(
                segment.reader.file.pread(segment.size_bytes, 0)
                for segment in pinned.segments
                if segment.topic_partition == each.topic_partition
            )
            for each in pinned.head.logs
        }
    assert kept == before
    assert back_up(store, repository).manifest.logs[0].start_offset == 14


def test_the_start_of_a_log_is_restored() -> None:
    files = SimulatedFiles()
    store = filled(files)
    store.settle_points()
    store.raise_log_start_offset(P0, 9)
    manifest = back_up(store, repository_of(files)).manifest
    restored = restore(files, repository_of(files), manifest)
    assert restored.logs[P0].log_start_offset == 9
    assert log_bytes(restored.logs[P0]) == log_bytes(store.logs[P0])


def test_a_quarantined_log_is_not_left_out_of_a_backup() -> None:
    files = SimulatedFiles()
    store = filled(files)
    store.quarantined[P1] = DamageFound("a bad batch").of(P1)
    with pytest.raises(BackupRefused, match="__consumer_offsets-1 is quarantined: repair it"):
        pin(store)


# What is broken off -------------------------------------------------------------------------------


def test_a_backup_that_is_broken_off_is_not_listed_and_serves_the_next_one() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)

    def stop(done: int) -> None:
        if done > 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up(store, repository, on_bytes=stop)
    assert repository.backup_ids() == []
    left = repository.chunks()
    assert left
    written = back_up(store, repository)
    assert written.new_bytes == written.manifest.size_bytes - sum(left.values())
    assert repository.backup_ids() == [written.backup_id]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda each: each._replace(content=b"x" + each.content[1:]), "differs from its checksum"),
        (lambda each: each._replace(content=each.content[1:]), "differs from its checksum"),
        (lambda each: Chunk("0" * 64, None), "that the target does not have"),
    ],
)
def test_a_chunk_that_does_not_fit_ends_the_backup(change: object, told: str) -> None:
    files = SimulatedFiles()
    repository = repository_of(files)
    with pytest.raises(BackupDamaged, match=told):
        back_up(filled(files), repository, change=change)  # type: ignore[arg-type]
    assert repository.backup_ids() == []
    assert not list(repository.target.objects("running/"))


def test_a_folder_that_is_not_restored_to_the_end_is_refused_and_restored_anew() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    manifest = back_up(store, repository).manifest
    lock = fill(files, repository, manifest)
    with pytest.raises(FolderMismatch, match="has not ended: run offsetd backup restore again"):
        opened(files, folder=RESTORED)
    opened_restored(files, lock).abandon()  # Killed, while it ended leases.
    lock.release()
    with pytest.raises(FolderMismatch, match="has not ended"):
        opened(files, folder=RESTORED)
    assert contents(restore(files, repository, manifest)) == contents(store)


def test_a_folder_with_files_is_refused_and_not_changed() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    manifest = back_up(store, repository).manifest
    store.close()
    before = tree(files, FOLDER)
    with pytest.raises(FolderMismatch, match="is not empty"):
        fill(files, repository, manifest, FOLDER)
    assert tree(files, FOLDER) == before


# Damage -------------------------------------------------------------------------------------------


def test_any_flipped_bit_is_found_and_is_never_restored() -> None:
    files, random = SimulatedFiles(), seeded()
    store, repository = filled(files), repository_of(files)
    written = back_up(store, repository)
    kept = {name: content for name, content in tree(files, BACKUPS).items() if content}
    assert len(kept) > 4
    for number, (name, content) in enumerate(kept.items()):
        bad = bytearray(content)
        bad[random.randrange(len(bad))] ^= 1 << random.randrange(8)
        path = BACKUPS / name.removeprefix(f"{BACKUPS}/")
        files.put_durable(path, bytes(bad))
        if "manifests" in name:
            with pytest.raises(BackupDamaged, match="checksum is wrong"):
                repository.manifest(written.backup_id)
            assert repository.backups()[0].manifest is None
        else:
            found = list(chunk_problems(repository, written.manifest, checked=set()))
            assert ["differs from its checksum" in each.problem for each in found] == [True]
            with pytest.raises(BackupDamaged):
                fill(files, repository, written.manifest, Path(f"/restored-{number}"))
        files.put_durable(path, content)
    assert not list(chunk_problems(repository, written.manifest, checked=set()))


def test_a_missing_or_shorter_chunk_is_found_before_a_folder_is_touched() -> None:
    files = SimulatedFiles()
    repository = repository_of(files)
    manifest = back_up(filled(files), repository).manifest
    digest = min(manifest.digests)
    content = repository.chunk(digest)
    repository.put_chunk(digest, content[:-1])
    repository.target.settle()
    with pytest.raises(BackupDamaged, match="has not"):
        check_chunks_there(repository, manifest)
    repository.target.remove(f"chunks/{digest[:2]}/{digest}")
    with pytest.raises(BackupDamaged, match="is missing"):
        check_chunks_there(repository, manifest)
    repository.put_chunk(digest, content)
    repository.target.settle()
    check_chunks_there(repository, manifest)


# Pruning ------------------------------------------------------------------------------------------


def test_pruning_keeps_what_a_kept_backup_needs() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    ids = []
    for number in range(4):
        ids.append(back_up(store, repository, moment_ms=NOW_MS + number).backup_id)
        commit(store, P0)
    before = tree(files, BACKUPS)
    plan = repository.planned_prune(2)
    assert tree(files, BACKUPS) == before
    assert (plan.backup_ids, plan.kept_ids) == (tuple(ids[:2]), tuple(ids[2:]))
    assert repository.prune(2, now_ms=NOW_MS) == plan
    assert repository.backup_ids() == ids[2:]
    for each in ids[2:]:
        assert not list(chunk_problems(repository, repository.manifest(each), checked=set()))
    needed = set[str]().union(*(repository.manifest(each).digests for each in ids[2:]))
    assert repository.chunks().keys() == needed


def test_pruning_removes_what_a_broken_off_backup_left() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    back_up(store, repository)
    repository.put_chunk("0" * 64, b"never in a manifest")
    repository.target.settle()
    files.put_durable(BACKUPS / "chunks" / "00" / "0a.unfinished", b"half")
    plan = repository.prune(9, now_ms=NOW_MS)
    assert (plan.chunks, plan.leftovers) == (("0" * 64,), ("chunks/00/0a.unfinished",))
    assert "0" * 64 not in repository.chunks()


def test_a_damaged_manifest_stops_a_prune_unless_it_goes() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    old = back_up(store, repository, moment_ms=NOW_MS)
    new = back_up(store, repository, moment_ms=NOW_MS + 1)
    repository.target.put(f"manifests/{old.backup_id}.json", b"not a manifest")
    repository.target.settle()
    with pytest.raises(BackupDamaged, match=f"remove manifests/{old.backup_id}.json of .*, then"):
        repository.prune(2, now_ms=NOW_MS)
    assert repository.backup_ids() == [old.backup_id, new.backup_id]
    repository.prune(1, now_ms=NOW_MS)
    assert repository.backup_ids() == [new.backup_id]


def test_a_prune_does_not_count_backups_that_lack_chunks() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    oldest = back_up(store, repository, moment_ms=NOW_MS)
    commit(store, P0)
    old = back_up(store, repository, moment_ms=NOW_MS + 1)
    commit(store, P1)
    new = back_up(store, repository, moment_ms=NOW_MS + 2)
    lost = min(new.manifest.digests - old.manifest.digests)
    repository.target.remove(f"chunks/{lost[:2]}/{lost}")
    plan = repository.prune(1, now_ms=NOW_MS + 3)
    assert plan.backup_ids == (oldest.backup_id,)
    assert plan.kept_ids == (old.backup_id, new.backup_id)
    assert plan.lacking_ids == (new.backup_id,)
    assert not list(chunk_problems(repository, old.manifest, checked=set()))
    assert repository.chunks().keys() == (old.manifest.digests | new.manifest.digests) - {lost}


def test_a_manifest_of_a_newer_version_says_to_upgrade() -> None:
    files = SimulatedFiles()
    repository = repository_of(files)
    written = back_up(filled(files), repository)
    body = written.manifest.encode().splitlines()[0].replace(b'"format":1', b'"format":2')
    newer = body + b"\n" + digest_of(body + b"\n").encode() + b"\n"
    repository.target.put(f"manifests/{written.backup_id}.json", newer)
    repository.target.settle()
    told = "is of a newer version of offsetd .*: upgrade offsetd to use this backup"
    with pytest.raises(NewerFormat, match=told):
        repository.manifest(written.backup_id)
    with pytest.raises(NewerFormat, match=told):
        repository.prune(1, now_ms=NOW_MS)
    assert repository.backup_ids() == [written.backup_id]


def test_a_prune_and_a_backup_exclude_each_other_unless_one_was_killed() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    back_up(store, repository)
    repository.begin_backup("another folder", now_ms=NOW_MS)
    with pytest.raises(BackupRefused, match="a backup goes on"):
        repository.prune(1, now_ms=NOW_MS)
    repository.prune(1, now_ms=NOW_MS + MARK_MS_MAX + 1)  # That backup was killed.
    with pytest.raises(BackupRefused, match="was pruned while the backup went on"):
        repository.check_backup("another folder", begun_ms=NOW_MS)
    repository.target.put("running/prune", str(NOW_MS).encode())
    repository.target.settle()
    with pytest.raises(BackupRefused, match="is being pruned"):
        back_up(store, repository)
    with pytest.raises(BackupRefused, match="is being pruned"):
        repository.prune(1, now_ms=NOW_MS)
    back_up(store, repository, moment_ms=NOW_MS + MARK_MS_MAX + 1)


def test_a_backup_that_a_later_one_has_overtaken_does_not_end() -> None:
    """As on the node of a cluster that was stopped while another one took over."""
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)

    def overtake(_: int) -> None:
        if not repository.backup_ids():
            back_up(store, repository, moment_ms=NOW_MS + 1)
            repository.prune(1, now_ms=NOW_MS + 2)
            repository.begin_backup(store.folder_id, now_ms=NOW_MS + 3)  # A third one.

    with pytest.raises(BackupRefused, match="another backup of the same folder began"):
        back_up(store, repository, on_bytes=overtake)
    assert len(repository.backup_ids()) == 1
    repository.check_backup(store.folder_id, begun_ms=NOW_MS + 3)  # The third one goes on.


def test_the_mark_of_a_cluster_whose_id_has_a_slash_leaves_no_folder() -> None:
    files = SimulatedFiles()
    repository = repository_of(files)
    repository.begin_backup("5HtZ/dzD0", now_ms=NOW_MS)
    repository.check_backup("5HtZ/dzD0", begun_ms=NOW_MS)
    assert [each.name for each in repository.target.objects("running/")] == [
        "running/backup-5HtZ%2FdzD0"
    ]
    repository.end_backup("5HtZ/dzD0", begun_ms=NOW_MS)
    assert not list(repository.target.objects("running/"))


def test_a_backup_does_not_rest_on_chunks_that_were_pruned_as_it_began() -> None:
    files = SimulatedFiles()
    store, repository = filled(files), repository_of(files)
    back_up(store, repository)
    held = repository.chunks()
    commit(store, P0)
    back_up(store, repository, moment_ms=NOW_MS + 1)
    repository.prune(1, now_ms=NOW_MS + 2)
    with pin(store, NOW_MS + 3) as pinned, pytest.raises(BackupRefused, match="was pruned while"):
        write_backup(
            repository,
            pinned.head,
            chunks_of(pinned, held, known=KnownDigests()),
            held=held,
            random=seeded(),
            now_ms=NOW_MS + 3,
        )
    assert len(repository.backup_ids()) == 1


def test_an_unknown_backup_is_refused() -> None:
    files = SimulatedFiles()
    repository = repository_of(files)
    with pytest.raises(BackupRefused, match="has no backup"):
        repository.newest_id()
    with pytest.raises(BackupRefused, match="is not the id of a backup"):
        repository.manifest("../../etc/passwd")
    with pytest.raises(BackupRefused, match="has no backup 2026"):
        repository.manifest("20261128T101500.000Z-0a1b2c3d")


def test_a_target_that_fails_is_told_by_its_address() -> None:
    files = SimulatedFiles()
    store = filled(files)
    files.put_durable(BACKUPS / "chunks", b"a file in the way")
    with pytest.raises(TargetFailed, match=str(BACKUPS)):
        back_up(store, repository_of(files))


def test_reads_keep_below_a_rate_and_a_pause_is_not_made_up_for() -> None:
    now_s = 100.0
    rate = ByteRate(1000, now_s=lambda: now_s)
    assert rate.seconds_after(500) == 0.5
    assert rate.seconds_after(500) == 1.0
    now_s = 200.0
    assert rate.seconds_after(100) == pytest.approx(0.1)
    assert ByteRate(0).seconds_after(1 << 30) == 0.0


def test_what_a_chunk_took_of_the_disk_counts() -> None:
    files = SimulatedFiles()
    store, known = filled(files), KnownDigests()
    with pin(store) as pinned:
        first = list(chunks_of(pinned, (), known=known))
        assert all(each.content and each.read_bytes == len(each.content) for each in first)
        held = {each.digest for each in first}
        again = list(chunks_of(pinned, held, known=known))
    sealed = [each.sealed is not None for each in pinned.segments]
    assert [each.digest for each in again] == [each.digest for each in first]
    assert not any(each.content for each in again)
    assert [each.read_bytes == 0 for each in again] == sealed
