"""`cleaner-offset-checkpoint`: the offset up to which each log is clean, in Kafka's format.

One file serves all topics of a data folder. An entry says that a round has mapped everything below
it and that the round's swaps are durable; so the entry is written after them.
`cleaning_plan.first_dirty_offset` corrects entries that are impossible. But a damaged digit can
also give an entry that is possible and too high. Then a tombstone is dropped after its time, while
an older value below it, which no round compared with it, stays: the deleted value comes back. So
the last entry that offsetd writes is a checksum of the others, under the name of a topic that does
not exist. A broker ignores that entry and writes the file without it; then the file is trusted, as
the broker trusts it.
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
from offsetd_storage.folder.checkpoints import read_offset_checkpoint, write_offset_checkpoint
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from offsetd_storage.disk.files import Files

CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CHECKSUM_ENTRY: Final = TopicPartition("__offsetd_checksum", 0)


def read_first_dirty(files: Files, path: Path) -> dict[TopicPartition, int]:
    """The file's entries, but for the checksum, which has to be theirs where there is one.

    Raises CorruptCheckpoint.
    """
    offsets = read_offset_checkpoint(files, path)
    found = offsets.pop(CHECKSUM_ENTRY, None)
    if found is not None and found != _checksum(offsets):
        raise CorruptCheckpoint(f"{path}: its entries are not those that were written")
    return offsets


def was_written_here(files: Files, path: Path) -> bool:
    """Whether the file has a checksum, right or wrong, which no broker writes; or says nothing."""
    try:
        offsets = read_offset_checkpoint(files, path)
    except CorruptCheckpoint:
        return True
    return not offsets or CHECKSUM_ENTRY in offsets


def write_first_dirty(files: Files, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replaces the file, synced, with a checksum. Raises OSError."""
    write_offset_checkpoint(files, path, {**offsets, CHECKSUM_ENTRY: _checksum(offsets)})


def _checksum(offsets: Mapping[TopicPartition, int]) -> int:
    lines = [f"{each.topic} {each.partition} {offset}" for each, offset in offsets.items()]
    return checksum("\n".join(lines).encode())


class CleanerCheckpoint:
    """The first dirty offsets of a data folder, read once. Several threads may use it."""

    def __init__(self, files: Files, folder: Path) -> None:
        self.warnings: tuple[str, ...] = ()  # Why what was found counts for nothing.
        self._files = files
        self._path = folder / CLEANER_CHECKPOINT
        self._lock = threading.Lock()  # Of writing. Who asks does not wait for the disk.
        self._is_stale = False  # The file does not say what we know.
        self._offsets = self._read()  # Replaced as a whole.

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """Which logs it has, of all topics."""
        return list(self._offsets)

    def first_dirty(self, topic_partition: TopicPartition) -> int | None:
        """Where the last round ended; None if there was none."""
        return self._offsets.get(topic_partition)

    def advance(self, topic_partition: TopicPartition, first_dirty: int | None) -> None:
        """Says where a round ended, the swaps of which are durable; None forgets the log.

        Durable when it returns. Raises StorageFull, where the file stays as it was, which only
        means that more is mapped again after a restart; and StorageFailed.
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
        """Gives a broker's file a checksum: so one without it was written by a broker since.

        Raises what `advance` does.
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
        self.warnings = (f"{why}; all logs are taken to be dirty from their starts",)
        return {}
