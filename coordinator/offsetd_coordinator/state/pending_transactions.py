"""Offsets committed by transactions whose end is not in the log yet.

Most are merged or discarded before anybody reads them. So batches that have only offsets are kept
as bytes, and decoded only when they are read. The rules are those of Kafka's OffsetMetadataManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import attrs
from offsetd_storage.batch.record_batch import decode_batch
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, decode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue

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
    """The contents of a transaction: whole batches, and offsets that were decoded."""

    batches: Sequence[bytes]
    offsets: Mapping[OffsetId, PendingOffset]


@attrs.define
class _Transaction:
    """The open transaction of one producer."""

    batches: list[bytes] = attrs.Factory(list)  # The batches whose records are not decoded yet.
    offsets: dict[OffsetId, PendingOffset] = attrs.Factory(dict)


class PendingOffsets:
    """Pending offsets by producer, and the producers by offset."""

    def __init__(self) -> None:
        self._transactions: dict[int, _Transaction] = {}
        self._unread: set[int] = set()  # Producers with batches that are not read yet.
        # The producers of the offsets that are read, by group, then by topic and partition.
        self._producers: dict[bytes, dict[tuple[bytes, int], set[int]]] = {}

    def __len__(self) -> int:
        self._read_batches()
        return sum(len(transaction.offsets) for transaction in self._transactions.values())

    @property
    def producer_count(self) -> int:
        """The number of producers that have a transaction open."""
        return len(self._transactions)

    def add(self, producer_id: int, offset_id: OffsetId, offset: PendingOffset) -> None:
        """Keeps an offset of a producer's transaction; for one partition, the newest record."""
        offsets = self._transaction(producer_id).offsets
        known = offsets.get(offset_id)
        if known is None or known.revision < offset.revision:
            offsets[offset_id] = offset
        if known is None:
            group_id, topic, partition = offset_id
            of_group = self._producers.setdefault(group_id, {})
            of_group.setdefault((topic, partition), set()).add(producer_id)

    def add_batch(self, producer_id: int, encoded: bytes) -> None:
        """Keeps a batch that has only offsets that decode
        (`kernels.records.replay.has_only_offsets`).
        """
        self._transaction(producer_id).batches.append(encoded)
        self._unread.add(producer_id)

    def end(self, producer_id: int) -> EndedTransaction:
        """Forgets a producer's transaction, and returns its contents."""
        transaction = self._transactions.pop(producer_id, None)
        if transaction is None:
            return EndedTransaction((), {})
        self._unread.discard(producer_id)
        for offset_id in transaction.offsets:
            self._forget_producer(offset_id, producer_id)
        return EndedTransaction(transaction.batches or (), transaction.offsets)

    def drop(self, offset_id: OffsetId) -> None:
        """Forgets the records of all transactions for one offset, because it was deleted."""
        self._read_batches()
        group_id, topic, partition = offset_id
        producers = self._producers.get(group_id, {}).get((topic, partition), ())
        for producer_id in tuple(producers):
            transaction = self._transactions[producer_id]
            del transaction.offsets[offset_id]
            if not transaction.offsets:
                del self._transactions[producer_id]
            self._forget_producer(offset_id, producer_id)

    def partitions(self, group_id: bytes) -> AbstractSet[tuple[bytes, int]]:
        """The partitions of a group for which a transaction is open."""
        self._read_batches()
        return self._producers.get(group_id, {}).keys()

    def group_ids(self) -> AbstractSet[bytes]:
        """The groups for which a transaction is open."""
        self._read_batches()
        return self._producers.keys()

    def _transaction(self, producer_id: int) -> _Transaction:
        transaction = self._transactions.get(producer_id)
        if transaction is None:
            transaction = self._transactions[producer_id] = _Transaction()
        return transaction

    def _forget_producer(self, offset_id: OffsetId, producer_id: int) -> None:
        group_id, topic, partition = offset_id
        of_group = self._producers[group_id]
        producers = of_group[topic, partition]
        producers.discard(producer_id)
        if not producers:
            del of_group[topic, partition]
            if not of_group:
                del self._producers[group_id]

    def _read_batches(self) -> None:
        for producer_id in self._unread:
            transaction = self._transactions[producer_id]
            for encoded in transaction.batches:
                for record in decode_batch(encoded, check_crc=False).records:
                    key = decode_key(record.key or b"")
                    assert isinstance(key, OffsetKey), "the batch has only offsets"
                    value = OffsetCommitValue.decode(record.value or b"")
                    offset_id = (key.group.encode(), key.topic.encode(), key.partition)
                    self.add(
                        producer_id, offset_id, PendingOffset(revision=record.offset, value=value)
                    )
            transaction.batches.clear()
        self._unread.clear()
