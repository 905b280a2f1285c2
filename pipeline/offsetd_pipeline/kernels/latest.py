"""The newest record of each offset, and of each other key, with its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import copy_bytes, equal_bytes
from offsetd_storage.kernels.key_offsets import hash_key
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_pipeline.kernels.fields import (
    FIELDS,
    GROUP_START,
    KEY_SIZE,
    KEY_START,
    LOG_OFFSET,
    METADATA_START,
    TOPIC_SIZE,
    TOPIC_START,
    VALUE_SIZE,
    VALUE_START,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Numbers = npt.NDArray[np.int64]

# An entry has the fields of a record, whose spans point into `kept`, and then:
IDENTITY_START: Final = FIELDS
IDENTITY_SIZE: Final = FIELDS + 1
HASH: Final = FIELDS + 2
VALUE_ROOM: Final = FIELDS + 3
ENTRY_COLUMNS: Final = FIELDS + 4

# Slots of `state`.
ENTRIES: Final = 0
KEPT_BYTES: Final = 1
STATE_SLOTS: Final = 2

PADDING: Final = 16
_HASH_MASK: Final = (1 << 62) - 1
_KEY_TYPE_BYTES: Final = 2
_PARTITION_BYTES: Final = 4


@kernel(
    "int64(uint8[::1], int64[:, ::1], int64[::1], int64, int64[::1], int64[::1], int64[::1],"
    " int64[:, ::1], uint8[::1])"
)
def keep_latest(
    buffer: Bytes,
    fields: Numbers,
    chosen: Numbers,
    first: int,
    state: Numbers,
    secret: Numbers,
    slots: Numbers,
    entries: Numbers,
    kept: Bytes,
) -> int:
    """Keeps each of the records `chosen[first:]` unless a later one of its key is kept.

    Returns the number of `chosen` records that are done. If it is less than all, the caller must
    make room. A slot has the number of its entry + 1, or 0; more than half of the slots stay free.
    """
    mask = slots.shape[0] - 1
    for each in range(first, chosen.shape[0]):
        row = chosen[each]
        key_size = fields[row, KEY_SIZE]
        value_size = max(fields[row, VALUE_SIZE], 0)
        room = state[KEPT_BYTES] + key_size + value_size * 2 + PADDING
        if state[ENTRIES] == entries.shape[0] or room > kept.shape[0] - PADDING:
            return each
        start, size = _identity(fields, row)
        low, high = hash_key(buffer, start, size, secret)
        hashed = (low ^ high) & _HASH_MASK
        slot = hashed & mask
        while slots[slot] != 0:
            entry = slots[slot] - 1
            if (
                entries[entry, HASH] == hashed
                and entries[entry, IDENTITY_SIZE] == size
                # An offset's identity leaves out the key's type: another key could equal it.
                and entries[entry, TOPIC_SIZE] >> 63 == fields[row, TOPIC_SIZE] >> 63
                and equal_bytes(kept, entries[entry, IDENTITY_START], buffer, start, size)
            ):
                break
            slot = (slot + 1) & mask
        if slots[slot] == 0:
            entry = _add_entry(buffer, fields, row, state, entries, kept)
            entries[entry, HASH] = hashed
            entries[entry, IDENTITY_START] = entries[entry, KEY_START] + (
                start - fields[row, KEY_START]
            )
            entries[entry, IDENTITY_SIZE] = size
            slots[slot] = entry + 1
        else:
            entry = slots[slot] - 1
            if entries[entry, LOG_OFFSET] > fields[row, LOG_OFFSET]:
                continue
        _take_record(buffer, fields, row, state, entries, entry, kept)
    return int(chosen.shape[0])


@inline_kernel
def _identity(fields: Numbers, row: int) -> tuple[int, int]:
    """The span that identifies an offset (group, topic, partition); for other records, the key."""
    start = fields[row, KEY_START]
    topic_size = fields[row, TOPIC_SIZE]
    if topic_size < 0:
        return start, fields[row, KEY_SIZE]
    end = fields[row, TOPIC_START] + topic_size + _PARTITION_BYTES
    return start + _KEY_TYPE_BYTES, end - start - _KEY_TYPE_BYTES


@inline_kernel
def _add_entry(
    buffer: Bytes, fields: Numbers, row: int, state: Numbers, entries: Numbers, kept: Bytes
) -> int:
    """Adds an entry with its key, and returns its number."""
    entry = int(state[ENTRIES])
    size = fields[row, KEY_SIZE]
    copy_bytes(kept, state[KEPT_BYTES], buffer, fields[row, KEY_START], size)
    entries[entry, KEY_START] = state[KEPT_BYTES]
    entries[entry, VALUE_ROOM] = -1
    state[ENTRIES] = entry + 1
    state[KEPT_BYTES] += size
    return int(entry)


@inline_kernel
def _take_record(
    buffer: Bytes,
    fields: Numbers,
    row: int,
    state: Numbers,
    entries: Numbers,
    entry: int,
    kept: Bytes,
) -> None:
    """Copies a record to an entry, without the bytes of the key, which are already there."""
    key_start = entries[entry, KEY_START]
    value_start = entries[entry, VALUE_START]
    size = fields[row, VALUE_SIZE]
    if size > entries[entry, VALUE_ROOM]:
        value_start = state[KEPT_BYTES]
        entries[entry, VALUE_ROOM] = size + (size >> 2)
        state[KEPT_BYTES] += entries[entry, VALUE_ROOM]
    if size > 0:
        copy_bytes(kept, value_start, buffer, fields[row, VALUE_START], size)
    for field in range(FIELDS):
        entries[entry, field] = fields[row, field]
    entries[entry, KEY_START] = key_start
    entries[entry, VALUE_START] = value_start
    entries[entry, GROUP_START] += key_start - fields[row, KEY_START]
    entries[entry, TOPIC_START] += key_start - fields[row, KEY_START]
    entries[entry, METADATA_START] += value_start - fields[row, VALUE_START]


@kernel("void(int64[:, ::1], int64, int64[::1])")
def fill_slots(entries: Numbers, count: int, slots: Numbers) -> None:
    """Puts the first `count` entries into slots that are all free."""
    mask = slots.shape[0] - 1
    for entry in range(count):
        slot = entries[entry, HASH] & mask
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = entry + 1
