"""The batches appended since the last flush, in frames as the journal will hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.journal.batches_frame import BatchesFrame
from offsetd_storage.journal.journal_format import COUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_storage.kernels.scan import Bytes, Numbers
    from offsetd_storage.log.partition_log import PartitionLog


# The size of the head before each run; the longest topic name has 249 bytes.
_ENTRY_HEAD_BYTES_MAX: Final = 300


class PendingFrames:
    """The frames of the next flush. One thread at a time. No log takes appends during a call.

    A change of `payload_bytes_max` holds for later appends.
    """

    def __init__(self, payload_bytes_max: int) -> None:
        self.payload_bytes_max = payload_bytes_max
        self._full: list[BatchesFrame] = []
        self._frame = BatchesFrame()
        self._taken = BatchesFrame()  # The frame that was taken last, to be filled again.
        self._logs: dict[PartitionLog, None] = {}  # The logs whose runs are in the frame.

    def __bool__(self) -> bool:
        """Whether any batch waits."""
        return bool(self._frame or self._full)

    def make_room(self, size_bytes: int, *, runs: int = 1) -> bool:
        """Ends the current frame if runs of this total size may not fit into it.

        Call it before the runs are appended to their logs. Returns False if they may not fit even
        into an empty frame.
        """
        added_bytes = runs * _ENTRY_HEAD_BYTES_MAX + size_bytes
        if self._frame.payload_bytes + added_bytes > self.payload_bytes_max and self._frame:
            self._full = self.frames()
            self._frame, self._logs = BatchesFrame(), {}
        return COUNT.size + added_bytes <= self.payload_bytes_max

    def add(self, log: PartitionLog, batches: bytes) -> None:
        """Adds the batches that were just appended to a log. `make_room` has made room for them."""
        self._logs[log] = None
        self._frame.add(log.topic_partition, batches)

    def add_runs(self, logs: Sequence[PartitionLog], content: Bytes, spans: Numbers) -> None:
        """Adds a run for each log. `spans` are their positions in `content` (see `read_runs`)."""
        self._logs.update(dict.fromkeys(logs))
        self._frame.add_runs([log.topic_partition for log in logs], content, spans)

    def frames(self) -> list[BatchesFrame]:
        """All frames, in the order of the appends."""
        if not self._frame:
            return self._full
        self._frame.ends = {log.topic_partition: log.end for log in self._logs}
        return [*self._full, self._frame]

    def take(self) -> list[BatchesFrame]:
        """Removes and returns all frames. Once a frame is cleared, it may be filled again."""
        frames = self.frames()
        free = BatchesFrame() if self._taken else self._taken
        self._frame, self._taken = free, self._frame
        self._full, self._logs = [], {}
        return frames
