"""The leader epochs of a partition: each epoch and the first offset written in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_storage.errors import CorruptCheckpoint, is_unreadable, words_of
from offsetd_storage.folder.checkpoint_files import read_leader_epochs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.segment import Segment
    from offsetd_storage.log.segment_scan import SegmentScan

LEADER_EPOCHS_FILE: Final = "leader-epoch-checkpoint"


class FoundLeaderEpochs(NamedTuple):
    """The leader epochs of a log, found when it is opened."""

    epochs: list[tuple[int, int]]  # Each with its first offset; at least one.
    changed: bool  # Whether the checkpoint file differs from `epochs`.
    problem: str | None  # The problem of the checkpoint file, if it cannot be right.


def found_leader_epochs(
    files: Files,
    folder: Path,
    segments: Iterable[Segment],
    scans: Mapping[int, SegmentScan],
    *,
    offset_next: int,
    known_last: int | None = None,
) -> FoundLeaderEpochs:
    """The leader epochs that the checkpoint and the batches show.

    The checkpoint counts, unless it is damaged, lacks the last epoch found in batches, or does not
    end with `known_last`, which the caller knows from elsewhere. Then the batches count. Epochs
    that begin above the log's end are left out, as in Kafka.
    """
    recorded, problem = _read(files, folder / LEADER_EPOCHS_FILE)
    epochs = [(epoch, start) for epoch, start in recorded if start <= offset_next]
    last = max((scan.leader_epoch_last for scan in scans.values()), default=-1)
    if known_last is not None:
        last = max(last, known_last)
    if not epochs or epochs[-1][0] < last or (known_last is not None and epochs[-1][0] > last):
        if epochs:
            problem = f"{folder / LEADER_EPOCHS_FILE} ends with {epochs[-1][0]}, not with {last}"
        epochs = _epochs_in_batches(segments, scans)
        if not epochs or epochs[-1][0] < last:
            epochs.append((max(last, 0), offset_next))
    return FoundLeaderEpochs(epochs=epochs, changed=epochs != recorded, problem=problem)


def _read(files: Files, path: Path) -> tuple[list[tuple[int, int]], str | None]:
    """The epochs in the checkpoint, and the problem with it, if any."""
    try:
        return read_leader_epochs(files, path), None
    except CorruptCheckpoint as error:
        return [], str(error)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return [], f"{path} cannot be read: {words_of(error)}"


def _epochs_in_batches(
    segments: Iterable[Segment], scans: Mapping[int, SegmentScan]
) -> list[tuple[int, int]]:
    epochs: list[tuple[int, int]] = []
    last = -1
    for segment in segments:
        if scans[segment.base_offset].leader_epoch_last <= last:
            continue  # Epochs never fall: this segment holds no new one.
        with segment.reader() as reader:
            for _, header in reader.headers(0, segment.written_bytes):
                if header.partition_leader_epoch > last:
                    last = header.partition_leader_epoch
                    epochs.append((last, header.base_offset))
    return epochs
