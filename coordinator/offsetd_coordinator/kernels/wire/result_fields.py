"""Writes the results of commits as `offsetd.v1.StreamCommitsResponse`, without protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.registry import kernel

from offsetd_coordinator.kernels.records.commit_batches import (
    ANSWER_LAST_OFFSET,
    ANSWER_LOG_PARTITION,
    ANSWER_SEQUENCE,
)
from offsetd_coordinator.kernels.wire.protobuf import (
    LENGTH,
    VARINT,
    begin_message,
    message_size,
    number_size,
    put_number,
)

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

RESULT_BYTES_MAX: Final = 48
"""The largest size of one result: three numbers of at most ten bytes, and nine other bytes."""

# Keys of fields.
_RESULTS: Final = 1 << 3 | LENGTH
_SEQUENCE: Final = 1 << 3 | VARINT
_COMMITTED: Final = 2 << 3 | LENGTH
_REVISION: Final = 1 << 3 | LENGTH
_LOG_PARTITION: Final = 1 << 3 | VARINT
_LOG_OFFSET: Final = 2 << 3 | VARINT


@kernel("int64(int64[:, ::1], int64, int64, uint8[::1])")
def put_results(answers: Int64s, first: int, end: int, out: Bytes) -> int:
    """Write a result for each row of `answers[first:end]`, all committed. Returns their size.

    `out` has room for RESULT_BYTES_MAX for each row.
    """
    position = 0
    for row in range(first, end):
        sequence = answers[row, ANSWER_SEQUENCE]
        log_partition = answers[row, ANSWER_LOG_PARTITION]
        log_offset = answers[row, ANSWER_LAST_OFFSET]
        revision_size = number_size(log_partition) + number_size(log_offset)
        committed_size = message_size(revision_size)
        result_size = number_size(sequence) + message_size(committed_size)
        position = begin_message(out, position, _RESULTS, result_size)
        position = put_number(out, position, _SEQUENCE, sequence)
        position = begin_message(out, position, _COMMITTED, committed_size)
        position = begin_message(out, position, _REVISION, revision_size)
        position = put_number(out, position, _LOG_PARTITION, log_partition)
        position = put_number(out, position, _LOG_OFFSET, log_offset)
    return position
