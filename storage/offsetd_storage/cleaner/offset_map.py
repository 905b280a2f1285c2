"""The latest offset of every key in the dirty range of a log, in memory of a fixed size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from offsetd_storage.cleaner.segment_bytes import SegmentBytes
    from offsetd_storage.cleaner.transactions import AbortedTransaction

SLOT_BYTES: Final = 24


@attrs.frozen(kw_only=True)
class MappedRange:
    """What a map was built over: the offsets from `first_dirty` to `offset_next` (exclusive).

    `offset_next` is Kafka's `endOffset`: the round cleans the segments that begin below it, and
    it is the next first dirty offset.
    """

    first_dirty: int
    offset_next: int
    is_full: bool  # The map was full before the dirty range ended.
    keys: int
    slots: int
    bytes_read: int
    messages_read: int
    tombstones: int
    bits_end: int  # From `first_dirty` to here (exclusive) the bitmap knows.

    @property
    def latest_offset(self) -> int:
        """The last offset that the map speaks for."""
        return self.offset_next - 1

    @property
    def utilization(self) -> float:
        """The part of the map's slots that is used, 0 to 1."""
        return self.keys / self.slots


class OffsetMap:
    """`buffer_bytes` hold a slot of 24 bytes for every key, filled to `load_factor`.

    `hash_key`: at least 16 random bytes that nobody outside can know. The bitmap, one bit an
    offset of the dirty range, takes up to `bitmap_bytes_max` more; offsets beyond are looked up.
    One thread uses a map at a time.
    """

    def __init__(
        self, buffer_bytes: int, *, load_factor: float, hash_key: bytes, bitmap_bytes_max: int
    ) -> None:
        self.slots = buffer_bytes // SLOT_BYTES
        self.keys_max = int(self.slots * load_factor)

    def build(
        self,
        source: Iterable[SegmentBytes],
        *,
        first_dirty: int,
        first_uncleanable: int,
        aborted: Sequence[AbortedTransaction] = (),
        throttle: Callable[[int], None],
    ) -> MappedRange:
        """Forgets what was, and maps the keys of the segments in `source`, in order.

        In go the records with a key, from `first_dirty` on, that are neither control records nor
        of an aborted transaction. Stops at the first keyed record for which there is no more
        room. `throttle(bytes)` is called for each chunk read: it may wait, and raise to end it.
        Raises CorruptBatch (every batch is checked) and OldMessageFormat.
        """
        raise NotImplementedError
