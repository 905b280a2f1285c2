"""Writes the results of commits as `offsetd.v1.StreamCommitsResponse`, without protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import store_i8, store_unsigned_varint, unsigned_varint_size
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.commit_runs import (
    ANSWER_LAST_OFFSET,
    ANSWER_LOG_PARTITION,
    ANSWER_SEQUENCE,
)

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

RESULT_BYTES_MAX: Final = 48
"""Of one result: three numbers of at most ten bytes, and eight bytes around them."""

# Keys of fields: number << 3 | wire type.
_RESULTS: Final = 1 << 3 | 2
_SEQUENCE: Final = 1 << 3
_COMMITTED: Final = 2 << 3 | 2
_REVISION: Final = 1 << 3 | 2
_LOG_PARTITION: Final = 1 << 3
_LOG_OFFSET: Final = 2 << 3


@kernel("int64(int64[:, ::1], int64, int64, uint8[::1])")
def put_results(answers: Int64s, first: int, end: int, out: Bytes) -> int:
    """Write a result for each of the rows `answers[first:end]`, all committed; how many bytes.

    `out` has room for RESULT_BYTES_MAX each.
    """
    position = 0
    for row in range(first, end):
        sequence = answers[row, ANSWER_SEQUENCE]
        log_partition = answers[row, ANSWER_LOG_PARTITION]
        log_offset = answers[row, ANSWER_LAST_OFFSET]
        revision_size = _number_size(log_partition) + _number_size(log_offset)
        # Each length fits one byte, as a result does not take 128.
        position = _put_length(out, position, _RESULTS, _number_size(sequence) + 4 + revision_size)
        position = _put_number(out, position, _SEQUENCE, sequence)
        position = _put_length(out, position, _COMMITTED, 2 + revision_size)
        position = _put_length(out, position, _REVISION, revision_size)
        position = _put_number(out, position, _LOG_PARTITION, log_partition)
        position = _put_number(out, position, _LOG_OFFSET, log_offset)
    return position


@inline_kernel
def _number_size(value: int) -> int:
    """Bytes of a field; one that is 0 is left out, as protobuf does."""
    return 0 if value == 0 else 1 + unsigned_varint_size(value)


@inline_kernel
def _put_number(out: Bytes, position: int, key: int, value: int) -> int:
    if value == 0:
        return position
    store_i8(out, position, key)
    return int(store_unsigned_varint(out, position + 1, value))


@inline_kernel
def _put_length(out: Bytes, position: int, key: int, size: int) -> int:
    store_i8(out, position, key)
    store_i8(out, position + 1, size)
    return position + 2
