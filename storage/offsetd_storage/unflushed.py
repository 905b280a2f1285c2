"""What was appended since the last flush, gathered as the journal's frames are going to hold it.

Of each log a frame has one run, however many batches that is: so what a flush does for itself grows
with the logs, not with the batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.journal_format import COUNT, JournaledRun, LogEnd, batch_entry_bytes

if TYPE_CHECKING:
    from offsetd_storage.partition_log import PartitionLog


class UnflushedFrame:
    """A frame that is being gathered."""

    def __init__(self) -> None:
        self.payload_bytes = COUNT.size
        self._runs: dict[PartitionLog, tuple[list[bytes], LogEnd]] = {}

    def add(self, log: PartitionLog, batches: bytes, *, payload_bytes_max: int) -> bool:
        """Puts in what a log has just been given; False where there is no room for it."""
        size = len(batches)
        gathered = self._runs.get(log)
        if gathered is None:
            size = batch_entry_bytes(log.topic_partition, size)
        if self.payload_bytes + size > payload_bytes_max and self._runs:
            return False
        self.payload_bytes += size
        contents = [] if gathered is None else gathered[0]
        contents.append(batches)
        self._runs[log] = contents, log.end
        return True

    @property
    def logs(self) -> list[PartitionLog]:
        """Those of which it has batches."""
        return list(self._runs)

    @property
    def runs(self) -> list[JournaledRun]:
        """What goes into the journal."""
        return [
            JournaledRun(log.topic_partition, b"".join(contents), end)
            for log, (contents, end) in self._runs.items()
        ]


class Unflushed:
    """For one thread at a time."""

    def __init__(self, payload_bytes_max: int) -> None:
        self.frames: list[UnflushedFrame] = []
        self._payload_bytes_max = payload_bytes_max

    def add(self, log: PartitionLog, batches: bytes) -> None:
        """Notes what was just put at the end of a log: a batch, or several that fit one frame."""
        if not self.frames:
            self.frames.append(UnflushedFrame())
        if not self.frames[-1].add(log, batches, payload_bytes_max=self._payload_bytes_max):
            self.frames.append(UnflushedFrame())
            self.frames[-1].add(log, batches, payload_bytes_max=self._payload_bytes_max)

    def take(self) -> list[UnflushedFrame]:
        """All of it, in the order in which it was appended as far as frames go."""
        frames, self.frames = self.frames, []
        return frames
