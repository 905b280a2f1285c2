"""Frames: what one transaction commits. The event loop fills one while another is committed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

import attrs

if TYPE_CHECKING:
    from collections.abc import Collection

    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.cluster.claims import Claim


class FrameEntry(NamedTuple):
    """One appended batch."""

    topic_partition: TopicPartition
    batch: bytes
    last_offset: int
    max_timestamp_ms: int
    ticket: int


@attrs.define
class Frame:
    """Batches of the offsets topic by append, batches of the node's own topics, and claims."""

    number: int
    entries: list[FrameEntry] = attrs.field(factory=list)
    own_entries: list[FrameEntry] = attrs.field(factory=list)
    claims: dict[int, Claim] = attrs.field(factory=dict)
    is_wanted: bool = False
    """Whether a reader waits for this frame, even if it is empty."""
    ticket: int = 0
    """The newest ticket when the frame was closed."""

    @property
    def has_work(self) -> bool:
        """Whether a transaction is needed."""
        return bool(self.is_wanted or self.entries or self.own_entries or self.claims)


class OpenFrame:
    """The frame that is being filled. The loop's thread fills it, another one takes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frame = Frame(1)
        self._work = threading.Event()
        self._ticket = 0
        self._dropped: dict[int, int] = {}
        self._is_closed = False

    @property
    def ticket(self) -> int:
        """The newest ticket."""
        return self._ticket

    def add(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        last_offset: int,
        max_timestamp_ms: int,
        is_own: bool = False,
    ) -> int:
        """Adds a batch, and returns its ticket."""
        with self._lock:
            self._ticket += 1
            entries = self._frame.own_entries if is_own else self._frame.entries
            entries.append(
                FrameEntry(topic_partition, batch, last_offset, max_timestamp_ms, self._ticket)
            )
            return self._ticket

    def next_ticket(self) -> int:
        """A new ticket without a batch."""
        with self._lock:
            self._ticket += 1
            return self._ticket

    def want(self) -> int:
        """Requests a transaction that has not begun yet, and returns the frame's number."""
        with self._lock:
            self._frame.is_wanted = True
            return self._frame.number

    def claim(self, claims: dict[int, Claim]) -> int:
        """Adds claims by partition, and returns the frame's number. For any thread."""
        with self._lock:
            self._frame.claims |= claims
            number = self._frame.number
        self._work.set()
        return number

    def drop(self, partitions: Collection[int]) -> None:
        """Drops what was added for these partitions: no attempt that begins later sends it."""
        with self._lock:
            self._dropped |= dict.fromkeys(partitions, self._ticket)

    def is_dropped(self, entry: FrameEntry) -> bool:
        """Whether the partition of an entry was lost after the entry was added."""
        return entry.ticket <= self._dropped.get(entry.topic_partition.partition, 0)

    def kick(self) -> None:
        """Wakes the thread that commits."""
        self._work.set()

    def close(self) -> None:
        """Makes `take` return None once nothing is left."""
        self._is_closed = True
        self._work.set()

    def take(self, *, idle_seconds: float) -> Frame | None:
        """The next frame with work; waits for one. None after `close`.

        After `idle_seconds` without work it returns an empty frame.
        """
        while True:
            is_idle = not self._work.wait(idle_seconds)
            with self._lock:
                self._frame.is_wanted |= is_idle
                frame = self._frame
                if frame.has_work:
                    frame.ticket = self._ticket
                    self._frame = Frame(frame.number + 1)
                    return frame
                if self._is_closed:
                    return None
                self._work.clear()
