"""The filter of a segment: which batches and records are kept, and the resulting bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from offsetd_storage.batch.compression import compress
from offsetd_storage.batch.record_batch import (
    encode_batch,
    seal_records,
    with_delete_horizon,
)
from offsetd_storage.cleaner.segment_chunks import CHUNK_BYTES, SegmentChunk
from offsetd_storage.kernels import PADDING_BYTES, compaction_filter, padded_buffer, scan
from offsetd_storage.kernels import key_offsets as map_kernel
from offsetd_storage.kernels import segment_rewrite as retain
from offsetd_storage.kernels.decode import RECORD_BYTES_MIN
from offsetd_storage.kernels.encode import BATCH_HEADER_BYTES
from offsetd_storage.timestamp_type import TimestampType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from offsetd_storage.batch.record_batch import BatchHeader, RecordBatch
    from offsetd_storage.cleaner.cleaned_transactions import CleanedTransactions, LastRecord
    from offsetd_storage.cleaner.offset_map import GoneStretch, MappedRange, OffsetMap
    from offsetd_storage.cleaner.segment_chunks import SegmentChunks

_ROWS_MAX: Final = 16_384
_NO_HORIZON_MS: Final = 2**63 - 1


@attrs.frozen(kw_only=True)
class KeepRules:
    """The inputs that decide in a round, in addition to its map.

    `last_records` are those of the active producers, by their ids (`ProducerHistory.active`). The
    batch that ends at `first_uncleanable` is kept, if only as a header.
    """

    now_ms: int
    delete_retention_ms: int
    first_uncleanable: int
    last_records: Mapping[int, LastRecord] = attrs.Factory(dict)


@attrs.frozen(kw_only=True)
class KeepStats:
    """Kafka's figures of the second pass, and figures that show whether it was worth it.

    Bytes and messages read include everything except the records of aborted transactions, which
    Kafka does not count as messages. `delete_horizon_ms` is the earliest horizon of the kept
    batches that still hold a tombstone, or a marker, to be removed at that time.
    """

    bytes_read: int = 0
    messages_read: int = 0
    # Messages without a key below the first dirty offset. The map counts the others.
    invalid_messages: int = 0
    bytes_retained: int = 0
    messages_retained: int = 0
    batches_dropped: int = 0
    # Batches that lost all records and became an empty header count too. A batch that was an empty
    # header before does not count.
    batches_rewritten: int = 0
    delete_horizon_ms: int | None = None

    @property
    def is_changed(self) -> bool:
        """Whether the result differs from the source, byte for byte."""
        return bool(self.batches_dropped or self.batches_rewritten)

    def __add__(self, other: KeepStats) -> KeepStats:
        sums = {
            name: getattr(self, name) + getattr(other, name)
            for name in attrs.fields_dict(KeepStats)
            if name != "delete_horizon_ms"
        }
        horizons = [self.delete_horizon_ms, other.delete_horizon_ms]
        earliest = min((each for each in horizons if each is not None), default=None)
        return KeepStats(**sums, delete_horizon_ms=earliest)


def filter_segment(
    source: SegmentChunks,
    offset_map: OffsetMap,
    mapped: MappedRange,
    transactions: CleanedTransactions,
    rules: KeepRules,
    write: Callable[[npt.NDArray[np.uint8]], None],
    *,
    throttle: Callable[[int], None],
    chunk_bytes: int = CHUNK_BYTES,
) -> KeepStats:
    """Writes what is kept of a segment: whole batches in each call of `write`, in order.

    `write` gets an array that is used again after the call. The segments of a log come in order,
    with one `transactions` for all. `throttle(bytes)` is called for each chunk read and each chunk
    written; it may wait, and raise to end the filter. Raises CorruptBatch (batches that are
    rewritten or dropped were checked before) and OldMessageFormat.
    """

    def write_throttled(array: npt.NDArray[np.uint8]) -> None:
        write(array)
        throttle(array.size)

    chunk = SegmentChunk(source, chunk_bytes=chunk_bytes)
    keeper = _Keeper(chunk, offset_map, mapped, transactions, rules, write_throttled)
    for gone in offset_map.gone(source.base_offset):
        keeper.keep_up_to(gone.start, throttle)
        keeper.drop(gone)
    keeper.keep_up_to(source.size_bytes, throttle)
    keeper.finish()
    return keeper.stats()


class _Keeper:
    """Filters one segment, chunk by chunk."""

    def __init__(
        self,
        chunk: SegmentChunk,
        offset_map: OffsetMap,
        mapped: MappedRange,
        transactions: CleanedTransactions,
        rules: KeepRules,
        write: Callable[[npt.NDArray[np.uint8]], None],
    ) -> None:
        self._chunk = chunk
        self._map = offset_map
        self._transactions = transactions
        self._rules = rules
        self._write = write
        self._bytes_read = 0
        self._state = _new_state(chunk.source, offset_map, mapped, rules)
        self._rows = np.empty((_ROWS_MAX, compaction_filter.ROW_COLUMNS), dtype=np.int64)
        self._queue = np.empty((map_kernel.QUEUE_ROWS, map_kernel.QUEUE_COLUMNS), dtype=np.int64)
        self._verdicts = np.empty(0, dtype=np.uint8)
        self._out = np.empty(chunk.buffer.size, dtype=np.uint8)
        last = sorted(
            (record.last_data_offset, producer_id)
            for producer_id, record in rules.last_records.items()
            if record.last_data_offset is not None
        )
        self._last_batches = np.array(last, dtype=np.int64).reshape(-1, 2)

    def keep_up_to(self, limit: int, throttle: Callable[[int], None]) -> None:
        """Reads up to `limit` in the file, and writes what is kept."""
        self._chunk.limit = limit
        taken = 0
        while self._chunk.read_on(taken, throttle):
            taken = self._keep_chunk()
            self._bytes_read += taken

    def drop(self, gone: GoneStretch) -> None:
        """Skips a stretch that keeps no record; the map has checked it already."""
        state = self._state
        self._chunk.skip_to(gone.end)
        self._bytes_read += gone.end - gone.start
        state[compaction_filter.MESSAGES_READ] += gone.records
        state[compaction_filter.BATCHES_DROPPED] += gone.batches
        state[compaction_filter.OFFSET_NEXT] = gone.last_offset + 1

    def finish(self) -> None:
        """Writes the rest."""
        self._state[compaction_filter.RUN_START] = 0
        self._flush(0)

    def stats(self) -> KeepStats:
        """The figures so far."""
        state = self._state.tolist()
        horizon_ms = state[compaction_filter.HORIZON_MIN]
        return KeepStats(
            bytes_read=self._bytes_read,
            messages_read=state[compaction_filter.MESSAGES_READ],
            invalid_messages=state[compaction_filter.INVALID_MESSAGES],
            bytes_retained=state[compaction_filter.BYTES_RETAINED],
            messages_retained=state[compaction_filter.MESSAGES_RETAINED],
            batches_dropped=state[compaction_filter.BATCHES_DROPPED],
            batches_rewritten=state[compaction_filter.BATCHES_REWRITTEN],
            delete_horizon_ms=None if horizon_ms == _NO_HORIZON_MS else horizon_ms,
        )

    def _keep_chunk(self) -> int:
        """Writes what is kept of the chunk's whole batches, or adds it to `out`.

        Returns the size of these batches.
        """
        chunk, state = self._chunk, self._state
        if self._verdicts.size * RECORD_BYTES_MIN < chunk.buffer.size:
            self._verdicts = np.empty(chunk.buffer.size // RECORD_BYTES_MIN + 1, dtype=np.uint8)
        state[compaction_filter.RUN_START] = 0
        at = 0
        while True:
            judged_end = self._judge(at)
            reason = int(state[compaction_filter.REASON])
            at = self._retain(at, judged_end)
            if reason in (scan.END, scan.INCOMPLETE):
                self._append(chunk.buffer[state[compaction_filter.RUN_START] : at])
                return at
            if reason == compaction_filter.ROWS_FULL:
                continue
            if reason == map_kernel.NEW_TRANSACTION:
                header = chunk.header(at)
                self._transactions.begin(header.producer_id, header.last_offset)
            elif reason == map_kernel.CONTROL:
                at = self._keep_control(at)
            elif reason == map_kernel.COMPRESSED:
                at = self._keep_compressed(at)
            else:
                chunk.fail(reason, at)

    def _judge(self, at: int) -> int:
        self._state[compaction_filter.OPEN_TRANSACTIONS] = self._transactions.open_count
        return compaction_filter.judge_batches(
            self._chunk.buffer,
            at,
            self._chunk.end,
            self._state,
            self._rows,
            self._verdicts,
            self._map.secret,
            self._map.table,
            self._map.bits,
            self._queue,
            self._transactions.open_rows,
            self._last_batches,
        )

    def _retain(self, at: int, judged_end: int) -> int:
        """Adds what is kept of the judged batches to `out`, and writes `out` when it is full."""
        chunk, state = self._chunk, self._state
        while True:
            at = retain.retain_batches(
                chunk.buffer, at, state, self._rows, self._verdicts, self._out
            )
            reason = int(state[compaction_filter.REASON])
            if reason == scan.END:
                assert at == judged_end, "each judged batch is retained or dropped"
                return at
            if reason != compaction_filter.OUT_FULL:
                chunk.fail(reason, at)
            self._flush(at)
            if state[compaction_filter.ROOM_NEEDED] > self._out.size:
                self._out = np.empty(int(state[compaction_filter.ROOM_NEEDED]), dtype=np.uint8)

    def _flush(self, at: int) -> None:
        """Writes `out`, and then the untouched batches up to `at`."""
        state = self._state
        if state[compaction_filter.OUT_BYTES]:
            self._write(self._out[: state[compaction_filter.OUT_BYTES]])
            state[compaction_filter.OUT_BYTES] = 0
        if state[compaction_filter.RUN_START] < at:
            self._write(self._chunk.buffer[state[compaction_filter.RUN_START] : at])
            state[compaction_filter.RUN_START] = at

    # Batches that no kernel handles.

    def _keep_control(self, at: int) -> int:
        """Keeps or drops a marker; returns the end of its batch."""
        batch = self._chunk.decoded(at)
        can_discard = self._transactions.end(batch)
        horizon_ms = batch.delete_horizon_ms
        discards = can_discard and horizon_ms is not None and horizon_ms <= self._rules.now_ms
        header_stays = self._control_header_stays(batch)
        replacement: bytes | None = None
        if discards or not batch.records:
            if header_stays:
                replacement = self._empty_header(at)
            if not discards or header_stays:
                self._state[compaction_filter.MESSAGES_READ] += batch.count
            self._step(at, batch, replacement, retained=0, drops=not header_stays)
            return at + batch.size_bytes
        has_tombstone = any(each.value is None for each in batch.records)
        if (can_discard or has_tombstone) and horizon_ms is None:
            horizon_ms = self._rules.now_ms + self._rules.delete_retention_ms
            replacement = _stamped(batch, horizon_ms)
        if can_discard and horizon_ms is not None:
            self._note_horizon(horizon_ms)
        self._state[compaction_filter.MESSAGES_READ] += batch.count
        self._step(at, batch, replacement, retained=batch.count)
        return at + batch.size_bytes

    def _control_header_stays(self, batch: BatchHeader) -> bool:
        """Whether the header of a control batch is kept for its producer.

        Every marker of an active producer's epoch is kept if that epoch has no data batch.
        """
        if batch.last_offset + 1 == self._rules.first_uncleanable:
            return True
        last = self._rules.last_records.get(batch.producer_id)
        if batch.producer_id < 0 or last is None:
            return False
        if last.last_data_offset is not None:
            return batch.last_offset == last.last_data_offset
        return batch.producer_epoch == last.producer_epoch

    def _keep_compressed(self, at: int) -> int:
        """Keeps some records of a compressed batch; returns the end of the batch."""
        state = self._state
        header = self._chunk.header(at)
        header_stays = bool(state[compaction_filter.KEEPS_HEADER])
        content = self._chunk.decompressed(at, header)
        verdicts = self._judge_decompressed(at, header, content)
        retained = int(np.count_nonzero(verdicts != compaction_filter.GOES))
        has_tombstones = bool(np.any(verdicts == compaction_filter.STAYS_AS_TOMBSTONE))
        horizon_ms = header.delete_horizon_ms
        stamps = has_tombstones and horizon_ms is None
        if stamps:
            horizon_ms = self._rules.now_ms + self._rules.delete_retention_ms
        replacement: bytes | None = None
        if retained == 0 and header_stays:
            self._chunk.check(at, header)
            replacement = self._empty_header(at)
        elif retained > 0 and (retained < header.count or stamps):
            self._chunk.check(at, header)
            replacement = self._rebuilt(header, content, verdicts, retained, horizon_ms)
        elif retained == 0:
            self._chunk.check(at, header)
        if has_tombstones and horizon_ms is not None:
            self._note_horizon(horizon_ms)
        state[compaction_filter.MESSAGES_READ] += header.count
        drops = retained == 0 and not header_stays
        self._step(at, header, replacement, retained=retained, drops=drops)
        return at + header.size_bytes

    def _judge_decompressed(
        self, at: int, header: BatchHeader, content: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.uint8]:
        """A verdict for each record of a batch."""
        size_bytes = content.size - PADDING_BYTES
        if header.count > size_bytes // RECORD_BYTES_MIN:
            self._chunk.fail(map_kernel.BAD_RECORD, at)
        verdicts = np.empty(header.count, dtype=np.uint8)
        horizon_ms = header.delete_horizon_ms
        reason = compaction_filter.judge_decompressed(
            content,
            size_bytes,
            header.base_offset,
            header.last_offset - header.base_offset,
            header.count,
            horizon_ms is not None and self._rules.now_ms >= horizon_ms,
            self._state,
            verdicts,
            self._map.secret,
            self._map.table,
            self._map.bits,
            self._queue,
        )
        if reason != scan.END:
            self._chunk.fail(reason, at)
        return verdicts

    def _rebuilt(
        self,
        header: BatchHeader,
        content: npt.NDArray[np.uint8],
        verdicts: npt.NDArray[np.uint8],
        retained: int,
        horizon_ms: int | None,
    ) -> bytes:
        """The batch with the records that are kept, compressed as it was."""
        out = padded_buffer(content.size + retain.RECORD_GROWTH_BYTES_MAX * retained)
        size_bytes = retain.rebuild_decompressed(
            content,
            content.size - PADDING_BYTES,
            header.count,
            verdicts,
            header.base_timestamp_ms,
            header.max_timestamp_ms,
            header.timestamp_type is TimestampType.LOG_APPEND_TIME,
            -1 if horizon_ms is None else horizon_ms,
            out,
            self._state,
        )
        compressed = compress(header.compression, out[:size_bytes].tobytes())
        return seal_records(
            compressed,
            attrs.evolve(
                header,
                attributes=with_delete_horizon(header.attributes, horizon_ms is not None),
                base_timestamp_ms=int(self._state[compaction_filter.BASE_TIMESTAMP]),
                max_timestamp_ms=int(self._state[compaction_filter.MAX_TIMESTAMP]),
                count=retained,
            ),
        )

    def _empty_header(self, at: int) -> bytes | None:
        """Only the header of a batch; None if the batch has nothing else."""
        header = np.empty(BATCH_HEADER_BYTES, dtype=np.uint8)
        size_bytes = retain.put_empty_header(self._chunk.buffer, at, header)
        return header.tobytes() if size_bytes else None

    def _note_horizon(self, horizon_ms: int) -> None:
        self._state[compaction_filter.HORIZON_MIN] = min(
            self._state[compaction_filter.HORIZON_MIN], horizon_ms
        )

    def _step(
        self,
        at: int,
        header: BatchHeader,
        replacement: bytes | None,
        *,
        retained: int,
        drops: bool = False,
    ) -> None:
        """Continues after a batch that is kept, replaced or dropped."""
        state = self._state
        state[compaction_filter.OFFSET_NEXT] = header.last_offset + 1
        state[compaction_filter.MESSAGES_RETAINED] += retained
        if replacement is None and not drops:
            state[compaction_filter.BYTES_RETAINED] += header.size_bytes
            return
        self._append(self._chunk.buffer[state[compaction_filter.RUN_START] : at])
        state[compaction_filter.RUN_START] = at + header.size_bytes
        if replacement is None:
            state[compaction_filter.BATCHES_DROPPED] += 1
            return
        state[compaction_filter.BATCHES_REWRITTEN] += 1
        state[compaction_filter.BYTES_RETAINED] += len(replacement)
        self._append(np.frombuffer(replacement, dtype=np.uint8))

    def _append(self, batches: npt.NDArray[np.uint8]) -> None:
        state = self._state
        # Long batches are written directly. Only short ones are collected in the buffer.
        is_long = batches.size > self._out.size // 4
        if is_long or batches.size > self._out.size - state[compaction_filter.OUT_BYTES]:
            if state[compaction_filter.OUT_BYTES]:
                self._write(self._out[: state[compaction_filter.OUT_BYTES]])
                state[compaction_filter.OUT_BYTES] = 0
            if is_long:
                self._write(batches)
                return
        start = int(state[compaction_filter.OUT_BYTES])
        self._out[start : start + batches.size] = batches
        state[compaction_filter.OUT_BYTES] = start + batches.size


def _new_state(
    source: SegmentChunks, offset_map: OffsetMap, mapped: MappedRange, rules: KeepRules
) -> npt.NDArray[np.int64]:
    state = np.zeros(compaction_filter.STATE_SLOTS, dtype=np.int64)
    state[compaction_filter.FIRST_DIRTY] = mapped.first_dirty
    state[compaction_filter.MAP_END] = mapped.offset_next
    state[compaction_filter.BITS_END] = mapped.bits_end
    state[compaction_filter.SLOTS] = offset_map.slots_used
    state[compaction_filter.NOW] = rules.now_ms
    state[compaction_filter.NEW_HORIZON] = rules.now_ms + rules.delete_retention_ms
    state[compaction_filter.ROUND_END] = rules.first_uncleanable
    state[compaction_filter.TOMBSTONES_MAPPED] = mapped.tombstones
    state[compaction_filter.SEGMENT_BASE_OFFSET] = source.base_offset
    state[compaction_filter.OFFSET_NEXT] = source.base_offset
    state[compaction_filter.HORIZON_MIN] = _NO_HORIZON_MS
    return state


def _stamped(batch: RecordBatch, horizon_ms: int) -> bytes:
    """A control batch with a delete horizon, and no other change."""
    return encode_batch(
        batch.records,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.partition_leader_epoch,
        max_timestamp_ms=batch.max_timestamp_ms,
        timestamp_type=batch.timestamp_type,
        delete_horizon_ms=horizon_ms,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        compression=batch.compression,
        is_transactional=batch.is_transactional,
        is_control=True,
    )
