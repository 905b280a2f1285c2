"""Offsets that transactions have committed, until the transaction's end is in the log.

They are short-lived: most are merged or dropped before anybody asks for them. So batches of
nothing but offsets are kept as they are, and only read when somebody does ask. Rules: Kafka's
OffsetMetadataManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import attrs
from offsetd_storage.record_batch import decode_batch

from offsetd_coordinator.schemas.keys import OffsetKey, decode_key
from offsetd_coordinator.schemas.offset_commit import OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

OffsetId = tuple[bytes, bytes, int]
"""A group, a topic and a partition."""


@attrs.frozen(kw_only=True)
class PendingOffset:
    """One record of an open transaction. `value` is None if it cannot be read."""

    revision: int
    value: OffsetCommitValue | None


class EndedTransaction(NamedTuple):
    """What a transaction had: whole batches, and offsets that were looked at one by one."""

    batches: Sequence[bytes]
    offsets: Mapping[OffsetId, PendingOffset]


class PendingOffsets:
    """Pending offsets by producer."""

    def __init__(self) -> None:
        self._batches: dict[int, list[bytes]] = {}  # Not read yet.
        self._offsets: dict[int, dict[OffsetId, PendingOffset]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._read().values()))

    @property
    def producer_count(self) -> int:
        """How many producers have a transaction open."""
        return len(self._batches.keys() | self._offsets.keys())

    def add(self, producer_id: int, offset_id: OffsetId, offset: PendingOffset) -> None:
        """Keeps what a producer's transaction commits; of one offset the newest record."""
        offsets = self._offsets.setdefault(producer_id, {})
        known = offsets.get(offset_id)
        if known is None or known.revision < offset.revision:
            offsets[offset_id] = offset

    def add_batch(self, producer_id: int, encoded: bytes) -> None:
        """Keeps a batch of nothing but offsets that decode (`kernels.replay.has_only_offsets`)."""
        self._batches.setdefault(producer_id, []).append(encoded)

    def end(self, producer_id: int) -> EndedTransaction:
        """Forgets a producer's transaction; returns what it had."""
        return EndedTransaction(
            self._batches.pop(producer_id, ()), self._offsets.pop(producer_id, {})
        )

    def drop(self, offset_id: OffsetId) -> None:
        """Forgets what any transaction has for one offset: it was deleted."""
        for producer_id, offsets in tuple(self._read().items()):
            offsets.pop(offset_id, None)
            if not offsets:
                del self._offsets[producer_id]

    def partitions(self, group_id: bytes) -> AbstractSet[tuple[bytes, int]]:
        """The partitions of a group for which a transaction is open."""
        return {
            (topic, partition)
            for offsets in self._read().values()
            for group, topic, partition in offsets
            if group == group_id
        }

    def group_ids(self) -> AbstractSet[bytes]:
        """The groups for which a transaction is open."""
        return {group_id for offsets in self._read().values() for group_id, _, _ in offsets}

    def _read(self) -> dict[int, dict[OffsetId, PendingOffset]]:
        """All offsets by producer, once the batches are read."""
        for producer_id, batches in self._batches.items():
            for encoded in batches:
                for record in decode_batch(encoded, check_crc=False).records:
                    key = decode_key(record.key or b"")
                    assert isinstance(key, OffsetKey), "the batch has only offsets"
                    value = OffsetCommitValue.decode(record.value or b"")
                    offset_id = (key.group.encode(), key.topic.encode(), key.partition)
                    self.add(
                        producer_id, offset_id, PendingOffset(revision=record.offset, value=value)
                    )
        self._batches.clear()
        return self._offsets
