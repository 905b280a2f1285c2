"""The batches appended since the last flush, in frames as the journal will hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.journal.batches_frame import BatchesFrame
from offsetd_storage.journal.journal_format import COUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_storage.kernels.scan import Bytes, Numbers
    from offsetd_storage.log.partition_log import PartitionLog


_ENTRY_HEAD_BYTES_MAX: Final = 300  # What stands before a run; the longest name has 249 bytes.


class Unflushed:
    """For one thread at a time; nothing is appended to a log meanwhile.

    `payload_bytes_max` may be changed: it holds for what is appended from then on.
    """

    def __init__(self, payload_bytes_max: int) -> None:
        self.payload_bytes_max = payload_bytes_max
        self._full: list[BatchesFrame] = []
        self._frame = BatchesFrame()
        self._taken = BatchesFrame()  # The last one of those that were.
        self._logs: dict[PartitionLog, None] = {}  # Of which the frame has runs.

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self._frame or self._full)

    def make_room(self, size_bytes: int, *, runs: int = 1) -> bool:
        """Ends the frame if so many runs of that size might not go in; before they are in a log.

        False if they might not go into any.
        """
        added_bytes = runs * _ENTRY_HEAD_BYTES_MAX + size_bytes
        if self._frame.payload_bytes + added_bytes > self.payload_bytes_max and self._frame:
            self._full = self.frames()
            self._frame, self._logs = BatchesFrame(), {}
        return COUNT.size + added_bytes <= self.payload_bytes_max

    def add(self, log: PartitionLog, batches: bytes) -> None:
        """Notes what was just put at the end of a log; there is room for it."""
        self._logs[log] = None
        self._frame.add(log.topic_partition, batches)

    def add_runs(self, logs: Sequence[PartitionLog], content: Bytes, spans: Numbers) -> None:
        """The same for a run of each log, which lie in `content` at `spans` as `read_runs` says."""
        self._logs.update(dict.fromkeys(logs))
        self._frame.add_runs([log.topic_partition for log in logs], content, spans)

    def frames(self) -> list[BatchesFrame]:
        """All of it. Frame after frame it is in the order of the appends."""
        if not self._frame:
            return self._full
        self._frame.ends = {log.topic_partition: log.end for log in self._logs}
        return [*self._full, self._frame]

    def take(self) -> list[BatchesFrame]:
        """All of it, which is then no longer here. A frame that is cleared may be filled again."""
        frames = self.frames()
        free = BatchesFrame() if self._taken else self._taken
        self._frame, self._taken = free, self._frame
        self._full, self._logs = [], {}
        return frames
