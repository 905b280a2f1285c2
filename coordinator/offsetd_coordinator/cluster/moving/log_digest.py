"""The check of a move: a count and a digest of the records of one log, in their order."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_coordinator.errors import CoordinatorError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.cluster.topic_records import PlacedRecord

_PLACE: Final = struct.Struct(">qqqii")
_NONE: Final = -1


class MoveRefused(CoordinatorError):
    """A log cannot be moved. The message says why, and what to do."""

    reason = "INVALID_REQUEST"


@attrs.define
class LogDigest:
    """The count, the last log offset and a SHA-256 of the records that were added."""

    records: int = 0
    last_offset: int = _NONE
    end_offset: int = 0
    """The log's next offset, where it is known."""
    _hash: hashlib._Hash = attrs.field(factory=hashlib.sha256, eq=False, repr=False)

    def add(self, placed: PlacedRecord) -> None:
        """Adds a record with its key, value, headers, time, offset and batch."""
        batch_offset, record = placed
        key, value = record.key, record.value
        key_size = _NONE if key is None else len(key)
        value_size = _NONE if value is None else len(value)
        place = _PLACE.pack(batch_offset, record.offset, record.timestamp_ms, key_size, value_size)
        self._hash.update(place + (key or b"") + (value or b""))
        if record.headers:
            self._hash.update(repr(record.headers).encode())
        self.records += 1
        self.last_offset = record.offset

    @property
    def text(self) -> str:
        """The first 16 digits of the digest."""
        return self._hash.hexdigest()[:16]

    @property
    def value(self) -> tuple[int, str]:
        """Equal for logs with the same records."""
        return self.records, self._hash.hexdigest()


@attrs.frozen(kw_only=True)
class Compared:
    """One log, as it was read at the source and as it was read back."""

    topic_partition: TopicPartition
    source: LogDigest
    copy: LogDigest | None
    """None if nothing was written."""

    @property
    def problem(self) -> str | None:
        """How the copy differs, or None."""
        if self.copy is None or self.copy.value == self.source.value:
            return None
        return f"read back: {self.copy.records} records with digest {self.copy.text}"


def compared(
    sources: dict[TopicPartition, LogDigest], copies: dict[TopicPartition, LogDigest] | None
) -> Iterator[Compared]:
    """Each log of the source with its copy."""
    for each in sorted(sources):
        copy = None if copies is None else copies.get(each, LogDigest())
        yield Compared(topic_partition=each, source=sources[each], copy=copy)
