"""The two sparse indexes of a segment, and the files that hold them.

`.index`: 8-byte entries, int32 offset relative to the segment's base, int32 position in the log
file. `.timeindex`: 12-byte entries, int64 timestamp, int32 relative offset. Both are big-endian,
and in both all fields grow. An entry of `.index` holds the last offset of a batch, and the position
where the batch begins. An entry of `.timeindex` holds the largest timestamp so far, and the last
offset of the batch that has it.

Indexes are derived from the log. An index lives in memory and is built from checked batches
whenever a log is opened. If the file differs, it is corrected. So damage to an index file can never
change an answer. Kafka maps these files into memory and gives them their full size in advance.
offsetd only reserves blocks in advance: then a full disk refuses an append, and does not fail a
sync.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from offsetd_storage.batch.record_batch import NO_TIMESTAMP
from offsetd_storage.disk.files import read_start
from offsetd_storage.log.segment_scan import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from offsetd_storage.disk.files import Files

OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
assert (OFFSET_ENTRY.size, TIME_ENTRY.size) == (8, 12), "Kafka's index entries are 8 and 12 bytes"

_RESERVE_STEP_BYTES: Final = 4096  # One block: entries for a megabyte or two of the log.


class OffsetEntry(NamedTuple):
    """The batch at `position` ends with `offset`."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """`timestamp_ms` is the largest so far. The batch that ends with `offset` has it."""

    timestamp_ms: int
    offset: int


class OffsetIndex:
    """Finds the position at which a search for an offset begins, in bytes of the log file."""

    __slots__ = ("base_offset", "entries")

    def __init__(self, base_offset: int, entries: bytes = b"") -> None:
        self.base_offset = base_offset
        self.entries = bytearray(entries)  # In the encoding of the index file.

    def __len__(self) -> int:
        return len(self.entries) // OFFSET_ENTRY.size

    def __getitem__(self, slot: int) -> OffsetEntry:
        relative, position = OFFSET_ENTRY.unpack_from(self.entries, slot * OFFSET_ENTRY.size)
        return OffsetEntry(self.base_offset + relative, position)

    def __iter__(self) -> Iterator[OffsetEntry]:
        return map(self.__getitem__, range(len(self)))

    @property
    def last(self) -> OffsetEntry:
        """The last entry; the segment's start if there is none."""
        return self[len(self) - 1] if self.entries else OffsetEntry(self.base_offset, 0)

    def append(self, last_offset: int, position: int) -> None:
        """Adds the batch at `position`, which ends with `last_offset`. Both must grow."""
        self.entries += OFFSET_ENTRY.pack(last_offset - self.base_offset, position)

    def lookup(self, offset: int) -> OffsetEntry:
        """The last entry at or below `offset`; the segment's start if there is none."""
        slot = bisect_right(range(len(self)), offset, key=self._offset)
        return self[slot - 1] if slot else OffsetEntry(self.base_offset, 0)

    def last_position_up_to(self, position: int) -> int:
        """The largest indexed position that is not above `position`; 0 if there is none."""
        slot = bisect_right(range(len(self)), position, key=self._position)
        return self._position(slot - 1) if slot else 0

    def first_position_above(self, position: int) -> int | None:
        """The smallest indexed position above `position`; None if there is none."""
        slot = bisect_right(range(len(self)), position, key=self._position)
        return self._position(slot) if slot < len(self) else None

    def bytes_below(self, position: int) -> int:
        """Size of the entries of batches that begin below `position`."""
        return bisect_left(range(len(self)), position, key=self._position) * OFFSET_ENTRY.size

    def truncate(self, offset_next: int) -> None:
        """Drops the entries at and above `offset_next`."""
        slot = bisect_left(range(len(self)), offset_next, key=self._offset)
        del self.entries[slot * OFFSET_ENTRY.size :]

    def _offset(self, slot: int) -> int:
        return self[slot].offset

    def _position(self, slot: int) -> int:
        return self[slot].position


class TimeIndex:
    """Finds the offset at which a search for a timestamp begins."""

    __slots__ = ("base_offset", "entries", "last_timestamp_ms")

    def __init__(self, base_offset: int, entries: bytes = b"") -> None:
        self.base_offset = base_offset
        self.entries = bytearray(entries)  # As in the file.
        self.last_timestamp_ms = self.last.timestamp_ms

    def __len__(self) -> int:
        return len(self.entries) // TIME_ENTRY.size

    def __getitem__(self, slot: int) -> TimeEntry:
        timestamp_ms, relative = TIME_ENTRY.unpack_from(self.entries, slot * TIME_ENTRY.size)
        return TimeEntry(timestamp_ms, self.base_offset + relative)

    def __iter__(self) -> Iterator[TimeEntry]:
        return map(self.__getitem__, range(len(self)))

    @property
    def last(self) -> TimeEntry:
        """The last entry; if there is none, no timestamp and the segment's start."""
        return self[len(self) - 1] if self.entries else TimeEntry(NO_TIMESTAMP, self.base_offset)

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Adds an entry if the timestamp has grown, as Kafka's `TimeIndex.maybeAppend` does."""
        if timestamp_ms > self.last_timestamp_ms:
            self.entries += TIME_ENTRY.pack(timestamp_ms, offset - self.base_offset)
            self.last_timestamp_ms = timestamp_ms

    def lookup(self, timestamp_ms: int) -> TimeEntry:
        """The last entry at or below the timestamp; the segment's start if there is none.

        Every batch before the batch of this entry has a smaller largest timestamp.
        """
        slot = bisect_right(range(len(self)), timestamp_ms, key=self._timestamp_ms)
        return self[slot - 1] if slot else TimeEntry(NO_TIMESTAMP, self.base_offset)

    def bytes_below(self, offset: int) -> int:
        """Size of the entries of batches that end below `offset`."""
        return bisect_left(range(len(self)), offset, key=self._offset) * TIME_ENTRY.size

    def truncate(self, offset_next: int) -> None:
        """Drops the entries at and above `offset_next`."""
        self.shorten(self.bytes_below(offset_next))

    def shorten(self, size: int) -> None:
        """Keeps the first `size` bytes of entries."""
        del self.entries[size:]
        self.last_timestamp_ms = self.last.timestamp_ms

    def _timestamp_ms(self, slot: int) -> int:
        return self[slot].timestamp_ms

    def _offset(self, slot: int) -> int:
        return self[slot].offset


def offset_index_problem(raw: bytes, *, log_bytes: int) -> str | None:
    """The problem of a `.index` file whose log has `log_bytes`; None if there is none.

    Zeros at the end are allowed: a killed broker leaves them, because it allocates in advance.
    """
    if len(raw) % OFFSET_ENTRY.size:
        return "its size is not a multiple of 8"
    entries = np.frombuffer(raw, OFFSET_INDEX_ENTRY)
    entries = entries[: _slots_used(entries["position"])]
    offset, position = (
        entries["relative_offset"].astype(np.int64),
        entries["position"].astype(np.int64),
    )
    if not (_grows(offset) and _grows(position)):
        return "its entries do not grow"
    if len(entries) and (offset[0] < 0 or position[0] <= 0 or position[-1] >= log_bytes):
        return "it points outside the log"
    return None


def time_index_problem(raw: bytes, *, largest_timestamp_ms: int, offset_span: int) -> str | None:
    """The problem of a `.timeindex` file; None if there is none.

    `offset_span` is the log's next offset, relative to the segment's base. Zeros at the end are
    allowed: a killed broker leaves them, because it allocates in advance.
    """
    if len(raw) % TIME_ENTRY.size:
        return "its size is not a multiple of 12"
    entries = np.frombuffer(raw, TIME_INDEX_ENTRY)
    entries = entries[: _slots_used(entries["timestamp_ms"])]
    timestamp, offset = (
        entries["timestamp_ms"].astype(np.int64),
        entries["relative_offset"].astype(np.int64),
    )
    if not (_grows(timestamp) and _grows(offset)):
        return "its entries do not grow"
    if not len(entries):
        return None
    if timestamp[-1] > largest_timestamp_ms or offset[0] < 0 or offset[-1] >= offset_span:
        return "it points outside the log"
    return None


def _slots_used(column: npt.NDArray[np.void]) -> int:
    """The number of entries before the zeros at the end."""
    used = np.flatnonzero(column)
    return int(used[-1]) + 1 if len(used) else 0


def _grows(column: npt.NDArray[np.int64]) -> bool:
    return bool(np.all(column[1:] > column[:-1]))


def index_problems(
    found: Iterable[tuple[IndexFile, bytearray, str | None]],
) -> tuple[str, ...]:
    """The problems of index files, each with the file's name.

    `found` holds each file, the entries that it should have, and the problem found in it.
    """
    problems = []
    for file, entries, problem in found:
        if file.is_missing and entries:
            problems.append(f"{file.path.name}: it is missing")
        elif problem:
            problems.append(f"{file.path.name}: {problem}")
    return tuple(problems)


class IndexTail(NamedTuple):
    """A change of an index file: write `entries` at `position`; if `cut`, end the file there."""

    position: int
    entries: bytes
    cut: bool


class IndexFile:
    """The file of an index, and the size of the part that is known to be right."""

    __slots__ = ("_file_bytes", "_files", "_reserved_bytes", "_right_bytes", "path")

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self.path = path
        self._file_bytes: int | None = files.size(path) if files.exists(path) else None
        self._right_bytes = 0
        self._reserved_bytes = 0  # The bytes that are known to be reserved.

    @property
    def is_missing(self) -> bool:
        """Whether there is no such file."""
        return self._file_bytes is None

    def make(self) -> None:
        """Makes an empty file if there is none. Raises OSError."""
        if self._file_bytes is None:
            self._files.open(self.path, create=True).close()
            self._file_bytes = 0

    def holds(self, entries: bytearray) -> bool:
        """Whether the file is known to hold exactly `entries`."""
        return self._file_bytes == self._right_bytes == len(entries)

    def read(self, bytes_max: int) -> bytes:
        """The first bytes of the file; empty if there is no file."""
        return b"" if self.is_missing else read_start(self._files, self.path, bytes_max)

    def compare(self, raw: bytes, entries: bytearray) -> None:
        """Notes how many first bytes of the file, whose contents are `raw`, equal `entries`."""
        size = min(len(raw), len(entries))
        found = np.frombuffer(raw, np.uint8, size)
        different = np.flatnonzero(found != np.frombuffer(bytes(entries[:size]), np.uint8))
        self._right_bytes = int(different[0]) if len(different) else size

    def changed_from(self, size: int) -> None:
        """Notes that the entries after the first `size` bytes are gone or will change."""
        self._right_bytes = min(self._right_bytes, size)

    def reserve(self, size: int) -> None:
        """Reserves blocks for `size` bytes, and cuts off contents that are wrong.

        Raises OSError if there are no free blocks.
        """
        file_bytes = self._file_bytes or 0
        if file_bytes == self._right_bytes and size <= self._reserved_bytes:
            return
        file = self._files.open(self.path, create=True)
        try:
            # This comes first, because it also frees the blocks after the new end.
            if file_bytes > self._right_bytes:
                file.truncate(self._right_bytes)
                self._reserved_bytes = self._right_bytes
            self._file_bytes = self._right_bytes
            wanted = max(size - self._reserved_bytes, _RESERVE_STEP_BYTES)
            file.allocate(self._reserved_bytes, wanted)
            self._reserved_bytes += wanted
        finally:
            file.close()

    def take_tail(self, entries: bytearray, size: int, *, last: bool = False) -> IndexTail | None:
        """The change after which the file holds `entries[:size]`; None if it does already.

        With `last`, no entries follow: the file keeps no reserved blocks.
        """
        start = min(self._right_bytes, size)
        reserves = last and self._reserved_bytes > size
        if self._file_bytes == start == size and not reserves:
            return None
        cut = reserves or (self._file_bytes or 0) > size
        if cut:
            self._reserved_bytes = size
        self._file_bytes = self._right_bytes = size
        return IndexTail(position=start, entries=bytes(entries[start:size]), cut=cut)

    def write(self, tail: IndexTail) -> None:
        """Makes a change and syncs the file. Makes the file if it is missing."""
        file = self._files.open(self.path, create=True)
        try:
            if tail.entries:
                file.pwrite([tail.entries], tail.position)
            if tail.cut:
                file.truncate(tail.position + len(tail.entries))
            if tail.entries or tail.cut:
                file.sync()
        finally:
            file.close()
