"""Kafka's text checkpoints of a data folder, kept for Kafka.

Nothing is cut or trusted by `recovery-point-offset-checkpoint`: the journal has the recovery
points. `log-start-offset-checkpoint` says where logs begin whose first batches were deleted.
Entries of other topics stay as they are.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from offsetd_storage.checkpoints import read_offset_checkpoint, write_offset_checkpoint
from offsetd_storage.errors import CorruptCheckpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from offsetd_storage.files import Files
    from offsetd_storage.partition_log import PartitionLog
    from offsetd_storage.topic_partition import TopicPartition

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"

_NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT))


class FolderCheckpoints:
    """The two checkpoints, read once and rewritten where they changed."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder
        self.warnings: list[str] = []
        self._damaged: set[str] = set()
        self._written = {
            name: self._read(name) for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT)
        }

    @property
    def recovery_points(self) -> Mapping[TopicPartition, int]:
        """Of all topics in the folder."""
        return self._written[RECOVERY_POINT_CHECKPOINT]

    @property
    def log_starts(self) -> Mapping[TopicPartition, int]:
        """Of the logs that begin behind their first segment's base."""
        return self._written[LOG_START_CHECKPOINT]

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offset_checkpoint(self._files, self._folder / name)
        except CorruptCheckpoint as error:
            self._damaged.add(name)
            self.warnings.append(f"{error}; it is written anew")
            return {}

    def write(
        self, recovery_points: Mapping[TopicPartition, int], logs: Iterable[PartitionLog]
    ) -> None:
        """Puts these in, beside the entries of other partitions. Raises OSError.

        On a full disk the old ones stay: for Kafka they only mean more to check.
        """
        log_starts = dict(self.log_starts)
        for log in logs:
            log_starts.pop(log.topic_partition, None)
            if log.log_start_offset > log.segments[0].base_offset:
                log_starts[log.topic_partition] = log.log_start_offset
        self._write(RECOVERY_POINT_CHECKPOINT, {**self.recovery_points, **recovery_points})
        self._write(LOG_START_CHECKPOINT, log_starts)

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        if offsets == self._written[name] and name not in self._damaged:
            return
        try:
            write_offset_checkpoint(self._files, self._folder / name, offsets)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            return
        self._damaged.discard(name)
        self._written[name] = offsets
