"""The cleaner's bitmap: a bit for each offset of the dirty range, set for the latest of each key.

The bitmap alone shows the stretches of a log from which no record stays. They need not be
read a second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from offsetd_storage.kernels import codegen
from offsetd_storage.kernels.byte_order import load_i32, load_i64
from offsetd_storage.kernels.encode import BASE_OFFSET_AT, COUNT_AT, PRODUCER_ID_AT
from offsetd_storage.kernels.registry import inline_kernel, intrinsic, kernel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

# Columns of a stretch: whole plain batches, one after the other.
SEGMENT_BASE: Final = 0
START: Final = 1  # Both positions are in the segment's file.
END_POSITION: Final = 2
FIRST_OFFSET: Final = 3
LAST_OFFSET: Final = 4
BATCHES: Final = 5
RECORDS: Final = 6
STRETCH_COLUMNS: Final = 7


def _count_ones(typing_context: Any, value: Any) -> Any:
    del typing_context, value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.ctpop(arguments[0])

    return codegen.types.int64(codegen.types.int64), generate


# The number of bits of an int64 that are set.
count_ones = intrinsic(_count_ones)


@inline_kernel
def bits_in(bits: Numbers, first: int, last: int) -> int:
    """The number of bits that are set from the `first` to the `last`."""
    word = first >> 6
    word_last = last >> 6
    mask = -1 << (first & 63)
    mask_last = ~(-2 << (last & 63))
    if word == word_last:
        return int(count_ones(bits[word] & mask & mask_last))
    found = int(count_ones(bits[word] & mask))
    for middle in range(word + 1, word_last):
        found += int(count_ones(bits[middle]))
    return found + int(count_ones(bits[word_last] & mask_last))


@inline_kernel
def has_bit(bits: Numbers, at: int) -> bool:
    """Whether a bit is set."""
    return bool((bits[at >> 6] >> (at & 63)) & 1 != 0)


@inline_kernel
def is_plain(buffer: Bytes, position: int, first_dirty: int) -> bool:
    """Whether the bitmap alone decides what stays of the batch at `position`."""
    return bool(
        load_i64(buffer, position + PRODUCER_ID_AT) < 0
        and load_i32(buffer, position + COUNT_AT) > 0
        and load_i64(buffer, position + BASE_OFFSET_AT) >= first_dirty
    )


@kernel("int64(int64[:, ::1], int64, int64[::1], int64, int64, int64)")
def find_gone(
    stretches: Numbers, count: int, bits: Numbers, first: int, end: int, round_end: int
) -> int:
    """Of the first `count` rows, keep the stretches from which no record stays.

    Stretches that touch become one. Returns the number of stretches that are left.

    The bits are those of the offsets from `first` up to `end`. The batch that ends right before
    `round_end` stays, if only as a header.
    """
    gone = 0
    for row in range(count):
        last_offset = stretches[row, LAST_OFFSET]
        if last_offset >= end or last_offset + 1 == round_end:
            continue
        if bits_in(bits, stretches[row, FIRST_OFFSET] - first, last_offset - first) > 0:
            continue
        before = gone - 1
        if (
            gone > 0
            and stretches[before, SEGMENT_BASE] == stretches[row, SEGMENT_BASE]
            and stretches[before, END_POSITION] == stretches[row, START]
        ):
            stretches[before, END_POSITION] = stretches[row, END_POSITION]
            stretches[before, LAST_OFFSET] = last_offset
            stretches[before, BATCHES] += stretches[row, BATCHES]
            stretches[before, RECORDS] += stretches[row, RECORDS]
        else:
            for column in range(STRETCH_COLUMNS):
                stretches[gone, column] = stretches[row, column]
            gone += 1
    return gone
