"""A data folder after any stop: what is served, what is cut, what is refused untouched."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from log_stores import (
    FOLDER,
    P0,
    P1,
    P2,
    SMALL,
    append,
    commit,
    contents,
    log_bytes,
    opened,
    seeded,
    tree,
)
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import (
    FolderLocked,
    FolderMismatch,
    ForeignWriter,
    JournalDamaged,
    NewerFormat,
    PartitionQuarantined,
    StorageFailed,
    StorageFull,
)
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint
from offsetd_storage.folder.folder_format import PROPERTIES_NAME
from offsetd_storage.journal.journal import JOURNAL_NAMES
from offsetd_storage.log.kafka_checkpoints import RECOVERY_POINT_CHECKPOINT
from offsetd_storage.log_store import TopicSpec
from offsetd_storage.recovery.folder_recovery import CLEAN_SHUTDOWN_NAME
from offsetd_storage.recovery.quarantine import quarantine_path
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import batch_of
from recovered_folders import LARGE, filled, log_path, overwrite, refused

if TYPE_CHECKING:
    from offsetd_storage.log_store import LogStore


# New folders, and what they are divided into -----------------------------------------------------


def test_a_new_folder_has_fifty_partitions_and_is_durable() -> None:
    files = SimulatedFiles()
    store = opened(files, LARGE)
    assert store.partitions == len(store.logs) == 50
    assert store.report.closed_clean is None
    cut = files.power_cut()
    assert sum(cut.is_folder(FOLDER / name) for name in cut.list_folder(FOLDER)) == 50
    assert opened(cut, LARGE).report.closed_clean is False


def test_the_number_of_partitions_is_the_folders_for_ever() -> None:
    files, _ = filled(closed=True)
    assert "3 partitions" in refused(files, FolderMismatch, partitions=4)
    assert opened(files, attrs.evolve(SMALL, partitions=None)).partitions == 3


def test_a_folder_with_a_partition_too_many_is_refused() -> None:
    files, _ = filled(closed=True)
    files.make_folder(FOLDER / "__consumer_offsets-3")
    refused(files, FolderMismatch)


def test_other_topics_of_ours_have_their_own_partitions_and_settings() -> None:
    audit = TopicSpec(topic="__offsetd_audit", partitions=1, log=LogConfig(segment_ms=5))
    config = attrs.evolve(SMALL, other_topics=(audit,))
    files = SimulatedFiles()
    store = opened(files, config)
    topic_partition = TopicPartition("__offsetd_audit", 0)
    assert store.logs[topic_partition].config.segment_ms == 5
    batch = commit(store, topic_partition)
    cut = files.power_cut()
    assert log_bytes(opened(cut, config).logs[topic_partition]) == batch
    again = opened(files.power_cut(), SMALL)
    assert log_bytes(again.logs[topic_partition]) == batch, "the journal knows it, so it is served"


def test_a_journal_without_properties_is_refused() -> None:
    files, _ = filled()
    files.unlink(FOLDER / PROPERTIES_NAME)
    refused(files, FolderMismatch)


# After a crash -------------------------------------------------------------------------------


def test_after_a_crash_everything_acknowledged_is_there() -> None:
    files, store = filled()
    expected = contents(store)
    again = opened(files.power_cut())
    assert contents(again) == expected
    assert again.report.closed_clean is False
    assert again.report.batches_appended_again == 24


def test_our_checkpoint_damaged_beside_a_crashed_journal_costs_nothing() -> None:
    files, store = filled()
    expected = contents(store)
    for content in (b"", b"rot", b"0\n1\n__consumer_offsets 0 99999\n"):
        crashed = files.power_cut()
        crashed.put_durable(FOLDER / RECOVERY_POINT_CHECKPOINT, content)
        again = opened(crashed)
        assert contents(again) == expected
        points = read_offset_checkpoint(crashed, FOLDER / RECOVERY_POINT_CHECKPOINT)
        assert points == {each: log.offset_next for each, log in again.logs.items()}
        assert len(again.report.warnings) == (content == b"rot")


def test_what_was_not_acknowledged_is_cut_and_counted() -> None:
    files, store = filled()
    expected = contents(store)
    batch = append(store, P1, size_bytes=120)
    store.logs[P1].write()
    store.logs[P1].sync()
    again = opened(files.power_cut())
    assert contents(again) == expected
    assert again.report.bytes_cut == len(batch)


@pytest.mark.parametrize(
    "garbage",
    [bytes(300), b"\xff" * 61, batch_of(11)[:-1], batch_of(11), b"x"],
    ids=["zeros", "ones", "cut short", "whole", "one byte"],
)
def test_a_torn_tail_behind_the_recovery_point_is_cut(garbage: bytes) -> None:
    files, store = filled()
    expected = contents(store)
    crashed = files.kill()
    active = store.logs[P0].segments[-1]
    file = crashed.open(active.path)
    file.pwrite([garbage], file.size())
    file.sync()
    assert contents(opened(crashed)) == expected


def test_a_partition_that_lost_its_folder_before_anything_was_durable_is_made_again() -> None:
    files = SimulatedFiles()
    store = opened(files)
    batch = commit(store, P2)
    for name in files.list_folder(FOLDER / P2.folder_name):
        files.unlink(FOLDER / P2.folder_name / name)
    assert log_bytes(opened(files.kill()).logs[P2]) == batch


def test_missing_and_damaged_indexes_are_made_anew() -> None:
    files, store = filled(closed=True)
    expected = contents(store := opened(files))
    store.close()
    whole = tree(files)
    indexes = [path for path in whole if path.endswith("index") and whole[path]]
    assert len(indexes) > 6
    for place, path in enumerate(indexes):
        if place % 2:
            files.unlink(Path(path))
        else:
            files.put_durable(Path(path), bytes(reversed(whole[path])))
    again = opened(files)
    assert sum(len(each.index_problems) for each in again.report.partitions) >= len(indexes) // 2
    assert contents(again) == expected
    again.close()
    after = tree(files)
    assert {path: after[path] for path in indexes} == {path: whole[path] for path in indexes}


# Refusals, untouched -------------------------------------------------------------------------


def test_a_second_opener_is_refused() -> None:
    files, store = filled()
    before = tree(files)
    with pytest.raises(FolderLocked):
        opened(files)
    assert tree(files) == before
    store.abandon()
    opened(files)


def test_a_start_that_fails_gives_the_lock_back() -> None:
    files, _ = filled(closed=True)
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC, nth=1))
    with pytest.raises(StorageFailed):
        opened(files)
    assert not files._tree.opened
    opened(files)


def test_a_newer_format_is_refused_untouched() -> None:
    files, _ = filled(closed=True)
    properties = FOLDER / PROPERTIES_NAME
    newer = files.read_bytes(properties).replace(b"version=1", b"version=2")
    files.put_durable(properties, newer)
    files.unlink(FOLDER / ".lock")
    refused(files, NewerFormat)


def test_rot_in_the_middle_of_the_journal_is_refused_untouched() -> None:
    files, _ = filled()
    overwrite(files, FOLDER / JOURNAL_NAMES[0], 700, b"rot")
    refused(files, JournalDamaged)


def test_a_brokers_clean_shutdown_beside_a_crashed_journal_is_refused_untouched() -> None:
    files, _ = filled()
    files.put_durable(FOLDER / CLEAN_SHUTDOWN_NAME, b"")
    refused(files, ForeignWriter)


def test_a_brokers_batches_above_a_recovery_point_are_refused_untouched() -> None:
    files, store = filled()
    active = store.logs[P1].segments[-1]
    file = files.open(active.path)
    file.pwrite([batch_of(store.logs[P1].offset_next, leader_epoch=1)], file.size())
    refused(files, ForeignWriter)


# Damage --------------------------------------------------------------------------------------


def quarantined_of(files: SimulatedFiles) -> LogStore:
    """Opened with P1 damaged: it is refused and untouched, the others serve."""
    folder = FOLDER / P1.folder_name
    before = tree(files, folder) if files.exists(folder) else None
    store = opened(files)
    assert store.quarantined.keys() == {P1}
    assert store.logs.keys() == {P0, P2}
    with pytest.raises(PartitionQuarantined, match=store.quarantined[P1].reason[:10]):
        store.append(P1, batch_of(0), last_offset=0, max_timestamp_ms=0)
    for topic_partition in (P0, P2):
        commit(store, topic_partition)
    assert (tree(files, folder) if files.exists(folder) else None) == before
    return store


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(("position", "what"), [(170, b"rot"), (16, b"\3"), (8, b"\xff")])
def test_a_bad_batch_in_the_middle_quarantines_its_partition(
    closed: bool, position: int, what: bytes
) -> None:
    files, _ = filled(closed=closed)
    crashed = files.power_cut()
    overwrite(crashed, log_path(P1), position, what)
    quarantined_of(crashed)


@pytest.mark.parametrize("closed", [False, True])
def test_a_log_cut_below_what_was_durable_is_quarantined_even_between_two_batches(
    closed: bool,
) -> None:
    files, store = filled(closed=closed)
    log = store.logs[P1]
    for segment in log.segments:
        if segment.base_offset > 2:
            files.unlink(segment.path)
    first = log_path(P1)
    files.put_durable(first, files.read_bytes(first)[: len(batch_of(0, size_bytes=150))])
    quarantined_of(files.kill())


@pytest.mark.parametrize("closed", [False, True])
def test_a_log_that_is_gone_is_quarantined(closed: bool) -> None:
    files, _ = filled(closed=closed)
    for name in files.list_folder(FOLDER / P1.folder_name):
        files.unlink(FOLDER / P1.folder_name / name)
    quarantined_of(files.kill())


def test_a_bad_last_batch_of_a_log_that_was_closed_clean_is_no_tear() -> None:
    files, store = filled(closed=True)
    active = store.logs[P1].segments[-1]
    overwrite(files, active.path, active.size_bytes - 1, b"\xee")
    quarantined_of(files)


@pytest.mark.parametrize("closed", [False, True])
def test_a_quarantined_partition_keeps_its_tail_while_the_journal_turns_over(closed: bool) -> None:
    files, store = filled(closed=closed)
    expected = contents(store := store if not closed else opened(files))[P1]
    store.abandon()
    files = files.power_cut()
    sound = files.read_bytes(log_path(P1))
    overwrite(files, log_path(P1), 170, b"rot")
    for life in range(4):
        store = quarantined_of(files)
        for _ in range(60):
            commit(store, P0, size_bytes=200)
        assert store._journal._file_number > 6 * life
        if life % 2:
            store.close()
        else:
            store.abandon()
            files = files.power_cut()
    files.put_durable(log_path(P1), sound)
    healed = opened(files)
    assert not healed.quarantined
    assert log_bytes(healed.logs[P1]) == expected
    assert not files.power_cut().exists(quarantine_path(FOLDER, P1))
    commit(healed, P1)
    after = contents(healed)
    assert contents(opened(files.power_cut())) == after


def test_a_healed_partition_that_crashes_before_its_file_is_gone_follows_the_journal() -> None:
    files, _ = filled()
    sound = files.read_bytes(log_path(P1))
    overwrite(files, log_path(P1), 170, b"rot")
    opened(files.kill()).abandon()
    files = files.kill()
    opened(files).abandon()
    files.put_durable(log_path(P1), sound)
    aside = files.read_bytes(quarantine_path(FOLDER, P1))
    healed = opened(files)
    commit(healed, P1)
    expected = contents(healed)
    files = files.power_cut()
    files.put_durable(quarantine_path(FOLDER, P1), aside)
    assert contents(opened(files)) == expected


@pytest.mark.parametrize("lost", ["damaged", "missing"])
def test_without_its_share_of_the_journal_a_partition_stays_quarantined(lost: str) -> None:
    files, _ = filled()
    sound = files.read_bytes(log_path(P1))
    overwrite(files, log_path(P1), 170, b"rot")
    files = files.kill()
    opened(files).close()
    files.put_durable(log_path(P1), sound)
    if lost == "damaged":
        overwrite(files, quarantine_path(FOLDER, P1), 60, b"rot")
    else:
        files.unlink(quarantine_path(FOLDER, P1))
    quarantined_of(files)


def test_damage_that_no_journal_knew_of_is_found_again_at_every_start() -> None:
    files = SimulatedFiles()
    whole = batch_of(0) + batch_of(1) + batch_of(2)
    files.put_durable(log_path(P1), whole)
    overwrite(files, log_path(P1), 100, b"rot")
    for _ in range(3):
        quarantined_of(files).close()
        assert not files.exists(quarantine_path(FOLDER, P1))
    files.put_durable(log_path(P1), whole)
    assert log_bytes(opened(files).logs[P1]) == whole


@pytest.mark.slow
def test_rot_of_any_byte_below_the_recovery_point_is_found_or_harmless() -> None:
    files, store = filled()
    expected = contents(store)
    crashed = files.power_cut()
    durable = len(batch_of(0, size_bytes=150)) * 3
    random = seeded()
    for position in range(0, durable, 3):
        rotten = crashed.kill()
        content = rotten.read_bytes(log_path(P1))
        overwrite(
            rotten, log_path(P1), position, bytes([content[position] ^ 1 << random.randrange(8)])
        )
        store = opened(rotten)
        held = contents(store)
        assert held[P0] == expected[P0]
        assert P1 in store.quarantined or held[P1] == expected[P1], position
        store.abandon()


# A full disk ---------------------------------------------------------------------------------


def test_a_start_without_room_for_the_journals_batches_is_refused_and_loses_nothing() -> None:
    files, store = filled()
    expected = contents(store)
    crashed = files.power_cut()
    crashed.capacity_bytes = 4096
    with pytest.raises(StorageFull):
        opened(crashed)
    crashed.capacity_bytes = None
    assert contents(opened(crashed)) == expected
