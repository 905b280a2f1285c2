"""A broker's data folder: served as it is, whether it stopped clean or was killed."""

from __future__ import annotations

import errno

import pytest
from log_stores import (
    FOLDER,
    P0,
    P1,
    commit,
    contents,
    log_bytes,
    opened,
    tree,
)
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint
from offsetd_storage.log.kafka_checkpoints import RECOVERY_POINT_CHECKPOINT
from offsetd_storage.log.segment_list import SEGMENT_LIST_NAME
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.recovery.folder_recovery import CLEAN_SHUTDOWN_NAME
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import GOLDEN, batch_of
from recovered_folders import LARGE, filled, log_path, put_tree

# A broker's folders --------------------------------------------------------------------------


def test_a_brokers_folder_is_served_as_it_is_and_appended_to() -> None:
    files = SimulatedFiles()
    put_tree(files, GOLDEN, FOLDER)
    before = tree(files)
    store = opened(files, LARGE)
    assert store.partitions == len(store.logs) == 50
    assert not store.quarantined
    p13 = TopicPartition(OFFSETS_TOPIC, 13)
    assert store.logs[p13].offset_next == 4
    old = log_bytes(store.logs[p13])
    batch = commit(store, p13)
    again = opened(files.power_cut(), LARGE)
    assert log_bytes(again.logs[p13]) == old + batch
    assert again.logs[p13].offset_next == 5
    after = tree(files)
    for path, content in before.items():
        if path.endswith(".log"):
            assert after[path].startswith(content)
    assert after[str(FOLDER / "meta.properties")] == before[str(FOLDER / "meta.properties")]


def test_a_folder_that_had_logs_when_it_became_ours_is_from_elsewhere_for_ever() -> None:
    files = SimulatedFiles()
    put_tree(files, GOLDEN, FOLDER)
    store = opened(files, LARGE)
    assert store.is_from_elsewhere
    store.close()
    assert opened(files, LARGE).is_from_elsewhere
    files = SimulatedFiles()
    assert not opened(files, LARGE).is_from_elsewhere
    assert not opened(files.power_cut(), LARGE).is_from_elsewhere


def test_lines_of_other_topics_stay_in_a_brokers_checkpoint() -> None:
    files = SimulatedFiles()
    put_tree(files, GOLDEN, FOLDER)
    before = read_offset_checkpoint(files, FOLDER / RECOVERY_POINT_CHECKPOINT)
    store = opened(files, LARGE)
    commit(store, TopicPartition(OFFSETS_TOPIC, 48))
    store.close()
    after = read_offset_checkpoint(files, FOLDER / RECOVERY_POINT_CHECKPOINT)
    assert after[TopicPartition(OFFSETS_TOPIC, 48)] == 1
    assert before.keys() == after.keys()
    assert {each: offset for each, offset in after.items() if each.topic != OFFSETS_TOPIC} == {
        each: offset for each, offset in before.items() if each.topic != OFFSETS_TOPIC
    }


@pytest.mark.parametrize("checkpoint", [None, b"", b"0\n0\n", b"0\n1\n__consumer_offsets 13 2\n"])
def test_a_broker_that_was_killed_loses_a_torn_tail_and_no_more(checkpoint: bytes | None) -> None:
    files = SimulatedFiles()
    put_tree(files, GOLDEN, FOLDER)
    path = FOLDER / "__consumer_offsets-13" / log_path(P0).name
    whole = files.read_bytes(path)
    files.put_durable(path, whole + batch_of(4)[:-1])
    index = path.with_suffix(".index")
    files.put_durable(index, files.read_bytes(index) + bytes(80_000))  # Preallocated.
    if checkpoint is None:
        files.unlink(FOLDER / RECOVERY_POINT_CHECKPOINT)
    else:
        files.put_durable(FOLDER / RECOVERY_POINT_CHECKPOINT, checkpoint)
    store = opened(files, LARGE)
    log = store.logs[TopicPartition(OFFSETS_TOPIC, 13)]
    assert (log_bytes(log), log.offset_next) == (whole, 4)
    assert store.report.bytes_cut == len(batch_of(4)) - 1
    assert not store.quarantined


def test_what_a_killed_brokers_page_cache_shows_is_served_only_if_it_is_on_the_disk() -> None:
    files = SimulatedFiles()
    path = FOLDER / "__consumer_offsets-0" / log_path(P0).name
    files.put_durable(path, batch_of(0))
    file = files.open(path)
    file.pwrite([batch_of(1)], file.size())
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC))
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    files = files.kill()
    served = contents(store := opened(files))
    assert served[P0] == batch_of(0)
    store.abandon()
    assert contents(opened(files.power_cut())) == served


def test_what_a_killed_broker_had_not_synced_is_durable_before_it_is_served() -> None:
    files = SimulatedFiles()
    path = FOLDER / "__consumer_offsets-0" / log_path(P0).name
    files.put_durable(path, batch_of(0))
    file = files.open(path)
    file.pwrite([batch_of(1)], file.size())
    files = files.kill()
    served = contents(store := opened(files))
    assert served[P0] == batch_of(0) + batch_of(1)
    store.abandon()
    assert contents(opened(files.power_cut())) == served


def test_a_broker_may_run_between_two_clean_stops_of_ours() -> None:
    files, store = filled(closed=True)
    active = store.logs[P0].segments[-1]
    offset = store.logs[P0].offset_next
    theirs = batch_of(offset, leader_epoch=3)
    files.put_durable(active.path, files.read_bytes(active.path) + theirs)
    files.put_durable(FOLDER / CLEAN_SHUTDOWN_NAME, b"")
    again = opened(files)
    assert again.logs[P0].offset_next == offset + 1
    assert log_bytes(again.logs[P0]).endswith(theirs)
    assert again.logs[P0].leader_epoch == 3
    assert not files.power_cut().exists(FOLDER / CLEAN_SHUTDOWN_NAME)


def test_the_brokers_word_is_taken_away_behind_our_lists_and_before_all_else() -> None:
    files, _ = filled(closed=True)
    files.put_durable(FOLDER / CLEAN_SHUTDOWN_NAME, b"")
    kinds: list[tuple[OperationKind, str]] = []
    files.before_operation = lambda _, operation: kinds.append(
        (operation.kind, operation.path.name)
    )
    opened(files)
    syncs = (OperationKind.SYNC, OperationKind.SYNC_FOLDER)
    of_lists = (OperationKind.UNLINK, SEGMENT_LIST_NAME)
    assert of_lists in kinds
    changes = (place for place, each in enumerate(kinds) if each[0] not in syncs)
    first = next(place for place in changes if kinds[place] != of_lists)
    assert kinds[first : first + 2] == [
        (OperationKind.UNLINK, CLEAN_SHUTDOWN_NAME),
        (OperationKind.SYNC_FOLDER, FOLDER.name),
    ]


def test_where_a_log_begins_that_a_broker_had_is_taken_from_its_checkpoint() -> None:
    files, _ = filled(closed=True)
    files.put_durable(FOLDER / CLEAN_SHUTDOWN_NAME, b"")
    files.put_durable(FOLDER / "log-start-offset-checkpoint", b"0\n1\n__consumer_offsets 1 2\n")
    store = opened(files)
    assert [store.logs[each].log_start_offset for each in (P0, P1)] == [0, 2]
