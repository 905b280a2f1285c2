"""Deduplication of requests: answers are remembered by request id, so that a retry gets them."""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

import attrs

OWN_TOPIC_REQUESTS_MAX: Final = 1000
"""The most requests that each internal topic (settings, audit) remembers."""

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class _Remembered(NamedTuple, Generic[Answer]):
    answer: Answer
    timestamp_ms: int
    size_bytes: int


@attrs.define(kw_only=True)
class RememberedRequests(Generic[Key, Answer]):
    """The answers of recent requests, the oldest first.

    A request is a repeat if an answer is remembered for its key, and was given at most `window_ms`
    before. The key identifies a request: by its id, and by the kind of call, the group, or both.
    Without a window, answers are removed only because of the bounds.

    A new answer gets the last place, even if its key was remembered before. Then the oldest answers
    are forgotten while they are out of the window, counted from the newest timestamp, or there are
    more than `count_max`, or they take more than `bytes_max`. An answer that is larger than
    `bytes_max` alone is not remembered.

    Commits follow the same rule in the kernel `kernels.table.request_ids`. It keeps a ring of
    hashes, and takes its window and its largest count from the same settings. There, an id that
    comes again within the window keeps its place.
    """

    window_ms: int | None
    count_max: int
    bytes_max: int | None = None
    _answers: dict[Key, _Remembered[Answer]] = attrs.field(factory=dict, init=False)
    _size_bytes: int = attrs.field(default=0, init=False)

    def __len__(self) -> int:
        return len(self._answers)

    def __contains__(self, key: Key) -> bool:
        return key in self._answers

    def find(self, key: Key, now_ms: int = 0) -> Answer | None:
        """The answer that a request with this key got within the window before `now_ms`."""
        known = self._answers.get(key)
        if known is None or self._is_over(known, now_ms):
            return None
        return known.answer

    def remember(
        self, key: Key, answer: Answer, *, timestamp_ms: int = 0, size_bytes: int = 0
    ) -> None:
        """Remembers an answer of `size_bytes`; forgets old ones, as of its timestamp."""
        self._forget(key)
        if self.bytes_max is None or size_bytes <= self.bytes_max:
            self._answers[key] = _Remembered(answer, timestamp_ms, size_bytes)
            self._size_bytes += size_bytes
        self.expire(timestamp_ms)

    def expire(self, timestamp_ms: int) -> None:
        """Forgets the oldest answers that are out of the window at this time, or are too many."""
        while self._answers:
            oldest, known = next(iter(self._answers.items()))
            if (
                not self._is_over(known, timestamp_ms)
                and len(self._answers) <= self.count_max
                and (self.bytes_max is None or self._size_bytes <= self.bytes_max)
            ):
                break
            self._forget(oldest)

    def _is_over(self, known: _Remembered[Answer], now_ms: int) -> bool:
        return self.window_ms is not None and known.timestamp_ms < now_ms - self.window_ms

    def _forget(self, key: Key) -> None:
        known = self._answers.pop(key, None)
        if known is not None:
            self._size_bytes -= known.size_bytes
