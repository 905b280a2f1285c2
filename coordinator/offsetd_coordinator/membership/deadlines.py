"""A heap of deadlines that move far more often than they expire. Moves reach the heap late."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

Key = TypeVar("Key", bound="Hashable")

_STALE_ENTRIES_MIN = 64


class Deadlines(Generic[Key]):
    """One deadline for each key. Moving one to a later time costs two lookups.

    The heap holds a time at or before each key's deadline. If the deadline was moved, the key is
    put back at that time.
    """

    def __init__(self) -> None:
        self._due: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._pushes = 0

    def __len__(self) -> int:
        return len(self._due)

    def get(self, key: Key) -> int | None:
        """The key's deadline, if it has one."""
        return self._due.get(key)

    def set(self, key: Key, due_ms: int) -> None:
        """Gives the key a deadline, which replaces an earlier one."""
        self._due[key] = due_ms
        queued = self._queued.get(key)
        if queued is None or due_ms < queued:
            self._push(key, due_ms)
            if len(self._heap) > 2 * len(self._due) + _STALE_ENTRIES_MIN:
                self._build_anew()

    def cancel(self, key: Key) -> None:
        """Takes the key's deadline away, if it has one."""
        self._due.pop(key, None)

    @property
    def next_ms(self) -> int | None:
        """The time of the next check, at or before the nearest deadline; None without deadlines."""
        return self._heap[0][0] if self._heap else None

    def expired(self, now_ms: int) -> Iterator[Key]:
        """The keys whose deadline has come, the earliest first; each loses its deadline.

        Deadlines may be set and cancelled between two keys.
        """
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, key = heapq.heappop(self._heap)
            if self._queued.get(key) != queued_ms:
                continue  # An earlier entry of the same key came first.
            del self._queued[key]
            due_ms = self._due.get(key)
            if due_ms is None:
                continue
            if due_ms > now_ms:
                self._push(key, due_ms)
                continue
            del self._due[key]
            yield key

    def _push(self, key: Key, due_ms: int) -> None:
        self._pushes += 1
        self._queued[key] = due_ms
        # The count decides ties, because keys may not be comparable.
        heapq.heappush(self._heap, (due_ms, self._pushes, key))

    def _build_anew(self) -> None:
        """Rebuilds the heap without cancelled deadlines."""
        self._queued = dict(self._due)
        self._heap = [
            (due_ms, number, key) for number, (key, due_ms) in enumerate(self._due.items())
        ]
        self._pushes = len(self._heap)
        heapq.heapify(self._heap)
