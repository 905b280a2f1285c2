"""Recent deletions by request id, so that a retry is answered and does not delete again.

A deletion may have several batches; it is complete when its last batch is replayed. The answer of
each deletion is kept: a count, or the partitions packed by topic.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import numpy as np

from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS
from offsetd_coordinator.kernels.records import tombstone_records
from offsetd_coordinator.request_dedup import RememberedRequests
from offsetd_coordinator.requests import DeleteGroupReply, DeleteOffsetsReply

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from offsetd_coordinator.kernels.columns import Bytes, Int64s

    Int32s = npt.NDArray[np.int32]

DeletionReply = DeleteOffsetsReply | DeleteGroupReply
_Key = tuple[type[DeletionReply], bytes, bytes]

NODE_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most memory that the remembered deletions of all log partitions take together."""

_ENTRY_BYTES: Final = 1024  # The size of a remembered deletion without its names and partitions.
_BEGUN_MAX: Final = 16
_BATCH_BYTES: Final = 512  # The size of one of its batches without names and partitions.


class PackedPartitions(NamedTuple):
    """Partitions, packed by topic: the concatenated names, their sizes, and the count of
    `partitions` of each topic.
    """

    names: bytes
    name_sizes: Int32s
    counts: Int32s
    partitions: Int32s

    @classmethod
    def of(cls, partitions_by_topic: Iterable[tuple[bytes, Sequence[int]]]) -> PackedPartitions:
        """Packs them in the order given."""
        topics = list(partitions_by_topic)
        return cls(
            b"".join(topic for topic, _ in topics),
            np.array([len(topic) for topic, _ in topics], np.int32),
            np.array([len(partitions) for _, partitions in topics], np.int32),
            np.array([each for _, partitions in topics for each in partitions], np.int32),
        )

    @property
    def size_bytes(self) -> int:
        """Their approximate size."""
        arrays = self.name_sizes, self.counts, self.partitions
        return _BATCH_BYTES + len(self.names) + sum(array.nbytes for array in arrays)

    def pairs(self) -> Iterator[tuple[bytes, int]]:
        """Each partition, with its topic."""
        name_at = partition_at = 0
        partitions = self.partitions.tolist()
        for size, count in zip(self.name_sizes.tolist(), self.counts.tolist(), strict=True):
            topic = self.names[name_at : name_at + size]
            for partition in partitions[partition_at : partition_at + count]:
                yield topic, partition
            name_at += size
            partition_at += count


@attrs.frozen(eq=False)
class DeletedPartitions(Collection[tuple[bytes, int]]):
    """The partitions that a deletion removed, by batch. They are unpacked when they are read."""

    batches: tuple[PackedPartitions, ...]
    count: int

    def __len__(self) -> int:
        return self.count

    def __contains__(self, partition: object) -> bool:
        return any(each == partition for each in self)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        return chain.from_iterable(map(PackedPartitions.pairs, self.batches))


@attrs.frozen(kw_only=True, eq=False)
class DeletedBatch:
    """One replayed batch of tombstones.

    If the deletion has several batches, `starts_at` is the log offset of its first tombstone, and
    `request_id` is empty in all batches except the last one.
    """

    group_id: bytes
    request_id: bytes
    starts_at: int | None
    base_offset: int
    last_offset: int
    timestamp_ms: int
    has_group: bool
    deleted: PackedPartitions

    @classmethod
    def of(cls, buffer: Bytes, described: Int64s, gone: Int64s) -> DeletedBatch:
        """Makes it from the arrays that `kernels.records.tombstone_records.read_deletion` wrote
        for a batch in `buffer`.
        """
        (
            group_start,
            group_size,
            starts_at,
            base_offset,
            last_offset,
            timestamp_ms,
            id_start,
            id_size,
            has_group,
        ) = described.tolist()
        firsts = np.flatnonzero(gone[:, tombstone_records.GONE_IS_NEW_TOPIC])
        spans = gone[firsts, : tombstone_records.GONE_PARTITION].tolist()
        return cls(
            group_id=buffer[group_start : group_start + group_size].tobytes(),
            request_id=buffer[id_start : id_start + id_size].tobytes(),
            starts_at=None if starts_at < 0 else starts_at,
            base_offset=base_offset,
            last_offset=last_offset,
            timestamp_ms=timestamp_ms,
            has_group=bool(has_group),
            deleted=PackedPartitions(
                b"".join(buffer[start : start + size].tobytes() for start, size in spans),
                np.array([size for _, size in spans], np.int32),
                np.diff(firsts, append=len(gone)).astype(np.int32),
                gone[:, tombstone_records.GONE_PARTITION].astype(np.int32),
            ),
        )


class _Deletion(NamedTuple):
    """A deletion. `deleted` is None if it is too large to keep, or if only the count is needed."""

    starts_at: int
    last_offset: int
    offset_count: int
    deleted: tuple[PackedPartitions, ...] | None
    size_bytes: int


class KnownDeletions:
    """The deletions within the window, by kind, group and request id.

    They are at most `count_max`, and take about `bytes_max`. A deletion that is larger than that
    is not remembered.
    """

    def __init__(self, *, window_ms: int, count_max: int, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._known = RememberedRequests[_Key, _Deletion](
            window_ms=window_ms, count_max=count_max, bytes_max=bytes_max
        )
        # Deletions whose last batch is not replayed yet, by group and by start. Batches of other
        # requests may be in between.
        self._begun: dict[tuple[bytes, int], _Deletion] = {}

    def find(
        self, kind: type[DeletionReply], group_id: bytes, request_id: bytes, now_ms: int
    ) -> DeletionReply | None:
        """The reply of this kind to a request within the window before `now_ms`, or None."""
        known = self._known.find((kind, group_id, request_id), now_ms)
        if known is None:
            return None
        if kind is DeleteGroupReply:
            return DeleteGroupReply(known.last_offset, known.offset_count)
        assert known.deleted is not None, "what names partitions is kept with them"
        deleted: Collection[tuple[bytes, int]]
        deleted = DeletedPartitions(known.deleted, known.offset_count)
        if len(deleted) <= SLICE_ROWS:
            deleted = tuple(deleted)
        return DeleteOffsetsReply(known.last_offset, deleted)

    def note(self, batch: DeletedBatch) -> None:
        """Remembers a deletion, if this is its last batch.

        If the earlier batches of a deletion are no longer in the log, the remaining ones are
        remembered.
        """
        deletion = self._with_earlier_batches(batch)
        begun = batch.group_id, deletion.starts_at
        self._begun.pop(begun, None)
        if not batch.request_id:
            self._begun[begun] = deletion
            if len(self._begun) > _BEGUN_MAX:  # A deletion that a crash cut off never ends.
                del self._begun[next(iter(self._begun))]
            return
        kind: type[DeletionReply] = DeleteOffsetsReply
        if batch.has_group:  # Only the deletion of a group ends with a group's record.
            kind = DeleteGroupReply
            deletion = deletion._replace(deleted=None, size_bytes=_ENTRY_BYTES)
        names_bytes = len(batch.group_id) + len(batch.request_id)
        self._known.remember(
            (kind, batch.group_id, batch.request_id),
            deletion,
            timestamp_ms=batch.timestamp_ms,
            size_bytes=deletion.size_bytes + names_bytes,
        )

    def _with_earlier_batches(self, batch: DeletedBatch) -> _Deletion:
        offset_count, size_bytes = batch.deleted.partitions.size, batch.deleted.size_bytes
        deleted: tuple[PackedPartitions, ...] | None = (batch.deleted,)
        begun = None
        if batch.starts_at is not None:
            begun = self._begun.get((batch.group_id, batch.starts_at))
        if begun is None:
            size_bytes += _ENTRY_BYTES
        else:
            offset_count += begun.offset_count
            size_bytes += begun.size_bytes
            deleted = None if begun.deleted is None else (*begun.deleted, batch.deleted)
        return _Deletion(
            starts_at=batch.base_offset if batch.starts_at is None else batch.starts_at,
            last_offset=batch.last_offset,
            offset_count=offset_count,
            deleted=deleted if size_bytes <= self._bytes_max else None,
            size_bytes=size_bytes,
        )
