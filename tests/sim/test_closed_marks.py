"""What the mark of a close spares a start is durable all the same, whoever touched it since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from log_stores import FOLDER, P0, P1, P2, commit, contents, opened, seeded
from offsetd_storage.disk.simulated_files import SimulatedFiles
from recovered_folders import committed, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from offsetd_storage.disk.simulated_faults import Operation
    from offsetd_storage.log_store import LogStore


def copy_unsynced(origin: SimulatedFiles, target: SimulatedFiles, folder: Path = FOLDER) -> None:
    """As `cp -r` does: all is seen, and nothing durable."""
    target.make_folder(folder)
    for name in origin.list_folder(folder):
        if origin.is_folder(folder / name):
            copy_unsynced(origin, target, folder / name)
        else:
            put(target, folder / name, origin.read_bytes(folder / name))


def whole_copy() -> SimulatedFiles:
    files = SimulatedFiles()
    copy_unsynced(committed(closed=True), files)
    return files


def one_log_put_back() -> SimulatedFiles:
    """One log's folder is emptied, and filled again from a copy, without a sync."""
    files = committed(closed=True)
    folder = FOLDER / P1.folder_name
    for name in files.list_folder(folder):
        content = files.read_bytes(folder / name)
        files.unlink(folder / name)
        put(files, folder / name, content)
    return files


def killed_start() -> SimulatedFiles:
    """A start was killed somewhere before it served."""
    files = committed(closed=True)
    opened(files).abandon()
    return files.kill()


def serve(files: SimulatedFiles, store: LogStore, random: Random) -> None:
    """Commits and closes; a power cut at each operation of that leaves what was acknowledged."""
    held = contents(store)

    def look(running: SimulatedFiles, _: Operation) -> None:
        for state in running.crash_states(samples=2, random=random):
            again = opened(state)
            found = contents(again)
            assert all(found[each].startswith(held[each]) for each in held)
            again.abandon()

    files.before_operation = look
    for topic_partition in (P0, P1, P2):
        held[topic_partition] += commit(store, topic_partition)
    store.advance_recovery_points()
    held[P0] += commit(store, P0)
    store.close()


@pytest.mark.parametrize("folder", [whole_copy, one_log_put_back, killed_start])
def test_what_is_served_is_durable_though_the_mark_was_closed_with_other_files(
    folder: Callable[[], SimulatedFiles],
) -> None:
    random = seeded()
    files = folder()
    store = opened(files, random=random)
    assert all(contents(store).values())
    assert store.report.closed_clean or folder is killed_start
    serve(files, store, random)


def test_a_start_that_is_killed_anywhere_leaves_nothing_to_the_mark() -> None:
    random = seeded()
    files = committed(closed=True)
    states: list[SimulatedFiles] = []
    starting = files.kill()
    starting.before_operation = lambda running, _: states.append(running.kill())
    store = opened(starting, random=random)
    expected = contents(store)
    assert len(states) > 10
    for state in states:
        again = opened(state, random=random)
        assert contents(again) == expected
        serve(state, again, random)
