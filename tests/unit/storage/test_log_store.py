"""The store while it runs: what a flush promises, what a refusal leaves, what a failure ends."""

from __future__ import annotations

import errno
import threading
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from log_stores import FOLDER, P0, P1, P2, SMALL, append, commit, contents, log_bytes, opened
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_faults import Fault, Operation, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import (
    PartitionQuarantined,
    RecordTooLarge,
    StorageFailed,
    StorageFull,
)
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint
from offsetd_storage.log.kafka_checkpoints import RECOVERY_POINT_CHECKPOINT
from offsetd_storage.log_store import OFFSETS_TOPIC, LogStore, LogStoreConfig
from offsetd_storage.recovery.quarantine import Damage
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import batch_of

if TYPE_CHECKING:
    from pathlib import Path

JOURNAL = "offsetd-journal-*"


def watched(files: SimulatedFiles) -> list[tuple[OperationKind, str]]:
    """The operations from now on, as (kind, name of the file)."""
    seen: list[tuple[OperationKind, str]] = []

    def look(_: SimulatedFiles, operation: Operation) -> None:
        seen.append((operation.kind, operation.path.name))

    files.before_operation = look
    return seen


def durable(files: SimulatedFiles) -> dict[TopicPartition, bytes]:
    """What is served after a power cut now."""
    store = opened(files.power_cut())
    held = contents(store)
    store.abandon()
    return held


# What a flush promises -----------------------------------------------------------------------


def test_nothing_is_durable_before_the_flush_and_everything_after_it() -> None:
    files = SimulatedFiles()
    store = opened(files)
    first, second, other = append(store, P0), append(store, P0), append(store, P2)
    assert store._pending_frames
    assert not any(durable(files).values())
    store.flush()
    assert not store._pending_frames
    assert durable(files) == {P0: first + second, P1: b"", P2: other}


def test_a_flush_is_one_write_and_one_sync_whatever_the_number_of_logs() -> None:
    files = SimulatedFiles()
    store = opened(files)
    for topic_partition in (P0, P1, P0):
        append(store, topic_partition)
    seen = watched(files)
    store.flush()
    assert seen == [
        (OperationKind.WRITE, "offsetd-journal-0"),
        (OperationKind.SYNC, "offsetd-journal-0"),
    ]
    assert [log.has_unwritten for log in store.logs.values()] == [True, True, False]


def test_a_flush_with_nothing_to_do_touches_nothing() -> None:
    files = SimulatedFiles()
    store = opened(files)
    seen = watched(files)
    store.flush()
    assert seen == []


def test_recovery_points_move_only_after_files_and_folders_are_synced() -> None:
    files = SimulatedFiles()
    store = opened(files)
    while len(store.logs[P1].segments) < 3:
        commit(store, P1, size_bytes=200)
    end = store.logs[P1].offset_next
    assert store.recovery_point(P1).offset == 0
    seen = watched(files)
    store.advance_recovery_points()
    frame = seen.index((OperationKind.WRITE, "offsetd-journal-0"))
    before = set(seen[:frame])
    assert (OperationKind.SYNC_FOLDER, P1.folder_name) in before
    for segment in store.logs[P1].segments:
        assert (OperationKind.SYNC, segment.path.name) in before
    assert seen[frame + 1] == (OperationKind.SYNC, "offsetd-journal-0")
    assert all("checkpoint" not in name for _, name in seen[:frame] if name != "leader-epoch")
    assert store.recovery_point(P1).offset == end
    points = read_offset_checkpoint(files, FOLDER / RECOVERY_POINT_CHECKPOINT)
    assert points[P1] == end


def test_recovery_points_do_not_pass_what_the_journal_holds() -> None:
    files = SimulatedFiles()
    store = opened(files)
    commit(store, P0)
    append(store, P0)
    store.logs[P0].write()
    store.advance_recovery_points()
    assert store.recovery_point(P0).offset == 1


def test_a_full_journal_makes_the_flush_move_the_recovery_points_itself() -> None:
    files = SimulatedFiles()
    store = opened(files)
    expected = b"".join(commit(store, P0, size_bytes=200) for _ in range(100))
    assert store._journal._file_number > 4
    assert store.recovery_point(P0).offset > 0
    assert durable(files)[P0] == expected


def test_what_does_not_fit_one_frame_is_flushed_in_several_in_order() -> None:
    files = SimulatedFiles()
    store = opened(files)
    batches = [append(store, P0, size_bytes=650) for _ in range(14)]
    store.flush()
    assert durable(files)[P0] == b"".join(batches)


def test_the_journal_asks_to_be_emptied_before_it_has_to_be() -> None:
    store = opened(SimulatedFiles())
    ratios = []
    for _ in range(50):
        commit(store, P0, size_bytes=200)
        ratios.append(store.journal_used_ratio)
        if store.journal_used_ratio > 0.5:
            store.advance_recovery_points()
            assert store.journal_used_ratio == 0
    assert 0.5 < max(ratios) < 0.7
    assert store._journal._file_number > 3


# Refusals ------------------------------------------------------------------------------------


def test_a_batch_too_large_for_topic_or_journal_is_refused() -> None:
    store = opened(SimulatedFiles(), attrs.evolve(SMALL, log=LogConfig(message_bytes_max=500)))
    with pytest.raises(RecordTooLarge):
        append(store, P0, size_bytes=501)
    store = opened(SimulatedFiles(), attrs.evolve(SMALL, log=LogConfig()))
    with pytest.raises(RecordTooLarge):
        append(store, P0, size_bytes=4000)
    commit(store, P0, size_bytes=store.journal_size.batch_bytes_max)


def test_a_partition_that_is_not_there_is_refused() -> None:
    store = opened(SimulatedFiles())
    with pytest.raises(PartitionQuarantined, match="no such partition"):
        store.append(
            TopicPartition(OFFSETS_TOPIC, 9), batch_of(0), last_offset=0, max_timestamp_ms=0
        )


def test_a_damaged_partition_is_refused_in_one_line_that_names_it_once() -> None:
    store = opened(SimulatedFiles())
    del store.logs[P0]
    store.quarantined[P0] = Damage(
        topic_partition=P0, segment_base_offset=0, position=7, reason="a batch is damaged"
    )
    with pytest.raises(PartitionQuarantined) as refusal:
        store.log(P0)
    assert str(refusal.value) == str(store.quarantined[P0])


def test_a_full_disk_refuses_appends_and_changes_nothing_until_there_is_room() -> None:
    files = SimulatedFiles()
    store = opened(files)
    files.capacity_bytes = 4096 * 30
    batches: list[bytes] = []
    with pytest.raises(StorageFull) as refusal:
        batches.extend(commit(store, P0, size_bytes=200) for _ in range(1000))
    assert refusal.value.retriable
    expected = b"".join(batches)
    offset = store.logs[P0].offset_next
    for _ in range(3):
        with pytest.raises(StorageFull):
            append(store, P0, size_bytes=700)
    assert store.logs[P0].offset_next == offset
    store.flush()
    store.advance_recovery_points()
    assert store.failed is None
    assert durable(files)[P0] == expected
    files.capacity_bytes = None
    expected += commit(store, P0, size_bytes=700)
    assert durable(files)[P0] == expected


# Failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("kind", [OperationKind.WRITE, OperationKind.SYNC])
@pytest.mark.parametrize("path", ["*.log", f"*/{JOURNAL}"])
def test_a_failed_write_or_sync_ends_the_store(path: str, kind: OperationKind, number: int) -> None:
    files = SimulatedFiles()
    store = opened(files)
    acknowledged = commit(store, P0)
    files.faults.append(Fault(errno=number, kind=kind, path=path, nth=1))
    append(store, P0)

    def flush_and_advance() -> None:
        store.flush()
        store.advance_recovery_points()

    with pytest.raises(StorageFailed):
        flush_and_advance()
    assert store.failed is not None
    for call in (store.flush, store.advance_recovery_points, lambda: append(store, P1)):
        with pytest.raises(StorageFailed):
            call()
    seen = watched(files)
    with pytest.raises(StorageFailed):
        store.close()
    assert seen == [], "a failed store writes nothing more"
    again = opened(files.kill())
    assert log_bytes(again.logs[P0]).startswith(acknowledged)


def test_a_failed_sync_is_not_tried_again() -> None:
    files = SimulatedFiles()
    store = opened(files)
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC, nth=1))
    append(store, P0)
    seen = watched(files)
    with pytest.raises(StorageFailed):
        store.flush()
    with pytest.raises(StorageFailed):
        store.flush()
    assert [kind for kind, _ in seen].count(OperationKind.SYNC) == 1


def test_whatever_breaks_a_flush_ends_the_store() -> None:
    files = SimulatedFiles()
    store = opened(files)
    append(store, P0)

    def interrupt(_: SimulatedFiles, operation: Operation) -> None:
        raise MemoryError

    files.before_operation = interrupt
    with pytest.raises(MemoryError):
        store.flush()
    files.before_operation = None
    with pytest.raises(StorageFailed, match="MemoryError"):
        append(store, P0)


# Ending --------------------------------------------------------------------------------------


def test_closing_flushes_and_leaves_a_clean_folder() -> None:
    files = SimulatedFiles()
    store = opened(files)
    batch = append(store, P0)
    store.close()
    again = opened(files.power_cut())
    assert again.report.closed_clean
    assert again.report.batches_appended_again == 0
    assert contents(again)[P0] == batch
    assert not store._journal._files._open
    opened(files)


def test_a_failure_while_closing_unlocks_and_is_told() -> None:
    files = SimulatedFiles()
    store = opened(files)
    append(store, P0)
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC, nth=2))
    with pytest.raises(StorageFailed):
        store.close()
    opened(files)


def test_a_store_knows_its_folder_for_ever() -> None:
    files = SimulatedFiles()
    store = opened(files)
    assert len(bytes.fromhex(store.folder_id)) == 16
    store.close()
    assert opened(files).folder_id == store.folder_id


# Threads -------------------------------------------------------------------------------------


def test_appends_flushes_and_moving_points_go_on_side_by_side(tmp_path: Path) -> None:
    config = LogStoreConfig(
        partitions=4,
        log=LogConfig(segment_bytes_max=4000, preallocate_step_bytes=4096),
        journal_file_bytes=16_384,
        journal_header_bytes=512,
        recovery_threads=2,
    )
    store = opened(OsFiles(), config, folder=tmp_path / "offsets", random=Random(3))
    partitions = sorted(store.logs)
    errors: list[BaseException] = []
    done = threading.Event()
    expected: dict[TopicPartition, bytes] = dict.fromkeys(partitions, b"")

    def guarded(step: object) -> None:
        assert callable(step)
        try:
            while not done.is_set():
                step()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [
        threading.Thread(target=guarded, args=(step,))
        for step in (store.flush, store.advance_recovery_points)
    ]
    for thread in threads:
        thread.start()
    for place in range(3000):
        topic_partition = partitions[place % 4]
        expected[topic_partition] += append(store, topic_partition)
    store.flush()
    done.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert store._journal._file_number > 5
    store.abandon()
    again = opened(OsFiles(), config, folder=tmp_path / "offsets")
    assert isinstance(again, LogStore)
    assert contents(again) == expected
    again.close()
