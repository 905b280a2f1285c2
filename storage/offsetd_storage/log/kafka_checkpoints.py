"""Kafka's text checkpoints of a data folder, written for Kafka.

They hold no checksum, so no log is truncated because of them. If only offsetd has written to a log
since the checkpoints, the journal is more exact. In a broker's folder,
`recovery-point-offset-checkpoint` names the partitions, and `log-start-offset-checkpoint` gives the
start of logs whose first batches were deleted. Entries of other topics stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.errors import CorruptCheckpoint, is_unreadable, may_pass, words_of
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint, write_offset_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.topic_partition import TopicPartition

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"


class KafkaCheckpoints:
    """The two checkpoints. They are read once, and rewritten if they change."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self.folder = folder
        self.warnings: list[str] = []
        self._damaged: set[str] = set()
        self._written = {
            name: self._read(name) for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT)
        }

    @property
    def recovery_points(self) -> Mapping[TopicPartition, int]:
        """The recovery points of all topics in the folder."""
        return self._written[RECOVERY_POINT_CHECKPOINT]

    def log_start(self, topic_partition: TopicPartition, offset_next: int) -> int:
        """The start offset of a log that ends at `offset_next`.

        0 means that the log starts with its first segment. A start above the log's end cannot be
        right: then the call notes a warning and returns 0.
        """
        log_start = self._written[LOG_START_CHECKPOINT].get(topic_partition, 0)
        if log_start <= offset_next:
            return log_start
        self.warnings.append(
            f"{self.folder / LOG_START_CHECKPOINT}: {topic_partition} cannot start at {log_start},"
            f" as it ends at {offset_next}; the entry is written again"
        )
        return 0

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offset_checkpoint(self._files, self.folder / name)
        except CorruptCheckpoint as error:
            problem = str(error)
        except OSError as error:
            if not is_unreadable(error):
                raise
            problem = f"{self.folder / name} cannot be read: {words_of(error)}"
        self._damaged.add(name)
        self.warnings.append(f"{problem}; it is written again")
        return {}

    def write(
        self, recovery_points: Mapping[TopicPartition, int], logs: Iterable[PartitionLog]
    ) -> None:
        """Replaces the entries of these partitions and keeps those of others. Raises OSError.

        If there is no room, or no free file descriptor, the old files stay: then Kafka only has
        more to check.
        """
        log_starts = dict(self._written[LOG_START_CHECKPOINT])
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
            write_offset_checkpoint(self._files, self.folder / name, offsets)
        except OSError as error:
            if not may_pass(error):
                raise
            return
        self._damaged.discard(name)
        self._written[name] = offsets
