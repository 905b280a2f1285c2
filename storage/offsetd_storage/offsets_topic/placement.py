"""The partition of `__consumer_offsets` that holds a group's records."""

import struct
from typing import Final

import numpy as np

_UINT32_MASK: Final = 0xFFFF_FFFF
_INT32_MIN: Final = -(1 << 31)
# Longer text is hashed with NumPy: a Python loop costs 0.1 µs for each code unit.
_LONG_BYTES: Final = 512


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: a polynomial with base 31 over UTF-16 units, as a signed int32."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    if len(encoded) > _LONG_BYTES:
        units = np.frombuffer(encoded, ">u2").astype(np.uint32)
        powers = np.cumprod(np.full(len(units) - 1, 31, np.uint32), dtype=np.uint32)[::-1]
        value = (int(units[:-1] @ powers) + int(units[-1])) & _UINT32_MASK
    else:
        value = 0
        for (unit,) in struct.iter_unpack(">H", encoded):
            value = (value * 31 + unit) & _UINT32_MASK
    return value - (1 << 32) if value >> 31 else value


def partition_of(group_id: str, partitions: int) -> int:
    """The partition of a group: Kafka's `Utils.abs(groupId.hashCode) % partitions`.

    `Utils.abs` maps the one int32 without a positive counterpart to 0.
    """
    assert partitions > 0, "a topic has at least one partition"
    value = java_hash(group_id)
    return 0 if value == _INT32_MIN else abs(value) % partitions
