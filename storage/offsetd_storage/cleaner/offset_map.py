"""The latest offset of every key in the dirty range of a log, in memory of a fixed size."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import numpy as np

from offsetd_storage.cleaner.cleaned_transactions import CleanedTransactions
from offsetd_storage.cleaner.segment_chunks import CHUNK_BYTES, SegmentChunk
from offsetd_storage.kernels import PADDING_BYTES, bitmap, padded_copy, scan
from offsetd_storage.kernels import key_offsets as kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from offsetd_storage.batch.record_batch import BatchHeader
    from offsetd_storage.cleaner.cleaned_transactions import AbortedTransaction
    from offsetd_storage.cleaner.segment_chunks import SegmentChunks

SLOT_BYTES: Final = 24
assert SLOT_BYTES == 8 * kernel.ENTRY_WORDS, "an entry is a hash of 16 bytes and an offset"
_HASH_KEY_BYTES_MIN: Final = 16
_SLOTS_USED_MIN: Final = 64
# Room for notes on stretches that need not be read again: for 4 GiB, 3.5 MiB.
_STRETCHES_MAX: Final = 65_536


@attrs.frozen(kw_only=True)
class MappedRange:
    """The range over which a map was built: from `first_dirty` to `offset_next` (exclusive).

    `offset_next` is Kafka's `endOffset`: the round cleans the segments that begin below it, and it
    is the next first dirty offset.
    """

    first_dirty: int
    offset_next: int
    is_full: bool  # The map was full before the dirty range ended.
    keys: int
    slots: int
    bytes_read: int
    messages_read: int
    invalid_messages: int  # Messages without a key.
    tombstones: int
    bits_end: int  # The bitmap covers `first_dirty` up to here (exclusive).

    @property
    def latest_offset(self) -> int:
        """The last offset that the map covers."""
        return self.offset_next - 1

    @property
    def utilization(self) -> float:
        """The used share of the map's slots, 0 to 1."""
        return self.keys / self.slots


class GoneStretch(NamedTuple):
    """Whole neighbouring batches of a segment that are all dropped."""

    segment_base_offset: int
    start: int  # Both are positions in the segment's file.
    end: int
    first_offset: int
    last_offset: int
    batches: int
    records: int


class OffsetMap:
    """A map of keys to offsets in `buffer_bytes`, 24 bytes for a key, filled to `load_factor`.

    `hash_key`: at least 16 random bytes that are secret. The bitmap, one bit for each offset of the
    dirty range, takes up to `bitmap_bytes_max` more; offsets beyond it are looked up. One thread
    uses a map at a time. Raises ValueError if there is no room for a single key.
    """

    def __init__(
        self, buffer_bytes: int, *, load_factor: float, hash_key: bytes, bitmap_bytes_max: int
    ) -> None:
        self.slots = buffer_bytes // SLOT_BYTES
        self.keys_max = int(self.slots * load_factor)
        # One slot is never filled, because a search ends at a free slot.
        self._slots_max = self.slots + 1
        # The number of slots that this round uses. A short range needs only a few.
        self.slots_used = self._slots_max
        if self.keys_max < 1:
            raise ValueError(
                f"a buffer of {buffer_bytes} bytes filled to {load_factor} is too small"
            )
        if len(hash_key) < _HASH_KEY_BYTES_MIN:
            raise ValueError(f"a hash key has {_HASH_KEY_BYTES_MIN} bytes or more")
        self._hash_key = hash_key
        self._bits_max = bitmap_bytes_max * 8
        self._rounds = 0
        # Arguments of the kernels, which describe them.
        self.table: npt.NDArray[np.int64] = np.zeros(
            self._slots_max * kernel.ENTRY_WORDS, dtype=np.int64
        )
        self.bits: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self.secret: npt.NDArray[np.int64] = np.zeros(kernel.SECRET_WORDS, dtype=np.int64)
        self._queue = np.zeros((kernel.QUEUE_ROWS, kernel.QUEUE_COLUMNS), dtype=np.int64)
        self._state = np.zeros(kernel.STATE_SLOTS, dtype=np.int64)
        self._stretches = np.empty((_STRETCHES_MAX, bitmap.STRETCH_COLUMNS), dtype=np.int64)
        self._gone: npt.NDArray[np.int64] = self._stretches[:0]

    def build(
        self,
        source: Iterable[SegmentChunks],
        *,
        first_dirty: int,
        first_uncleanable: int,
        aborted: Sequence[AbortedTransaction] = (),
        throttle: Callable[[int], None],
        chunk_bytes: int = CHUNK_BYTES,
    ) -> MappedRange:
        """Clears the map, and maps the keys of the segments in `source`, in order.

        It maps the records with a key, at or above `first_dirty`, that are neither control records
        nor part of an aborted transaction. It stops at the first keyed record for which there is no
        more room. `throttle(bytes)` is called for each chunk read: it may wait, and raise to end
        the build. Raises CorruptBatch (every batch is checked) and OldMessageFormat.
        """
        self._clear(first_dirty, first_uncleanable)
        state = self._state
        transactions = CleanedTransactions(aborted)
        bytes_read = 0
        is_full = False
        for segment in source:
            state[kernel.SEGMENT_BASE_OFFSET] = segment.base_offset
            state[kernel.OFFSET_NEXT] = segment.base_offset
            chunk = SegmentChunk(segment, chunk_bytes=chunk_bytes)
            taken = 0
            while not is_full and chunk.read_on(taken, throttle):
                taken = self._map_chunk(chunk, transactions)
                bytes_read += taken
                is_full = state[kernel.REASON] == kernel.FULL
            if is_full:
                break
            # The map also covers the offsets after the last batch: the whole segment was read.
            state[kernel.LATEST_OFFSET] = max(state[kernel.LATEST_OFFSET], segment.offset_next - 1)
        offset_next = int(state[kernel.LATEST_OFFSET]) + 1
        bits_end = min(offset_next, first_dirty + self._bits_max)
        self._set_bits(first_dirty, bits_end, first_uncleanable)
        return MappedRange(
            first_dirty=first_dirty,
            offset_next=offset_next,
            is_full=bool(is_full),
            keys=int(state[kernel.KEYS]),
            slots=self.slots,
            bytes_read=bytes_read,
            messages_read=int(state[kernel.MESSAGES]),
            invalid_messages=int(state[kernel.UNKEYED]),
            tombstones=int(state[kernel.TOMBSTONES]),
            bits_end=bits_end,
        )

    def gone(self, segment_base_offset: int) -> list[GoneStretch]:
        """The stretches of a segment that keep no record, in order, from the last `build`.

        `build` has checked every byte of them. So they need not be read again, as long as only the
        cleaner replaces the file. A log of many GiB may have more of them than are noted.
        """
        rows = self._gone[self._gone[:, bitmap.SEGMENT_BASE] == segment_base_offset]
        return [GoneStretch(*row) for row in rows.tolist()]

    def latest_offset(self, key: bytes) -> int:
        """The latest offset of a key in the mapped range, or -1."""
        return kernel.mapped_offset(
            padded_copy(key), len(key), self.secret, self.table, self.slots_used
        )

    def _clear(self, first_dirty: int, first_uncleanable: int) -> None:
        if self._state[kernel.KEYS]:
            self.table[: self.slots_used * kernel.ENTRY_WORDS].fill(0)
        offsets = max(0, first_uncleanable - first_dirty)
        # Twice the possible number of keys, so that searches are short. Other slots stay unused.
        self.slots_used = min(self._slots_max, 2 * offsets + _SLOTS_USED_MIN)
        self._gone = self._stretches[:0]
        self._rounds += 1
        # Each round has its own secret, so that none is used for long.
        expanded = hashlib.shake_256(self._hash_key + self._rounds.to_bytes(8, "big"))
        self.secret[:] = np.frombuffer(expanded.digest(self.secret.nbytes), dtype=np.int64)
        self._state[:] = 0
        self._state[kernel.FIRST_DIRTY] = first_dirty
        self._state[kernel.SLOTS] = self.slots_used
        self._state[kernel.KEYS_MAX] = min(self.keys_max, self.slots_used - 1)
        self._state[kernel.LATEST_OFFSET] = first_dirty - 1

    def _set_bits(self, first_dirty: int, bits_end: int, first_uncleanable: int) -> None:
        """Sets the bits of the offsets in the table, once and not for every record.

        Then it is known which stretches have no bit.
        """
        words = (bits_end - first_dirty) // 64 + 1
        if self.bits.size < words or self.bits.size > 2 * words:
            self.bits = np.zeros(words, dtype=np.int64)
        else:
            self.bits.fill(0)
        kernel.set_bits(self.table, self.slots_used, first_dirty, bits_end, self.bits)
        noted = int(self._state[kernel.STRETCHES])
        gone = bitmap.find_gone(
            self._stretches, noted, self.bits, first_dirty, bits_end, first_uncleanable
        )
        self._gone = self._stretches[:gone]

    def _map_chunk(self, chunk: SegmentChunk, transactions: CleanedTransactions) -> int:
        """Maps the whole batches in the chunk, until the map is full. Returns the bytes mapped."""
        state = self._state
        state[kernel.FILE_POSITION] = chunk.position
        at = 0
        while True:
            state[kernel.OPEN_TRANSACTIONS] = transactions.open_count
            at = kernel.map_batches(
                chunk.buffer,
                at,
                chunk.end,
                state,
                self.secret,
                self.table,
                self._queue,
                transactions.open_rows,
                self._stretches,
            )
            reason = int(state[kernel.REASON])
            if reason in (scan.END, scan.INCOMPLETE, kernel.FULL):
                return at
            if reason not in (kernel.NEW_TRANSACTION, kernel.CONTROL, kernel.COMPRESSED):
                chunk.fail(reason, at)
            header = chunk.header(at)
            if reason == kernel.NEW_TRANSACTION:
                transactions.begin(header.producer_id, header.last_offset)
                continue
            if reason == kernel.CONTROL:
                transactions.end(chunk.decoded(at))
                state[kernel.MESSAGES] += 1
            elif not self._map_compressed(chunk, at, header):
                return at
            if header.last_offset >= state[kernel.FIRST_DIRTY]:
                state[kernel.LATEST_OFFSET] = header.last_offset
            state[kernel.OFFSET_NEXT] = header.last_offset + 1
            at += header.size_bytes

    def _map_compressed(self, chunk: SegmentChunk, at: int, header: BatchHeader) -> bool:
        """Maps the records of a compressed batch; False if the map is full."""
        content = chunk.decompressed(at, header)
        reason = kernel.map_decompressed(
            content,
            content.size - PADDING_BYTES,
            header.base_offset,
            header.last_offset - header.base_offset,
            header.count,
            self._state,
            self.secret,
            self.table,
            self._queue,
        )
        self._state[kernel.REASON] = reason
        if reason not in (scan.END, kernel.FULL):
            chunk.fail(reason, at)
        return bool(reason == scan.END)
