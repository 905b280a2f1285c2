"""The log of one partition: a row of segments, the last of which takes the appends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from random import Random

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.files import Files
    from offsetd_storage.log_config import LogConfig
    from offsetd_storage.segment import Segment
    from offsetd_storage.segment_scan import SegmentScan
    from offsetd_storage.topic_partition import TopicPartition


class PartitionLog:
    """Appends to, reads and syncs the segments of one partition.

    One thread appends (`append`), one writes (`write`), one syncs (`sync`); these may be three.
    Any thread reads, and sees what is written. The rest (`truncate`, `close`) is for one thread
    that has the log to itself. An `OSError` out of `write`, `sync` or `close` means that the state
    on disk is unknown: nothing may be tried again.
    """

    topic_partition: TopicPartition
    folder: Path
    config: LogConfig  # may be replaced while running
    segments: list[
        Segment
    ]  # by base offset, the last is active; replaced as a whole, never changed
    log_start_offset: int
    offset_next: int  # of the next append
    offset_next_written: int  # what `write` has put into the files
    leader_epoch: int  # of the log's last epoch: batches that are appended carry it
    indexes_rebuilt: int  # index files that were missing or damaged when the log was opened

    @classmethod
    def create(
        cls,
        files: Files,
        folder: Path,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        base_offset: int = 0,
        random: Random | None = None,
    ) -> PartitionLog:
        """Makes the partition's folder, `leader-epoch-checkpoint` and an empty first segment.

        A folder that a crash left half made is finished. Not durable before `sync`.
        """
        raise NotImplementedError

    @classmethod
    def open(
        cls,
        files: Files,
        folder: Path,
        topic_partition: TopicPartition,
        config: LogConfig,
        scans: Mapping[int, SegmentScan],
        *,
        log_start_offset: int | None = None,
        offset_next: int | None = None,
        synced: bool = False,
        read_only: bool = False,
        random: Random | None = None,
    ) -> PartitionLog:
        """Opens the segments in `scans`, by base offset; each holds `valid_bytes` of its scan.

        Nothing on disk is changed until `write`, `sync`, `truncate` or `close`; then bytes behind
        `valid_bytes` are cut off, and index files that differ from the scan are put right.
        `offset_next` is given where the log ends behind its last batch. `synced` promises that
        every file is durable as it is; without it, the first `sync` syncs them all.
        """
        raise NotImplementedError

    def append(self, batch: bytes, *, last_offset: int, max_timestamp_ms: int, now_ms: int) -> None:
        """Queues a record batch whose base offset is at or above `offset_next`.

        Raises RecordTooLarge, StorageFull (no block or file to be had) and StorageFailed; then
        nothing has changed.
        """
        raise NotImplementedError

    def has_unwritten(self) -> bool:
        """Whether `write` has something to do."""
        raise NotImplementedError

    def has_unsynced(self) -> bool:
        """Whether `sync` has something to do for what was written."""
        raise NotImplementedError

    def write(self) -> None:
        """Puts all queued batches into the segment files, one call a segment."""
        raise NotImplementedError

    def sync(self) -> int:
        """Makes durable what was written before the call; returns that end (exclusive)."""
        raise NotImplementedError

    def truncate(self, offset_next: int) -> None:
        """Keeps the batches that end below `offset_next`, which becomes the log's end."""
        raise NotImplementedError

    def read(self, offset: int, *, bytes_max: int) -> bytes:
        """Whole batches from the one that holds `offset`, or the first behind it.

        At most `bytes_max` bytes, but at least one batch; empty at the end of what is written.
        """
        raise NotImplementedError

    def read_chunks(
        self, chunk_bytes: int, *, offset: int = 0, offset_limit: int | None = None
    ) -> Iterator[tuple[npt.NDArray[np.uint8], int]]:
        """Yields (buffer, end): `buffer[:end]` holds whole batches, from the one with `offset` on.

        The buffer is padded for the kernels, and reused: done with at the next step. Chunks have
        about `chunk_bytes`. With `offset_limit` only batches that end below it come.
        """
        raise NotImplementedError

    def segments_from(self, offset: int) -> list[Segment]:
        """The segments that hold `offset` and what follows."""
        raise NotImplementedError

    def offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        """Offset of the first record at or after that time; None if there is none."""
        raise NotImplementedError

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' batches, queued ones too."""
        raise NotImplementedError

    def close(self) -> None:
        """Writes and syncs everything, gives back reserved blocks and closes the files."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Closes the files and leaves them as they are."""
        raise NotImplementedError
