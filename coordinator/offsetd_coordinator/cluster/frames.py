"""Frames: what one transaction commits. The event loop fills one while another is committed.

A transaction costs the brokers about as much for many commits as for few. So a frame waits a moment
for the callers that the last one has answered. Otherwise half of them would always be in one frame,
and the other half in the next one.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

if TYPE_CHECKING:
    from collections.abc import Collection

    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.cluster.claims import Claim


# The longest wait for more commits, as a share of the last transaction's time.
_GATHER_SHARE: Final = 1 / 2
_GATHER_SECONDS_MAX: Final = 0.05
_EXPECTED_KEPT: Final = 0.75  # The share of callers that is still expected if they did not come.


class FrameEntry(NamedTuple):
    """One appended batch."""

    topic_partition: TopicPartition
    batch: bytes
    last_offset: int
    max_timestamp_ms: int
    ticket: int


@attrs.define
class Frame:
    """Batches of the offsets topic by append, batches of the node's internal topics, and claims."""

    number: int
    entries: list[FrameEntry] = attrs.field(factory=list)
    internal_entries: list[FrameEntry] = attrs.field(factory=list)
    claims: dict[int, Claim] = attrs.field(factory=dict)
    is_wanted: bool = False
    """Whether a reader waits for this frame, even if it is empty."""
    ticket: int = 0
    """The newest ticket when the frame was closed."""

    @property
    def has_work(self) -> bool:
        """Whether a transaction is needed."""
        return bool(self.is_wanted or self.entries or self.internal_entries or self.claims)


class OpenFrame:
    """The frame that is being filled. The loop's thread fills it, another one takes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frame = Frame(1)
        self._work = threading.Event()
        self._ticket = 0
        self._dropped: dict[int, int] = {}
        self._is_closed = False
        self._taken_ticket = 0
        self._taken_count = 0
        self._taken_s = time.monotonic()
        self.expected = 0
        """The number of commits that the next frame waits for."""
        self.is_gathering = False
        """Whether `take` waits for more commits."""

    @property
    def ticket(self) -> int:
        """The newest ticket."""
        return self._ticket

    @property
    def taken_ticket(self) -> int:
        """The newest ticket of the frames that were taken."""
        return self._taken_ticket

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
            entries = self._frame.internal_entries if is_own else self._frame.entries
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
        """Wakes the thread that commits, unless it waits for more commits than there are."""
        if not self.is_gathering or self._has_all:
            self._work.set()

    def close(self) -> None:
        """Makes `take` return None once nothing is left."""
        self._is_closed = True
        self._work.set()

    def take(self, *, idle_seconds: float) -> Frame | None:
        """The next frame with work; waits for one. None after `close`.

        After `idle_seconds` without work it returns an empty frame.
        """
        gather_s = self._note_ended()
        while True:
            is_idle = not self._work.wait(idle_seconds)
            self._gather(gather_s)
            with self._lock:
                self._frame.is_wanted |= is_idle
                frame = self._frame
                if frame.has_work:
                    frame.ticket = self._taken_ticket = self._ticket
                    self._frame = Frame(frame.number + 1)
                    self._taken_count, self._taken_s = len(frame.entries), time.monotonic()
                    return frame
                if self._is_closed:
                    return None
                self._work.clear()

    @property
    def _has_all(self) -> bool:
        frame = self._frame
        return bool(len(frame.entries) >= self.expected or frame.claims or self._is_closed)

    def _note_ended(self) -> float:
        """Notes that the last frame is committed; returns how long the next may wait for commits.

        The callers of the last frame and those that came meanwhile are expected.
        """
        came = self._taken_count + len(self._frame.entries)
        self.expected = max(came, int(self.expected * _EXPECTED_KEPT))
        return min((time.monotonic() - self._taken_s) * _GATHER_SHARE, _GATHER_SECONDS_MAX)

    def _gather(self, seconds: float) -> None:
        """Waits until all expected commits have come. A frame without commits does not wait."""
        until_s = time.monotonic() + seconds
        self.is_gathering = bool(self._frame.entries)
        while self.is_gathering and not self._has_all:
            self._work.clear()
            left_s = until_s - time.monotonic()
            # The event loop may have added the last one just before the clear.
            if left_s <= 0 or self._has_all or not self._work.wait(left_s):
                break
        self.is_gathering = False
