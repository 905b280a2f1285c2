"""Kafka's checkpoints of a data folder: copies for Kafka; other topics keep their lines."""

from __future__ import annotations

import errno

import pytest
from log_stores import FOLDER, P0, P1
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint
from offsetd_storage.log.kafka_checkpoints import (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    KafkaCheckpoints,
)
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import created

ORDERS = TopicPartition("orders", 2)


def disk(
    recovery_points: bytes = b"0\n1\norders 2 44\n", log_starts: bytes = b""
) -> SimulatedFiles:
    files = SimulatedFiles()
    files.put_durable(FOLDER / RECOVERY_POINT_CHECKPOINT, recovery_points)
    files.put_durable(FOLDER / LOG_START_CHECKPOINT, log_starts)
    return files


def test_entries_of_other_topics_stay() -> None:
    files = disk()
    KafkaCheckpoints(files, FOLDER).write({P0: 9, P1: 0}, [])
    points = read_offset_checkpoint(files.power_cut(), FOLDER / RECOVERY_POINT_CHECKPOINT)
    assert points == {ORDERS: 44, P0: 9, P1: 0}


def test_a_log_start_is_listed_only_behind_the_first_segments_base() -> None:
    files = disk(log_starts=b"0\n2\norders 2 5\n__consumer_offsets 7 3\n")
    checkpoints = KafkaCheckpoints(files, FOLDER)
    log = created(files)
    assert checkpoints.log_start(log.topic_partition, 5) == 3
    checkpoints.write({}, [log])
    assert read_offset_checkpoint(files, FOLDER / LOG_START_CHECKPOINT) == {ORDERS: 5}
    log.log_start_offset = 2
    checkpoints.write({}, [log])
    assert read_offset_checkpoint(files, FOLDER / LOG_START_CHECKPOINT) == {
        ORDERS: 5,
        log.topic_partition: 2,
    }


def test_what_has_not_changed_is_not_written() -> None:
    files = disk()
    checkpoints = KafkaCheckpoints(files, FOLDER)
    checkpoints.write({ORDERS: 44}, [])
    assert files.operations == 0


def test_a_damaged_checkpoint_counts_as_empty_is_told_and_written_anew() -> None:
    files = disk(recovery_points=b"0\n9\norders")
    checkpoints = KafkaCheckpoints(files, FOLDER)
    assert checkpoints.recovery_points == {}
    assert len(checkpoints.warnings) == 1
    checkpoints.write({}, [])
    assert files.read_bytes(FOLDER / RECOVERY_POINT_CHECKPOINT) == b"0\n0\n"


@pytest.mark.parametrize("kind", [OperationKind.WRITE, OperationKind.SYNC])
def test_on_a_full_disk_the_old_one_stays(kind: OperationKind) -> None:
    files = disk()
    checkpoints = KafkaCheckpoints(files, FOLDER)
    files.faults.append(Fault(errno=errno.ENOSPC, kind=kind, nth=1))
    checkpoints.write({P0: 9}, [])
    assert read_offset_checkpoint(files, FOLDER / RECOVERY_POINT_CHECKPOINT) == {ORDERS: 44}
    checkpoints.write({P0: 9}, [])
    assert read_offset_checkpoint(files, FOLDER / RECOVERY_POINT_CHECKPOINT)[P0] == 9


def test_any_other_error_is_raised() -> None:
    files = disk()
    checkpoints = KafkaCheckpoints(files, FOLDER)
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC))
    with pytest.raises(OSError, match="Input/output"):
        checkpoints.write({P0: 9}, [])
