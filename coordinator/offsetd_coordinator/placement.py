"""Which partition of `__consumer_offsets` a group's records go to."""

import struct
from typing import Final

_UINT32_MASK: Final = 0xFFFF_FFFF
_INT32_MIN: Final = -(1 << 31)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: 31-polynomial over UTF-16 code units, as a signed int32."""
    encoded = text.encode("utf-16-be", "surrogatepass")
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
