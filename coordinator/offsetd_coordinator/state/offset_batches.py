"""Batches of offsets that an administrator writes: one if they fit, else several."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from offsetd_storage.kernels import padded_copy

from offsetd_coordinator.errors import InvalidCommitSize, InvalidRetention
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.records.commit_batch import decide_commit
from offsetd_coordinator.kernels.records.put_records import count_fitting_puts, put_offsets
from offsetd_coordinator.requests import CommitOffsets

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays
    from offsetd_coordinator.offset_changes import PutColumns

_REQUEST_ID_BYTES: Final = 16
_VERSION_WITHOUT_EXPIRY: Final = 3
_AT_ONCE: Final = -1


class Encoder(NamedTuple):
    """The parameters of batches. The table's arrays show which requests were answered."""

    arrays: TableArrays
    now_ms: int
    base_offset: int
    leader_epoch: int
    value_version: int
    bytes_max: int
    out: Bytes  # Padded.


class BatchForm(NamedTuple):
    """The form of a shard's batches. `out` has room for the largest batch, and is padded."""

    value_version: int
    bytes_max: int
    out: Bytes


def known_id(call: str, request_id: bytes) -> bytes:
    """The request id in a batch. Ids of different calls, and of commits, must not be equal."""
    if not request_id:
        return b""
    named = call.encode() + b"\0" + request_id
    return hashlib.blake2b(named, digest_size=_REQUEST_ID_BYTES).digest()


def answered_before(encoder: Encoder, group_id: bytes, request_id: bytes) -> int | None:
    """The last log offset that a request with this id wrote within the window, or None."""
    if not request_id:
        return None
    verdict = np.zeros(columns.VERDICT_COLUMNS, np.int64)
    nothing = CommitOffsets.of(group_id, (), request_id)
    decided = decide_commit(
        encoder.arrays,
        *nothing.as_arguments(),
        encoder.now_ms,
        -1,
        0,
        encoder.base_offset,
        encoder.leader_epoch,
        encoder.value_version,
        0,  # No room: nothing is written.
        encoder.out,
        verdict,
        np.zeros((1, columns.CONFLICT_COLUMNS), np.int64),
    )
    return int(verdict[columns.VERDICT_LAST_OFFSET]) if decided == columns.DUPLICATE else None


class PutRows(columns.Commit):
    """The rows that an administrator writes, in the form that kernels take."""

    __slots__ = ()

    @classmethod
    def of(
        cls,
        group_id: bytes,
        request_id: bytes,
        puts: PutColumns,
        tombstones: tuple[Bytes, Int64s] | None = None,
    ) -> PutRows:
        """Makes the rows of `puts`, and after them the rows of tombstones: their keys and ends."""
        names = bytearray(group_id + request_id)
        topic_starts: dict[bytes, int] = {}
        for topic in dict.fromkeys(puts.topics):
            topic_starts[topic] = len(names)
            names += topic
        metadata_sizes = np.array(list(map(len, puts.metadata)), np.int64)
        rows = np.zeros((len(puts.topics), columns.PUT_COLUMNS), np.int64)
        rows[:, columns.TOPIC_START] = [topic_starts[topic] for topic in puts.topics]
        rows[:, columns.TOPIC_SIZE] = list(map(len, puts.topics))
        rows[:, columns.PARTITION] = puts.partitions
        rows[:, columns.COMMIT_OFFSET] = puts.offsets
        rows[:, columns.COMMIT_LEADER_EPOCH] = puts.leader_epochs
        rows[:, columns.METADATA_START] = len(names) + np.cumsum(metadata_sizes) - metadata_sizes
        rows[:, columns.METADATA_SIZE] = metadata_sizes
        rows[:, columns.PUT_EXPIRE_TIMESTAMP] = puts.expire_timestamps_ms
        rows[:, columns.PUT_COMMIT_TIMESTAMP] = puts.commit_timestamps_ms or _AT_ONCE
        names += b"".join(puts.metadata)
        if tombstones is not None:
            keys, ends = tombstones
            deleted = np.zeros((ends.size, columns.PUT_COLUMNS), np.int64)
            deleted[:, columns.TOPIC_SIZE] = np.diff(ends, prepend=0)
            deleted[:, columns.TOPIC_START] = len(names) + ends - deleted[:, columns.TOPIC_SIZE]
            deleted[:, columns.PUT_IS_TOMBSTONE] = 1
            rows = np.concatenate((rows, deleted))
            names += keys.tobytes()
        sizes = len(group_id), len(request_id)
        return cls(padded_copy(names), rows, 0, sizes[0], sizes[0], sizes[1])

    @property
    def keys(self) -> Int64s:
        """The topic's span and the partition of each row, for `OffsetTable.offsets_at`.

        The rows of tombstones have no such key.
        """
        return np.ascontiguousarray(self.columns[:, : columns.PARTITION + 1])


def fits_one_batch(encoder: Encoder, rows: PutRows) -> bool:
    """Returns whether all rows fit one batch."""
    return _count_fitting(encoder, rows, 0) == len(rows.columns)


def encode_offsets(
    encoder: Encoder, rows: PutRows, *, is_splittable: bool = True
) -> tuple[tuple[bytes, int], ...]:
    """The batches that write these offsets, in their order, and the last log offset of each.

    The last of several batches has the request id. So if a crash loses it, a retry is not answered
    from memory, but writes the batches again. Raises InvalidCommitSize.
    """
    without_id = rows._replace(request_id_size=0)
    batches = []
    first, end = 0, len(rows.columns)
    while first < end:
        count = _count_fitting(encoder, rows, first)
        is_last = first + count == end
        if not is_last and not is_splittable:
            raise InvalidCommitSize(
                "partitions",
                "the record batch exceeds max.message.bytes ({bytes_max}); offsets: {offset_count}",
                offset_count=end,
                bytes_max=encoder.bytes_max,
            )
        if not count:
            raise InvalidCommitSize(
                "offsets",
                "a record exceeds max.message.bytes ({bytes_max})",
                bytes_max=encoder.bytes_max,
            )
        size = put_offsets(
            *(rows if is_last else without_id),
            first,
            count,
            encoder.value_version,
            encoder.now_ms,
            encoder.base_offset + first,
            encoder.leader_epoch,
            encoder.out,
        )
        first += count
        batches.append((encoder.out[:size].tobytes(), encoder.base_offset + first - 1))
    return tuple(batches)


def _count_fitting(encoder: Encoder, rows: PutRows, first: int) -> int:
    return count_fitting_puts(*rows, first, encoder.value_version, encoder.bytes_max)


def check_expiry(encoder: Encoder, rows: PutRows) -> None:
    """Raises InvalidRetention if a row has an expiry time that its value version cannot store."""
    if encoder.value_version != _VERSION_WITHOUT_EXPIRY:
        return
    expiring = np.flatnonzero(rows.columns[:, columns.PUT_EXPIRE_TIMESTAMP] >= 0)
    if expiring.size:
        raise InvalidRetention(
            f"offsets[{expiring[0]}].expire_time",
            "offset.commit.value.version {version} has no place for it",
            version="3",
        )
