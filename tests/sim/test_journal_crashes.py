"""A crash while the journal is made small, or large again, loses nothing that was acknowledged."""

from __future__ import annotations

import os

import attrs
import pytest
from log_stores import P0, P1, SMALL, SMALL_LOG, seeded
from offsetd_storage.disk.simulated_faults import Operation, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.journal.journal_files import JOURNAL_NAMES, SPARE_NAME
from sim.crash_explorer import Explorer, Run

FULL = attrs.evolve(
    SMALL, journal_file_bytes=8192, log=attrs.evolve(SMALL_LOG, segment_bytes_max=500)
)

GROWTHS_MAX = 8 if os.environ.get("OFFSETD_NIGHTLY") else 2
ROUNDS = 3 if os.environ.get("OFFSETD_NIGHTLY") else 1


def commit(run: Run, times: int) -> None:
    for number in range(times):
        run.append((P0, P1)[number % 2], 120 + 20 * number)
        run.flush()


@pytest.mark.slow
@pytest.mark.parametrize("sector_bytes", [64, 512])
def test_at_every_operation_of_a_rest_and_of_growth_every_crash_state_recovers(
    sector_bytes: int,
) -> None:
    random = seeded()
    files = SimulatedFiles(sector_bytes=sector_bytes)
    run = Run(files, random, [FULL])
    run.open()
    explorer = Explorer(random, samples=3, again_chance=0.1, interleave_chance=0.0)
    exchanges: list[str] = []

    def look(disk: SimulatedFiles, operation: Operation) -> None:
        if operation.kind is OperationKind.RENAME and operation.path.name == SPARE_NAME:
            assert operation.target is not None
            exchanges.append(operation.target.name)
        explorer.explore(disk, operation, run)

    files.before_operation = look
    for _ in range(ROUNDS):
        commit(run, 3)
        run.advance()
        assert run.store is not None
        assert run.store.journal_size.rest()
        commit(run, 8)  # Turns of small files.
        assert run.store.journal_size.grow()
        commit(run, 2)
    assert exchanges.count(JOURNAL_NAMES[0]) >= 2 * ROUNDS
    assert exchanges.count(JOURNAL_NAMES[1]) >= 2 * ROUNDS
    print(f"{explorer.states} crash states, {explorer.nested} of them in recovery")


@pytest.mark.slow
def test_commits_and_points_may_come_at_any_operation_of_growth() -> None:
    random = seeded()
    for _ in range(4):
        files = SimulatedFiles(sector_bytes=512)
        run = Run(files, random, [FULL])
        run.open()
        commit(run, 2)
        run.advance()
        assert run.store is not None
        assert run.store.journal_size.rest()
        explorer = Explorer(random, samples=2, again_chance=0.0, interleave_chance=0.5)
        explorer.watch(run)
        for _ in range(GROWTHS_MAX):
            if run.store.journal_size.grow():
                break
            run.advance()
        else:
            explorer.interleave_chance = 0.0  # Other threads have kept the files in use.
            run.advance()
            assert run.store.journal_size.grow()
        files.before_operation = None
        commit(run, 20)
        run.crash()
        run.open()
