"""Decisions on changes of large groups, made on rows and on a thread.

The functions are pure: they take the group's offsets, and return the slices to write, or raise an
error. The rules are those of `change_decisions` and `offset_deletion`, which decide on small groups
at once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import attrs
import numpy as np
from offsetd_storage.kernels import padded_buffer, padded_copy

from offsetd_coordinator.changes.row_views import (
    NO_OFFSET,
    RowChanges,
    RowPartitions,
    partitions_of,
)
from offsetd_coordinator.committed_offsets import CommittedColumns, OffsetRow, OffsetRows
from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS
from offsetd_coordinator.errors import InvalidCommitSize
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.records.row_comparison import find_differing, put_row_keys
from offsetd_coordinator.kernels.records.tombstone_records import OFFSET_KEY_FIXED_BYTES
from offsetd_coordinator.offset_changes import (
    EndCounts,
    OffsetsChangedReply,
    PutChanges,
    PutColumns,
    RestoredReply,
    end_counts,
    reset_offsets,
)
from offsetd_coordinator.requests import DeleteGroupReply, DeleteOffsetsReply
from offsetd_coordinator.state.offset_batches import (
    PutRows,
    check_expiry,
    encode_offsets,
    fits_one_batch,
)
from offsetd_coordinator.state.offset_deletion import joined_keys
from offsetd_coordinator.state.tombstone_batches import encode_tombstones, fit_one_batch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.offset_changes import (
        PutOffset,
        PutOffsets,
        ResetOffsets,
        RestoreOffsets,
    )
    from offsetd_coordinator.requests import DeleteGroup, DeleteOffsets, Reply
    from offsetd_coordinator.state.offset_batches import Encoder

_RECORD_BYTES_MIN: Final = 40
"""The size of the smallest record of an offset, without its names."""

Batches = tuple[tuple[bytes, int], ...]
ReplyOf = Callable[[int | None, "Int64s"], "Reply"]


class LargeChange(Protocol):
    """A large change: the slices to write, and the reply."""

    @property
    def slice_count(self) -> int:
        """The number of slices."""

    def batches(self, place: int, encoder: Encoder) -> Batches:
        """The batches of a slice, starting at the encoder's base offset, each with its last offset.

        Raises InvalidCommitSize if a record is too large for any batch.
        """

    def reply(self, last_offset: int | None) -> Reply:
        """The answer. `last_offset` is that of the last written record, None if there is none."""


def check_size(count: int, group_id: bytes, bytes_max: int) -> None:
    """Raises InvalidCommitSize if a batch of at most `bytes_max` cannot have this many offsets."""
    if count * (_RECORD_BYTES_MIN + len(group_id)) > bytes_max:
        raise InvalidCommitSize(
            "partitions",
            "the record batch of {offset_count} offsets exceeds {bytes_max} bytes",
            offset_count=count,
            bytes_max=bytes_max,
        )


@attrs.define
class Puts:
    """Offsets and tombstones to write. The first record of the last batch has the request id.

    If everything fits in one batch, it becomes one batch, so that all or nothing is written.
    """

    parts: list[PutRows]
    written: Int64s
    """The log offset of each written row."""
    reply_of: ReplyOf
    is_one_batch: bool
    _first: int = 0

    @classmethod
    def of_one_batch(cls, rows: PutRows, reply_of: ReplyOf) -> Puts:
        """A change whose rows fit in one batch."""
        return cls([rows], np.full(len(rows.columns), -1, np.int64), reply_of, True)

    @classmethod
    def of_slices(cls, parts: Sequence[PutRows], reply_of: ReplyOf) -> Puts:
        """A change whose rows are written one part after the other."""
        slices = [
            part._replace(columns=part.columns[first : first + SLICE_ROWS], request_id_size=0)
            for part in parts
            for first in range(0, len(part.columns), SLICE_ROWS)
        ]
        if slices and len(parts[-1].columns):
            slices[-1] = slices[-1]._replace(request_id_size=parts[-1].request_id_size)
        count = sum(len(part.columns) for part in parts)
        return cls(slices, np.full(count, -1, np.int64), reply_of, False)

    @property
    def slice_count(self) -> int:
        return len(self.parts)

    def batches(self, place: int, encoder: Encoder) -> Batches:
        rows = self.parts[place]
        batches = encode_offsets(encoder, rows, is_splittable=not self.is_one_batch)
        end = self._first + len(rows.columns)
        self.written[self._first : end] = encoder.base_offset + np.arange(len(rows.columns))
        self._first = end
        return batches

    def reply(self, last_offset: int | None) -> Reply:
        return self.reply_of(last_offset, self.written)


@attrs.frozen
class Tombstones:
    """The tombstones of a deletion. The last batch has the request id.

    If all of them fit in one batch, it becomes one batch. `bytes_max` is the limit of its size.
    """

    keys: Bytes
    ends: Int64s
    request_id: bytes
    answer: DeleteOffsetsReply | DeleteGroupReply
    rows_at_once: int
    _starts_at: list[int] = attrs.field(factory=list)

    @classmethod
    def of(
        cls,
        keys: tuple[Bytes, Int64s],
        request_id: bytes,
        answer: DeleteOffsetsReply | DeleteGroupReply,
        bytes_max: int,
    ) -> Tombstones:
        is_one_batch = fit_one_batch(keys[1], request_id, bytes_max)
        rows_at_once = max(keys[1].size, 1) if is_one_batch else SLICE_ROWS
        return cls(*keys, request_id, answer, rows_at_once)

    @property
    def slice_count(self) -> int:
        return -(-self.ends.size // self.rows_at_once)

    def batches(self, place: int, encoder: Encoder) -> Batches:
        if not self._starts_at:
            self._starts_at.append(encoder.base_offset)
        first, end = place * self.rows_at_once, (place + 1) * self.rows_at_once
        start = int(self.ends[first - 1]) if first else 0
        return encode_tombstones(
            self.keys[start:],
            self.ends[first:end] - start,
            request_id=self.request_id,
            now_ms=encoder.now_ms,
            base_offset=encoder.base_offset,
            leader_epoch=encoder.leader_epoch,
            out=encoder.out,
            starts_at=None if self.slice_count == 1 else self._starts_at[0],
            is_end=end >= self.ends.size,
        )

    def reply(self, last_offset: int | None) -> Reply:
        return self.answer._replace(last_offset=last_offset)


def put_change(
    request: PutOffsets, stored: OffsetRows, encoder: Encoder, request_id: bytes
) -> Puts:
    """Raises InvalidRetention."""
    assert not isinstance(request.offsets, PutColumns)
    puts = request.offsets
    rows = rows_to_put(puts, request.group_id, request_id)
    check_expiry(encoder, rows)
    before = _before(puts, stored)
    reply = _PutReply(puts, before, len(stored))
    if fits_one_batch(encoder, rows):
        return Puts.of_one_batch(rows, reply)
    return Puts.of_slices([rows], reply)


def restoration(
    request: RestoreOffsets,
    then: OffsetRows,
    stored: OffsetRows,
    encoder: Encoder,
    request_id: bytes,
) -> Puts:
    """A change that makes the group's offsets those of `then`; `then` and `stored` are sorted."""
    places = then.places_in(stored)
    differs = np.empty(len(then), np.uint8)
    find_differing(then.texts, then.rows, stored.texts, stored.rows, places, differs)
    puts = then.take(np.flatnonzero(differs))
    lifetimes = np.maximum(
        puts.rows[:, columns.PUT_EXPIRE_TIMESTAMP] - puts.rows[:, columns.PUT_COMMIT_TIMESTAMP], 0
    )
    expires = puts.rows[:, columns.PUT_EXPIRE_TIMESTAMP] >= 0
    puts.rows[:, columns.PUT_EXPIRE_TIMESTAMP] = np.where(expires, encoder.now_ms + lifetimes, -1)
    puts.rows[:, columns.PUT_COMMIT_TIMESTAMP] = -1
    gone = stored.take(np.flatnonzero(stored.places_in(then) < 0))
    group_id = request.group_id
    # Deduplication reads the request id from the first record of the last batch. That record is a
    # commit if there are any.
    commits = rows_to_put(puts, group_id, request_id if len(puts) else b"")
    keys = row_keys(gone, group_id)
    put_part = _Part(puts, _before(puts, stored), puts.rows[:, columns.COMMIT_OFFSET])
    gone_part = _Part(gone, _offsets(gone), np.full(len(gone), NO_OFFSET, np.int64))
    whole = _with_tombstones(commits, keys)
    if fits_one_batch(encoder, whole):
        return Puts.of_one_batch(whole, _restored_reply(put_part, gone_part))
    tombstones = PutRows.of(group_id, b"", PutColumns(), keys)
    return Puts.of_slices([tombstones, commits], _restored_reply(gone_part, put_part))


def reset(request: ResetOffsets, stored: OffsetRows, encoder: Encoder, request_id: bytes) -> Puts:
    """Decides on a reset, which is one batch.

    Raises InvalidCommitSize, InvalidRetention, and the errors of `offset_changes.reset_offsets`.
    """
    group_id, bytes_max = request.group_id, encoder.bytes_max
    chosen = {*request.partitions, *request.explicit}
    count = len(stored)
    if chosen or request.topics:
        stored = chosen_rows(stored, chosen, set(request.topics))
    check_size(len(stored), group_id, bytes_max)
    known = committed_columns(stored)
    written = reset_offsets(request, known)
    rows = PutRows.of(group_id, request_id, written)
    check_expiry(encoder, rows)
    encode_offsets(encoder, rows, is_splittable=False)  # Raises if it does not fit in one batch.
    by_partition = {
        partition: offset
        for partition, offset in zip(
            partitions_of(stored, slice(None)), _offsets(stored).tolist(), strict=True
        )
        if offset != NO_OFFSET
    }
    before = [
        by_partition.get(each) for each in zip(written.topics, written.partitions, strict=True)
    ]
    ends = end_counts(request, written, known)
    return Puts.of_one_batch(rows, _ResetReply(written, before, count, ends))


def deletion(request: DeleteOffsets, stored: OffsetRows, bytes_max: int) -> Tombstones:
    """Deletes the stored offsets of the request's partitions and topics."""
    rows = chosen_rows(stored, set(request.partitions), set(request.topics))
    keys = row_keys(rows, request.group_id)
    reply = DeleteOffsetsReply(None, RowPartitions(rows))
    return Tombstones.of(keys, request.request_id, reply, bytes_max)


def group_deletion(
    request: DeleteGroup, stored: OffsetRows, record_keys: list[bytes], bytes_max: int
) -> Tombstones:
    """Deletes all offsets of a group, then the group's own records."""
    keys = joined_keys(*row_keys(stored, request.group_id), record_keys)
    return Tombstones.of(keys, request.request_id, DeleteGroupReply(None, len(stored)), bytes_max)


def row_keys(rows: OffsetRows, group_id: bytes) -> tuple[Bytes, Int64s]:
    """The records' keys, concatenated, and the end of each."""
    size = int(rows.rows[:, columns.TOPIC_SIZE].sum())
    size += len(rows) * (OFFSET_KEY_FIXED_BYTES + len(group_id))
    keys, ends = padded_buffer(size), np.empty(len(rows), np.int64)
    put_row_keys(rows.texts, rows.rows, padded_copy(group_id), len(group_id), ends, keys)
    return keys, ends


def rows_to_put(rows: OffsetRows, group_id: bytes, request_id: bytes) -> PutRows:
    """The rows in the form in which they are written."""
    names = np.concatenate((np.frombuffer(group_id + request_id, np.uint8), rows.texts))
    put = np.ascontiguousarray(rows.rows[:, : columns.PUT_COLUMNS])
    moved = len(group_id) + len(request_id)
    put[:, columns.TOPIC_START] += moved
    put[:, columns.METADATA_START] += moved
    return PutRows(names, put, 0, len(group_id), len(group_id), len(request_id))


def chosen_rows(
    rows: OffsetRows, partitions: Collection[tuple[bytes, int]], topics: Collection[bytes]
) -> OffsetRows:
    """The rows of these partitions, and those of these topics."""
    kept = np.zeros(len(rows), np.bool_)
    for first in range(0, len(rows), SLICE_ROWS):
        part = slice(first, first + SLICE_ROWS)
        kept[part] = [each[0] in topics or each in partitions for each in partitions_of(rows, part)]
    return rows.take(np.flatnonzero(kept))


def rows_to_copy(rows: OffsetRows, group_id: bytes, topics: Collection[bytes]) -> OffsetRows:
    """The rows of these topics, or all rows, as offsets to write now. Raises RecordUndecodable."""
    unreadable = np.flatnonzero(~rows.are_decodable)
    if unreadable.size:
        raise rows.refusal_of(group_id, int(unreadable[0]))
    copied = chosen_rows(rows, (), topics) if topics else rows.take(slice(None))
    copied = OffsetRows(copied.texts, copied.rows.copy())
    copied.rows[:, columns.PUT_COMMIT_TIMESTAMP] = -1
    return copied


def rows_of_puts(puts: Iterable[PutOffset]) -> OffsetRows:
    """The offsets as rows, sorted."""
    parts, left = [], iter(puts)
    while part := list(islice(left, SLICE_ROWS)):
        parts.append(OffsetRows.of(OffsetRow(*each) for each in part))
    return OffsetRows.joined(parts).sorted() if parts else OffsetRows.of(())


def committed_columns(rows: OffsetRows) -> CommittedColumns:
    """The rows by column. They have to fit in one batch."""
    named = partitions_of(rows, slice(None))
    table = rows.rows
    return CommittedColumns(
        [topic for topic, _ in named],
        [partition for _, partition in named],
        table[:, columns.COMMIT_OFFSET].tolist(),
        table[:, columns.COMMIT_LEADER_EPOCH].tolist(),
        [rows.metadata(place) for place in range(len(rows))],
        table[:, columns.PUT_EXPIRE_TIMESTAMP].tolist(),
        table[:, columns.ROW_END_OFFSET].tolist(),
        rows.are_decodable.tolist(),
    )


def _offsets(rows: OffsetRows) -> Int64s:
    """The offset of each row, or NO_OFFSET if it cannot be read."""
    return np.where(rows.are_decodable, rows.rows[:, columns.COMMIT_OFFSET], NO_OFFSET)


def _before(puts: OffsetRows, stored: OffsetRows) -> Int64s:
    """The stored offset of each partition, or NO_OFFSET."""
    places = puts.places_in(stored)
    before = np.full(len(puts), NO_OFFSET, np.int64)
    before[places >= 0] = _offsets(stored)[places[places >= 0]]
    return before


@attrs.frozen
class _PutReply:
    puts: OffsetRows
    before: Int64s
    stored_count: int

    def __call__(self, last_offset: int | None, written: Int64s) -> Reply:
        after = self.puts.rows[:, columns.COMMIT_OFFSET]
        return OffsetsChangedReply(
            last_offset,
            RowChanges(self.puts, self.before, after, written),
            stored_count=self.stored_count,
            replaced_count=int((self.before != NO_OFFSET).sum()),
            moved_count=int(((self.before != NO_OFFSET) & (self.before != after)).sum()),
        )


@attrs.frozen
class _ResetReply:
    written: PutColumns
    before: list[int | None]
    stored_count: int
    ends: EndCounts

    def __call__(self, last_offset: int | None, written: Int64s) -> Reply:
        first = int(written[0]) if written.size else -1
        return OffsetsChangedReply(
            last_offset,
            PutChanges(
                puts=self.written, before=self.before, first_revision=None if first < 0 else first
            ),
            stored_count=self.stored_count,
            replaced_count=len(self.before) - self.before.count(None),
            ends=self.ends,
        )


class _Part(NamedTuple):
    """Rows to write one after the other, with the offsets before and after the change."""

    rows: OffsetRows
    before: Int64s
    after: Int64s


def _restored_reply(first: _Part, second: _Part) -> ReplyOf:
    """Both kinds of written rows, sorted together."""
    rows = OffsetRows.joined([first.rows, second.rows])
    # Sorting ignores these columns: they keep the other values of each row.
    rows.rows[:, columns.COMMIT_OFFSET] = np.concatenate((first.after, second.after))
    rows.rows[:, columns.PUT_COMMIT_TIMESTAMP] = np.concatenate((first.before, second.before))
    rows.rows[:, columns.PUT_EXPIRE_TIMESTAMP] = np.arange(len(rows))
    rows = rows.sorted()
    after = rows.rows[:, columns.COMMIT_OFFSET]
    before = rows.rows[:, columns.PUT_COMMIT_TIMESTAMP]
    places = rows.rows[:, columns.PUT_EXPIRE_TIMESTAMP]
    return lambda last_offset, written: RestoredReply(
        last_offset, RowChanges(rows, before, after, written[places])
    )


def _with_tombstones(commits: PutRows, keys: tuple[Bytes, Int64s]) -> PutRows:
    """Commits, followed by tombstones."""
    ends = keys[1]
    deleted = np.zeros((ends.size, columns.PUT_COLUMNS), np.int64)
    deleted[:, columns.TOPIC_SIZE] = np.diff(ends, prepend=0)
    deleted[:, columns.TOPIC_START] = len(commits.names) + ends - deleted[:, columns.TOPIC_SIZE]
    deleted[:, columns.PUT_IS_TOMBSTONE] = 1
    return commits._replace(
        names=np.concatenate((commits.names, keys[0])),
        columns=np.concatenate((commits.columns, deleted)),
    )
