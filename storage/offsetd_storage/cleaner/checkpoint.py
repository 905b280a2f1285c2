"""`cleaner-offset-checkpoint`: up to where each log is clean, in Kafka's format.

One file serves all topics of a data folder. An entry says that everything below it was mapped in
some round, whose swaps are durable; so it is written behind them. What cannot be right is put
right by `plan.first_dirty_offset`: the file holds no checksum.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from offsetd_storage.checkpoints import read_offset_checkpoint, write_offset_checkpoint
from offsetd_storage.errors import (
    CorruptCheckpoint,
    StorageFailed,
    StorageFull,
    is_no_room,
    is_unreadable,
)

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.files import Files
    from offsetd_storage.topic_partition import TopicPartition

CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"


class CleanerCheckpoint:
    """The first dirty offsets of a data folder, read once. Several threads may use it."""

    def __init__(self, files: Files, folder: Path) -> None:
        self.warning: str | None = None  # Why what was found counts for nothing.
        self._files = files
        self._path = folder / CLEANER_CHECKPOINT
        self._lock = threading.Lock()
        self._is_stale = False  # The file does not say what we know.
        self._offsets = self._read()

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """Which logs it has, of all topics."""
        with self._lock:
            return list(self._offsets)

    def first_dirty(self, topic_partition: TopicPartition) -> int | None:
        """Where the last round ended; None if there was none."""
        with self._lock:
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
            try:
                write_offset_checkpoint(self._files, self._path, offsets)
            except OSError as error:
                failure = StorageFull if is_no_room(error) else StorageFailed
                raise failure(f"{self._path} could not be written: {error}") from error
            self._is_stale = False

    def _read(self) -> dict[TopicPartition, int]:
        try:
            return read_offset_checkpoint(self._files, self._path)
        except CorruptCheckpoint as error:
            self.warning = f"{error}; logs are taken to be dirty from their starts"
        except OSError as error:
            if not is_unreadable(error):
                raise
            self.warning = f"{self._path} cannot be read: {error}; all logs are taken to be dirty"
        return {}
