"""Nothing acknowledged is lost, torn or half visible, whatever operation a crash comes before."""

from __future__ import annotations

import os
from time import monotonic

import pytest
from log_stores import seeded
from offsetd_storage.simulated_files import SimulatedFiles
from sim.crash_explorer import SETTINGS, Explorer, Run

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
STATES = int(os.environ.get("OFFSETD_TEST_CRASH_STATES", "20000" if NIGHTLY else "5000"))


def play(run: Run, explorer: Explorer | None, *, steps: int) -> None:
    """A script by chance: commits, moves of the recovery points, stops and crashes.

    One script in three only commits, so that the journal fills up and has to free itself.
    """
    random = run.random
    commits_chance = 1.0 if random.random() < 1 / 3 else 0.75

    def begin() -> None:
        if explorer is not None:
            explorer.watch(run)
        run.open()

    begin()
    for _ in range(steps):
        what = random.random()
        if what < commits_chance:
            assert run.store is not None
            run.append_some(sorted(run.store.logs))
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


@pytest.mark.slow
def test_at_every_operation_every_crash_state_recovers() -> None:
    random = seeded()
    explorer = Explorer(random, samples=2, again_chance=0.1, interleave_chance=0.05)
    rounds, started = 0, monotonic()
    while explorer.states < STATES:
        # Sectors smaller than real ones tear what is small, too.
        files = SimulatedFiles(sector_bytes=random.choice([64, 512]))
        play(Run(files, random, SETTINGS), explorer, steps=12)
        rounds += 1
    print(
        f"{explorer.states} crash states, {explorer.nested} of them in recovery,"
        f" {rounds} rounds, {monotonic() - started:.0f} s"
    )


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
