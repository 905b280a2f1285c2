"""Recovery is itself crashed at every operation: of a broker's folder, and with damage in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from log_stores import FOLDER, P0, P1, P2, append, commit, contents, log_bytes, opened, seeded
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log.segment_files import segment_path
from partition_logs import batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from offsetd_storage.disk.simulated_faults import Operation

FIRST_LOG = segment_path(FOLDER / P1.folder_name, 0)
ROT = (170, b"rot")


def crash_states_while(
    files: SimulatedFiles, action: Callable[[], object], random: Random
) -> Iterator[SimulatedFiles]:
    """Every crash state, some by chance, at every operation of an action."""
    states: list[SimulatedFiles] = []

    def look(running: SimulatedFiles, _: Operation) -> None:
        states.extend(running.crash_states(samples=1, random=random))
        states.append(running.kill())

    files.before_operation = look
    action()
    files.before_operation = None
    assert len(states) > 50
    yield from states


def overwritten(files: SimulatedFiles, position: int, content: bytes) -> SimulatedFiles:
    changed = files.kill()
    before = changed.read_bytes(FIRST_LOG)
    after = before[:position] + content + before[position + len(content) :]
    changed.put_durable(FIRST_LOG, after)
    return changed


@pytest.mark.slow
def test_a_brokers_folder_that_is_opened_holds_the_same_after_a_crash_anywhere() -> None:
    random = seeded()
    files = SimulatedFiles(sector_bytes=64)
    whole = batch_of(0, size_bytes=150) + batch_of(1)
    files.put_durable(FIRST_LOG, whole + batch_of(2)[:-1])
    files.put_durable(FIRST_LOG.with_suffix(".index"), bytes(4000))
    later = batch_of(2) + batch_of(3)
    files.put_durable(segment_path(FOLDER / P2.folder_name, 0), b"")
    files.put_durable(segment_path(FOLDER / P2.folder_name, 2), later)
    files.put_durable(FOLDER / ".kafka_cleanshutdown", b"")
    expected = {P0: b"", P1: whole, P2: later}
    for state in crash_states_while(files, lambda: opened(files).abandon(), random):
        store = opened(state)
        assert contents(store) == expected
        assert not store.quarantined
        store.abandon()
        again = opened(state.power_cut())
        assert contents(again) == expected
        again.abandon()


def damaged_after_a_crash() -> tuple[SimulatedFiles, dict[object, bytes]]:
    """P1 is rotten below its recovery point; the journal holds more of all three."""
    files = SimulatedFiles()
    store = opened(files)
    for topic_partition in (P0, P1, P2):
        commit(store, topic_partition, size_bytes=150)
        commit(store, topic_partition, size_bytes=150)
    store.advance_recovery_points()
    for _ in range(6):
        for topic_partition in (P0, P1, P2):
            append(store, topic_partition, size_bytes=110)
        store.flush()
    return overwritten(files.power_cut(), *ROT), dict(contents(store))


def check_damaged_then_healed(
    state: SimulatedFiles, expected: dict[object, bytes], sound: bytes
) -> None:
    """P1 is refused as long as it is damaged, and comes back whole."""
    store = opened(state)
    assert store.quarantined.keys() == {P1}
    assert all(log_bytes(store.logs[each]) == expected[each] for each in (P0, P2))
    store.abandon()
    healed = opened(overwritten(state.power_cut(), ROT[0], sound))
    assert contents(healed) == expected
    healed.abandon()


@pytest.mark.slow
def test_a_quarantined_partition_keeps_its_tail_over_a_crash_anywhere() -> None:
    random = seeded()
    files, expected = damaged_after_a_crash()
    sound = expected[P1][ROT[0] : ROT[0] + len(ROT[1])]

    in_recovery = files.kill()
    states = crash_states_while(in_recovery, lambda: opened(in_recovery).abandon(), random)
    for state in states:
        check_damaged_then_healed(state, expected, sound)
    store = opened(files)
    for _ in range(12):  # The journal turns over.
        expected[P0] += commit(store, P0, size_bytes=300)
    check_damaged_then_healed(files.power_cut(), expected, sound)


@pytest.mark.slow
def test_a_partition_that_heals_is_whole_after_a_crash_anywhere() -> None:
    random = seeded()
    files, expected = damaged_after_a_crash()
    store = opened(files)
    expected[P2] += commit(store, P2)
    store.abandon()
    sound = expected[P1][ROT[0] : ROT[0] + len(ROT[1])]
    healing = overwritten(files.power_cut(), ROT[0], sound)

    for state in crash_states_while(healing, lambda: opened(healing).abandon(), random):
        healed = opened(state)
        assert contents(healed) == expected
        more = commit(healed, P1)
        healed.abandon()
        again = opened(state.power_cut())
        assert log_bytes(again.logs[P1]) == expected[P1] + more
        again.abandon()
