"""A power cut at every operation of a backup, and of a restore."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from backups import RESTORED, back_up, fill, opened_restored, repository_of, restore
from log_stores import P0, P1, commit, contents, opened, seeded
from offsetd_storage.backups.backup_check import chunk_problems
from offsetd_storage.backups.restored_folder import end_restore
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import FolderMismatch
from offsetd_storage.folder.unfinished_restore import RESTORE_MARK
from partition_logs import NOW_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.disk.simulated_faults import Operation
    from offsetd_storage.log_store import LogStore

# A restore of each crash state takes long: CI tries some of them.
STEP = 1 if os.environ.get("OFFSETD_NIGHTLY") else 12


def filled(files: SimulatedFiles) -> LogStore:
    store = opened(files)
    for _ in range(9):
        commit(store, P0)
    commit(store, P1, size_bytes=300)
    return store


def crash_states_of(files: SimulatedFiles, action: Callable[[], object]) -> list[SimulatedFiles]:
    """What a power cut, or a kill, could leave, at every operation of an action."""
    random, states = seeded(), list[SimulatedFiles]()

    def look(running: SimulatedFiles, _: Operation) -> None:
        states.extend(running.crash_states(samples=1, random=random))
        states.append(running.kill())

    files.before_operation = look
    action()
    files.before_operation = None
    assert len(states) > 40
    return states


@pytest.mark.slow
def test_a_backup_is_whole_or_is_not_there() -> None:
    files = SimulatedFiles(sector_bytes=64)
    store = filled(files)
    first = back_up(store, repository_of(files))
    commit(store, P0)
    expected = contents(store)
    states = crash_states_of(
        files, lambda: back_up(store, repository_of(files), moment_ms=NOW_MS + 1)
    )
    listed = set()
    for number, state in enumerate([*states, files.kill()]):
        repository = repository_of(state)
        ids = repository.backup_ids()
        assert first.backup_id in ids
        for each in ids:
            assert not list(chunk_problems(repository, repository.manifest(each), checked=set()))
        listed.add(len(ids))
        if number % STEP == 0 and len(ids) == 2:
            newest = repository.manifest(ids[-1])
            assert contents(restore(state, repository, newest)) == expected
    assert listed == {1, 2}


@pytest.mark.slow
def test_a_restore_that_is_cut_off_is_refused_by_a_start_and_done_again() -> None:
    files = SimulatedFiles(sector_bytes=64)
    store = filled(files)
    expected = contents(store)
    manifest = back_up(store, repository_of(files)).manifest
    store.close()

    def whole_restore() -> None:
        lock = fill(files, repository_of(files), manifest)
        opened_restored(files, lock).close()
        end_restore(files, RESTORED)
        lock.release()

    states = crash_states_of(files, whole_restore)
    refused = 0
    for number, state in enumerate(states):
        if number % STEP:
            continue
        if state.is_folder(RESTORED) and state.list_folder(RESTORED):
            with_mark = state.exists(RESTORED / RESTORE_MARK)
            if with_mark:
                with pytest.raises(FolderMismatch, match="has not ended"):
                    opened(state, folder=RESTORED)
                refused += 1
            elif not set(state.list_folder(RESTORED)) <= {".lock", f"{RESTORE_MARK}.tmp"}:
                assert contents(opened(state.kill(), folder=RESTORED)) == expected
                continue
        assert contents(restore(state, repository_of(state), manifest)) == expected
    assert refused
