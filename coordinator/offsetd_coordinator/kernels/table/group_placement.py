"""Finds the log partition of a group, for kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.registry import inline_kernel
from offsetd_storage.kernels.utf8 import java_hash

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes

_INT32_MIN: Final = -(1 << 31)


@inline_kernel
def log_partition_of(buffer: Bytes, start: int, size: int, partitions: int) -> int:
    """Does what `offsets_topic.placement.partition_of` does, for a group id in UTF-8."""
    hashed = java_hash(buffer, start, size)
    # Kafka maps the one int32 that has no positive counterpart to 0.
    return 0 if hashed == _INT32_MIN else abs(hashed) % partitions
