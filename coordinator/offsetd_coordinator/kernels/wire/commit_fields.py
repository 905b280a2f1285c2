"""Reads commits from the bytes of `offsetd.v1` requests, without protobuf.

It reads only plain commits: the fields of `CommitOffsetsRequest` with their own wire types, which
are valid by the rules of `messages.validation`. All other commits, unusual or wrong, are NOT_PLAIN:
protobuf and the validation read them and report the error. So only one place refuses commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.registry import inline_kernel, kernel
from offsetd_storage.kernels.utf8 import utf16_length

from offsetd_coordinator.kernels.columns import (
    COMMIT_COLUMNS,
    COMMIT_LEADER_EPOCH,
    COMMIT_OFFSET,
    END_OFFSET,
    EXPECTED,
    EXPECTED_OFFSET,
    EXPECTED_REVISION,
    METADATA_SIZE,
    METADATA_START,
    MONOTONIC,
    MUST_NOT_EXIST,
    PARTITION,
    PRECONDITION,
    TOPIC_SIZE,
    TOPIC_START,
)
from offsetd_coordinator.kernels.wire.field_length_limits import (
    GROUP_ID_BYTES_MAX,
    METADATA_BYTES_MAX,
    REQUEST_ID_BYTES_MAX,
    TOPIC_UNITS_MAX,
)
from offsetd_coordinator.kernels.wire.named_partitions import has_duplicates
from offsetd_coordinator.kernels.wire.protobuf import LENGTH, VARINT, load_field

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

# The columns of a commit that was read; starts are positions in the message.
SEQUENCE: Final = 0  # the bits of the uint64
MESSAGE_START: Final = 1
MESSAGE_SIZE: Final = 2
GROUP_START: Final = 3
GROUP_SIZE: Final = 4
REQUEST_ID_START: Final = 5
REQUEST_ID_SIZE: Final = 6
FIRST_ROW: Final = 7  # its first row in the columns of all partitions
ROWS: Final = 8  # the number of its partitions, or NOT_PLAIN
REPORTS_END_OFFSETS: Final = 9  # 0 or 1
MESSAGE_NEXT: Final = 10  # the start of the next commit in a stream's message
READ_COMMIT_COLUMNS: Final = 11

NOT_PLAIN: Final = -1
NO_ROOM: Final = -2  # the caller makes room and starts again

# Columns of the reader's settings.
SETTING_METADATA_UNITS_MAX: Final = 0
SETTING_SEED: Final = 1  # two seeds, here and in the next column
SETTING_ROWS_MAX: Final = 3  # a commit of more partitions is not plain
SETTINGS: Final = 4

# Keys of fields.
_FIRST_LENGTH: Final = 1 << 3 | LENGTH
_STREAM_COMMITS: Final = _FIRST_LENGTH
_SEQUENCED_SEQUENCE: Final = 1 << 3 | VARINT
_SEQUENCED_COMMIT: Final = 2 << 3 | LENGTH
_COMMIT_GROUP_ID: Final = _FIRST_LENGTH
_COMMIT_OFFSETS: Final = 2 << 3 | LENGTH
_COMMIT_REQUEST_ID: Final = 3 << 3 | LENGTH
_OFFSET_TOPIC: Final = _FIRST_LENGTH
_OFFSET_PARTITION: Final = 2 << 3 | VARINT
_OFFSET_OFFSET: Final = 3 << 3 | VARINT
_OFFSET_LEADER_EPOCH: Final = 4 << 3 | VARINT
_OFFSET_METADATA: Final = 5 << 3 | LENGTH
_OFFSET_EXPECTED_OFFSET: Final = 6 << 3 | VARINT
_OFFSET_EXPECTED_REVISION: Final = 7 << 3 | VARINT
_OFFSET_MUST_NOT_EXIST: Final = 8 << 3 | VARINT
_OFFSET_MONOTONIC: Final = 9 << 3 | VARINT
_OFFSET_END_OFFSET: Final = 10 << 3 | VARINT

_INT32_MAX: Final = (1 << 31) - 1


@kernel("int64(uint8[::1], int64)")
def count_commits(message: Bytes, size: int) -> int:
    """Returns the number of commits of a StreamCommitsRequest in a padded buffer.

    Returns -1 minus the number that could be counted if the message around them is not plain.
    """
    position = 0
    count = 0
    is_plain = True
    while position < size:
        key, start, value = load_field(message, position, size)
        if key <= 0:
            return -1 - count
        position = start if key & 7 == VARINT else start + value
        if key != _STREAM_COMMITS:
            is_plain = False
            continue
        commit_start = _load_sequenced(message, start, position)[1]
        is_plain &= commit_start >= 0
        count += 1
    return count if is_plain else -1 - count


@kernel(
    "int64(uint8[::1], int64, int64, boolean, int64[::1], int64[:, ::1], int64[:, ::1], int64[::1])"
)
def read_commits(
    message: Bytes,
    position: int,
    size: int,
    is_stream: bool,
    settings: Int64s,
    commits: Int64s,
    columns: Int64s,
    slots: Int64s,
) -> int:
    """Read a StreamCommitsRequest, or one CommitOffsetsRequest, from a padded buffer.

    Fills a row of `commits` for each commit, and a row of `columns` for each of its partitions, as
    long as both have room. In a stream's message it begins at `position`, and stops before a commit
    that is not plain; such a commit is returned alone. Returns the number of commits; NOT_PLAIN if
    the message around the commits is not plain; NO_ROOM if the first commit does not fit. `slots`
    is scratch memory with twice as many rows as `columns`.
    """
    if not is_stream:
        commits[0, SEQUENCE] = 0
        read = _read_commit(message, 0, size, settings, commits, 0, 0, columns, slots)
        return NO_ROOM if read == NO_ROOM else 1
    count = 0
    first_row = 0
    while position < size and count < commits.shape[0]:
        key, start, length = load_field(message, position, size)
        if key != _STREAM_COMMITS:
            return NOT_PLAIN
        position = start + length
        sequence, commit_start, commit_size = _load_sequenced(message, start, position)
        if commit_start < 0:
            return NOT_PLAIN
        commits[count, SEQUENCE] = sequence
        rows = _read_commit(
            message, commit_start, commit_size, settings, commits, count, first_row, columns, slots
        )
        if rows < 0 and count > 0:
            return count
        if rows == NO_ROOM:
            return NO_ROOM
        commits[count, MESSAGE_NEXT] = position
        count += 1
        if rows == NOT_PLAIN:
            return count
        first_row += rows
    return count


@inline_kernel
def _load_sequenced(message: Bytes, position: int, end: int) -> tuple[int, int, int]:
    """Returns (sequence, start, size) of a SequencedCommit's commit; start -1 if not plain."""
    sequence = 0
    commit_start = -1
    commit_size = 0
    while position < end:
        key, start, value = load_field(message, position, end)
        if key == _SEQUENCED_SEQUENCE:
            sequence = value
            position = start
        elif key == _SEQUENCED_COMMIT and commit_start < 0:
            commit_start = start
            commit_size = value
            position = start + value
        else:
            return 0, -1, 0
    return sequence, commit_start, commit_size


@inline_kernel
def _read_commit(
    message: Bytes,
    start: int,
    size: int,
    settings: Int64s,
    commits: Int64s,
    at: int,
    first_row: int,
    columns: Int64s,
    slots: Int64s,
) -> int:
    """Read one CommitOffsetsRequest into row `at` of `commits`. Returns the commit's ROWS."""
    commit = commits[at]
    commit[MESSAGE_START] = start
    commit[MESSAGE_SIZE] = size
    commit[FIRST_ROW] = first_row
    rows = _read_fields(message, start, start + size, settings, commit, columns)
    seed, seed_2 = settings[SETTING_SEED], settings[SETTING_SEED + 1]
    if rows > 0 and has_duplicates(message, columns, first_row, rows, seed, seed_2, slots):
        rows = NOT_PLAIN
    commit[ROWS] = rows
    return rows


@inline_kernel
def _read_fields(
    message: Bytes, position: int, end: int, settings: Int64s, commit: Int64s, columns: Int64s
) -> int:
    """Read a commit's fields. Returns its number of partitions, NOT_PLAIN or NO_ROOM."""
    commit[GROUP_START] = commit[GROUP_SIZE] = 0
    commit[REQUEST_ID_START] = commit[REQUEST_ID_SIZE] = 0
    commit[REPORTS_END_OFFSETS] = 0
    row = commit[FIRST_ROW]
    while position < end:
        key, start, size = load_field(message, position, end)
        position = start + size
        if key == _COMMIT_OFFSETS:
            if row - commit[FIRST_ROW] == settings[SETTING_ROWS_MAX]:
                return NOT_PLAIN
            if row == columns.shape[0]:
                return NO_ROOM
            if not _read_offset(message, start, position, settings, columns[row]):
                return NOT_PLAIN
            commit[REPORTS_END_OFFSETS] |= columns[row, END_OFFSET] >= 0
            row += 1
        elif key == _COMMIT_GROUP_ID and commit[GROUP_SIZE] == 0:
            if size > GROUP_ID_BYTES_MAX or utf16_length(message, start, size) < 0:
                return NOT_PLAIN
            commit[GROUP_START] = start
            commit[GROUP_SIZE] = size
        elif key == _COMMIT_REQUEST_ID and commit[REQUEST_ID_SIZE] == 0:
            if size > REQUEST_ID_BYTES_MAX or utf16_length(message, start, size) < 0:
                return NOT_PLAIN
            commit[REQUEST_ID_START] = start
            commit[REQUEST_ID_SIZE] = size
        else:
            return NOT_PLAIN
    rows = int(row - commit[FIRST_ROW])
    return NOT_PLAIN if commit[GROUP_SIZE] == 0 or rows == 0 else rows


@inline_kernel
def _read_offset(
    message: Bytes, position: int, end: int, settings: Int64s, columns: Int64s
) -> bool:
    """Read an OffsetCommit into a row. Returns whether it is plain. The last varint counts."""
    for column in range(COMMIT_COLUMNS):
        columns[column] = 0
    columns[COMMIT_LEADER_EPOCH] = columns[END_OFFSET] = -1
    while position < end:
        key, start, value = load_field(message, position, end)
        if key & 7 == VARINT:
            if not _read_number(key, value, columns):
                return False
            position = start
        elif key == _OFFSET_TOPIC and columns[TOPIC_SIZE] == 0:
            units = utf16_length(message, start, value)
            if units < 0 or units > TOPIC_UNITS_MAX:
                return False
            columns[TOPIC_START] = start
            columns[TOPIC_SIZE] = value
            position = start + value
        elif key == _OFFSET_METADATA and columns[METADATA_SIZE] == 0:
            units = utf16_length(message, start, value)
            if units < 0 or units > settings[SETTING_METADATA_UNITS_MAX]:
                return False
            if value > METADATA_BYTES_MAX:
                return False
            columns[METADATA_START] = start
            columns[METADATA_SIZE] = value
            position = start + value
        else:
            return False
    return bool(columns[TOPIC_SIZE] > 0)


@inline_kernel
def _read_number(key: int, value: int, columns: Int64s) -> bool:
    """Store a number of an OffsetCommit. Returns whether the field is known and its value valid."""
    if value < 0:
        return False
    if key == _OFFSET_PARTITION:
        columns[PARTITION] = value
        return value <= _INT32_MAX
    if key == _OFFSET_OFFSET:
        columns[COMMIT_OFFSET] = value
        return True
    if key == _OFFSET_LEADER_EPOCH:
        columns[COMMIT_LEADER_EPOCH] = value
        return value <= _INT32_MAX
    if key == _OFFSET_END_OFFSET:
        columns[END_OFFSET] = value
        return True
    if key == _OFFSET_MONOTONIC:
        columns[MONOTONIC] = value
        return value <= 1
    # One of three preconditions: the last counts.
    columns[EXPECTED] = value
    if key == _OFFSET_EXPECTED_OFFSET:
        columns[PRECONDITION] = EXPECTED_OFFSET
        return True
    if key == _OFFSET_EXPECTED_REVISION:
        columns[PRECONDITION] = EXPECTED_REVISION
        return True
    columns[PRECONDITION] = MUST_NOT_EXIST
    columns[EXPECTED] = 0
    return key == _OFFSET_MUST_NOT_EXIST and value == 1
