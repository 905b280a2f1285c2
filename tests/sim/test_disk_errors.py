"""Wherever the disk fails, nothing more is acknowledged, and the next start serves what is durable.

A failed sync is modelled as Linux does it: the pages stay in the cache, marked clean, and the next
sync succeeds without them.
"""

from __future__ import annotations

import errno
import os
from random import Random

import pytest
from log_stores import P0, append, contents, opened, seeded
from offsetd_storage.disk.simulated_faults import Fault, Operation, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import StorageFailed, StorageFull
from offsetd_storage.journal.journal_files import SPARE_NAME
from offsetd_storage.log.kafka_checkpoints import LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from offsetd_storage.log.segment_list import SEGMENT_LIST_NAME
from offsetd_storage.recovery.clean_shutdown_marker import CLOSED_MARK_NAME
from sim.crash_explorer import Run

pytestmark = pytest.mark.long(minutes=1)

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
MAY_BE_LATE = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_CHECKPOINT,
    CLOSED_MARK_NAME,
    SEGMENT_LIST_NAME,
)


def play(run: Run) -> int:
    """Commits until the journal has turned over a few times, with a stop in the middle.

    Returns how many appends were refused.
    """
    refusals = 0
    run.open()
    for step in range(24):
        assert run.store is not None
        try:
            run.append_some(sorted(run.store.logs))
        except StorageFull:
            refusals += 1  # What was appended before it stays.
        run.flush()
        if step % 8 == 5:
            run.advance()
        if step == 12:
            run.close()
            run.open()
    run.close()
    return refusals


class Watch:
    """What was done to the disk up to the operation that failed, that one included, and next."""

    def __init__(self, fault: Fault) -> None:
        self.seen: list[Operation] = []
        self.following: Operation | None = None
        self._fault = fault

    def __call__(self, _: SimulatedFiles, operation: Operation) -> None:
        assert self._fault.nth is not None
        if self._fault.matched < self._fault.nth:
            self.seen.append(operation)
        elif self.following is None:
            self.following = operation

    @property
    def asked_for_less(self) -> bool:
        """Whether blocks were to be had for what was appended, though none ahead of it."""
        failed, then = self.seen[-1], self.following
        return (
            then is not None
            and failed.kind is then.kind is OperationKind.ALLOCATE
            and (failed.path, failed.position) == (then.path, then.position)
            and then.size < failed.size
        )


def operations(kind: OperationKind, seed: int) -> int:
    """How many operations of a kind the script makes."""
    count = Fault(errno=0, kind=kind, nth=0)
    files = SimulatedFiles()
    files.faults.append(count)
    play(Run(files, Random(seed)))
    return count.matched


def assert_latched(run: Run) -> None:
    """Every call refuses, and closing only unlocks, which it says."""
    store = run.store
    if store is None:
        return
    assert store.failed is not None
    for call in (
        lambda: append(store, P0),
        store.flush,
        store.advance_recovery_points,
    ):
        with pytest.raises(StorageFailed):
            call()
    before = run.files.operations
    with pytest.raises(StorageFailed):
        store.close()
    assert run.files.operations == before, "a failed store wrote to the disk"


def assert_recovers(run: Run, random: Random) -> None:
    """What the next start serves was promised, and a power cut right after it takes nothing."""
    states = list(run.files.crash_states(samples=2, random=random))
    for state in [run.files.kill(), *(states if NIGHTLY else random.sample(states, 1))]:
        store = opened(state, random=random)
        held = run.model.check(store)
        cut = state.power_cut()
        store.abandon()
        again = opened(cut, random=random)
        assert {each: batches for each, batches in contents(again).items() if batches} == held
        again.abandon()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("kind", [kind for kind in OperationKind if kind is not OperationKind.READ])
def test_an_error_at_every_operation_stops_the_store(kind: OperationKind, number: int) -> None:
    seed = seeded().randrange(1 << 32)
    for nth in range(1, operations(kind, seed) + 1):
        files, random = SimulatedFiles(), Random(seed)
        fault = Fault(
            errno=number, kind=kind, nth=nth, written_bytes=nth % 700, synced_writes=nth % 3
        )
        files.faults.append(fault)
        watch = Watch(fault)
        files.before_operation = watch
        run = Run(files, random)
        refusals = 0
        try:
            refusals = play(run)
        except StorageFailed:
            failed = True
        except StorageFull:
            assert number == errno.ENOSPC
            assert run.store is None, "only a start may be refused for want of room"
            failed = True
        else:
            failed = False
        assert fault.matched >= nth
        if failed:
            assert_latched(run)
            run.files.before_operation, run.files.faults = None, []
            assert_recovers(run, Random(seed + nth))
        else:
            assert number == errno.ENOSPC, f"{kind} {nth}: an error went unnoticed"
            # Only Kafka's copies and the mark of a close may be late. (The folder is synced after
            # their rename.)
            about = watch.seen[-2 if kind is OperationKind.SYNC_FOLDER else -1]
            is_late = about.path.name.removesuffix(".tmp") in MAY_BE_LATE
            is_smaller = about.path.name == SPARE_NAME  # A start makes small journal files, then.
            is_noticed = refusals or is_late or is_smaller or watch.asked_for_less
            assert is_noticed, (kind, nth, watch.seen[-2:])
