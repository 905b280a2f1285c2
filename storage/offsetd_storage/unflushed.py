"""What was appended since the last flush, gathered as the journal's frames are going to hold it.

Of each log a frame has one run, however many batches that is: so what a flush does for itself grows
with the logs, not with the batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_storage.journal_format import COUNT, JournaledRun, batch_entry_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetd_storage.journal_format import LogEnd
    from offsetd_storage.partition_log import PartitionLog


_ENTRY_HEAD_BYTES_MAX: Final = 300  # What stands before a run; the longest name has 249 bytes.


class UnflushedFrame(NamedTuple):
    """What one frame is going to hold."""

    payload_bytes: int
    contents: Mapping[PartitionLog, Sequence[bytes]]
    ends: Sequence[LogEnd]  # Of those logs, with these batches.

    @property
    def runs(self) -> list[JournaledRun]:
        """The batches, one run of each log."""
        return [
            JournaledRun(log.topic_partition, b"".join(batches), end)
            for (log, batches), end in zip(self.contents.items(), self.ends, strict=True)
        ]


class Unflushed:
    """For one thread at a time; nothing is appended to a log meanwhile.

    `payload_bytes_max` may be changed: it holds for what is appended from then on.
    """

    def __init__(self, payload_bytes_max: int) -> None:
        self.payload_bytes_max = payload_bytes_max
        self._full: list[UnflushedFrame] = []
        self._contents: dict[PartitionLog, list[bytes]] = {}
        self._payload_bytes = COUNT.size

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self._contents or self._full)

    def make_room(self, size_bytes: int) -> None:
        """Ends the frame if batches of that size might not go in; before they are in their log."""
        payload_bytes = self._payload_bytes + _ENTRY_HEAD_BYTES_MAX + size_bytes
        if payload_bytes > self.payload_bytes_max and self._contents:
            self._full = self.frames()
            self._contents, self._payload_bytes = {}, COUNT.size

    def add(self, log: PartitionLog, batches: bytes) -> None:
        """Notes what was just put at the end of a log; there is room for it."""
        contents = self._contents.get(log)
        if contents is None:
            contents = self._contents[log] = []
            self._payload_bytes += batch_entry_bytes(log.topic_partition, 0)
        contents.append(batches)
        self._payload_bytes += len(batches)

    def frames(self) -> list[UnflushedFrame]:
        """All of it. Frame after frame it is in the order of the appends."""
        if not self._contents:
            return self._full
        ends = [log.end for log in self._contents]
        return [*self._full, UnflushedFrame(self._payload_bytes, self._contents, ends)]

    def take(self) -> list[UnflushedFrame]:
        """All of it, which is then no longer here."""
        frames = self.frames()
        self._full, self._contents, self._payload_bytes = [], {}, COUNT.size
        return frames
