"""Reads the keys and values of committed offsets from the bytes of the log's records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_storage.kernels.byte_order import (
    load_i16,
    load_i32,
    load_i64,
    load_unsigned_varint,
)
from offsetd_storage.kernels.registry import inline_kernel
from offsetd_storage.kernels.utf8 import utf16_length

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

_RECORD_TYPE: Final = 1
_KEY_BYTES_MIN: Final = 10  # record type, two lengths, partition
_VALUE_VERSION_LAST: Final = 4

EXPIRE_TAG: Final = 20_292
"""See `schemas.offset_commit`."""

EXPIRE_TAG_BYTES: Final = 12
"""The tag as a varint of three bytes, its size, and the time."""

_EXPIRE_BYTES: Final = 8

METADATA_SIZE_MAX: Final = (1 << 24) - 1
"""Longer metadata is not read: no batch of a server has room for it."""


class OffsetKey(NamedTuple):
    """The owner of an offset: group and topic as spans of a buffer, and the partition."""

    group_start: int
    group_size: int
    topic_start: int
    topic_size: int
    partition: int


class OffsetValue(NamedTuple):
    """The stored fields of an offset; the metadata is a span of a buffer."""

    offset: int
    leader_epoch: int
    metadata_start: int
    metadata_size: int
    commit_timestamp: int
    expire_timestamp: int


@inline_kernel
def load_offset_key(buffer: Bytes, start: int, size: int) -> tuple[bool, OffsetKey]:
    """(True, key) of record type 1 if nothing follows the partition, else (False, _).

    Type 0 and keys with more bytes name offsets too; see `load_any_offset_key`.
    """
    other = (False, OffsetKey(0, 0, 0, 0, 0))
    if size < _KEY_BYTES_MIN or load_i16(buffer, start) != _RECORD_TYPE:
        return other
    names_size = size - _KEY_BYTES_MIN
    group_size = load_i16(buffer, start + 2)
    if group_size < 0 or group_size > names_size:
        return other
    topic_at = start + 4 + group_size
    topic_size = load_i16(buffer, topic_at)
    if topic_size != names_size - group_size:
        return other
    partition = load_i32(buffer, topic_at + 2 + topic_size)
    return True, OffsetKey(start + 4, group_size, topic_at + 2, topic_size, partition)


@inline_kernel
def load_any_offset_key(buffer: Bytes, start: int, size: int) -> tuple[bool, OffsetKey]:
    """(True, key) of record types 0 and 1, also if bytes follow the partition, else (False, _).

    All keys that name this offset have the same bytes, from two bytes after `start` to the
    partition's end.
    """
    other = (False, OffsetKey(0, 0, 0, 0, 0))
    if size < _KEY_BYTES_MIN or load_i16(buffer, start) >> 1 != 0:
        return other
    names_size = size - _KEY_BYTES_MIN
    group_size = load_i16(buffer, start + 2)
    if group_size < 0 or group_size > names_size:
        return other
    topic_at = start + 4 + group_size
    topic_size = load_i16(buffer, topic_at)
    if topic_size < 0 or topic_size > names_size - group_size:
        return other
    partition = load_i32(buffer, topic_at + 2 + topic_size)
    return True, OffsetKey(start + 4, group_size, topic_at + 2, topic_size, partition)


@inline_kernel
def load_offset_value(buffer: Bytes, start: int, size: int) -> tuple[bool, OffsetValue]:
    """(True, value) of an OffsetCommitValue that decodes, else (False, _).

    Loads may reach a few bytes past the value, into the next record or the padding; the checks
    after them detect that.
    """
    other = (False, OffsetValue(0, 0, 0, 0, 0, 0))
    end = start + size
    version = load_i16(buffer, start)
    if size < 2 or version < 0 or version > _VALUE_VERSION_LAST:
        return other
    offset = load_i64(buffer, start + 2)
    position = start + 10
    leader_epoch = -1
    if version >= 3:
        leader_epoch = load_i32(buffer, position)
        position += 4
    metadata_size, position = _load_text_size(buffer, position, end, version)
    metadata_start = position
    if metadata_size < 0 or metadata_size > min(end - position, METADATA_SIZE_MAX):
        return other
    commit_timestamp = load_i64(buffer, position + metadata_size)
    position += metadata_size + 8
    expire_timestamp = -1
    if version == 1:
        expire_timestamp = load_i64(buffer, position)
        position += 8
    if version >= 4:
        expire_timestamp, position = _load_expiry(buffer, position, end)
    if position < 0 or position > end:
        return other
    if metadata_size > 0 and utf16_length(buffer, metadata_start, metadata_size) < 0:
        return other
    return True, OffsetValue(
        offset, leader_epoch, metadata_start, metadata_size, commit_timestamp, expire_timestamp
    )


@inline_kernel
def _load_text_size(buffer: Bytes, position: int, end: int, version: int) -> tuple[int, int]:
    """(size, start of the text). The size is -1 for null and for a length that does not end."""
    if version < 4:
        return load_i16(buffer, position), position + 2
    length, position = load_unsigned_varint(buffer, position, end)
    return length - 1, position


@inline_kernel
def _load_expiry(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """(the time in a section of tagged fields or -1, the end of the section).

    The end is -1 if the section does not end before `end`, or if the time is cut short.
    """
    expire_timestamp = -1
    count, position = load_unsigned_varint(buffer, position, end)
    while position >= 0 and count > 0:
        tag, position = load_unsigned_varint(buffer, position, end)
        if position < 0:
            return -1, -1
        size, position = load_unsigned_varint(buffer, position, end)
        if position < 0 or size > end - position:
            return -1, -1
        if tag == EXPIRE_TAG:
            if size < _EXPIRE_BYTES:
                return -1, -1
            expire_timestamp = load_i64(buffer, position)
        position += size
        count -= 1
    return expire_timestamp, position
