"""Recent changes of groups' settings by request id, so that a retry gets the first answer.

The record of a change has a header of offsetd's own: the kind of request (one byte) and its id.
"""

from __future__ import annotations

import enum
import hashlib
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.request_dedup import RememberedRequests

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER_NAME: Final = "offsetd-group-change"
_DIGEST_BYTES: Final = 16


class ChangeKind(enum.IntEnum):
    """The kind of a change, by the call that made it."""

    ACQUIRE = 1
    RELEASE = 2
    UPDATE = 3


class KnownChanges:
    """The log offsets of the changes within the window, at most `count_max`."""

    def __init__(self, *, window_ms: int, count_max: int) -> None:
        self._known = RememberedRequests[bytes, int](window_ms=window_ms, count_max=count_max)

    def find(self, kind: ChangeKind, group_id: bytes, request_id: bytes, now_ms: int) -> int | None:
        """The log offset of the change that a request made within the window before `now_ms`."""
        return self._known.find(_digest(group_id, header(kind, request_id)[1]), now_ms)

    def note(
        self,
        group_id: bytes,
        headers: Iterable[tuple[str, bytes | None]],
        *,
        offset: int,
        timestamp_ms: int,
    ) -> None:
        """Remembers the request that wrote a replayed record, by the record's headers."""
        for name, value in headers:
            if name == HEADER_NAME and value:
                digest = _digest(group_id, value)
                self._known.remember(digest, offset, timestamp_ms=timestamp_ms)
        self._known.expire(timestamp_ms)


def header(kind: ChangeKind, request_id: bytes) -> tuple[str, bytes]:
    """The header in the record of a change."""
    return HEADER_NAME, bytes([kind]) + request_id


def _digest(group_id: bytes, value: bytes) -> bytes:
    """A digest of a group and a header's value. It is short, and clients cannot make it collide."""
    named = len(group_id).to_bytes(4, "big") + group_id + value
    return hashlib.blake2b(named, digest_size=_DIGEST_BYTES).digest()
