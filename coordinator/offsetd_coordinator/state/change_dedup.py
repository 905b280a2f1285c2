"""Recent changes of groups' settings by request id, so that a retry gets the first answer.

The record of a change has a header of offsetd's own: the kind of request (one byte) and its id.
"""

from __future__ import annotations

import enum
import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER_NAME: Final = "offsetd-group-change"
_DIGEST_BYTES: Final = 16


class ChangeKind(enum.IntEnum):
    """Which call it was."""

    ACQUIRE = 1
    RELEASE = 2
    UPDATE = 3


class _Change(NamedTuple):
    last_offset: int
    timestamp_ms: int


class KnownChanges:
    """The log offsets of changes, for as long as the window; at most `count_max`."""

    def __init__(self, *, window_ms: int, count_max: int) -> None:
        self._window_ms = window_ms
        self._count_max = count_max
        self._known: dict[bytes, _Change] = {}  # Oldest first.

    def find(self, kind: ChangeKind, group_id: bytes, request_id: bytes, now_ms: int) -> int | None:
        """Where the change was written that a request made within the window before `now_ms`."""
        known = self._known.get(_digest(group_id, header(kind, request_id)[1]))
        if known is None or known.timestamp_ms < now_ms - self._window_ms:
            return None
        return known.last_offset

    def note(
        self,
        group_id: bytes,
        headers: Iterable[tuple[str, bytes | None]],
        *,
        offset: int,
        timestamp_ms: int,
    ) -> None:
        """Remembers what a replayed record says of the request that wrote it."""
        for name, value in headers:
            if name != HEADER_NAME or not value:
                continue
            digest = _digest(group_id, value)
            self._known.pop(digest, None)  # It gets a new place, the last.
            self._known[digest] = _Change(offset, timestamp_ms)
        oldest_ms = timestamp_ms - self._window_ms
        while self._known:
            first = next(iter(self._known))
            if self._known[first].timestamp_ms >= oldest_ms and len(self._known) <= self._count_max:
                break
            del self._known[first]


def header(kind: ChangeKind, request_id: bytes) -> tuple[str, bytes]:
    """What the record of a change carries."""
    return HEADER_NAME, bytes([kind]) + request_id


def _digest(group_id: bytes, value: bytes) -> bytes:
    """Short, however long the names; nobody can make two of them collide."""
    named = len(group_id).to_bytes(4, "big") + group_id + value
    return hashlib.blake2b(named, digest_size=_DIGEST_BYTES).digest()
