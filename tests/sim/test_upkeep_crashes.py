"""Power cuts and kills while threads roll, clean and delete: what was acknowledged comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from cleaned_logs import replayed
from kept_stores import CLEANER, CONFIG, LOG, P0, P1, P2, UPKEEP, KeptStore
from log_stores import log_bytes, seeded
from offsetd_storage.maintenance.upkeep import IDLE_LOGS
from offsetd_storage.tasks.scheduler import LOG_RETENTION, RECOVERY_POINT_CHECKPOINT

if TYPE_CHECKING:
    from random import Random

    from offsetd_storage.disk.simulated_files import SimulatedFiles

STEPS = 800
CUTS = 160
OUTCOMES = 2  # Of each power cut: all that was not synced is lost, nothing is, others by chance.
STORE = attrs.evolve(
    CONFIG,
    log=attrs.evolve(
        LOG, segment_bytes_max=500, segment_ms=2000, segment_idle_ms=100, delete_retention_ms=3000
    ),
)
TASKS = LOG_RETENTION, RECOVERY_POINT_CHECKPOINT, IDLE_LOGS
HASTY = attrs.evolve(
    UPKEEP,
    cleaner=attrs.evolve(CLEANER, threads=2, dedupe_buffer_bytes=4 << 20, backoff_ms=50),
    retention=attrs.evolve(UPKEEP.retention, check_interval_ms=100),
    background=attrs.evolve(UPKEEP.background, initial_delay_ms=0, recovery_point_interval_ms=100),
)


def crashed(files: SimulatedFiles, random: Random, *, is_killed: bool) -> list[SimulatedFiles]:
    """Disks that a crash may leave now."""
    if is_killed:
        return [files.kill()]
    return list(files.crash_states(exhaustive_pending_max=0, samples=OUTCOMES, random=random))


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_crash_under_upkeep_keeps_what_was_acknowledged(is_killed: bool) -> None:
    random = seeded()
    kept = KeptStore(STORE, HASTY)
    partitions = (P0, P1, P2)
    # What each log said after each of its appends, and how many of these are acknowledged.
    said: dict[object, list[dict[bytes, bytes]]] = {each: [{}] for each in partitions}
    acknowledged = dict.fromkeys(partitions, 0)
    with kept:
        for step in range(STEPS):
            partition = random.choice(partitions)
            key, value = f"k{random.randrange(6)}", f"value {step}"
            now = dict(said[partition][-1])
            if random.random() < 0.2:
                kept.put(partition, key, None)
                now.pop(key.encode(), None)
            else:
                kept.put(partition, key, value)
                now[key.encode()] = value.encode()
            said[partition].append(now)
            if random.random() < 0.5:
                kept.store.flush()
                acknowledged = {each: len(said[each]) - 1 for each in partitions}
            if random.random() < 0.3:
                kept.advance(random.randrange(1000))
            kept.upkeep.run_soon(random.choice(TASKS))
            if step % (STEPS // CUTS) == 0:
                disks = crashed(kept.files, random, is_killed=is_killed)
                for disk in disks:
                    after = KeptStore(STORE, HASTY, files=disk, clock=kept.clock)
                    assert not after.store.quarantined
                    for each in partitions:
                        found = replayed(log_bytes(after.store.logs[each]))
                        assert found in said[each][acknowledged[each] :], (step, each)
                    after.store.abandon()
        kept.until(lambda: len(kept.rounds) > 3)
    assert not kept.failures
    assert not kept.uncleanable
