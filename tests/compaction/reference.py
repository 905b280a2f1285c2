"""Kafka 4.1.1's rules for a round of cleaning, said as plainly as Python can; slow.

An interop test compares it with Kafka's own cleaner, batch by batch. So what can be compared with
this needs no Java. Left out: the bounds that a group has from the sizes of its indexes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

import attrs
from compaction.logs import ABORT, MARKER_KEY, CleanerSettings
from offsetd_storage.batch.record_batch import (
    NO_PRODUCER_ID,
    Record,
    RecordBatch,
    TimestampType,
    decode_batches,
    encode_batch,
)

Segments = Mapping[int, bytes]  # Batches by base offset, in order; the last one is active.
_RELATIVE_OFFSET_MAX = 2**31 - 1


@attrs.frozen(kw_only=True)
class Cleaned:
    """A log after a round, and where the next begins."""

    segments: dict[int, bytes]
    next_first_dirty: int


def clean(
    segments: Segments,
    *,
    first_dirty: int,
    first_uncleanable: int,
    settings: CleanerSettings,
    now_ms: int,
) -> Cleaned:
    """One round; `first_uncleanable` is a segment's base offset, above `first_dirty`."""
    history = _History.of(segments)
    bases = [base for base in segments if base < first_uncleanable]
    ends = dict(zip(bases, [*bases[1:], first_uncleanable], strict=True))
    offset_map = _OffsetMap(
        first_dirty=first_dirty, keys_max=int(settings.map_slots * settings.map_load_factor)
    )
    offset_map.build(segments, ends, history.aborted)
    cleaning = _Round(
        offset_map=offset_map,
        transactions=_Transactions(waiting=sorted(history.aborted, key=lambda each: each.first)),
        last_records=history.active(now_ms, settings.producer_expiration_ms),
        first_uncleanable=first_uncleanable,
        settings=settings,
        now_ms=now_ms,
    )
    cleaned = {}
    mapped = {base: end for base, end in ends.items() if base <= offset_map.latest_offset}
    for group in _groups(segments, mapped, settings.segment_bytes):
        before = b"".join(segments[base] for base in group)
        cleaned[group[0]] = b"".join(cleaning.kept(*each) for each in _batches(before))
    cleaned |= {base: batches for base, batches in segments.items() if base not in mapped}
    return Cleaned(segments=cleaned, next_first_dirty=offset_map.latest_offset + 1)


def first_open_offset(segments: Segments) -> int | None:
    """Of the earliest transaction that has no marker, None if there is none."""
    history = _History.of(segments)
    firsts = (last.transaction_first for last in history.producers.values())
    return min((first for first in firsts if first is not None), default=None)


def _batches(batches: bytes) -> Iterator[tuple[RecordBatch, bytes]]:
    """With what each is encoded as."""
    position = 0
    for batch in decode_batches(batches):
        yield batch, batches[position : position + batch.size_bytes]
        position += batch.size_bytes


def _groups(segments: Segments, ends: Mapping[int, int], bytes_max: int) -> Iterator[list[int]]:
    """Neighbours that become one segment, by what they hold before."""
    group: list[int] = []
    size = 0
    for base, end in ends.items():
        spans = end - 1 - group[0] if group and segments[base] else 0
        if group and (size + len(segments[base]) > bytes_max or spans > _RELATIVE_OFFSET_MAX):
            yield group
            group, size = [], 0
        group.append(base)
        size += len(segments[base])
    if group:
        yield group


@attrs.frozen(kw_only=True)
class _Aborted:
    """An aborted transaction; `last` is the offset of its marker."""

    producer_id: int
    first: int
    last: int


@attrs.define(kw_only=True)
class _LastRecord:
    """Of a producer; of its data only that of its last epoch counts."""

    epoch: int
    data_offset: int | None = None
    timestamp_ms: int = -1
    transaction_first: int | None = None


@attrs.define
class _History:
    """What a log says of its producers."""

    aborted: list[_Aborted] = attrs.field(factory=list)
    producers: dict[int, _LastRecord] = attrs.field(factory=dict)

    @classmethod
    def of(cls, segments: Segments) -> Self:
        """Of all batches of a log."""
        history = cls()
        for batch, _ in _batches(b"".join(segments.values())):
            history.see(batch)
        return history

    def see(self, batch: RecordBatch) -> None:
        """Batches come in the order of the log."""
        if batch.producer_id == NO_PRODUCER_ID or (batch.is_control and not batch.records):
            return
        last = self.producers.setdefault(batch.producer_id, _LastRecord(epoch=batch.producer_epoch))
        if last.epoch != batch.producer_epoch:
            last.epoch, last.data_offset = batch.producer_epoch, None
        if not batch.is_control:
            last.data_offset, last.timestamp_ms = batch.last_offset, batch.max_timestamp_ms
            if batch.is_transactional and last.transaction_first is None:
                last.transaction_first = batch.base_offset
            return
        if last.transaction_first is not None and _is_abort(batch):
            self.aborted.append(
                _Aborted(
                    producer_id=batch.producer_id,
                    first=last.transaction_first,
                    last=batch.last_offset,
                )
            )
        last.transaction_first, last.timestamp_ms = None, batch.records[0].timestamp_ms

    def active(self, now_ms: int, expiration_ms: int) -> dict[int, _LastRecord]:
        """Those that are not forgotten; one with an open transaction never is."""
        return {
            producer_id: last
            for producer_id, last in self.producers.items()
            if last.transaction_first is not None or now_ms - last.timestamp_ms < expiration_ms
        }


@attrs.define(kw_only=True)
class _Transactions:
    """Which transactions a pass is within, and of which it has met data."""

    waiting: list[_Aborted]
    aborted: dict[int, bool] = attrs.field(factory=dict)  # By producer: whether data was met.
    committed: set[int] = attrs.field(factory=set)

    def is_discardable(self, batch: RecordBatch) -> bool:
        """Of data: it was aborted. Of a marker: this pass has met no data of its transaction."""
        while self.waiting and self.waiting[0].first <= batch.last_offset:
            self.aborted.setdefault(self.waiting.pop(0).producer_id, False)
        producer_id = batch.producer_id
        if batch.is_control:
            if not batch.records:
                return True
            if _is_abort(batch):
                return not self.aborted.pop(producer_id, False)
            had_data = producer_id in self.committed
            self.committed.discard(producer_id)
            return not had_data
        if not batch.is_transactional:
            return False
        if producer_id in self.aborted:
            self.aborted[producer_id] = True
            return True
        self.committed.add(producer_id)
        return False


@attrs.define(kw_only=True)
class _OffsetMap:
    """The last offset of each key from `first_dirty` to `latest_offset` (inclusive)."""

    first_dirty: int
    keys_max: int
    offsets: dict[bytes, int] = attrs.field(factory=dict)
    latest_offset: int = -1

    def build(
        self, segments: Segments, ends: Mapping[int, int], aborted: Iterable[_Aborted]
    ) -> None:
        """`ends`: where each segment that may be cleaned ends (exclusive)."""
        reached = [each for each in aborted if each.last >= self.first_dirty]
        transactions = _Transactions(waiting=sorted(reached, key=lambda each: each.first))
        for base, end in ends.items():
            if end <= self.first_dirty:
                continue
            for batch, _ in _batches(segments[base]):
                if batch.last_offset < self.first_dirty:
                    continue
                is_aborted = transactions.is_discardable(batch)
                if not (batch.is_control or is_aborted) and not self._take(batch.records):
                    return
                self.latest_offset = batch.last_offset
            self.latest_offset = end - 1

    def _take(self, records: Sequence[Record]) -> bool:
        """False at the first record with a key for which there is no room, new or not."""
        for record in records:
            if record.key is None or record.offset < self.first_dirty:
                continue
            if len(self.offsets) >= self.keys_max:
                return False
            self.offsets[record.key] = self.latest_offset = record.offset
        return True


@attrs.frozen(kw_only=True)
class _Round:
    """Decides over batches, which come in the order of the log."""

    offset_map: _OffsetMap
    transactions: _Transactions
    last_records: Mapping[int, _LastRecord]
    first_uncleanable: int
    settings: CleanerSettings
    now_ms: int

    def kept(self, batch: RecordBatch, encoded: bytes) -> bytes:
        """What is left of a batch."""
        is_discardable = self.transactions.is_discardable(batch)
        horizon_ms = batch.delete_horizon_ms
        is_due = horizon_ms is not None and horizon_ms <= self.now_ms
        goes = is_discardable and (is_due or not batch.is_control)
        records = [
            each
            for each in batch.records
            if not goes and (batch.is_control or self._is_kept(each, is_due=is_due))
        ]
        if not records:
            return _emptied(batch) if self._stays_empty(batch) else b""
        has_tombstone = any(each.value is None for each in records)
        if horizon_ms is None and (has_tombstone or (batch.is_control and is_discardable)):
            return _rebuilt(batch, records, self.now_ms + self.settings.delete_retention_ms)
        if len(records) == len(batch.records):
            return encoded
        return _rebuilt(batch, records, horizon_ms)

    def _is_kept(self, record: Record, *, is_due: bool) -> bool:
        if record.offset > self.offset_map.latest_offset:
            return True
        if record.key is None or record.offset < self.offset_map.offsets.get(record.key, -1):
            return False
        return record.value is not None or not is_due

    def _stays_empty(self, batch: RecordBatch) -> bool:
        """Whether it is the round's last batch, or the last one of an active producer."""
        if batch.last_offset + 1 == self.first_uncleanable:
            return True
        last = self.last_records.get(batch.producer_id)
        if last is None:
            return False
        if last.data_offset is None:
            return batch.is_control and batch.producer_epoch == last.epoch
        return batch.last_offset == last.data_offset


def _is_abort(marker: RecordBatch) -> bool:
    key = marker.records[0].key
    assert key is not None
    return bool(MARKER_KEY.unpack(key)[1] == ABORT)


def _rebuilt(batch: RecordBatch, records: Sequence[Record], horizon_ms: int | None) -> bytes:
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    appended_ms = batch.max_timestamp_ms if is_append_time else None
    return encode_batch(
        records,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.partition_leader_epoch,
        base_timestamp_ms=appended_ms,
        max_timestamp_ms=appended_ms,
        timestamp_type=batch.timestamp_type,
        delete_horizon_ms=horizon_ms,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        compression=batch.compression,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
    )


def _emptied(batch: RecordBatch) -> bytes:
    return encode_batch(
        [],
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.partition_leader_epoch,
        max_timestamp_ms=batch.max_timestamp_ms,
        timestamp_type=batch.timestamp_type,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
    )
