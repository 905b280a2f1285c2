"""The frames of the next flush. Appends lay out their batches in them, and a flush only seals them.

Each is a BATCHES frame as the journal will hold it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from offsetd_storage.journal.journal_format import (
    COUNT,
    FRAME,
    FramePayload,
    batch_entry_bytes,
    run_name,
    run_pieces,
)
from offsetd_storage.kernels import PADDING_BYTES, padded_buffer
from offsetd_storage.kernels.journal_runs import put_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_storage.journal.journal_format import LogEnd
    from offsetd_storage.kernels.scan import Bytes, Numbers
    from offsetd_storage.topic_partition import TopicPartition

_BUFFER_BYTES: Final = 1 << 16
_KEPT_BYTES_MAX: Final = 1 << 22  # A larger buffer is not used again for another frame.
_RUNS_START: Final = FRAME.size + COUNT.size
# The size of the head before each run; the longest topic name has 249 bytes.
_ENTRY_HEAD_BYTES_MAX: Final = 300


class AppendedLog(Protocol):
    """The part of a partition's log that the frames need."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The log's name."""

    @property
    def end(self) -> LogEnd:
        """The end of the log, after its last batch."""


class BatchesFrame:
    """The runs of one frame, in the order of their appends, after the space for the header.

    `ends` holds the ends of the logs after this frame; the code that fills the frame sets it.
    """

    def __init__(self) -> None:
        self._buffer = padded_buffer(_BUFFER_BYTES)
        self.clear()

    def clear(self) -> None:
        """Removes all runs, so that the frame can be filled again."""
        if len(self._buffer) > _KEPT_BYTES_MAX:
            self._buffer = padded_buffer(_BUFFER_BYTES)
        self.ends: dict[TopicPartition, LogEnd] = {}
        self._end = _RUNS_START
        self._set_run_count(0)

    def __bool__(self) -> bool:
        """Whether the frame has runs."""
        return self._run_count > 0

    @property
    def payload(self) -> FramePayload:
        """The payload from which the journal makes a frame."""
        return FramePayload(self._buffer, self.payload_bytes)

    @property
    def payload_bytes(self) -> int:
        """The size of the payload."""
        return self._end - FRAME.size

    def add(self, topic_partition: TopicPartition, batches: bytes) -> None:
        """Adds a run at the end."""
        self._make_room(batch_entry_bytes(topic_partition, len(batches)))
        for piece in run_pieces(topic_partition, batches):
            end = self._end + len(piece)
            self._buffer.data[self._end : end] = piece
            self._end = end
        self._set_run_count(self._run_count + 1)

    def add_runs(
        self, topic_partitions: Sequence[TopicPartition], content: Bytes, spans: Numbers
    ) -> None:
        """Adds a run for each log. `spans` are their positions in `content` (see `read_runs`)."""
        names = bytearray().join(map(run_name, topic_partitions))
        runs_bytes = sum(end - start for start, end in spans.tolist())
        self._make_room(len(names) + len(spans) * COUNT.size + runs_bytes)
        self._end = put_runs(
            content, spans, np.frombuffer(names, np.uint8), self._buffer, self._end
        )
        self._set_run_count(self._run_count + len(spans))

    def _make_room(self, size_bytes: int) -> None:
        if self._end + size_bytes + PADDING_BYTES > len(self._buffer):
            larger = padded_buffer(2 * (self._end + size_bytes))
            larger[: self._end] = self._buffer[: self._end]
            self._buffer = larger

    def _set_run_count(self, run_count: int) -> None:
        self._run_count = run_count
        COUNT.pack_into(self._buffer.data, FRAME.size, run_count)


class PendingFrames:
    """The frames of the next flush. One thread at a time. No log takes appends during a call.

    A change of `payload_bytes_max` holds for later appends.
    """

    def __init__(self, payload_bytes_max: int) -> None:
        self.payload_bytes_max = payload_bytes_max
        self._full: list[BatchesFrame] = []
        self._frame = BatchesFrame()
        self._taken = BatchesFrame()  # The frame that was taken last, to be filled again.
        self._logs: dict[AppendedLog, None] = {}  # The logs whose runs are in the frame.

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

    def add(self, log: AppendedLog, batches: bytes) -> None:
        """Adds the batches that were just appended to a log. `make_room` has made room for them."""
        self._logs[log] = None
        self._frame.add(log.topic_partition, batches)

    def add_runs(self, logs: Sequence[AppendedLog], content: Bytes, spans: Numbers) -> None:
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
