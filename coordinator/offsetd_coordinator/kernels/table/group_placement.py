"""Finds the log partition of a group, for kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.registry import inline_kernel, kernel
from offsetd_storage.kernels.utf8 import code_point

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes

_INT32_MIN: Final = -(1 << 31)


@kernel("int64(uint8[::1], int64, int64)")
def java_hash(buffer: Bytes, start: int, size: int) -> int:
    """Java's `String.hashCode` of UTF-8 text, an int32."""
    hashed = 0
    position = start
    end = start + size
    while position < end:
        point, position = code_point(buffer, position, end)
        if position < 0:
            return hashed
        if point > 0xFFFF:
            hashed = 31 * hashed + 0xD7C0 + (point >> 10)
            point = 0xDC00 + (point & 0x3FF)
        hashed = (31 * hashed + point) & 0xFFFFFFFF
    return hashed - ((hashed >> 31) << 32)


@inline_kernel
def log_partition_of(buffer: Bytes, start: int, size: int, partitions: int) -> int:
    """Does what `offsets_topic.placement.partition_of` does, for a group id in UTF-8."""
    hashed = java_hash(buffer, start, size)
    # Kafka maps the one int32 that has no positive counterpart to 0.
    return 0 if hashed == _INT32_MIN else abs(hashed) % partitions
