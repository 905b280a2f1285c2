"""The cleaner's offset map: the latest offset of every key, and a bit for each such offset.

An entry is 24 bytes in a row: a 16-byte hash of the key, and the offset plus one (zero: free).
The map compares only hashes, not keys. The hash is NH of UMAC (RFC 4418), over 64-bit words with
a sum of 128 bits: for any two keys of up to 1 KiB, at most one in 2**63 choices of the secret words
gives both the same hash, even for keys that an attacker chose. Longer keys are hashed in blocks.

A queue is between hash and entry: the entry's cache line is loaded before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from offsetd_storage.kernels import codegen
from offsetd_storage.kernels.bitmap import (
    BATCHES,
    END_POSITION,
    FIRST_OFFSET,
    LAST_OFFSET,
    RECORDS,
    SEGMENT_BASE,
    START,
    is_plain,
)
from offsetd_storage.kernels.byte_order import load_i16, load_i32, load_i64
from offsetd_storage.kernels.decode import load_record
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BATCH_HEADER_BYTES,
    COUNT_AT,
    LAST_OFFSET_DELTA_AT,
    PRODUCER_ID_AT,
)
from offsetd_storage.kernels.registry import inline_kernel, intrinsic, kernel
from offsetd_storage.kernels.scan import END, I32_MAX, batch_flaw, batch_size

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

# The reasons why mapping stopped, in addition to those of `scan`.
FULL: Final = 20  # At a record with a key, if there is no more room.
COMPRESSED: Final = 21
CONTROL: Final = 22
NEW_TRANSACTION: Final = 23  # No row of `open_transactions` has its producer.
BAD_RECORD: Final = 24

# Slots of `state`. The caller sets these before the first call:
FIRST_DIRTY: Final = 0
SLOTS: Final = 1
KEYS_MAX: Final = 2
# The caller sets these for each segment, or for each chunk:
SEGMENT_BASE_OFFSET: Final = 3
FILE_POSITION: Final = 4  # of the buffer's first byte
# Each call updates these:
OFFSET_NEXT: Final = 5  # the least offset that the next batch may have
KEYS: Final = 6
LATEST_OFFSET: Final = 7  # the last offset that the map covers
MESSAGES: Final = 8
UNKEYED: Final = 9  # records without a key, up to LATEST_OFFSET
TOMBSTONES: Final = 10
OPEN_TRANSACTIONS: Final = 11  # rows in use
STRETCHES: Final = 12  # rows in use
# Each call sets this for the caller:
REASON: Final = 13
# The queue, empty between calls.
QUEUED: Final = 14  # hashes so far; all except the last ones are in the table
STATE_SLOTS: Final = 15

ENTRY_WORDS: Final = 3
OPEN_COLUMNS: Final = 2  # producer's id, whether its transaction is aborted
STRETCH_BYTES: Final = 65_536  # Or somewhat more. It is as fast to read shorter ones again.
QUEUE_ROWS: Final = 16  # Deeper queues were slower in trials.
QUEUE_COLUMNS: Final = 8  # hash (two words), entry, offset, and two for the lookup
_BLOCK_WORDS: Final = 128
# Secret words for: the length, the hash of the previous block, each word of a block, the entry.
_LENGTH_WORD: Final = 0
_CHAIN_WORD: Final = 2
_FIRST_WORD: Final = 4
_ENTRY_WORD: Final = _FIRST_WORD + _BLOCK_WORDS
SECRET_WORDS: Final = _ENTRY_WORD + 2

COMPRESSION_BITS: Final = 0x07
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20


def _wide_product(builder: Any, first: Any, second: Any) -> Any:
    wide = codegen.ir.IntType(128)
    return builder.mul(builder.zext(first, wide), builder.zext(second, wide))


def _halves(builder: Any, wide: Any) -> tuple[Any, Any]:
    word = codegen.ir.IntType(64)
    high = builder.lshr(wide, codegen.ir.Constant(wide.type, 64))
    return builder.trunc(wide, word), builder.trunc(high, word)


def _add_product(typing_context: Any, low: Any, high: Any, first: Any, second: Any) -> Any:
    del typing_context, low, high, first, second
    word = codegen.types.int64
    pair = codegen.types.UniTuple(word, 2)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        low, high, first, second = arguments
        wide = codegen.ir.IntType(128)
        high = builder.shl(builder.zext(high, wide), codegen.ir.Constant(wide, 64))
        total = builder.add(
            builder.or_(high, builder.zext(low, wide)), _wide_product(builder, first, second)
        )
        return context.make_tuple(builder, signature.return_type, _halves(builder, total))

    return pair(
        codegen.types.int64, codegen.types.int64, codegen.types.int64, codegen.types.int64
    ), generate


def _multiply_fold(typing_context: Any, first: Any, second: Any) -> Any:
    del typing_context, first, second

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.xor(*_halves(builder, _wide_product(builder, *arguments)))

    return codegen.types.int64(codegen.types.int64, codegen.types.int64), generate


def _multiply_high(typing_context: Any, first: Any, second: Any) -> Any:
    del typing_context, first, second

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return _halves(builder, _wide_product(builder, *arguments))[1]

    return codegen.types.int64(codegen.types.int64, codegen.types.int64), generate


def _prefetch(typing_context: Any, table: Any, at: Any) -> Any:
    del typing_context, at

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.bitcast(
            builder.gep(array.data, [arguments[1]]), codegen.ir.IntType(8).as_pointer()
        )
        number = codegen.ir.IntType(32)
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch",
            [pointer.type],
            codegen.ir.FunctionType(codegen.ir.VoidType(), [pointer.type, number, number, number]),
        )
        # For writing, to be used again, into the data cache.
        builder.call(prefetch, [pointer, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return codegen.types.void(table, codegen.types.int64), generate


# (low, high, first, second) -> (low, high): the 128-bit sum with the product of two words.
_add_product_to = intrinsic(_add_product)
# (first, second) -> the halves of the 128-bit product, xored; or the upper half.
_fold = intrinsic(_multiply_fold)
_upper = intrinsic(_multiply_high)
# (table, at): loads the cache line with that word, which will be needed.
prefetch = intrinsic(_prefetch)


@inline_kernel
def _leading_bytes(word: int, size: int) -> int:
    """The first `size` bytes, 0 to 8, of a big-endian word, and zeros after them."""
    shift = 32 - 4 * size  # Shifted twice, because one shift by 64 bits is not defined.
    return word & (-1 << shift << shift)


@inline_kernel
def hash_key(buffer: Bytes, start: int, size: int, secret: Numbers) -> tuple[int, int]:
    """The 128-bit hash of `size` bytes of a padded buffer, as two words."""
    low, high = _add_product_to(0, 0, size + secret[_LENGTH_WORD], secret[_LENGTH_WORD + 1])
    word = _FIRST_WORD
    while size > 16:
        low, high = _add_product_to(
            low,
            high,
            load_i64(buffer, start) + secret[word],
            load_i64(buffer, start + 8) + secret[word + 1],
        )
        start += 16
        size -= 16
        word += 2
        if word == _ENTRY_WORD:
            low, high = _add_product_to(
                0, 0, low + secret[_CHAIN_WORD], high + secret[_CHAIN_WORD + 1]
            )
            word = _FIRST_WORD
    if size > 0:  # No branch depends on how many bytes are left: a processor cannot predict them.
        first = _leading_bytes(load_i64(buffer, start), min(size, 8))
        second = _leading_bytes(load_i64(buffer, start + 8), max(size - 8, 0))
        low, high = _add_product_to(low, high, first + secret[word], second + secret[word + 1])
    return low, high


@inline_kernel
def entry_of(low: int, high: int, slots: int, secret: Numbers) -> int:
    """The position in the table at which the search for a hash begins."""
    mixed = _fold(low ^ secret[_ENTRY_WORD], high ^ secret[_ENTRY_WORD + 1])
    return int(_upper(mixed, slots)) * ENTRY_WORDS


@inline_kernel
def find_entry(table: Numbers, entry: int, slots: int, low: int, high: int) -> int:
    """The entry of the hash in the table, or the free entry for it. One entry is always free."""
    end = slots * ENTRY_WORDS
    while table[entry + 2] != 0 and (table[entry] != low or table[entry + 1] != high):
        entry += ENTRY_WORDS
        if entry == end:
            entry = 0
    return entry


@inline_kernel
def find_open_transaction(open_transactions: Numbers, rows: int, producer_id: int) -> int:
    """The row of a producer, or -1."""
    for row in range(rows):
        if open_transactions[row, 0] == producer_id:
            return row
    return -1


@inline_kernel
def _put(state: Numbers, table: Numbers, queue: Numbers, row: int) -> None:
    """Put a hash from the queue into the table; its record is now the latest of the key."""
    low = queue[row, 0]
    high = queue[row, 1]
    entry = find_entry(table, queue[row, 2], state[SLOTS], low, high)
    if table[entry + 2] == 0:
        table[entry] = low
        table[entry + 1] = high
        state[KEYS] += 1
    table[entry + 2] = queue[row, 3] + 1


@inline_kernel
def _drain(state: Numbers, table: Numbers, queue: Numbers) -> None:
    """Put what is in the queue into the table."""
    for each in range(max(state[QUEUED] - QUEUE_ROWS, 0), state[QUEUED]):
        _put(state, table, queue, each & (QUEUE_ROWS - 1))
    state[QUEUED] = 0


@inline_kernel
def _map_records(
    buffer: Bytes,
    position: int,
    end: int,
    base_offset: int,
    last_offset_delta: int,
    count: int,
    state: Numbers,
    secret: Numbers,
    table: Numbers,
    queue: Numbers,
) -> int:
    """Queue the `count` records that fill the range; returns END, FULL or BAD_RECORD.

    As in Kafka, a full map stops at the next key, even if the map has that key already. Records
    without a key do not stop it.
    """
    first_dirty = state[FIRST_DIRTY]
    slots = state[SLOTS]
    # With less room than this, the queue is emptied before each key.
    keys_unwatched = state[KEYS_MAX] - QUEUE_ROWS
    unkeyed = 0
    delta_before = -1
    for done in range(count):
        record = load_record(buffer, position, end)
        position = record[0]
        offset_delta = record[2]
        if position < 0 or offset_delta <= delta_before or offset_delta > last_offset_delta:
            return BAD_RECORD
        delta_before = offset_delta
        offset = base_offset + offset_delta
        if offset >= first_dirty and record[4] >= 0:
            if state[KEYS] >= keys_unwatched:
                _drain(state, table, queue)
                if state[KEYS] >= state[KEYS_MAX]:
                    state[MESSAGES] += done
                    return FULL
            low, high = hash_key(buffer, record[3], record[4], secret)
            entry = entry_of(low, high, slots, secret)
            prefetch(table, entry)
            row = state[QUEUED] & (QUEUE_ROWS - 1)
            if state[QUEUED] >= QUEUE_ROWS:
                _put(state, table, queue, row)
            queue[row, 0] = low
            queue[row, 1] = high
            queue[row, 2] = entry
            queue[row, 3] = offset
            state[QUEUED] += 1
            state[LATEST_OFFSET] = offset
            state[UNKEYED] += unkeyed
            unkeyed = 0
            state[TOMBSTONES] += 1 if record[6] < 0 else 0
        elif offset >= first_dirty:
            unkeyed += 1
    if position != end:
        return BAD_RECORD
    state[MESSAGES] += count
    state[UNKEYED] += unkeyed
    return END


@inline_kernel
def _map_batch(
    buffer: Bytes,
    position: int,
    state: Numbers,
    secret: Numbers,
    table: Numbers,
    queue: Numbers,
    open_transactions: Numbers,
) -> int:
    """Map a batch that was checked. Returns END, or the reason why it could not be mapped."""
    attributes = load_i16(buffer, position + ATTRIBUTES_AT)
    if attributes & CONTROL_BIT:
        return CONTROL
    count = load_i32(buffer, position + COUNT_AT)
    if attributes & TRANSACTIONAL_BIT:
        producer_id = load_i64(buffer, position + PRODUCER_ID_AT)
        row = find_open_transaction(open_transactions, state[OPEN_TRANSACTIONS], producer_id)
        if row < 0:
            return NEW_TRANSACTION
        if open_transactions[row, 1] != 0:
            state[MESSAGES] += count
            return END
    if attributes & COMPRESSION_BITS:
        return COMPRESSED
    return _map_records(
        buffer,
        position + BATCH_HEADER_BYTES,
        position + batch_size(buffer, position),
        load_i64(buffer, position + BASE_OFFSET_AT),
        load_i32(buffer, position + LAST_OFFSET_DELTA_AT),
        count,
        state,
        secret,
        table,
        queue,
    )


@inline_kernel
def _note(
    state: Numbers,
    stretches: Numbers,
    start: int,
    end: int,
    first_offset: int,
    last_offset: int,
    batches: int,
    records: int,
) -> None:
    """Note the plain batches between two positions, if there are any and there is a row left."""
    row = state[STRETCHES]
    if batches == 0 or row == stretches.shape[0]:
        return
    stretches[row, SEGMENT_BASE] = state[SEGMENT_BASE_OFFSET]
    stretches[row, START] = state[FILE_POSITION] + start
    stretches[row, END_POSITION] = state[FILE_POSITION] + end
    # Missing offsets before the first batch have no bits.
    stretches[row, FIRST_OFFSET] = max(first_offset, state[FIRST_DIRTY])
    stretches[row, LAST_OFFSET] = last_offset
    stretches[row, BATCHES] = batches
    stretches[row, RECORDS] = records
    state[STRETCHES] += 1


@kernel(
    "int64(uint8[::1], int64, int64, int64[::1], int64[::1], int64[::1], int64[:, ::1],"
    " int64[:, ::1], int64[:, ::1])"
)
def map_batches(
    buffer: Bytes,
    start: int,
    end: int,
    state: Numbers,
    secret: Numbers,
    table: Numbers,
    queue: Numbers,
    open_transactions: Numbers,
    stretches: Numbers,
) -> int:
    """Map the batches from `start` to `end`.

    Returns the start of the first batch that was not mapped to its end, or `end`; `state[REASON]`
    is the reason.

    Every batch is checked as in `scan_batches`, except for leader epochs. The batches about which
    the bitmap alone can decide are noted in `stretches`, as long as there are rows.
    """
    position = start
    stretch_start = start
    stretch_offset = state[OFFSET_NEXT]
    batches = 0
    records = 0
    offset_last_max = state[SEGMENT_BASE_OFFSET] + I32_MAX
    state[QUEUED] = 0
    reason = END
    while position < end:
        reason = batch_flaw(buffer, position, end, state[OFFSET_NEXT], offset_last_max, -1)
        if reason != END:
            break
        reason = _map_batch(buffer, position, state, secret, table, queue, open_transactions)
        if reason != END:
            break
        last_offset = load_i64(buffer, position + BASE_OFFSET_AT)
        last_offset += load_i32(buffer, position + LAST_OFFSET_DELTA_AT)
        if last_offset >= state[FIRST_DIRTY]:
            state[LATEST_OFFSET] = last_offset
        following = position + batch_size(buffer, position)
        if is_plain(buffer, position, state[FIRST_DIRTY]):
            batches += 1
            records += load_i32(buffer, position + COUNT_AT)
        else:
            last = state[OFFSET_NEXT] - 1
            _note(state, stretches, stretch_start, position, stretch_offset, last, batches, records)
            batches = 0
        state[OFFSET_NEXT] = last_offset + 1
        position = following
        if batches == 0 or position - stretch_start >= STRETCH_BYTES:
            last = last_offset
            _note(state, stretches, stretch_start, position, stretch_offset, last, batches, records)
            stretch_start = position
            stretch_offset = last_offset + 1
            batches = 0
            records = 0
    last = state[OFFSET_NEXT] - 1
    _note(state, stretches, stretch_start, position, stretch_offset, last, batches, records)
    _drain(state, table, queue)
    state[REASON] = reason
    return position


@kernel(
    "int64(uint8[::1], int64, int64, int64, int64, int64[::1], int64[::1], int64[::1],"
    " int64[:, ::1])"
)
def map_decompressed(
    content: Bytes,
    end: int,
    base_offset: int,
    last_offset_delta: int,
    count: int,
    state: Numbers,
    secret: Numbers,
    table: Numbers,
    queue: Numbers,
) -> int:
    """Map the `count` records of a batch, `content` up to `end`; returns END, FULL or BAD_RECORD.
    The caller steps over the batch.
    """
    state[QUEUED] = 0
    reason = _map_records(
        content, 0, end, base_offset, last_offset_delta, count, state, secret, table, queue
    )
    _drain(state, table, queue)
    return reason


@kernel("int64(int64[::1], int64, int64, int64, int64[::1])")
def set_bits(table: Numbers, slots: int, first: int, end: int, bits: Numbers) -> int:
    """Set a bit for each offset in the table from `first` up to `end`. Returns their number."""
    found = 0
    for slot in range(slots):
        # A free entry gives -1, which is below `first`.
        offset = table[slot * ENTRY_WORDS + 2] - 1
        if first <= offset < end:
            at = offset - first
            bits[at >> 6] |= 1 << (at & 63)
            found += 1
    return found


@kernel("int64(uint8[::1], int64, int64[::1], int64[::1], int64)")
def mapped_offset(key: Bytes, size: int, secret: Numbers, table: Numbers, slots: int) -> int:
    """The latest offset of a key of `size` bytes, or -1."""
    low, high = hash_key(key, 0, size, secret)
    entry = find_entry(table, entry_of(low, high, slots, secret), slots, low, high)
    return int(table[entry + 2]) - 1
