"""Writes a deletion's batches of tombstones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from offsetd_storage.kernels import PADDING_BYTES

from offsetd_coordinator.errors import InvalidCommitSize
from offsetd_coordinator.kernels.records.tombstone_records import (
    START_HEADER_NAME,
    count_fitting,
    put_tombstones,
)
from offsetd_coordinator.kernels.table.request_ids import HEADER_NAME

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

_VARINT_VALUE_MAX: Final = 63  # The largest that a zigzag varint of one byte holds.


def encode_tombstones(
    keys: Bytes,
    ends: Int64s,
    *,
    request_id: bytes,
    now_ms: int,
    base_offset: int,
    leader_epoch: int,
    out: Bytes,
    starts_at: int | None = None,
    is_end: bool = True,
) -> tuple[tuple[bytes, int], ...]:
    """Batches with a tombstone for each key, in their order, and the last log offset of each.

    `keys` are concatenated; `ends` has the end of each. Each batch is written to the padded buffer
    `out`, which limits its size. See `kernels.records.tombstone_records` for the headers. If the
    batches are a part of a deletion, `starts_at` is the log offset of the deletion's first
    tombstone, and `is_end` says whether this is the last part.

    Raises InvalidCommitSize if a single tombstone is too large.
    """
    bytes_max = out.size - PADDING_BYTES
    is_part = starts_at is not None
    start = START_HEADER_NAME, (base_offset if starts_at is None else starts_at).to_bytes(8)
    request = ((HEADER_NAME, request_id),) if request_id else ()
    first_headers, last_headers = _encode_headers(), _encode_headers(*request)
    if request_id and (is_part or count_fitting(ends, 0, last_headers.size, bytes_max) < ends.size):
        first_headers, last_headers = _encode_headers(start), _encode_headers(start, *request)
    batches = []
    first = 0
    while first < ends.size:
        count = count_fitting(ends, first, last_headers.size, bytes_max)
        if count == 0:
            raise InvalidCommitSize(
                "group_id",
                "a tombstone exceeds max.message.bytes ({bytes_max})",
                bytes_max=bytes_max,
            )
        headers = last_headers if is_end and first + count == ends.size else first_headers
        batch_at = base_offset + first
        size = put_tombstones(
            keys, ends, first, count, headers, now_ms, batch_at, leader_epoch, out
        )
        first += count
        batches.append((out[:size].tobytes(), base_offset + first - 1))
    return tuple(batches)


def fit_one_batch(ends: Int64s, request_id: bytes, bytes_max: int) -> bool:
    """Returns whether the tombstones for all keys fit one batch with this request id."""
    headers = _encode_headers(*(((HEADER_NAME, request_id),) if request_id else ()))
    return bool(count_fitting(ends, 0, headers.size, bytes_max) == ends.size)


def _encode_headers(*headers: tuple[bytes, bytes]) -> Bytes:
    """A record's headers, their count before them."""
    encoded = bytearray(_encode_size(len(headers)))
    for name, value in headers:
        encoded += _encode_size(len(name)) + name + _encode_size(len(value)) + value
    return np.frombuffer(encoded, np.uint8)


def _encode_size(size: int) -> bytes:
    raw = 2 * size  # Zigzag, as varints are.
    return bytes([raw]) if size <= _VARINT_VALUE_MAX else bytes([raw & 127 | 128, raw >> 7])
