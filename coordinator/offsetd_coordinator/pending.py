"""Offsets that transactions have committed, until the transaction's end is in the log.

They are few and short-lived, so they are Python values beside the packed table. Rules: Kafka's
OffsetMetadataManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_coordinator.schemas.offset_commit import OffsetCommitValue

OffsetId = tuple[bytes, bytes, int]
"""A group, a topic and a partition."""


@attrs.frozen(kw_only=True)
class PendingOffset:
    """One record of an open transaction. `value` is None if it cannot be read."""

    revision: int
    value: OffsetCommitValue | None


class PendingOffsets:
    """Pending offsets by producer, and who has any for a group."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetId, PendingOffset]] = {}
        self._producers: dict[bytes, dict[tuple[bytes, int], set[int]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_producer.values()))

    def add(self, producer_id: int, offset_id: OffsetId, offset: PendingOffset) -> None:
        """Keeps what a producer's transaction commits; a later record replaces an earlier one."""
        self._by_producer.setdefault(producer_id, {})[offset_id] = offset
        group_id, topic, partition = offset_id
        partitions = self._producers.setdefault(group_id, {})
        partitions.setdefault((topic, partition), set()).add(producer_id)

    def end(self, producer_id: int) -> dict[OffsetId, PendingOffset]:
        """Forgets a producer's transaction; returns what it had."""
        ended = self._by_producer.pop(producer_id, {})
        for offset_id in ended:
            self._forget(offset_id, producer_id)
        return ended

    def drop(self, offset_id: OffsetId) -> None:
        """Forgets what any transaction has for one offset: it was deleted."""
        group_id, topic, partition = offset_id
        producers = self._producers.get(group_id, {}).get((topic, partition), set())
        for producer_id in tuple(producers):
            offsets = self._by_producer[producer_id]
            del offsets[offset_id]
            if not offsets:
                del self._by_producer[producer_id]
            self._forget(offset_id, producer_id)

    def partitions(self, group_id: bytes) -> frozenset[tuple[bytes, int]]:
        """The partitions of a group for which a transaction is open."""
        return frozenset(self._producers.get(group_id, ()))

    def group_ids(self) -> Iterator[bytes]:
        """The groups for which a transaction is open."""
        return iter(self._producers)

    def _forget(self, offset_id: OffsetId, producer_id: int) -> None:
        group_id, topic, partition = offset_id
        partitions = self._producers[group_id]
        producers = partitions[topic, partition]
        producers.remove(producer_id)
        if not producers:
            del partitions[topic, partition]
        if not partitions:
            del self._producers[group_id]
