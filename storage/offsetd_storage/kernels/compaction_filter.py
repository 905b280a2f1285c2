"""The cleaner's second pass, first half: decides which records stay.

The batches of a chunk are judged by their headers and by the bitmap. If the bitmap cannot decide,
the map does. A queue is between a key's hash and its entry, as when the map is built.
`segment_rewrite` writes the records that stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.bitmap import bits_in, has_bit
from offsetd_storage.kernels.byte_order import load_i16, load_i32, load_i64
from offsetd_storage.kernels.decode import RECORD_BYTES_MIN, load_record
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    BATCH_HEADER_BYTES,
    COUNT_AT,
    LAST_OFFSET_DELTA_AT,
    PRODUCER_ID_AT,
)
from offsetd_storage.kernels.key_offsets import (
    BAD_RECORD,
    COMPRESSED,
    COMPRESSION_BITS,
    CONTROL,
    CONTROL_BIT,
    NEW_TRANSACTION,
    QUEUE_ROWS,
    TRANSACTIONAL_BIT,
    entry_of,
    find_entry,
    find_open_transaction,
    hash_key,
    prefetch,
)
from offsetd_storage.kernels.registry import inline_kernel, kernel
from offsetd_storage.kernels.scan import (
    BAD_OFFSET,
    END,
    HORIZON_BIT,
    I32_MAX,
    INCOMPLETE,
    batch_size,
    header_flaw,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

# The reasons why a call ended, in addition to those of `scan` and `key_offsets`.
ROWS_FULL: Final = 30  # Retain the judged batches, and continue.
OUT_FULL: Final = 31  # Write `out` to the file, and make `out` at least `ROOM_NEEDED` bytes large.

# Slots of `state`. The caller sets these before the first call:
FIRST_DIRTY: Final = 0
MAP_END: Final = 1  # the first offset that the map does not cover
BITS_END: Final = 2  # the bitmap covers the offsets from FIRST_DIRTY up to here
SLOTS: Final = 3
NOW: Final = 4
NEW_HORIZON: Final = 5
ROUND_END: Final = 6  # the batch that ends just before this offset stays
TOMBSTONES_MAPPED: Final = 7  # 1 if any record that has a bit is a tombstone
SEGMENT_BASE_OFFSET: Final = 8
# Each call updates these:
OFFSET_NEXT: Final = 9  # the least offset that the next batch may have
MESSAGES_READ: Final = 10
INVALID_MESSAGES: Final = 11  # below the first dirty offset
BYTES_RETAINED: Final = 12
MESSAGES_RETAINED: Final = 13
BATCHES_DROPPED: Final = 14
BATCHES_REWRITTEN: Final = 15
HORIZON_MIN: Final = 16
OUT_BYTES: Final = 17
RUN_START: Final = 18  # in the buffer: the start of untouched batches not yet in `out`
OPEN_TRANSACTIONS: Final = 19  # rows in use
# Each call sets these for the caller:
REASON: Final = 20
ROWS: Final = 21  # judged
ROW: Final = 22  # the next one to retain
KEEPS_HEADER: Final = 23  # 1 if the header of the compressed batch that ended the call stays
ROOM_NEEDED: Final = 24
BASE_TIMESTAMP: Final = 25  # of rebuilt records
MAX_TIMESTAMP: Final = 26
# The queue, empty between calls.
QUEUED: Final = 27
DONE: Final = 28
STATE_SLOTS: Final = 29

# Columns of a judged batch's row.
ACTION: Final = 0
HEADER_STAYS: Final = 1
FIRST_VERDICT: Final = 2
ROW_COLUMNS: Final = 3

# Actions.
KEEP: Final = 0  # All of it, and it holds no tombstone.
DISCARD: Final = 1  # Its transaction was aborted.
NONE_LEFT: Final = 2  # No record has a bit, or the batch has no record.
JUDGED: Final = 3  # The records were judged one by one.

# Verdicts.
GOES: Final = 0
STAYS: Final = 1
STAYS_AS_TOMBSTONE: Final = 2


@inline_kernel
def _pass_judgement(
    state: Numbers, table: Numbers, queue: Numbers, verdicts: Bytes, left: int
) -> None:
    """Look up the hashes in the queue, except for the last `left` ones."""
    while state[QUEUED] - state[DONE] > left:
        row = state[DONE] & (QUEUE_ROWS - 1)
        entry = find_entry(table, queue[row, 2], state[SLOTS], queue[row, 0], queue[row, 1])
        latest = table[entry + 2] - 1  # -1 if there is none.
        if queue[row, 3] < latest:
            verdicts[queue[row, 4]] = GOES
        state[DONE] += 1


@inline_kernel
def _judge_records(
    buffer: Bytes,
    position: int,
    end: int,
    base_offset: int,
    last_offset_delta: int,
    count: int,
    horizon_passed: bool,
    state: Numbers,
    verdicts: Bytes,
    verdict: int,
    secret: Numbers,
    table: Numbers,
    bits: Numbers,
    queue: Numbers,
) -> int:
    """Judge the `count` records that fill the range; returns END or BAD_RECORD."""
    first_dirty = state[FIRST_DIRTY]
    map_end = state[MAP_END]
    bits_end = state[BITS_END]
    delta_before = -1
    for at in range(verdict, verdict + count):
        record = load_record(buffer, position, end)
        position = record[0]
        offset_delta = record[2]
        if position < 0 or offset_delta <= delta_before or offset_delta > last_offset_delta:
            return BAD_RECORD
        delta_before = offset_delta
        offset = base_offset + offset_delta
        is_tombstone = record[6] < 0
        stays = STAYS_AS_TOMBSTONE if is_tombstone else STAYS
        if offset < map_end:
            if record[4] < 0:
                stays = GOES
                if offset < first_dirty:
                    state[INVALID_MESSAGES] += 1
            elif is_tombstone and horizon_passed:
                stays = GOES
            elif offset >= first_dirty and offset < bits_end:
                if not has_bit(bits, offset - first_dirty):
                    stays = GOES
            else:
                _pass_judgement(state, table, queue, verdicts, QUEUE_ROWS - 1)
                low, high = hash_key(buffer, record[3], record[4], secret)
                entry = entry_of(low, high, state[SLOTS], secret)
                prefetch(table, entry)
                row = state[QUEUED] & (QUEUE_ROWS - 1)
                queue[row, 0] = low
                queue[row, 1] = high
                queue[row, 2] = entry
                queue[row, 3] = offset
                queue[row, 4] = at
                state[QUEUED] += 1
        verdicts[at] = stays
    return END if position == end else BAD_RECORD


@inline_kernel
def _is_last_batch(last_batches: Numbers, producer_id: int, last_offset: int) -> bool:
    """Whether the rows, by offset, name this batch as the last one of its producer."""
    low = 0
    high = last_batches.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if last_batches[middle, 0] < last_offset:
            low = middle + 1
        else:
            high = middle
    return bool(
        low < last_batches.shape[0]
        and last_batches[low, 0] == last_offset
        and last_batches[low, 1] == producer_id
    )


@inline_kernel
def _horizon_has_passed(buffer: Bytes, position: int, now: int) -> bool:
    attributes = load_i16(buffer, position + ATTRIBUTES_AT)
    horizon = load_i64(buffer, position + BASE_TIMESTAMP_AT)
    return bool(attributes & HORIZON_BIT != 0 and now >= horizon)


@inline_kernel
def _batch_outlook(
    buffer: Bytes, position: int, end: int, state: Numbers, open_transactions: Numbers
) -> tuple[int, int]:
    """Judge the batch at `position` by its header alone.

    Returns (reason to stop, or END; whether its transaction is aborted).
    """
    flaw = header_flaw(buffer, position, end)
    if flaw != END:
        return flaw, 0
    base_offset = load_i64(buffer, position + BASE_OFFSET_AT)
    last_offset = base_offset + load_i32(buffer, position + LAST_OFFSET_DELTA_AT)
    if base_offset < state[OFFSET_NEXT] or last_offset > state[SEGMENT_BASE_OFFSET] + I32_MAX:
        return BAD_OFFSET, 0
    if batch_size(buffer, position) > end - position:
        return INCOMPLETE, 0
    attributes = load_i16(buffer, position + ATTRIBUTES_AT)
    if attributes & CONTROL_BIT:
        return CONTROL, 0
    if attributes & TRANSACTIONAL_BIT:
        producer_id = load_i64(buffer, position + PRODUCER_ID_AT)
        row = find_open_transaction(open_transactions, state[OPEN_TRANSACTIONS], producer_id)
        if row < 0:
            return NEW_TRANSACTION, 0
        return END, open_transactions[row, 1]
    return END, 0


@inline_kernel
def _action(buffer: Bytes, position: int, state: Numbers, bits: Numbers) -> int:
    """Judge a batch by header and bitmap; it is not of an aborted transaction."""
    count = load_i32(buffer, position + COUNT_AT)
    if count == 0:
        return NONE_LEFT
    first_dirty = state[FIRST_DIRTY]
    base_offset = load_i64(buffer, position + BASE_OFFSET_AT)
    last_offset = base_offset + load_i32(buffer, position + LAST_OFFSET_DELTA_AT)
    if base_offset < first_dirty or last_offset >= state[BITS_END]:
        return JUDGED
    found = bits_in(bits, base_offset - first_dirty, last_offset - first_dirty)
    if found == 0:
        return NONE_LEFT
    if found == count and state[TOMBSTONES_MAPPED] == 0:
        return KEEP
    return JUDGED


@inline_kernel
def _judge_plain(
    buffer: Bytes,
    position: int,
    state: Numbers,
    verdicts: Bytes,
    verdict: int,
    secret: Numbers,
    table: Numbers,
    bits: Numbers,
    queue: Numbers,
) -> tuple[int, int]:
    """Judge the records of the batch at `position`: (END or BAD_RECORD, the next verdict)."""
    size = batch_size(buffer, position)
    count = load_i32(buffer, position + COUNT_AT)
    if count > (size - BATCH_HEADER_BYTES) // RECORD_BYTES_MIN:
        return BAD_RECORD, verdict
    reason = _judge_records(
        buffer,
        position + BATCH_HEADER_BYTES,
        position + size,
        load_i64(buffer, position + BASE_OFFSET_AT),
        load_i32(buffer, position + LAST_OFFSET_DELTA_AT),
        count,
        _horizon_has_passed(buffer, position, state[NOW]),
        state,
        verdicts,
        verdict,
        secret,
        table,
        bits,
        queue,
    )
    return reason, verdict + count


@kernel(
    "int64(uint8[::1], int64, int64, int64[::1], int64[:, ::1], uint8[::1], int64[::1],"
    " int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1])"
)
def judge_batches(
    buffer: Bytes,
    start: int,
    end: int,
    state: Numbers,
    rows: Numbers,
    verdicts: Bytes,
    secret: Numbers,
    table: Numbers,
    bits: Numbers,
    queue: Numbers,
    open_transactions: Numbers,
    last_batches: Numbers,
) -> int:
    """Fill a row for each batch. Returns the start of the first one without a row, or `end`.

    `state[REASON]` is the reason. `verdicts` has a place for every 7 bytes of the buffer.
    """
    position = start
    row = 0
    verdict = 0
    state[QUEUED] = 0
    state[DONE] = 0
    reason = END
    while position < end:
        if row == rows.shape[0]:
            reason = ROWS_FULL
            break
        reason, is_aborted = _batch_outlook(buffer, position, end, state, open_transactions)
        if reason != END:
            break
        size = batch_size(buffer, position)
        last_offset = load_i64(buffer, position + BASE_OFFSET_AT)
        last_offset += load_i32(buffer, position + LAST_OFFSET_DELTA_AT)
        producer_id = load_i64(buffer, position + PRODUCER_ID_AT)
        header_stays = last_offset + 1 == state[ROUND_END] or (
            producer_id >= 0 and _is_last_batch(last_batches, producer_id, last_offset)
        )
        action = DISCARD if is_aborted else _action(buffer, position, state, bits)
        if action == JUDGED:
            if load_i16(buffer, position + ATTRIBUTES_AT) & COMPRESSION_BITS:
                state[KEEPS_HEADER] = 1 if header_stays else 0
                reason = COMPRESSED
                break
            rows[row, FIRST_VERDICT] = verdict
            reason, verdict = _judge_plain(
                buffer, position, state, verdicts, verdict, secret, table, bits, queue
            )
            if reason != END:
                break
        rows[row, ACTION] = action
        rows[row, HEADER_STAYS] = 1 if header_stays else 0
        row += 1
        state[OFFSET_NEXT] = last_offset + 1
        position += size
    _pass_judgement(state, table, queue, verdicts, 0)
    state[ROWS] = row
    state[ROW] = 0
    state[REASON] = reason
    return position


@kernel(
    "int64(uint8[::1], int64, int64, int64, int64, boolean, int64[::1], uint8[::1], int64[::1],"
    " int64[::1], int64[::1], int64[:, ::1])"
)
def judge_decompressed(
    content: Bytes,
    end: int,
    base_offset: int,
    last_offset_delta: int,
    count: int,
    horizon_passed: bool,
    state: Numbers,
    verdicts: Bytes,
    secret: Numbers,
    table: Numbers,
    bits: Numbers,
    queue: Numbers,
) -> int:
    """Judge the records of one batch, `content` up to `end`. Returns END or BAD_RECORD.

    There is a verdict for every record.
    """
    state[QUEUED] = 0
    state[DONE] = 0
    reason = _judge_records(
        content,
        0,
        end,
        base_offset,
        last_offset_delta,
        count,
        horizon_passed,
        state,
        verdicts,
        0,
        secret,
        table,
        bits,
        queue,
    )
    _pass_judgement(state, table, queue, verdicts, 0)
    return reason
