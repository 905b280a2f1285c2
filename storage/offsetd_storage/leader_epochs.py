"""The leader epochs of a partition: which broker term wrote from which offset on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.checkpoints import read_leader_epochs
from offsetd_storage.errors import CorruptCheckpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from offsetd_storage.files import Files
    from offsetd_storage.segment import Segment
    from offsetd_storage.segment_scan import SegmentScan

LEADER_EPOCHS_FILE: Final = "leader-epoch-checkpoint"


def found_leader_epochs(
    files: Files,
    folder: Path,
    segments: Iterable[Segment],
    scans: Mapping[int, SegmentScan],
    *,
    offset_next: int,
) -> tuple[list[tuple[int, int]], bool]:
    """The (epoch, start offset) pairs, at least one, and whether the checkpoint lacks them.

    The checkpoint is believed unless it is damaged or lacks the last epoch found in batches; then
    the batches decide. Epochs that begin behind the log's end are left out, as Kafka does.
    """
    try:
        recorded = read_leader_epochs(files, folder / LEADER_EPOCHS_FILE)
    except CorruptCheckpoint:
        recorded = []
    epochs = [(epoch, start) for epoch, start in recorded if start <= offset_next]
    last = max((scan.leader_epoch_last for scan in scans.values()), default=-1)
    if not epochs or epochs[-1][0] < last:
        epochs = _epochs_in_batches(segments, scans) or [(0, offset_next)]
    return epochs, epochs != recorded


def _epochs_in_batches(
    segments: Iterable[Segment], scans: Mapping[int, SegmentScan]
) -> list[tuple[int, int]]:
    epochs: list[tuple[int, int]] = []
    last = -1
    for segment in segments:
        if scans[segment.base_offset].leader_epoch_last <= last:
            continue  # Epochs never fall: this segment holds no new one.
        for _, header in segment.headers(0, segment.written_bytes):
            if header.partition_leader_epoch > last:
                last = header.partition_leader_epoch
                epochs.append((last, header.base_offset))
    return epochs
