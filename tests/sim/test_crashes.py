"""Nothing acknowledged is lost, torn or half visible, whatever operation a crash comes before."""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING

import pytest
from log_stores import seeded
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.journal.journal import Journal
from sim.crash_explorer import SETTINGS, SMALLEST_JOURNALS, Explorer, Run

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.long(minutes=1)

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
STATES = int(os.environ.get("OFFSETD_TEST_CRASH_STATES", "20000" if NIGHTLY else "5000"))


def play(run: Run, explorer: Explorer | None, *, steps: int, commits_chance: float = 0.75) -> None:
    """A script by chance: commits, moves of the recovery points, stops and crashes."""
    random = run.random

    def begin() -> None:
        if explorer is not None:
            explorer.watch(run)
        run.open()

    begin()
    for _ in range(steps):
        if random.random() < 0.1:
            run.resize_journal()
        what = random.random()
        if what < commits_chance:
            assert run.store is not None
            run.append_some(sorted(run.store.logs))
            if random.random() < 0.1:
                run.write()
            if random.random() < 0.7:
                run.flush()
        elif what < 0.85:
            run.advance()
        elif what < 0.92:
            run.flush()
            run.close()
            begin()
        else:
            run.crash()
            begin()
    run.flush()
    run.close()
    begin()


@pytest.fixture
def fillings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The frames, in bytes, for which both files of a journal were full."""
    found: list[int] = []
    make_room: Callable[[Journal, int], bool] = Journal.make_room

    def noted(journal: Journal, payload_bytes: int) -> bool:
        has_room = make_room(journal, payload_bytes)
        if not has_room:
            found.append(payload_bytes)
        return has_room

    monkeypatch.setattr(Journal, "make_room", noted)
    return found


@pytest.mark.slow
def test_at_every_operation_every_crash_state_recovers(fillings: list[int]) -> None:
    random = seeded()
    explorer = Explorer(random, samples=2, again_chance=0.1, interleave_chance=0.05)
    rounds, started = 0, monotonic()
    while explorer.states < STATES:
        # Sectors smaller than real ones tear what is small, too.
        files = SimulatedFiles(sector_bytes=random.choice([64, 512]))
        if rounds % 3:
            play(Run(files, random, SETTINGS), explorer, steps=12)
        else:  # The journal fills up, and has to free itself.
            run = Run(files, random, SMALLEST_JOURNALS)
            play(run, explorer, steps=12, commits_chance=1.0)
        rounds += 1
    print(
        f"{explorer.states} crash states, {explorer.nested} of them in recovery,"
        f" {rounds} rounds, {len(fillings)} full journals, {monotonic() - started:.0f} s"
    )
    assert len(fillings) >= rounds / 3, "the journal did not have to free itself"


@pytest.mark.slow
def test_starts_that_are_crashed_again_and_again_lose_nothing() -> None:
    """The very first start, too, with the folder's own name, which is made in it."""
    random = seeded()
    explorer = Explorer(random, samples=1, again_chance=0.5, interleave_chance=0.0, look_chance=0.2)
    rounds = 0
    while explorer.states < STATES // 2:
        files = SimulatedFiles(sector_bytes=random.choice([64, 512]))
        run = Run(files, random, SETTINGS)
        if rounds % 4:
            explorer.watch(run)
            run.open()
        else:
            play(run, explorer, steps=random.randint(0, 3))
        rounds += 1
    print(f"{explorer.states} crash states, {explorer.nested} of them in recovery, {rounds} rounds")
