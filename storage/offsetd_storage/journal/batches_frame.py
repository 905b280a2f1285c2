"""A BATCHES frame of the journal, laid out while batches are appended: a flush only seals it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
