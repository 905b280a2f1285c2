"""`cleaner-offset-checkpoint`: the offset up to which each log is clean, in Kafka's format.

One file is for all topics of a data folder. An entry says that a round has mapped everything below
it and that the round's swaps are durable; so the entry is written after them.
`cleaning_plan.first_dirty_offset` corrects entries that are impossible. But a damaged digit can
also give an entry that is possible and too high. Then a tombstone is removed after its time, but an
older value below it, which no round compared with it, stays: the deleted value reappears. So the
last entry that offsetd writes is a checksum of the others, under the name of a topic that does not
exist. A broker ignores that entry and writes the file without it. Then offsetd trusts the file, as
the broker does.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from offsetd_storage.disk.checksums import checksum
from offsetd_storage.errors import (
    CorruptCheckpoint,
    StorageFull,
    is_unreadable,
    may_pass,
    storage_failed,
    words_of,
)
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint, write_offset_checkpoint
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from offsetd_storage.disk.files import Files

CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CHECKSUM_ENTRY: Final = TopicPartition("__offsetd_checksum", 0)


def read_first_dirty(files: Files, path: Path) -> dict[TopicPartition, int]:
    """The entries of the file, without the checksum.

    Raises CorruptCheckpoint, also if the file has a wrong checksum.
    """
    offsets = read_offset_checkpoint(files, path)
    found = offsets.pop(CHECKSUM_ENTRY, None)
    if found is not None and found != _checksum(offsets):
        raise CorruptCheckpoint(f"{path}: its entries do not match its checksum")
    return offsets


def was_written_here(files: Files, path: Path) -> bool:
    """Returns whether the file has a checksum, right or wrong, which no broker writes.

    Also returns True if it has no entries or is damaged.
    """
    try:
        offsets = read_offset_checkpoint(files, path)
    except CorruptCheckpoint:
        return True
    return not offsets or CHECKSUM_ENTRY in offsets


def write_first_dirty(files: Files, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replaces the file, with a checksum, and syncs it. Raises OSError."""
    write_offset_checkpoint(files, path, {**offsets, CHECKSUM_ENTRY: _checksum(offsets)})


def _checksum(offsets: Mapping[TopicPartition, int]) -> int:
    lines = [f"{each.topic} {each.partition} {offset}" for each, offset in offsets.items()]
    return checksum("\n".join(lines).encode())


class CleanerCheckpoint:
    """The first dirty offsets of a data folder, read once. Any thread may use it."""

    def __init__(self, files: Files, folder: Path) -> None:
        self.warnings: tuple[str, ...] = ()  # Why the contents of the file were ignored.
        self._files = files
        self._path = folder / CLEANER_CHECKPOINT
        self._lock = threading.Lock()  # Held while writing. Readers do not wait for the disk.
        self._is_stale = False  # True if the file differs from `_offsets`.
        self._offsets = self._read()  # Replaced as a whole.

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """The logs of all topics that have an entry."""
        return list(self._offsets)

    def first_dirty(self, topic_partition: TopicPartition) -> int | None:
        """The end of the last round; None if there was none."""
        return self._offsets.get(topic_partition)

    def advance(self, topic_partition: TopicPartition, first_dirty: int | None) -> None:
        """Records the end of a round whose swaps are durable; None removes the log's entry.

        It is durable when the call returns. Raises StorageFailed, and StorageFull: then the file is
        unchanged, so a restart only maps more records again.
        """
        with self._lock:
            if self._offsets.get(topic_partition) == first_dirty and not self._is_stale:
                return
            offsets = {**self._offsets}
            offsets.pop(topic_partition, None)
            if first_dirty is not None:
                offsets[topic_partition] = first_dirty
            self._offsets, self._is_stale = offsets, True
            self._write(offsets)
            self._is_stale = False

    def _write(self, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            write_first_dirty(self._files, self._path, offsets)
        except OSError as error:
            failed = storage_failed(error, f"{self._path} could not be written")
            raise (StorageFull(str(failed)) if may_pass(error) else failed) from error

    def put_checksum(self) -> None:
        """Adds a checksum to the file if a broker wrote it.

        After that, a file without a checksum shows that a broker has written it again.

        Raises the errors of `advance`.
        """
        if self._offsets and not was_written_here(self._files, self._path):
            with self._lock:
                self._write(self._offsets)

    def _read(self) -> dict[TopicPartition, int]:
        try:
            return read_first_dirty(self._files, self._path)
        except CorruptCheckpoint as error:
            why = str(error)
        except OSError as error:
            if not is_unreadable(error):
                raise
            why = f"{self._path} cannot be read: {words_of(error)}"
        self.warnings = (f"{why}; all logs count as dirty from their starts",)
        return {}
