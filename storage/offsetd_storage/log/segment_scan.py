"""A scan of a segment file: checks every batch and derives the segment's indexes and bounds."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels import PADDING_BYTES, padded_buffer, scan
from offsetd_storage.kernels.encode import (
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    LENGTH_EXCLUDES_BYTES,
)

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from offsetd_storage.disk.files import File, Files

# A buffer is so small that it stays in the processor's cache between the read and the scan.
BUFFER_BYTES: Final = 1024 * 1024
# A batch is read in one piece. By default Kafka's brokers take no request above 100 MiB.
BATCH_BYTES_MAX: Final = 128 << 20

_INDEX_ROWS_MAX: Final = 4096
_DIGEST_READ_BYTES: Final = 1 << 18
_NO_LEADER_EPOCH: Final = -1
_NO_TIMESTAMP: Final = -1

OFFSET_INDEX_ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_INDEX_ENTRY: Final = np.dtype([("timestamp_ms", ">i8"), ("relative_offset", ">i4")])
assert OFFSET_INDEX_ENTRY.itemsize == 8, "an entry of .index is 8 bytes"
assert TIME_INDEX_ENTRY.itemsize == 12, "an entry of .timeindex is 12 bytes"


class StopReason(enum.IntEnum):
    """The reason why a scan stopped."""

    INCOMPLETE = scan.INCOMPLETE
    BAD_LENGTH = scan.BAD_LENGTH
    BAD_MAGIC = scan.BAD_MAGIC
    BAD_COUNT = scan.BAD_COUNT
    BAD_OFFSET = scan.BAD_OFFSET
    BAD_LEADER_EPOCH = scan.BAD_LEADER_EPOCH
    BAD_CHECKSUM = scan.BAD_CHECKSUM
    TOO_LARGE = scan.TOO_LARGE


@attrs.frozen(kw_only=True)
class ScanStop:
    """The first batch that is not whole and valid, and its position in the file, in bytes."""

    position: int
    reason: StopReason


@attrs.frozen(kw_only=True, eq=False)
class SegmentScan:
    """A summary of the valid batches at the start of a segment file.

    `first_timestamp_ms` is the max timestamp of the first batch; Kafka counts `segment.ms` from it.
    Timestamps are -1 if there is none. Marked batches are those of producers, and those with a
    delete horizon. Each offset from `gapless_from` up to `offset_next` has its record, outside of
    transactions. `tobytes()` of an index equals its file, except for the last entry that a time
    index gets when its segment is closed. `headers_digest` is the CRC32C over the first 21 bytes of
    every batch in order: 17 bytes that no checksum of Kafka's covers, and the batch's CRC.
    """

    valid_bytes: int
    offset_next: int
    batches: int
    records: int
    marked_batches: int
    gapless_from: int
    first_timestamp_ms: int
    largest_timestamp_ms: int
    largest_timestamp_offset: int
    leader_epoch_last: int
    headers_digest: int
    offset_index: npt.NDArray[np.void]
    time_index: npt.NDArray[np.void]
    stop: ScanStop | None


def scan_segment(
    file: File,
    *,
    size: int,
    base_offset: int,
    offset_min: int,
    leader_epoch_min: int = _NO_LEADER_EPOCH,
    index_interval_bytes: int = 4096,
    buffer: npt.NDArray[np.uint8] | None = None,
) -> SegmentScan:
    """Checks the first `size` bytes of a segment's log file, up to the first bad batch.

    The first batch's offset must be at least `offset_min` and `base_offset`, its leader epoch at
    least `leader_epoch_min`. `buffer` (padded; any length) is used for reading, so that a thread
    can use one buffer for many files. The scan runs without the GIL nearly all of the time.
    """
    state = np.zeros(scan.STATE_SLOTS, dtype=np.int64)
    state[scan.SEGMENT_BASE_OFFSET] = base_offset
    state[scan.INDEX_INTERVAL_BYTES] = index_interval_bytes
    state[scan.OFFSET_NEXT] = max(base_offset, offset_min)
    state[scan.GAPLESS_FROM] = base_offset
    state[scan.LEADER_EPOCH_LAST] = leader_epoch_min
    state[scan.LARGEST_TIMESTAMP] = _NO_TIMESTAMP
    state[scan.LARGEST_TIMESTAMP_OFFSET] = base_offset
    state[scan.FIRST_TIMESTAMP] = _NO_TIMESTAMP
    rows: list[npt.NDArray[np.int64]] = []
    valid_bytes = _scan_file(file, size, state, rows, _usable(buffer))
    stop = None
    if state[scan.REASON] != scan.END:
        stop = ScanStop(position=valid_bytes, reason=StopReason(int(state[scan.REASON])))
    index = np.concatenate(rows) if rows else np.empty((0, scan.INDEX_COLUMNS), dtype=np.int64)
    return SegmentScan(
        valid_bytes=valid_bytes,
        offset_next=int(state[scan.OFFSET_NEXT]),
        batches=int(state[scan.BATCHES]),
        records=int(state[scan.RECORDS]),
        marked_batches=int(state[scan.MARKED_BATCHES]),
        gapless_from=int(state[scan.GAPLESS_FROM]),
        first_timestamp_ms=int(state[scan.FIRST_TIMESTAMP]),
        largest_timestamp_ms=int(state[scan.LARGEST_TIMESTAMP]),
        largest_timestamp_offset=int(state[scan.LARGEST_TIMESTAMP_OFFSET]),
        leader_epoch_last=int(state[scan.LEADER_EPOCH_LAST]),
        headers_digest=int(state[scan.HEADERS_DIGEST]),
        offset_index=_offset_index(index, base_offset),
        time_index=_time_index(index, base_offset),
        stop=stop,
    )


def scan_file(
    files: Files,
    path: Path,
    *,
    base_offset: int,
    offset_min: int = 0,
    size: int | None = None,
    leader_epoch_min: int = _NO_LEADER_EPOCH,
    index_interval_bytes: int = 4096,
    buffer: npt.NDArray[np.uint8] | None = None,
) -> SegmentScan:
    """Opens a log file and scans it: all of it, or its first `size` bytes. Raises OSError."""
    file = files.open(path, read_only=True)
    try:
        return scan_segment(
            file,
            size=file.size() if size is None else size,
            base_offset=base_offset,
            offset_min=offset_min,
            leader_epoch_min=leader_epoch_min,
            index_interval_bytes=index_interval_bytes,
            buffer=buffer,
        )
    finally:
        file.close()


class RunningDigest:
    """The digest of the headers in a segment, which follows the segment as it grows.

    One thread at a time may use it.
    """

    __slots__ = ("digest", "size_bytes")

    def __init__(self, size_bytes: int = 0, digest: int = 0) -> None:
        self.size_bytes = size_bytes
        self.digest = digest

    def up_to(self, file: File, size_bytes: int) -> int:
        """Extends the digest to the first `size_bytes`, all of them valid and in the file.

        Reads only what lies after the end of the last call. Raises CorruptBatch, OSError.
        """
        assert size_bytes >= self.size_bytes, "what it has read has been cut"
        state = np.zeros(scan.STATE_SLOTS, dtype=np.int64)
        state[scan.HEADERS_DIGEST] = self.digest
        position = self.size_bytes
        buffer = padded_buffer(min(_DIGEST_READ_BYTES, size_bytes - position))
        while position < size_bytes:
            wanted = min(buffer.size - PADDING_BYTES, size_bytes - position)
            end = file.pread_into(buffer, wanted, position)
            digested = scan.digest_headers(buffer, 0, end, state)
            if digested == 0:
                raise CorruptBatch("a batch is cut short", position=position)
            position += digested
        if position > size_bytes:
            raise CorruptBatch("a batch is cut short", position=size_bytes)
        self.size_bytes, self.digest = size_bytes, int(state[scan.HEADERS_DIGEST])
        return self.digest


def index_rows(
    batches: bytearray,
    *,
    file_position: int,
    indexed_position: int,
    index_interval_bytes: int,
    largest_timestamp_ms: int,
    largest_timestamp_offset: int,
) -> list[list[int]]:
    """The index entries that a scan would make for batches that are known to be valid.

    They lie at `file_position`. The last batch with an index entry lies at `indexed_position`.
    `largest_timestamp_ms` is the largest timestamp of all batches before. A row holds the last
    offset of a batch, its position in the file, and the largest timestamp so far with its offset.
    """
    state = np.zeros(scan.STATE_SLOTS, dtype=np.int64)
    state[scan.FILE_POSITION] = file_position
    state[scan.INDEXED_POSITION] = indexed_position
    state[scan.INDEX_INTERVAL_BYTES] = index_interval_bytes
    state[scan.LARGEST_TIMESTAMP] = largest_timestamp_ms
    state[scan.LARGEST_TIMESTAMP_OFFSET] = largest_timestamp_offset
    rows_max = index_entries_max(len(batches), index_interval_bytes)
    index = np.empty((rows_max, scan.INDEX_COLUMNS), dtype=np.int64)
    scan.index_batches(np.frombuffer(batches, np.uint8), 0, len(batches), state, index)
    rows: list[list[int]] = index[: state[scan.INDEX_ROWS]].tolist()
    return rows


def index_entries_max(size_bytes: int, index_interval_bytes: int) -> int:
    """The largest number of entries that an index gets for `size_bytes` of batches."""
    return size_bytes // index_step_bytes(index_interval_bytes) + 1


def index_step_bytes(index_interval_bytes: int) -> int:
    """The least distance between two batches that have index entries."""
    return max(index_interval_bytes, BATCH_HEADER_BYTES)


def _usable(buffer: npt.NDArray[np.uint8] | None) -> npt.NDArray[np.uint8]:
    if buffer is None or buffer.size < BATCH_HEADER_BYTES + PADDING_BYTES:
        return padded_buffer(BUFFER_BYTES)
    return buffer


def _scan_file(
    file: File,
    size: int,
    state: npt.NDArray[np.int64],
    rows: list[npt.NDArray[np.int64]],
    buffer: npt.NDArray[np.uint8],
) -> int:
    """Scans up to `size`, adds to `rows`, and returns the end of the valid batches."""
    index = np.empty((_INDEX_ROWS_MAX, scan.INDEX_COLUMNS), dtype=np.int64)
    position = 0
    while position < size:
        wanted = min(buffer.size - PADDING_BYTES, size - position)
        end = file.pread_into(buffer, wanted, position)
        if end < wanted:
            size = position + end
        start = 0
        state[scan.FILE_POSITION] = position
        state[scan.REASON] = scan.INDEX_FULL
        while state[scan.REASON] == scan.INDEX_FULL:
            state[scan.INDEX_ROWS] = 0
            start = scan.scan_batches(buffer, start, end, state, index)
            rows.append(index[: state[scan.INDEX_ROWS]].copy())
        position += start
        if state[scan.REASON] == scan.INCOMPLETE and position - start + end < size:
            if start > 0:
                continue  # Continue at the start of the batch that the buffer's end cut.
            batch_bytes = _batch_size(buffer)
            if batch_bytes > size - position:
                break
            if batch_bytes > BATCH_BYTES_MAX:
                state[scan.REASON] = scan.TOO_LARGE
                break
            buffer = padded_buffer(batch_bytes)
        elif state[scan.REASON] != scan.END:
            break
    return position


def _batch_size(buffer: npt.NDArray[np.uint8]) -> int:
    length = buffer[BATCH_LENGTH_AT : BATCH_LENGTH_AT + 4].tobytes()
    return int.from_bytes(length, "big", signed=True) + LENGTH_EXCLUDES_BYTES


def _offset_index(index: npt.NDArray[np.int64], base_offset: int) -> npt.NDArray[np.void]:
    index = index[index[:, 1] <= scan.I32_MAX]  # The largest position that an entry holds.
    entries = np.empty(len(index), dtype=OFFSET_INDEX_ENTRY)
    entries["relative_offset"] = index[:, 0] - base_offset
    entries["position"] = index[:, 1]
    return entries


def _time_index(index: npt.NDArray[np.int64], base_offset: int) -> npt.NDArray[np.void]:
    # The largest timestamp so far never falls. There is an entry each time it grows.
    index = index[np.diff(index[:, 2], prepend=_NO_TIMESTAMP) > 0]
    entries = np.empty(len(index), dtype=TIME_INDEX_ENTRY)
    entries["timestamp_ms"] = index[:, 2]
    entries["relative_offset"] = index[:, 3] - base_offset
    return entries
