"""A log on a full disk: what finds no room is refused before a sync would have to find it."""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING

import attrs
import pytest
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.simulated_disk import BLOCK_BYTES
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import StorageFull
from partition_logs import append, bases, created, everything, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.log.partition_log import PartitionLog

CONFIG = LogConfig(segment_bytes_max=1000, index_interval_bytes=150, preallocate_step_bytes=512)

# From then on there is no room for it, whoever asks.
LACKING = [
    Fault(errno=errno.ENOSPC, kind=kind, path=f"*{suffix}")
    for kind in (OperationKind.CREATE, OperationKind.ALLOCATE)
    for suffix in (".log", ".index", ".timeindex")
]
ATTEMPTS = {
    "a roll": [lambda log: log.roll()],
    "an append": [lambda log: append(log, size_bytes=600)],
    "an append, then a roll": [lambda log: append(log, size_bytes=100), lambda log: log.roll()],
}


def no_room_at_a_sync(files: SimulatedFiles) -> None:
    """Whatever asks for room finds none."""
    files.faults.extend(
        Fault(errno=errno.ENOSPC, kind=kind)
        for kind in (OperationKind.CREATE, OperationKind.ALLOCATE)
    )
    files.capacity_bytes = 0


@pytest.mark.parametrize("attempts", ATTEMPTS.values(), ids=ATTEMPTS)
@pytest.mark.parametrize("lacking", LACKING, ids=lambda fault: f"{fault.kind} {fault.path}")
@pytest.mark.parametrize("restarted", [False, True], ids=["as made", "opened again"])
@pytest.mark.parametrize("batches", [1, 6], ids=["without", "with index entries"])
def test_a_log_that_lacked_room_is_synced_and_closed_without_any(
    attempts: list[Callable[[PartitionLog], object]], lacking: Fault, restarted: bool, batches: int
) -> None:
    files = SimulatedFiles()
    log = created(files, config=CONFIG)
    for _ in range(batches):
        append(log, size_bytes=120)
    if restarted:
        log.close()
        log = opened(files, config=CONFIG)
    else:
        log.write()
        log.sync()
    files.faults.append(Fault(errno=lacking.errno, kind=lacking.kind, path=lacking.path))
    for attempt in attempts:
        with contextlib.suppress(StorageFull):
            attempt(log)
    offset_next = log.offset_next
    log.write()
    files.faults.clear()
    no_room_at_a_sync(files)
    log.sync()
    log.close()
    files.faults.clear()
    again = opened(files, config=CONFIG)
    assert again.offset_next == offset_next
    assert not again.index_problems


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_a_roll_that_found_no_name_leaves_no_segment_behind(suffix: str) -> None:
    files = SimulatedFiles()
    log = created(files, config=CONFIG)
    batches = [append(log, size_bytes=100)]
    files.faults.append(Fault(errno=errno.ENOSPC, kind=OperationKind.CREATE, path=f"*1{suffix}"))
    with pytest.raises(StorageFull):
        log.roll()
    batches += [append(log, size_bytes=100), append(log, size_bytes=100)]
    log.write()
    log.sync()
    again = opened(files.power_cut(), config=CONFIG)
    assert bases(again) == [0]
    assert everything(again) == b"".join(batches)


def test_a_disk_that_gets_full_between_appends_and_a_roll_refuses_the_roll_or_does_it() -> None:
    for free_blocks in range(6):
        files = SimulatedFiles()
        log = created(files, config=CONFIG)
        append(log, size_bytes=100)
        log.close()
        log = opened(files, config=CONFIG)
        files.capacity_bytes = 10**9
        used = files.capacity_bytes - files.free_bytes(log.folder)
        files.capacity_bytes = used + free_blocks * BLOCK_BYTES
        refused = 0
        for _ in range(3):
            try:
                append(log, size_bytes=BLOCK_BYTES)
            except StorageFull:
                refused += 1
        try:
            log.roll()
        except StorageFull:
            refused += 1
        assert refused or free_blocks == 5
        log.write()
        log.sync()
        log.close()


def test_a_batch_takes_the_last_block_though_none_can_be_reserved_ahead() -> None:
    files = SimulatedFiles()
    config = attrs.evolve(CONFIG, segment_bytes_max=10**6, preallocate_step_bytes=8 * BLOCK_BYTES)
    log = created(files, config=config)
    log.sync()
    files.capacity_bytes = 10**9
    used = files.capacity_bytes - files.free_bytes(log.folder)
    files.capacity_bytes = used + 3 * BLOCK_BYTES  # One for each file.
    batch = append(log, size_bytes=BLOCK_BYTES)
    with pytest.raises(StorageFull):
        append(log, size_bytes=100)
    log.close()
    assert everything(opened(files, config=CONFIG)) == batch
