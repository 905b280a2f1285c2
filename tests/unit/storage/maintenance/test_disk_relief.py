"""A low disk is relieved in rounds, with rests between them."""

from __future__ import annotations

from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path

from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.server_config import DiskConfig
from offsetd_storage.disk.disk_space import DiskSpace
from offsetd_storage.disk.simulated_disk import BLOCK_BYTES
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import StorageFull
from offsetd_storage.maintenance.disk_relief import REST_MS_MAX, DiskRelief

FOLDER = Path("/")
CAPACITY = 1024 * BLOCK_BYTES


class Relief:
    """A full disk, and the rounds that are begun on it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(clock=self.clock)
        self.files.put_durable(Path("/other"), bytes(CAPACITY))
        self.files.capacity_bytes = CAPACITY
        self.disk = DiskSpace(
            self.files,
            FOLDER,
            DiskConfig(),
            clock=self.clock,
            reserve_bytes_needed=lambda: 128 << 20,
        )
        self.begun: list[Future[object]] = []
        self.relief = DiskRelief(self.disk, self._begin, clock=self.clock)

    def _begin(self) -> list[Future[object]]:
        self.begun.append(Future())
        return self.begun[-1:]

    def runs_for(self, milliseconds: int) -> None:
        """Looks once a second."""
        for _ in range(milliseconds // 1000):
            self.clock.advance(1000)
            self.relief.run()


def test_no_round_begins_before_the_last_has_ended() -> None:
    low = Relief()
    low.relief.run()
    low.runs_for(100_000)
    assert len(low.begun) == 1
    low.begun[0].set_exception(RuntimeError("a round may fail"))
    low.runs_for(5000)
    assert len(low.begun) == 2


def test_the_rests_between_rounds_double_up_to_a_bound() -> None:
    low = Relief()
    begun_at = []
    for _ in range(120):
        before = len(low.begun)
        low.relief.run()
        if len(low.begun) > before:
            begun_at.append(low.clock.monotonic_ms())
            low.begun[-1].set_result(None)
        low.clock.advance(1000)
    rests = [later - sooner for sooner, later in pairwise(begun_at)]
    assert rests[:4] == [2000, 3000, 5000, 9000]
    assert set(rests[4:]) == {REST_MS_MAX + 1000}


def test_a_disk_that_gets_low_again_is_relieved_at_once() -> None:
    low = Relief()
    low.relief.run()
    low.begun[0].set_result(None)
    low.files.unlink(Path("/other"))
    low.runs_for(1000)
    assert not low.disk.is_low
    low.disk.note_full(StorageFull("no room"))
    low.relief.run()
    assert len(low.begun) == 2


def test_the_disk_is_looked_at_while_a_round_runs() -> None:
    low = Relief()
    low.relief.run()
    low.files.unlink(Path("/other"))
    low.runs_for(1000)
    assert not low.disk.is_low
