"""Writes runs of batches in the form in which a frame of the journal holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.batch_headers import SPAN_END, SPAN_START
from offsetd_storage.kernels.byte_order import copy_bytes, load_i16, store_i32
from offsetd_storage.kernels.registry import kernel

if TYPE_CHECKING:
    from offsetd_storage.kernels.scan import Bytes, Numbers

_TOPIC_LENGTH_BYTES: Final = 2
_PARTITION_BYTES: Final = 4
_RUN_LENGTH_BYTES: Final = 4


@kernel("int64(uint8[::1], int64[:, ::1], uint8[::1], uint8[::1], int64)")
def put_runs(content: Bytes, spans: Numbers, names: Bytes, out: Bytes, position: int) -> int:
    """Write each span of `content`, after the name of its log. Returns the end.

    `names` has the names in order: topic length, topic, partition. `out` must have enough space.
    """
    name = 0
    for row in range(spans.shape[0]):
        name_bytes = _TOPIC_LENGTH_BYTES + load_i16(names, name) + _PARTITION_BYTES
        copy_bytes(out, position, names, name, name_bytes)
        name += name_bytes
        position += name_bytes
        size = spans[row, SPAN_END] - spans[row, SPAN_START]
        store_i32(out, position, size)
        position += _RUN_LENGTH_BYTES
        copy_bytes(out, position, content, spans[row, SPAN_START], size)
        position += size
    return position
