"""Deletions that were done lately, by request id: a retry is answered, and not done again."""

from __future__ import annotations

from typing import NamedTuple

from offsetd_coordinator.requests import DeleteGroupReply, DeleteOffsetsReply

DeletionReply = DeleteOffsetsReply | DeleteGroupReply


class _Known(NamedTuple):
    timestamp_ms: int
    reply: DeletionReply


class KnownDeletions:
    """Replies by kind, group and request id, for as long as the window, at most `count_max`."""

    def __init__(self, *, window_ms: int, count_max: int) -> None:
        self._window_ms = window_ms
        self._count_max = count_max
        self._known: dict[tuple[type, bytes, bytes], _Known] = {}

    def find(
        self, kind: type[DeletionReply], group_id: bytes, request_id: bytes, now_ms: int
    ) -> DeletionReply | None:
        """The reply of this kind that a request was given within the window before `now_ms`."""
        known = self._known.get((kind, group_id, request_id))
        if known is None or known.timestamp_ms < now_ms - self._window_ms:
            return None
        return known.reply

    def remember(
        self,
        group_id: bytes,
        request_id: bytes,
        reply: DeletionReply,
        timestamp_ms: int,
    ) -> None:
        """Remembers a reply, and forgets those that are out of the window, or one too many."""
        oldest_ms = timestamp_ms - self._window_ms
        self._known[type(reply), group_id, request_id] = _Known(timestamp_ms, reply)
        while self._known:
            first = next(iter(self._known))
            if self._known[first].timestamp_ms >= oldest_ms and len(self._known) <= self._count_max:
                break
            del self._known[first]
