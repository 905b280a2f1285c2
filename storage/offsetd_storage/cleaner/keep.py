"""Which batches and records of a segment stay, and the bytes that are left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.cleaner.offset_map import MappedRange, OffsetMap
    from offsetd_storage.cleaner.segment_bytes import SegmentBytes
    from offsetd_storage.cleaner.transactions import CleanedTransactions, LastRecord


@attrs.frozen(kw_only=True)
class KeepRules:
    """What a round decides by, beside its map.

    `last_records`: of the producers that are active, by their ids (`ProducerHistory.active`). The
    batch that ends at `first_uncleanable` stays, if only as a header.
    """

    now_ms: int
    delete_retention_ms: int
    first_uncleanable: int
    last_records: Mapping[int, LastRecord] = attrs.Factory(dict)


@attrs.frozen(kw_only=True)
class KeepStats:
    """Kafka's figures of the second pass, and what tells whether it was worth it.

    Bytes and messages read leave nothing out but the records of aborted transactions, which Kafka
    does not count as messages. `delete_horizon_ms` is the earliest one of the batches that stay
    and still hold a tombstone or a marker that it lets go.
    """

    bytes_read: int = 0
    messages_read: int = 0
    invalid_messages: int = 0  # Without a key.
    bytes_retained: int = 0
    messages_retained: int = 0
    batches_dropped: int = 0
    batches_rewritten: int = 0  # Empty headers included, where the batch was not one before.
    delete_horizon_ms: int | None = None

    @property
    def is_changed(self) -> bool:
        """Whether what was written is not what was read, byte for byte."""
        return bool(self.batches_dropped or self.batches_rewritten)

    def __add__(self, other: KeepStats) -> KeepStats:
        raise NotImplementedError


def filter_segment(
    source: SegmentBytes,
    offset_map: OffsetMap,
    mapped: MappedRange,
    transactions: CleanedTransactions,
    rules: KeepRules,
    write: Callable[[npt.NDArray[np.uint8]], None],
    *,
    throttle: Callable[[int], None],
) -> KeepStats:
    """Writes what stays of a segment: whole batches in each call of `write`, in order.

    The array that `write` is given is used again after it returns. The segments of a log come in
    order, with one `transactions` for all. `throttle(bytes)` is called for each chunk read and
    each one written; it may wait, and raise to end it. Raises CorruptBatch (what is rewritten or
    dropped was checked before) and OldMessageFormat.
    """
    raise NotImplementedError
