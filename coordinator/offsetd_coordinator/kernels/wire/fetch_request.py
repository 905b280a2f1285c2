"""Reads `offsetd.v1.FetchOffsetsRequest` from its bytes, without protobuf.

It reads only plain requests: known fields with their own wire types, which are valid by the rules
of `messages.validation`, and few. Protobuf and the validation read all other requests: unusual,
wrong or large ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.registry import inline_kernel, kernel
from offsetd_storage.kernels.utf8 import utf16_length

from offsetd_coordinator.kernels.columns import PARTITION, TOPIC_SIZE, TOPIC_START
from offsetd_coordinator.kernels.wire.field_length_limits import GROUP_ID_BYTES_MAX, TOPIC_UNITS_MAX
from offsetd_coordinator.kernels.wire.named_partitions import has_duplicates
from offsetd_coordinator.kernels.wire.protobuf import LENGTH, VARINT, load_field

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

# The fields of the request that was read, a single row.
READ_GROUPS: Final = 0  # the number of groups
READ_REQUIRE_STABLE: Final = 1  # 0 or 1
READ_COLUMNS: Final = 2

# A requested group; starts are positions in the message.
GROUP_START: Final = 0
GROUP_SIZE: Final = 1
FIRST_ROW: Final = 2  # the first row in the partitions of all groups
ROWS: Final = 3  # 0: all partitions of the group
GROUP_COLUMNS: Final = 4

# A requested partition has TOPIC_START, TOPIC_SIZE and PARTITION.
PARTITION_COLUMNS: Final = 3

_FETCH_GROUPS: Final = 1 << 3 | LENGTH
_FETCH_REQUIRE_STABLE: Final = 2 << 3 | VARINT
_SELECTION_GROUP_ID: Final = 1 << 3 | LENGTH
_SELECTION_PARTITIONS: Final = 2 << 3 | LENGTH
_PARTITION_TOPIC: Final = 1 << 3 | LENGTH
_PARTITION_PARTITION: Final = 2 << 3 | VARINT

_INT32_MAX: Final = (1 << 31) - 1


@kernel(
    "boolean(uint8[::1], int64, int64, int64, int64[:, ::1], int64[:, ::1], int64[::1], int64[::1])"
)
def read_fetch(
    message: Bytes,
    size: int,
    seed: int,
    seed_2: int,
    groups: Int64s,
    partitions: Int64s,
    slots: Int64s,
    read: Int64s,
) -> bool:
    """Read a request from a padded buffer.

    Returns whether it is plain, and fits `groups` and `partitions`. The caller checks that no group
    is named twice. `slots` is scratch with twice the rows of `partitions`; the seeds are secret.
    """
    read[READ_GROUPS] = read[READ_REQUIRE_STABLE] = 0
    count = 0
    row = 0
    position = 0
    while position < size:
        key, start, value = load_field(message, position, size)
        if key == _FETCH_REQUIRE_STABLE and 0 <= value <= 1:
            read[READ_REQUIRE_STABLE] = value
            position = start
            continue
        if key != _FETCH_GROUPS or count == groups.shape[0]:
            return False
        position = start + value
        rows = _read_selection(message, start, position, groups[count], partitions, row)
        if rows < 0 or has_duplicates(message, partitions, row, rows, seed, seed_2, slots):
            return False
        row += rows
        count += 1
    read[READ_GROUPS] = count
    return True


@inline_kernel
def _read_selection(
    message: Bytes, position: int, end: int, group: Int64s, partitions: Int64s, first_row: int
) -> int:
    """Read a GroupSelection. Returns its number of partitions, or -1 if it is not plain."""
    group[GROUP_START] = group[GROUP_SIZE] = 0
    row = first_row
    while position < end:
        key, start, size = load_field(message, position, end)
        position = start + size
        if key == _SELECTION_PARTITIONS:
            if row == partitions.shape[0]:
                return -1
            if not _read_partition(message, start, position, partitions[row]):
                return -1
            row += 1
        elif key == _SELECTION_GROUP_ID and group[GROUP_SIZE] == 0:
            if size > GROUP_ID_BYTES_MAX or utf16_length(message, start, size) < 0:
                return -1
            group[GROUP_START] = start
            group[GROUP_SIZE] = size
        else:
            return -1
    group[FIRST_ROW] = first_row
    group[ROWS] = row - first_row
    return row - first_row


@inline_kernel
def _read_partition(message: Bytes, position: int, end: int, partition: Int64s) -> bool:
    """Read a TopicPartition. Returns whether it is plain. The last partition number counts."""
    partition[TOPIC_SIZE] = partition[PARTITION] = 0
    while position < end:
        key, start, value = load_field(message, position, end)
        if key == _PARTITION_PARTITION and 0 <= value <= _INT32_MAX:
            partition[PARTITION] = value
            position = start
        elif key == _PARTITION_TOPIC and partition[TOPIC_SIZE] == 0:
            units = utf16_length(message, start, value)
            if units < 0 or units > TOPIC_UNITS_MAX:
                return False
            partition[TOPIC_START] = start
            partition[TOPIC_SIZE] = value
            position = start + value
        else:
            return False
    return bool(partition[TOPIC_SIZE] > 0)
