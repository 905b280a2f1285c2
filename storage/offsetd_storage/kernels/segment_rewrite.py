"""The cleaner's second pass, second half: the bytes that are left of judged batches.

Neighbouring batches that do not change are copied at once. If a whole chunk does not change, it is
not copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import (
    copy_bytes,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    load_varint,
    load_varlong,
    store_i8,
    store_varint,
    varint_size,
)
from offsetd_storage.kernels.compaction_filter import (
    ACTION,
    BASE_TIMESTAMP,
    BATCHES_DROPPED,
    BATCHES_REWRITTEN,
    BYTES_RETAINED,
    DISCARD,
    FIRST_VERDICT,
    GOES,
    HEADER_STAYS,
    HORIZON_MIN,
    JUDGED,
    KEEP,
    MAX_TIMESTAMP,
    MESSAGES_READ,
    MESSAGES_RETAINED,
    NEW_HORIZON,
    NONE_LEFT,
    OUT_BYTES,
    OUT_FULL,
    REASON,
    ROOM_NEEDED,
    ROW,
    ROWS,
    RUN_START,
    STAYS_AS_TOMBSTONE,
)
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    BATCH_HEADER_BYTES,
    COUNT_AT,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    seal_batch,
)
from offsetd_storage.kernels.key_offsets import CONTROL_BIT, TRANSACTIONAL_BIT
from offsetd_storage.kernels.registry import inline_kernel, kernel
from offsetd_storage.kernels.scan import (
    BAD_CHECKSUM,
    END,
    HORIZON_BIT,
    batch_size,
    has_valid_checksum,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

LOG_APPEND_TIME_BIT: Final = 0x08
_KNOWN_BITS: Final = 0x3F  # Without the horizon.
_EMPTY_HEADER_BITS: Final = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
_NO_TIMESTAMP: Final = -1
RECORD_GROWTH_BYTES_MAX: Final = 14  # A longer timestamp makes the length longer, too.


@inline_kernel
def _rebuild(
    source: Bytes,
    position: int,
    end: int,
    count: int,
    verdicts: Bytes,
    verdict: int,
    base_timestamp: int,
    append_timestamp: int,
    is_append_time: bool,
    horizon: int,
    out: Bytes,
    at: int,
    state: Numbers,
) -> int:
    """Write the judged records that stay. Returns their end.

    Timestamps count from the horizon, if there is one (0 or above), else from the first record that
    stays. `state` gets that base, and the largest timestamp (with LogAppendTime,
    `append_timestamp`).
    """
    base = horizon
    has_base = horizon >= 0
    largest = _NO_TIMESTAMP
    for each in range(verdict, verdict + count):
        start = position
        body_size, position = load_varint(source, position, end)
        body_start = position
        position += body_size
        if verdicts[each] == GOES:
            continue
        delta, rest = load_varlong(source, body_start + 1, position)
        timestamp = append_timestamp if is_append_time else base_timestamp + delta
        if not has_base:
            base = timestamp
            has_base = True
        largest = max(largest, timestamp)
        delta_now = timestamp - base
        if delta_now == delta:
            copy_bytes(out, at, source, start, position - start)
            at += position - start
        else:
            at = store_varint(out, at, 1 + varint_size(delta_now) + position - rest)
            store_i8(out, at, load_i8(source, body_start))
            at = store_varint(out, at + 1, delta_now)
            copy_bytes(out, at, source, rest, position - rest)
            at += position - rest
    state[BASE_TIMESTAMP] = base
    state[MAX_TIMESTAMP] = append_timestamp if is_append_time else largest
    return at


@kernel(
    "int64(uint8[::1], int64, int64, uint8[::1], int64, int64, boolean, int64, uint8[::1],"
    " int64[::1])"
)
def rebuild_decompressed(
    content: Bytes,
    end: int,
    count: int,
    verdicts: Bytes,
    base_timestamp: int,
    append_timestamp: int,
    is_append_time: bool,
    horizon: int,
    out: Bytes,
    state: Numbers,
) -> int:
    """Write the judged records of one batch that stay to `out`. Returns their size."""
    return _rebuild(
        content,
        0,
        end,
        count,
        verdicts,
        0,
        base_timestamp,
        append_timestamp,
        is_append_time,
        horizon,
        out,
        0,
        state,
    )


@inline_kernel
def _seal_like(
    buffer: Bytes,
    position: int,
    out: Bytes,
    start: int,
    end: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int,
) -> None:
    """Write the header at `start` for the records up to `end`.

    The fields that are not arguments are those of the batch at `position`, also the last offset:
    the last sequence number follows from it.
    """
    seal_batch(
        out,
        start,
        end,
        load_i64(buffer, position + BASE_OFFSET_AT),
        load_i32(buffer, position + LAST_OFFSET_DELTA_AT),
        count,
        base_timestamp,
        max_timestamp,
        attributes,
        load_i64(buffer, position + PRODUCER_ID_AT),
        load_i16(buffer, position + PRODUCER_EPOCH_AT),
        load_i32(buffer, position + BASE_SEQUENCE_AT),
        load_i32(buffer, position + LEADER_EPOCH_AT),
    )


@inline_kernel
def _put_empty(buffer: Bytes, position: int, out: Bytes, at: int) -> int:
    """Write only the header of the batch at `position`. Returns its end."""
    end = at + BATCH_HEADER_BYTES
    attributes = load_i16(buffer, position + ATTRIBUTES_AT) & _EMPTY_HEADER_BITS
    max_timestamp = load_i64(buffer, position + MAX_TIMESTAMP_AT)
    _seal_like(buffer, position, out, at, end, 0, _NO_TIMESTAMP, max_timestamp, attributes)
    return end


@inline_kernel
def _is_empty_header(buffer: Bytes, position: int) -> bool:
    """Whether the batch equals the output of `_put_empty` for it."""
    attributes = load_i16(buffer, position + ATTRIBUTES_AT)
    return bool(
        batch_size(buffer, position) == BATCH_HEADER_BYTES
        and attributes & ~_EMPTY_HEADER_BITS == 0
        and load_i64(buffer, position + BASE_TIMESTAMP_AT) == _NO_TIMESTAMP
    )


@kernel("int64(uint8[::1], int64, uint8[::1])")
def put_empty_header(buffer: Bytes, position: int, out: Bytes) -> int:
    """Write only the header of the batch at `position` to `out`.

    Returns its size, or 0 if the batch is already only that header.
    """
    if _is_empty_header(buffer, position):
        return 0
    return _put_empty(buffer, position, out, 0)


@inline_kernel
def _put_rest(
    buffer: Bytes,
    position: int,
    state: Numbers,
    verdicts: Bytes,
    verdict: int,
    retained: int,
    stamps: bool,
    out: Bytes,
    at: int,
) -> int:
    """Write the batch at `position` with the judged records that stay. Returns its end."""
    attributes = load_i16(buffer, position + ATTRIBUTES_AT)
    horizon = -1
    if stamps:
        horizon = state[NEW_HORIZON]
    elif attributes & HORIZON_BIT:
        horizon = load_i64(buffer, position + BASE_TIMESTAMP_AT)
    end = _rebuild(
        buffer,
        position + BATCH_HEADER_BYTES,
        position + batch_size(buffer, position),
        load_i32(buffer, position + COUNT_AT),
        verdicts,
        verdict,
        load_i64(buffer, position + BASE_TIMESTAMP_AT),
        load_i64(buffer, position + MAX_TIMESTAMP_AT),
        attributes & LOG_APPEND_TIME_BIT != 0,
        horizon,
        out,
        at + BATCH_HEADER_BYTES,
        state,
    )
    attributes &= _KNOWN_BITS
    if horizon >= 0:
        attributes |= HORIZON_BIT
    base = state[BASE_TIMESTAMP]
    _seal_like(buffer, position, out, at, end, retained, base, state[MAX_TIMESTAMP], attributes)
    return end


@inline_kernel
def _count_verdicts(verdicts: Bytes, first: int, count: int) -> tuple[int, bool]:
    """The number of records that stay, and whether there are tombstones among them."""
    retained = 0
    has_tombstones = False
    for each in range(first, first + count):
        retained += 1 if verdicts[each] != GOES else 0
        has_tombstones |= verdicts[each] == STAYS_AS_TOMBSTONE
    return retained, has_tombstones


@inline_kernel
def _has_horizon(buffer: Bytes, position: int) -> bool:
    return bool(load_i16(buffer, position + ATTRIBUTES_AT) & HORIZON_BIT != 0)


@inline_kernel
def _replace(
    buffer: Bytes,
    position: int,
    state: Numbers,
    verdicts: Bytes,
    row: Numbers,
    retained: int,
    stamps: bool,
    out: Bytes,
) -> int:
    """Put the untouched batches before the one at `position` into `out`, and then the rest of it.

    Returns END, BAD_CHECKSUM or OUT_FULL.
    """
    size = batch_size(buffer, position)
    # Batches that the bits decide about were checked when the bits were set.
    is_checked = row[ACTION] == NONE_LEFT and load_i32(buffer, position + COUNT_AT) > 0
    if not is_checked and not has_valid_checksum(buffer, position, size):
        return BAD_CHECKSUM
    run_bytes = position - state[RUN_START]
    room_needed = size + RECORD_GROWTH_BYTES_MAX * retained
    start = state[OUT_BYTES]
    if run_bytes + room_needed > out.size - start:
        state[ROOM_NEEDED] = room_needed
        return OUT_FULL
    copy_bytes(out, start, buffer, state[RUN_START], run_bytes)
    start += run_bytes
    end = start
    if retained > 0:
        end = _put_rest(
            buffer, position, state, verdicts, row[FIRST_VERDICT], retained, stamps, out, start
        )
    elif row[HEADER_STAYS]:
        end = _put_empty(buffer, position, out, start)
    state[BATCHES_DROPPED] += 1 if end == start else 0
    state[BATCHES_REWRITTEN] += 1 if end > start else 0
    state[BYTES_RETAINED] += end - start
    state[OUT_BYTES] = end
    state[RUN_START] = position + size
    return END


@kernel("int64(uint8[::1], int64, int64[::1], int64[:, ::1], uint8[::1], uint8[::1])")
def retain_batches(
    buffer: Bytes, start: int, state: Numbers, rows: Numbers, verdicts: Bytes, out: Bytes
) -> int:
    """Write what is left of the judged batches at `start` to `out`. Returns their end.

    The untouched batches at the end, from `state[RUN_START]` to that position, are not written.

    `state[REASON]` is END, or the reason why it stopped before the last row.
    """
    position = start
    reason = END
    while state[ROW] < state[ROWS]:
        row = rows[state[ROW]]
        count = load_i32(buffer, position + COUNT_AT)
        retained = count if row[ACTION] == KEEP else 0
        has_tombstones = False
        if row[ACTION] == JUDGED:
            retained, has_tombstones = _count_verdicts(verdicts, row[FIRST_VERDICT], count)
        stamps = has_tombstones and not _has_horizon(buffer, position)
        is_kept = retained == count and retained > 0 and not stamps
        if retained == 0 and row[HEADER_STAYS]:
            is_kept = _is_empty_header(buffer, position)
        if is_kept:
            state[BYTES_RETAINED] += batch_size(buffer, position)
        else:
            reason = _replace(buffer, position, state, verdicts, row, retained, stamps, out)
            if reason != END:
                break
        if has_tombstones:
            horizon = state[NEW_HORIZON]
            if not stamps:
                horizon = load_i64(buffer, position + BASE_TIMESTAMP_AT)
            state[HORIZON_MIN] = min(state[HORIZON_MIN], horizon)
        if row[ACTION] != DISCARD or row[HEADER_STAYS]:
            state[MESSAGES_READ] += count
        state[MESSAGES_RETAINED] += retained
        position += batch_size(buffer, position)
        state[ROW] += 1
    state[REASON] = reason
    return position
