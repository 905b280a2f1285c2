"""The state of producers and transactions that cleaning needs, in the order of offsets.

All records of an aborted transaction are removed. The marker of a transaction, aborted or
committed, stays until a pass has found no batch of the transaction; then it gets a delete horizon,
like a tombstone. The last batch of an active producer stays, if necessary empty: it shows which
sequence numbers were used.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from offsetd_storage.cleaner.segment_chunks import CHUNK_BYTES, SegmentChunk
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels import key_offsets, producers, scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from offsetd_storage.batch.record_batch import RecordBatch
    from offsetd_storage.cleaner.segment_chunks import SegmentChunks

_CONTROL_KEY: Final = struct.Struct(">hh")  # Version, type.
_ROWS_MAX: Final = 4096


@attrs.frozen(kw_only=True)
class AbortedTransaction:
    """The fields of an entry of `.txnindex`; `last_offset` is the offset of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int  # The last stable offset of the log directly after the marker.


@attrs.frozen(kw_only=True)
class LastRecord:
    """The last data batch of an active producer, by its last offset.

    `last_data_offset` is None if its epoch has no data batch.
    """

    last_data_offset: int | None
    producer_epoch: int
    last_timestamp_ms: int


@attrs.frozen(kw_only=True)
class ProducerHistory:
    """The producers of a log, as its batches show them. Empty if no producer wrote to it.

    `open_first_offsets`: the starts of transactions that are not decided yet, by producer id.
    `delete_horizon_ms`: the earliest one that a batch has, None if none has one.
    """

    aborted: Sequence[AbortedTransaction] = ()
    last_records: Mapping[int, LastRecord] = attrs.Factory(dict)
    open_first_offsets: Mapping[int, int] = attrs.Factory(dict)
    delete_horizon_ms: int | None = None

    @property
    def has_producers(self) -> bool:
        """Whether any producer wrote to the log."""
        return bool(self.last_records or self.aborted)

    def last_stable_offset(self, offset_next: int) -> int:
        """The last stable offset of the log, whose end is `offset_next`."""
        return min(self.open_first_offsets.values(), default=offset_next)

    def active(self, *, now_ms: int, expiration_ms: int) -> Mapping[int, LastRecord]:
        """The last records of the producers that have not expired (`producer.id.expiration.ms`)."""
        return {
            producer_id: last
            for producer_id, last in self.last_records.items()
            if producer_id in self.open_first_offsets
            or now_ms - last.last_timestamp_ms < expiration_ms
        }


def _no_throttle(_: int) -> None:
    pass


def read_producers(
    source: Iterable[SegmentChunks], *, throttle: Callable[[int], None] = _no_throttle
) -> ProducerHistory:
    """Reads the headers of a whole log's batches. Raises CorruptBatch and OldMessageFormat.

    `throttle(bytes)` is called for each chunk: it may wait, and raise to end the read.
    """
    history = _HistorySoFar()
    state = np.zeros(producers.STATE_SLOTS, dtype=np.int64)
    state[producers.DELETE_HORIZON] = producers.NO_HORIZON
    rows = np.empty((_ROWS_MAX, producers.ROW_COLUMNS), dtype=np.int64)
    for segment in source:
        chunk = SegmentChunk(segment, chunk_bytes=CHUNK_BYTES)
        taken = 0
        while chunk.read_on(taken, throttle):
            taken = 0
            state[producers.REASON] = scan.INDEX_FULL
            while state[producers.REASON] == scan.INDEX_FULL:
                taken = producers.find_producers(chunk.buffer, taken, chunk.end, state, rows)
                for row in rows[: state[producers.ROWS]].tolist():
                    history.take(*row)
            if state[producers.REASON] not in (scan.END, scan.INCOMPLETE):
                chunk.fail(int(state[producers.REASON]), taken)
    horizon_ms = int(state[producers.DELETE_HORIZON])
    return ProducerHistory(
        aborted=tuple(history.aborted),
        last_records=history.last_records,
        open_first_offsets=history.open_first_offsets,
        delete_horizon_ms=None if horizon_ms == producers.NO_HORIZON else horizon_ms,
    )


class _HistorySoFar:
    """The part of Kafka's `ProducerStateManager` that cleaning needs."""

    def __init__(self) -> None:
        self.aborted: list[AbortedTransaction] = []
        self.last_records: dict[int, LastRecord] = {}
        self.open_first_offsets: dict[int, int] = {}

    def take(
        self,
        first_offset: int,
        last_offset: int,
        producer_id: int,
        epoch: int,
        kind: int,
        timestamp_ms: int,
    ) -> None:
        """Takes a row of `find_producers`."""
        if kind in (producers.EMPTY_CONTROL, producers.OTHER_CONTROL):
            return  # Its transaction was cleaned away, or it ends none.
        last_data_offset: int | None = last_offset
        if kind in (producers.ABORT, producers.COMMIT):
            self._end(first_offset, producer_id, is_aborted=kind == producers.ABORT)
            before = self.last_records.get(producer_id)
            # At a marker of a later epoch Kafka forgets the batches of earlier epochs.
            is_known = before is not None and before.producer_epoch == epoch
            last_data_offset = before.last_data_offset if before and is_known else None
        elif kind == producers.TRANSACTIONAL:
            self.open_first_offsets.setdefault(producer_id, first_offset)
        self.last_records[producer_id] = LastRecord(
            last_data_offset=last_data_offset,
            producer_epoch=epoch,
            last_timestamp_ms=timestamp_ms,
        )

    def _end(self, marker_offset: int, producer_id: int, *, is_aborted: bool) -> None:
        first_offset = self.open_first_offsets.pop(producer_id, None)
        if first_offset is not None and is_aborted:
            stable = min(self.open_first_offsets.values(), default=marker_offset + 1)
            self.aborted.append(
                AbortedTransaction(
                    producer_id=producer_id,
                    first_offset=first_offset,
                    last_offset=marker_offset,
                    last_stable_offset=stable,
                )
            )


class CleanedTransactions:
    """Kafka's `CleanedTransactionMetadata`: one for each pass over a whole log.

    The first `open_count` of `open_rows` are for the kernels: each producer that has a
    transactional batch since its last marker, and whether that transaction is aborted.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self.open_rows: npt.NDArray[np.int64] = np.zeros(
            (16, key_offsets.OPEN_COLUMNS), dtype=np.int64
        )
        self.open_count = 0
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        for each in sorted(aborted, key=lambda each: each.last_offset):
            self._aborted.setdefault(each.producer_id, []).append(each)
        self._retained_aborts: list[AbortedTransaction] = []

    def begin(self, producer_id: int, last_offset: int) -> None:
        """Notes the first transactional data batch of a producer since its last marker."""
        if self.open_count == len(self.open_rows):
            self.open_rows = np.concatenate((self.open_rows, np.zeros_like(self.open_rows)))
        is_aborted = self._aborted_at(producer_id, last_offset) is not None
        self.open_rows[self.open_count] = producer_id, is_aborted
        self.open_count += 1

    def end(self, batch: RecordBatch) -> bool:
        """Notes a control batch; returns whether it can be discarded, sooner or later.

        It can if no batch of its transaction was found, or if it is empty already. A control batch
        that is not a marker stays. Raises CorruptBatch if the key is not that of a control record.
        """
        if not batch.records:
            return True
        kind = _control_type(batch)
        if kind not in (producers.ABORT, producers.COMMIT):
            return False
        is_open, was_aborted = self._close(batch.producer_id)
        if not is_open:
            return True
        aborted = self._aborted_at(batch.producer_id, batch.last_offset)
        if was_aborted and kind == producers.ABORT and aborted is not None:
            self._retained_aborts.append(aborted)
        return False

    def take_retained_aborts(self) -> list[AbortedTransaction]:
        """The aborted transactions whose batches and marker were found since the last call.

        They are the entries of the `.txnindex` of the cleaned segment.
        """
        taken, self._retained_aborts = self._retained_aborts, []
        return taken

    def _aborted_at(self, producer_id: int, last_offset: int) -> AbortedTransaction | None:
        aborted = self._aborted.get(producer_id, [])
        at = bisect_left(aborted, last_offset, key=lambda each: each.last_offset)
        if at < len(aborted) and aborted[at].first_offset <= last_offset:
            return aborted[at]
        return None

    def _close(self, producer_id: int) -> tuple[bool, bool]:
        rows = np.flatnonzero(self.open_rows[: self.open_count, 0] == producer_id)
        if not rows.size:
            return False, False
        was_aborted = bool(self.open_rows[rows[0], 1])
        self.open_count -= 1
        self.open_rows[rows[0]] = self.open_rows[self.open_count]
        return True, was_aborted


def _control_type(batch: RecordBatch) -> int:
    key = batch.records[0].key
    if key is None or len(key) < _CONTROL_KEY.size or _CONTROL_KEY.unpack_from(key)[0] < 0:
        raise CorruptBatch("a control record without its type", position=batch.base_offset)
    return int(_CONTROL_KEY.unpack_from(key)[1])
