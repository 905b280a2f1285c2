"""A broker that ran on our folder while our journal was not closed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from log_stores import (
    FOLDER,
    P0,
    P1,
    P2,
    commit,
    contents,
    log_bytes,
    opened,
    tree,
)
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import ForeignWriter
from offsetd_storage.log.kafka_checkpoints import RECOVERY_POINT_CHECKPOINT
from offsetd_storage.recovery.folder_recovery import CLEAN_SHUTDOWN_NAME
from recovered_folders import broker_appends, committed, log_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.disk.simulated_faults import Operation
    from offsetd_storage.topic_partition import TopicPartition


# A broker that ran in between --------------------------------------------------------------------


def leave_clean_shutdown(files: SimulatedFiles) -> None:
    broker_appends(files, leader_epoch=0, synced=True)
    files.put_durable(FOLDER / CLEAN_SHUTDOWN_NAME, b"")


def leave_leader_epoch(files: SimulatedFiles) -> None:
    broker_appends(files, leader_epoch=1)


def leave_recovery_point(files: SimulatedFiles) -> None:
    broker_appends(files, leader_epoch=0, synced=True)
    path = FOLDER / RECOVERY_POINT_CHECKPOINT
    text = b"0\n3\n__consumer_offsets 0 5\n__consumer_offsets 1 3\n__consumer_offsets 2 3\n"
    files.put_durable(path, text)


LEFT_BY_A_BROKER = pytest.mark.parametrize(
    "leave", [leave_clean_shutdown, leave_leader_epoch, leave_recovery_point]
)


@LEFT_BY_A_BROKER
def test_a_broker_beside_a_journal_that_holds_commits_is_refused_untouched(
    leave: Callable[[SimulatedFiles], None],
) -> None:
    files = committed(closed=False)
    leave(files)
    files.put_durable(log_path(P1, 0, ".log.deleted"), b"kept")
    files.put_durable(log_path(P1, 0, ".log.cleaned"), b"kept")
    before = tree(files)
    with pytest.raises(ForeignWriter):
        opened(files)
    assert tree(files) == before


def idle_after_three() -> SimulatedFiles:
    files = SimulatedFiles()
    store = opened(files)
    for _ in range(3):
        for topic_partition in (P0, P1, P2):
            commit(store, topic_partition)
    store.advance_recovery_points()
    return files.kill()


@pytest.mark.slow
@LEFT_BY_A_BROKER
def test_a_broker_beside_a_journal_that_holds_nothing_is_taken_over_from(
    leave: Callable[[SimulatedFiles], None],
) -> None:
    files = idle_after_three()
    ours = log_bytes(opened(files.kill()).logs[P0])
    leave(files)
    files = files.kill()
    expected: dict[TopicPartition, bytes] = {}
    states: list[SimulatedFiles] = []

    def look(running: SimulatedFiles, _: Operation) -> None:
        states.append(running.kill())
        if leave is not leave_leader_epoch:  # There nothing was synced: a power cut may take it.
            states.extend(running.crash_states(samples=2, random=Random(2)))

    files.before_operation = look
    store = opened(files)
    files.before_operation = None
    expected = contents(store)
    assert len(expected[P0]) == len(ours) + 200
    assert expected[P0].startswith(ours)
    assert store.logs[P0].offset_next == 5
    assert contents(opened(files.power_cut())) == expected
    assert len(states) > 30
    for state in states:
        again = opened(state)
        assert contents(again) == expected
        assert contents(opened(state.power_cut())) == expected


def test_a_checkpoint_alone_proves_no_broker() -> None:
    files = committed(closed=False)
    path = FOLDER / RECOVERY_POINT_CHECKPOINT
    files.put_durable(path, b"0\n1\n__consumer_offsets 0 9\n")
    assert opened(files).logs[P0].offset_next == 3


def test_a_full_journal_file_is_turned_over_to_accept_a_broker() -> None:
    for commits in range(40):
        files = SimulatedFiles()
        store = opened(files)
        for _ in range(commits):
            commit(store, P1, size_bytes=90)
        commit(store, P0)
        commit(store, P0)
        commit(store, P0)
        store.advance_recovery_points()
        expected = contents(store)
        files = files.kill()
        leave_clean_shutdown(files)
        again = opened(files)
        assert contents(again)[P1] == expected[P1]
        assert again.logs[P0].offset_next == 5


@pytest.mark.parametrize("bit", [0, 7, 24, 30])
def test_a_leader_epoch_that_has_rotted_behind_the_recovery_point_is_no_brokers(bit: int) -> None:
    """The journal has the same batch, but for the field that no checksum covers."""
    files = idle_after_three()
    store = opened(files)
    for topic_partition in (P0, P0, P1):
        commit(store, topic_partition)
    store.logs[P0].write()
    held = contents(store)
    store.abandon()
    crashed = files.kill()
    start = len(contents(opened(crashed.kill()))[P0]) // 5 * 3
    path = log_path(P0, 0)
    flipped = bytearray(crashed.read_bytes(path))
    assert int.from_bytes(flipped[start : start + 8], "big") == 3, "the first one behind the point"
    flipped[start + 15 - bit // 8] ^= 1 << bit % 8
    crashed.put_durable(path, bytes(flipped))
    assert contents(opened(crashed)) == held


def test_other_batches_where_the_journal_has_its_own_are_a_brokers() -> None:
    files = idle_after_three()
    store = opened(files)
    for _ in range(3):
        commit(store, P0, size_bytes=120)  # In the journal alone.
    store.abandon()
    crashed = files.kill()
    broker_appends(crashed, leader_epoch=1)
    with pytest.raises(ForeignWriter):
        opened(crashed)
