"""An operator's ways out: a topic's folders are removed, or its oldest segments, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from log_stores import FOLDER, P0, P1, SMALL, SMALL_LOG, append, commit, contents, opened, seeded
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import DELETE
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import PartitionQuarantined
from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
from offsetd_storage.log.segment_files import SEGMENT_SUFFIXES, segment_base_offsets, segment_path
from offsetd_storage.log.segment_list import SEGMENT_LIST_NAME
from offsetd_storage.log_store import LogStore, TopicSpec
from offsetd_storage.recovery.quarantine import list_quarantine_files
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import NOW_MS

if TYPE_CHECKING:
    from random import Random

    from offsetd_storage.disk.simulated_faults import Operation

AUDIT = TopicPartition("audit", 0)
CONFIG = attrs.evolve(
    SMALL,
    partitions=2,
    journal_file_bytes=8192,
    other_topics=(
        TopicSpec(topic="audit", partitions=1, log=attrs.evolve(SMALL_LOG, cleanup_policy=DELETE)),
    ),
)


def stopped(*, closed: bool) -> tuple[SimulatedFiles, dict[TopicPartition, bytes]]:
    """Twelve batches in each log, in segments of five; and what each holds.

    Killed, two of them are above the recovery point.
    """
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    for at in range(12):
        if at == 10:
            store.advance_recovery_points()
        for topic_partition in (P0, P1, AUDIT):
            append(store, topic_partition, size_bytes=140)
        store.flush()
    checkpoint = CleanerCheckpoint(files, FOLDER)
    checkpoint.advance(AUDIT, 7)
    checkpoint.advance(P0, 7)
    held = contents(store)
    if closed:
        store.close()
    else:
        store.abandon()
    return files.kill(), held


def remove_folder(files: SimulatedFiles, topic_partition: TopicPartition) -> None:
    """And the folder itself, if the disk has a call for that; a reader cannot tell."""
    folder = FOLDER / topic_partition.folder_name
    for name in files.list_folder(folder):
        files.unlink(folder / name)
    files.sync_folder(folder)


def remove_oldest(files: SimulatedFiles, topic_partition: TopicPartition, *, below: int) -> None:
    folder = FOLDER / topic_partition.folder_name
    for base_offset in segment_base_offsets(files, folder):
        if base_offset < below:
            for suffix in SEGMENT_SUFFIXES:
                path = segment_path(folder, base_offset, suffix)
                if files.exists(path):
                    files.unlink(path)
    files.sync_folder(folder)


def reopened(
    files: SimulatedFiles, *anew: TopicPartition, random: Random | None = None
) -> LogStore:
    return LogStore.open(
        files,
        FOLDER,
        CONFIG,
        clock=ManualClock(NOW_MS),
        random=random or seeded(),
        recreated=anew,
    )


def check_begun_anew(store: LogStore, topic_partition: TopicPartition, offset: int) -> None:
    log = store.logs[topic_partition]
    assert (log.log_start_offset, log.offset_next, log.size_bytes) == (offset, offset, 0)
    assert not store.quarantined


def test_a_topic_whose_folder_was_removed_after_a_clean_stop_begins_anew_where_it_ended() -> None:
    files, held = stopped(closed=True)
    remove_folder(files, AUDIT)
    store = reopened(files)
    check_begun_anew(store, AUDIT, 12)
    (warning,) = store.report.warnings
    assert "audit-0" in warning
    assert "is recreated" in warning
    assert CleanerCheckpoint(files, FOLDER).first_dirty(AUDIT) is None
    assert CleanerCheckpoint(files, FOLDER).first_dirty(P0) == 7
    batch = commit(store, AUDIT)
    store.abandon()
    again = reopened(files.power_cut())
    assert again.report.warnings == ()
    assert contents(again) == held | {AUDIT: batch}


def test_so_does_one_that_is_gone_from_the_settings_too() -> None:
    files, held = stopped(closed=True)
    remove_folder(files, AUDIT)
    for warnings in (1, 0):
        store = opened(files, attrs.evolve(CONFIG, other_topics=()))
        assert len(store.report.warnings) == warnings
        check_begun_anew(store, AUDIT, 12)
        assert contents(store) == held | {AUDIT: b""}
        store.abandon()
        files = files.power_cut()


@pytest.mark.parametrize(("removed", "closed"), [(AUDIT, False), (P0, False), (P0, True)])
def test_else_a_folder_that_is_missing_is_no_silent_loss(
    removed: TopicPartition, closed: bool
) -> None:
    files, held = stopped(closed=closed)
    remove_folder(files, removed)
    store = reopened(files)
    reason = str(store.quarantined[removed])
    assert "restore its files" in reason
    assert "offsetd log repair" in reason
    with pytest.raises(PartitionQuarantined):
        append(store, removed) if removed in store.logs else store.log(removed)
    assert contents(store) == {each: held[each] for each in held if each != removed}
    # As the operator says: it begins anew, and what was kept of it goes.
    store.close()
    store = reopened(files, removed)
    check_begun_anew(store, removed, 12)
    assert not list_quarantine_files(files, FOLDER)
    batch = commit(store, removed)
    store.abandon()
    again = reopened(files.power_cut())
    assert contents(again) == held | {removed: batch}
    assert not again.quarantined


def test_a_topic_whose_loss_is_damage_is_quarantined_also_after_a_clean_stop() -> None:
    config = attrs.evolve(
        CONFIG, other_topics=(attrs.evolve(CONFIG.other_topics[0], is_removable=False),)
    )
    files, held = stopped(closed=True)
    remove_folder(files, AUDIT)
    store = opened(files, config)
    assert "offsetd log repair" in str(store.quarantined[AUDIT])
    store.close()
    store = reopened(files, AUDIT)  # Begun anew it is empty: then nothing is lost with its folder.
    store.close()
    remove_folder(files, AUDIT)
    store = opened(files, config)
    check_begun_anew(store, AUDIT, 12)
    assert contents(store) == held | {AUDIT: b""}


def test_a_log_that_is_whole_begins_anew_where_that_is_asked_for() -> None:
    files, held = stopped(closed=False)
    store = reopened(files, AUDIT)
    check_begun_anew(store, AUDIT, 12)
    assert contents(store) == held | {AUDIT: b""}


@pytest.mark.parametrize("closed", [True, False])
def test_without_its_oldest_segments_a_log_starts_at_the_first_one_left(closed: bool) -> None:
    files, held = stopped(closed=closed)
    for topic_partition in (AUDIT, P0):
        remove_oldest(files, topic_partition, below=5)
    refusing = reopened(files)
    assert set(refusing.quarantined) == {AUDIT, P0}
    assert "the segment is missing" in str(refusing.quarantined[P0])
    assert "offsetd log repair" in str(refusing.quarantined[P0])
    refusing.close()
    # As the operator says: the lists go.
    for topic_partition in (AUDIT, P0):
        files.unlink(FOLDER / topic_partition.folder_name / SEGMENT_LIST_NAME)
    store = reopened(files)
    assert not store.quarantined
    first = store.logs[P0].segments[0].base_offset
    assert first == 5
    told = [each for each in store.report.warnings if SEGMENT_LIST_NAME not in each]
    assert sorted(told) == [
        f"{each}: the segments from offset 0 to {first - 1} are not there any more;"
        f" the log starts at {first}"
        for each in (P0, AUDIT)
    ]
    for each in (P0, AUDIT):
        assert store.logs[each].log_start_offset == first
        assert held[each].endswith(contents(store)[each])
        assert len(contents(store)[each]) == 140 * (12 - first)
    assert store.logs[P1].log_start_offset == 0
    batch = commit(store, AUDIT)
    after = contents(store)
    assert after[AUDIT].endswith(batch)
    store.abandon()
    again = reopened(files.power_cut())
    assert again.report.warnings == ()
    assert contents(again) == after


def test_oldest_segments_that_cleaning_left_nothing_of_are_no_loss() -> None:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    for _ in range(8):
        commit(store, P0, size_bytes=140)
    store.advance_recovery_points()
    log = store.logs[P0]
    oldest = log.segments[0]
    log.replace_segments([oldest], [])
    assert log.log_start_offset == log.segments[0].base_offset > 0
    store.close()
    remove_oldest(files, P0, below=log.log_start_offset)
    assert reopened(files).report.warnings == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("removed", "closed", "asked"),
    [(AUDIT, True, ()), (AUDIT, False, (AUDIT,)), (P0, True, (P0,)), (None, False, (AUDIT,))],
)
def test_a_crash_while_a_log_begins_anew_leaves_it_begun_or_quarantined(
    removed: TopicPartition | None, closed: bool, asked: tuple[TopicPartition, ...]
) -> None:
    random = seeded()
    files, held = stopped(closed=closed)
    if removed is not None:
        remove_folder(files, removed)
    (target,) = asked or (removed,)
    states: list[SimulatedFiles] = []

    def look(running: SimulatedFiles, _: Operation) -> None:
        states.extend(running.crash_states(samples=1, random=random))
        states.append(running.kill())

    files.before_operation = look
    reopened(files, *asked, random=random).abandon()
    files.before_operation = None
    assert len(states) > 20
    others = {each: held[each] for each in held if each != target}
    for state in states:
        store = reopened(state, random=random)
        found = contents(store)
        assert {each: found[each] for each in others} == others
        if target in store.quarantined:
            assert asked, "nobody has to do anything where nothing was asked for"
        else:
            assert found[target] in (b"", held[target])
            assert store.logs[target].offset_next == 12
        store.abandon()
        again = reopened(state, target, random=random)
        check_begun_anew(again, target, 12)
        again.abandon()
