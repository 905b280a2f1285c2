"""What recovery must not rest on: names and pages that were never synced, files without a checksum.

And what must not stop it: bounds that were lowered, one bad sector, a broker that harmed nothing.
"""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from log_stores import (
    FOLDER,
    P0,
    P1,
    P2,
    SMALL,
    SMALL_LOG,
    append,
    commit,
    contents,
    log_bytes,
    opened,
    seeded,
    tree,
)
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFile, SimulatedFiles
from offsetd_storage.errors import FolderMismatch, RecordTooLarge, StorageFull
from offsetd_storage.journal.journal import JOURNAL_NAMES
from offsetd_storage.log.kafka_checkpoints import LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from offsetd_storage.log.leader_epochs import LEADER_EPOCHS_FILE
from offsetd_storage.recovery.folder_recovery import CLEAN_SHUTDOWN_NAME
from offsetd_storage.recovery.quarantine import quarantine_path
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import batch_of
from recovered_folders import broker_appends, committed, log_path, put

if TYPE_CHECKING:
    from log_stores import LogStoreConfig
    from offsetd_storage.disk.simulated_faults import Operation


class Killed(BaseException):
    """The process dies before an operation."""


def killed_at(
    files: SimulatedFiles, nth: int, config: LogStoreConfig = SMALL
) -> SimulatedFiles | None:
    """The disk after a start that was killed before its `nth` operation; None if it has fewer."""
    last = files.operations + nth

    def kill(_: SimulatedFiles, operation: Operation) -> None:
        if operation.number == last:
            raise Killed

    files.before_operation = kill
    try:
        opened(files, config, random=Random(nth)).abandon()
    except Killed:
        return files.kill()
    return None


def operations_of_a_start(files: SimulatedFiles) -> list[Operation]:
    files = files.kill()
    seen: list[Operation] = []
    files.before_operation = lambda _, operation: seen.append(operation)
    opened(files, random=Random(1)).abandon()
    return [attrs.evolve(each, number=place) for place, each in enumerate(seen)]


# Names that were never synced -------------------------------------------------------------------


def assert_keeps_commits(files: SimulatedFiles, what: object) -> None:
    """Starts, commits, and still has it all after a power cut."""
    store = opened(files)
    for place in range(24):  # The journal turns over.
        commit(store, (P0, P1, P2)[place % 3], size_bytes=200)
        if place % 8 == 7:
            expected = contents(store)
            again = opened(files.power_cut())
            assert contents(again) == expected, what
            assert not again.quarantined, what


def test_a_folder_that_an_operator_made_is_durable_before_anything_is_acknowledged() -> None:
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    assert_keeps_commits(files, "made by hand")


def test_a_parent_that_may_not_be_read_does_not_stop_the_start() -> None:
    files = SimulatedFiles()
    files.faults.append(Fault(errno=errno.EACCES, kind=OperationKind.SYNC_FOLDER, path="/"))
    opened(files)


@pytest.mark.slow
def test_after_two_starts_that_were_killed_at_a_sync_of_names_commits_are_durable() -> None:
    syncs = [
        each.number
        for each in operations_of_a_start(SimulatedFiles())
        if each.kind is OperationKind.SYNC_FOLDER
    ]
    assert len(syncs) >= 8
    random = seeded()
    for first in syncs:
        once = killed_at(SimulatedFiles(), first)
        assert once is not None
        assert_keeps_commits(once.kill(), first)
        again = [
            each for each in operations_of_a_start(once) if each.kind is OperationKind.SYNC_FOLDER
        ]
        for each in random.sample(again, 3):
            twice = killed_at(once.kill(), each.number)
            assert twice is not None
            assert_keeps_commits(twice, (first, each))


# Pages that were never synced -------------------------------------------------------------------


def test_what_a_killed_broker_wrote_after_our_clean_stop_is_durable_before_it_is_served() -> None:
    files = committed(closed=True)
    theirs = broker_appends(files, leader_epoch=1)
    files = files.kill()
    store = opened(files)
    assert log_bytes(store.logs[P0]).endswith(theirs)
    expected = contents(store)
    again = opened(files.power_cut())
    assert contents(again) == expected
    again.close()
    commit(store, P0)
    again = opened(files.power_cut())
    assert contents(again) == contents(store)


def test_the_cache_is_kept_where_we_wrote_last_and_stopped_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dropped: list[Path] = []
    monkeypatch.setattr(SimulatedFile, "drop_cache", lambda file: dropped.append(file._path))

    def dropped_logs(files: SimulatedFiles) -> set[Path]:
        dropped.clear()
        opened(files).abandon()
        return {path for path in dropped if path.suffix == ".log"}

    files = committed(closed=True)
    assert dropped_logs(files.kill()) == set()
    assert dropped_logs(committed(closed=False)) == {log_path(each) for each in (P0, P1, P2)}
    broker_appends(files, leader_epoch=1)
    assert dropped_logs(files.kill()) == {log_path(P0), log_path(P0, 4)}


def test_a_topic_that_is_new_when_the_start_is_killed_is_durable_at_the_next_one() -> None:
    more = attrs.evolve(SMALL, partitions=None, other_topics=())
    files = committed(closed=True)
    nth = 0
    while (disk := killed_at(files.kill(), nth, more)) is not None:
        assert_keeps_commits(disk, nth)
        nth += 1
    assert nth > 10


# The tail behind a recovery point ---------------------------------------------------------------


@pytest.mark.slow
def test_a_log_that_rolls_elsewhere_after_a_crash_is_not_taken_for_damaged() -> None:
    smaller = attrs.evolve(SMALL, log=attrs.evolve(SMALL_LOG, segment_bytes_max=150))
    files = SimulatedFiles()
    store = opened(files)
    commit(store, P0)
    store.advance_recovery_points()
    commit(store, P0)
    commit(store, P0)
    expected = contents(store)
    files = files.kill()
    states: list[tuple[Operation, SimulatedFiles]] = []
    files.before_operation = lambda running, operation: states.extend(
        (operation, state) for state in running.crash_states(samples=12, random=Random(1))
    )
    assert contents(opened(files, smaller)) == expected
    assert len(states) > 100
    for operation, state in states:
        again = opened(state, smaller)
        assert not again.quarantined, (operation, [*map(str, again.quarantined.values())])
        assert contents(again) == expected, operation


# Bounds that were lowered -----------------------------------------------------------------------


@pytest.mark.parametrize("bound", ["message_bytes_max", "segment_bytes_max"])
def test_what_was_acknowledged_under_larger_bounds_is_appended_again(bound: str) -> None:
    files = committed(closed=False, size_bytes=600)
    expected = contents(opened(files.kill()))
    lower = attrs.evolve(SMALL, log=attrs.evolve(SMALL_LOG, **{bound: 500}))
    store = opened(files, lower)
    assert contents(store) == expected
    with pytest.raises(RecordTooLarge, match=r"allow \(500\)"):
        append(store, P0, size_bytes=501)
    commit(store, P0, size_bytes=500)
    expected = contents(store)
    assert contents(opened(files.power_cut(), lower)) == expected


# Checkpoints, which hold no checksum -------------------------------------------------------------


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("start", [2, 1000])
def test_where_our_log_starts_is_not_the_checkpoints_to_say(closed: bool, start: int) -> None:
    files = committed(closed=closed)
    text = b"0\n1\n__consumer_offsets 0 %d\n" % start
    files.put_durable(FOLDER / LOG_START_CHECKPOINT, text)
    store = opened(files)
    assert (store.logs[P0].log_start_offset, store.logs[P0].offset_next) == (0, 3)
    assert files.read_bytes(FOLDER / LOG_START_CHECKPOINT) == b"0\n0\n"


def test_a_log_start_that_only_the_journal_knows_lasts() -> None:
    files = committed(closed=True)
    (files := files.kill()).put_durable(FOLDER / CLEAN_SHUTDOWN_NAME, b"")
    files.put_durable(FOLDER / LOG_START_CHECKPOINT, b"0\n1\n__consumer_offsets 0 2\n")
    for life in range(4):  # The first takes it from the broker.
        store = opened(files)
        assert store.logs[P0].log_start_offset == 2
        commit(store, P0)
        if life % 2:
            store.advance_recovery_points()
            store.abandon()
        else:
            store.close()
        files = files.power_cut()
        files.unlink(FOLDER / LOG_START_CHECKPOINT)


def test_a_brokers_log_start_behind_the_end_is_a_damaged_checkpoint() -> None:
    files = SimulatedFiles()
    files.put_durable(log_path(P0), batch_of(0) + batch_of(1))
    files.put_durable(FOLDER / LOG_START_CHECKPOINT, b"0\n1\n__consumer_offsets 0 1000\n")
    store = opened(files)
    assert (store.logs[P0].log_start_offset, store.logs[P0].offset_next) == (0, 2)
    assert "cannot start at 1000" in store.report.warnings[0]


def test_a_flipped_digit_in_a_checkpoint_makes_no_partitions_in_a_folder_of_ours() -> None:
    files = committed(closed=True)
    path = FOLDER / RECOVERY_POINT_CHECKPOINT
    files.put_durable(path, files.read_bytes(path).replace(b"offsets 2 ", b"offsets 6 "))
    for partitions in (3, None):
        assert opened(files.kill(), attrs.evolve(SMALL, partitions=partitions)).partitions == 3


@pytest.mark.parametrize("closed", [True, False])
def test_a_wrong_leader_epoch_in_a_checkpoint_is_mended_and_told(closed: bool) -> None:
    files = committed(closed=closed)
    path = FOLDER / P0.folder_name / LEADER_EPOCHS_FILE
    files.put_durable(path, b"0\n1\n90 0\n")
    store = opened(files)
    assert store.logs[P0].leader_epoch == 0
    assert "ends with 90, not with 0" in store.report.warnings[0]
    assert files.power_cut().read_bytes(path) == b"0\n1\n0 0\n"


def test_a_leader_epoch_that_only_the_journal_knows_lasts() -> None:
    files = SimulatedFiles()
    path = FOLDER / P0.folder_name / LEADER_EPOCHS_FILE
    files.put_durable(log_path(P0), batch_of(0))
    files.put_durable(path, b"0\n2\n0 0\n7 1\n")  # A broker took over, and wrote nothing.
    opened(files).close()
    files.unlink(path)
    assert opened(files).logs[P0].leader_epoch == 7
    assert files.read_bytes(path) == b"0\n2\n0 0\n7 1\n"


# One bad sector ---------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [True, False])
def test_a_log_that_cannot_be_read_is_quarantined_alone(closed: bool) -> None:
    files = committed(closed=closed)
    expected = contents(opened(files.kill()))
    fault = Fault(errno=errno.EIO, kind=OperationKind.READ, path=str(log_path(P1)))
    files.faults.append(fault)
    store = opened(files)
    assert store.quarantined.keys() == {P1}
    assert "cannot be read" in str(store.quarantined[P1])
    commit(store, P0)
    store.close()
    files.faults.clear()
    assert contents(opened(files))[P1] == expected[P1]


@pytest.mark.parametrize(
    "path",
    [
        str(log_path(P1, 0, ".index")),
        str(log_path(P1, 0, ".timeindex")),
        str(FOLDER / P1.folder_name / LEADER_EPOCHS_FILE),
        str(FOLDER / RECOVERY_POINT_CHECKPOINT),
        str(FOLDER / LOG_START_CHECKPOINT),
    ],
)
@pytest.mark.parametrize("closed", [True, False])
def test_what_can_be_made_anew_need_not_be_readable(path: str, closed: bool) -> None:
    files = committed(closed=closed)
    expected = contents(opened(files.kill()))
    files.put_durable(Path(path), b"")
    unreadable = Fault(errno=errno.EIO, kind=OperationKind.READ, path=path)
    files.faults.append(unreadable)
    files.before_operation = lambda _, operation: (  # A new file is in other sectors.
        files.faults.clear()
        if operation.kind is OperationKind.UNLINK and str(operation.path) == path
        else None
    )
    store = opened(files)
    assert unreadable.matched
    assert not store.quarantined
    assert contents(store) == expected
    files.faults.clear()
    store.close()
    assert contents(opened(files.power_cut())) == expected


def test_a_quarantine_file_that_cannot_be_read_keeps_its_partition_quarantined() -> None:
    files = committed(closed=False)
    sound = files.read_bytes(log_path(P1))
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.READ, path=str(log_path(P1))))
    opened(files).close()
    files.faults[0].path = str(quarantine_path(FOLDER, P1))
    store = opened(files)
    assert store.quarantined.keys() == {P1}
    store.close()
    files.faults.clear()
    assert log_bytes(opened(files).logs[P1]) == sound


def test_any_other_error_of_a_read_is_no_damage() -> None:
    files = committed(closed=False)
    files.faults.append(Fault(errno=errno.EMFILE, kind=OperationKind.READ, path=str(log_path(P1))))
    before = tree(files.kill())
    with pytest.raises(Exception, match="Too many open files"):
        opened(files)
    assert tree(files.kill()).items() >= before.items()
    assert not files.exists(quarantine_path(FOLDER, P1))


# Nothing is changed before it is known that nothing refuses it -----------------------------------


def test_what_a_cleaning_left_in_a_damaged_partition_stays() -> None:
    files = committed(closed=False)
    rotten = bytearray(files.read_bytes(log_path(P1)))
    store = opened(files.kill())
    store.close()
    rotten[70] ^= 1
    left = {
        log_path(P1): bytes(rotten),
        log_path(P1, 9, ".log.deleted"): b"x",
        log_path(P1, 9, ".index.cleaned"): b"x",
    }
    store = opened(files)
    store.advance_recovery_points()
    files = files.kill()
    for path, content in left.items():
        files.put_durable(path, content)
    store = opened(files)
    assert store.quarantined.keys() == {P1}
    assert {path: files.read_bytes(path) for path in left} == left


def test_a_swap_is_judged_by_what_is_on_the_disk() -> None:
    files = SimulatedFiles()
    files.put_durable(log_path(P1), batch_of(0) + batch_of(1))
    swap = log_path(P1, 0, ".log.swap")
    files.put_durable(swap, b"")
    put(files, swap, batch_of(1))
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC, path=str(swap), nth=1))
    file = files.open(swap)
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    files = files.kill()
    store = opened(files)
    assert f"{swap.name} is damaged" in str(store.quarantined[P1])
    assert files.read_bytes(log_path(P1)) == batch_of(0) + batch_of(1)


def test_a_journal_too_small_for_its_partitions_is_refused_untouched() -> None:
    files = committed(closed=False)
    before = tree(files)
    with pytest.raises(FolderMismatch, match="too small"):
        opened(files, attrs.evolve(SMALL, journal_file_bytes=4096, journal_header_bytes=3500))
    assert tree(files) == before


# The journal's files ----------------------------------------------------------------------------


def test_a_journal_that_lost_its_zeros_blocks_finds_a_full_disk_before_it_serves() -> None:
    files = committed(closed=True)
    expected = contents(opened(files.kill()))
    config = attrs.evolve(SMALL, journal_file_bytes=64 << 10)
    store = opened(files, config)
    assert store.journal_size.grow()
    store.close()
    for name in JOURNAL_NAMES:  # A copy that does not keep blocks of zeros.
        content = files.read_bytes(FOLDER / name)
        files.put_durable(FOLDER / name, content.rstrip(b"\0"))
        files.open(FOLDER / name).truncate(len(content))
    files = files.kill()
    files.capacity_bytes = 4096 * 40
    with pytest.raises(StorageFull):
        opened(files, config)
    files.capacity_bytes = None
    assert contents(opened(files, config)) == expected


@pytest.mark.parametrize(
    ("topic", "partition"),
    [("../outside", 0), ("a/b", 0), ("", 0), ("x" * 250, 0), ("ü", 0), ("x", -1), ("a\0", 0)],
)
def test_names_that_are_no_topics_come_from_no_file(topic: str, partition: int) -> None:
    with pytest.raises(ValueError, match="not a topic and partition"):
        TopicPartition.checked(topic, partition)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "a.b", "A-1_x", "x" * 249, ".."])
def test_names_of_topics_are_taken(topic: str) -> None:
    assert TopicPartition.checked(topic, 7).folder_name == f"{topic}-7"
