"""Runs: several record batches of one log, one after the other in one piece of bytes.

A run costs less than its batches do one by one, and leaves a log and its indexes as they would. A
loop in Python is as fast as a kernel for the few batches of a run, and does not give the
interpreter's lock away.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels.encode import (
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    LENGTH_EXCLUDES_BYTES,
    MAGIC,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.errors import StorageFull

# Base offset, length of what follows it, leader epoch, magic, delta of the last offset, largest
# timestamp: all that is asked of a header here.
_HEADER: Final = struct.Struct(">qiib6xi8xq")
assert _HEADER.size <= BATCH_HEADER_BYTES, "these are fields of a batch's header"


# One batch of a run: where it begins in the run, where it ends, its last offset, its largest
# timestamp. (A tuple without names: making one takes a fifth of the time.)
RunBatch = tuple[int, int, int, int]


class Run(NamedTuple):
    """Bytes, and the batches that they are."""

    content: bytes
    batches: list[RunBatch]  # At least one.
    batch_bytes_max: int
    timestamps_ms: list[int]  # The largest ones of the batches; where neighbours agree, once.
    max_timestamp_ms: int
    last_offset: int

    def first(self, count: int) -> bytes:
        """The first few batches, in one piece."""
        return self.content[: self.batches[count - 1][1] if count else 0]

    def pieces(self) -> Iterator[tuple[bytes, int, int]]:
        """The batches one by one, each with its last offset and its largest timestamp."""
        for position, end, last_offset, max_timestamp_ms in self.batches:
            yield self.content[position:end], last_offset, max_timestamp_ms


class AppendedRun(NamedTuple):
    """What of a run is in the log."""

    batches: bytes  # As they are in the log: the first `batch_count` of the run.
    batch_count: int
    full: StorageFull | None  # Why the others are not; None where all are.


def read_run(content: bytes, *, offset_next: int, leader_epoch: int) -> Run:
    """Batches that continue a log at `offset_next`, with its leader epoch or a lower one.

    Raises CorruptBatch where they are not whole batches, ValueError where they do not continue it.
    """
    unpack, size, position = _HEADER.unpack_from, len(content), 0
    batches: list[RunBatch] = []
    timestamps_ms: list[int] = []
    batch_bytes_max, timestamp_ms = 0, None
    while position < size:
        if size - position < BATCH_HEADER_BYTES:
            raise CorruptBatch("a batch of a run is cut short", position=position)
        base_offset, length, epoch, magic, delta, max_timestamp_ms = unpack(content, position)
        batch_bytes = LENGTH_EXCLUDES_BYTES + length
        end = position + batch_bytes
        if magic != MAGIC or batch_bytes < BATCH_HEADER_BYTES or delta < 0:
            raise CorruptBatch("a run has something else than batches", position=position)
        if end > size:
            raise CorruptBatch("a batch of a run is cut short", position=position)
        # What is recovered rests on these two.
        if base_offset != offset_next:
            raise ValueError(f"offsets leave no hole: {base_offset} does not follow {offset_next}")
        if epoch > leader_epoch:
            raise ValueError(f"only brokers raise leader epochs: {epoch} is above {leader_epoch}")
        if batch_bytes > batch_bytes_max:
            batch_bytes_max = batch_bytes
        if max_timestamp_ms != timestamp_ms:
            timestamp_ms = max_timestamp_ms
            timestamps_ms.append(timestamp_ms)
        last_offset = base_offset + delta
        batches.append((position, end, last_offset, max_timestamp_ms))
        offset_next, position = last_offset + 1, end
    if not batches:
        raise CorruptBatch("a run without a batch", position=0)
    return Run(
        content, batches, batch_bytes_max, timestamps_ms, max(timestamps_ms), offset_next - 1
    )


def split_run(content: bytes) -> Iterator[bytes]:
    """The batches of a run, by their sizes alone. Raises CorruptBatch where they are not whole."""
    size, position = len(content), 0
    while position < size or not size:
        end = position
        if size - position >= BATCH_HEADER_BYTES:
            length_at = position + BATCH_LENGTH_AT
            end += LENGTH_EXCLUDES_BYTES + int.from_bytes(content[length_at : length_at + 4])
        if not position + BATCH_HEADER_BYTES <= end <= size:
            raise CorruptBatch("a batch of a run is cut short", position=position)
        yield content[position:end]
        position = end
