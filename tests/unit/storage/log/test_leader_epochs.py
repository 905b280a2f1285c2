"""Which leader epoch a log is in: by its checkpoint, and by its batches."""

from __future__ import annotations

import pytest
from offsetd_storage.disk.simulated_files import SimulatedFiles
from partition_logs import (
    FOLDER,
    NOW_MS,
    batch_of,
    created,
    opened,
)

EPOCHS = FOLDER / "leader-epoch-checkpoint"


def put_epochs(files: SimulatedFiles, text: bytes | None) -> None:
    if text is None:
        files.unlink(EPOCHS)
    else:
        files.put_durable(EPOCHS, text)


@pytest.mark.parametrize(
    ("text", "epoch", "mended"),
    [
        (b"0\n2\n0 0\n3 4\n", 3, None),
        (b"0\n3\n0 0\n3 4\n7 6\n", 7, None),  # A broker took over and wrote nothing.
        (b"0\n3\n0 0\n3 4\n7 9\n", 3, b"0\n2\n0 0\n3 4\n"),  # Begins behind the log's end.
        (b"0\n1\n0 0\n", 3, b"0\n2\n0 0\n3 4\n"),
        (b"rubbish", 3, b"0\n2\n0 0\n3 4\n"),
        (b"", 3, b"0\n2\n0 0\n3 4\n"),
        (None, 3, b"0\n2\n0 0\n3 4\n"),
    ],
)
def test_the_leader_epoch_is_the_checkpoints_unless_the_batches_know_better(
    text: bytes | None, epoch: int, mended: bytes | None
) -> None:
    files = SimulatedFiles()
    log = created(files)
    for offset in range(6):
        batch = batch_of(offset, leader_epoch=3 if offset >= 4 else 0)
        log.append(batch, last_offset=offset, max_timestamp_ms=NOW_MS, now_ms=NOW_MS)
    log.close()
    put_epochs(files, text)
    log = opened(files, synced=True)
    assert log.leader_epoch == epoch
    assert log.has_unsynced == (mended is not None)
    log.close()
    assert files.read_bytes(EPOCHS) == (mended or text)


def test_an_empty_log_without_a_checkpoint_is_of_epoch_zero() -> None:
    files = SimulatedFiles()
    created(files).close()
    put_epochs(files, None)
    log = opened(files)
    assert log.leader_epoch == 0
    log.close()
    assert files.read_bytes(EPOCHS) == b"0\n1\n0 0\n"
