"""The columns of every array that the kernels work on, and the arrays of the offset table.

They are plain numbers, so that kernels can use them as constants. A row of a two-dimensional array
is one item, and a column is one of its fields. A one-dimensional array, such as a cursor, is a
single row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Int64s = npt.NDArray[np.int64]


class Table(NamedTuple):
    """The offsets of one shard, packed into arrays.

    `slots` is the hash index of the `blocks`. A block has up to 64 stored offsets, whose rows of
    `entries` are adjacent; `extras` has the fields that only few offsets have. `name_slots` is the
    index of the `names` of groups and topics, whose bytes are in `name_bytes`, and `request_slots`
    of the remembered `requests`; `windows` has the lag windows of offsets whose clients report end
    offsets. A kernel takes the arrays as a plain tuple, which Numba unpacks faster, and makes a
    `Table` of it.
    """

    counters: Int64s
    slots: Int64s
    blocks: Int64s
    entries: Int64s
    extras: Int64s
    name_slots: Int64s
    names: Int64s
    name_bytes: Bytes
    metadata: Bytes
    request_slots: Int64s
    requests: Int64s
    windows: Int64s


TABLE: Final = (
    "Tuple((int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1], "
    "int64[:, ::1], uint8[::1], uint8[::1], int64[::1], int64[:, ::1], int64[:, ::1]))"
)
"""The type of a table, for signatures."""

TableArrays: TypeAlias = (
    "tuple[Int64s, Int64s, Int64s, Int64s, Int64s, Int64s, Int64s, Bytes, Bytes, Int64s, Int64s,"
    " Int64s]"
)


# A row of `blocks`: the offsets of a group for 64 partitions of a topic.
GROUP_TOPIC: Final = 0  # two names: the group's in the high half, the topic's in the low
MASK: Final = 1  # a bit for each partition that has an offset, by its low six bits
PLACE: Final = 2  # the partitions' upper bits; the number of rows kept; the first row
LINKS: Final = 3  # the next block of the group in the high half, the previous one in the low
BLOCK_COLUMNS: Final = 4

BLOCK_PARTITION_BITS: Final = 6
BLOCK_PARTITIONS: Final = 1 << BLOCK_PARTITION_BITS
PLACE_START_BITS: Final = 31
PLACE_ROWS_BITS: Final = 7
FREE: Final = -1  # as GROUP_TOPIC or NAME_SPAN: the row is free; LINKS or ENTRY_LIST has the next

# One stored offset, a row of `entries`.
OFFSET: Final = 0
REVISION: Final = 1
TIME_EPOCH: Final = 2  # commit timestamp << EPOCH_BITS | leader epoch + 1; or -1 - row of `extras`
ENTRY_COLUMNS: Final = 3

# Unused rows are removed if three times their number exceeds all rows by more than this.
ENTRY_UNUSED_TIMES: Final = 3
ENTRY_UNUSED_FREE: Final = 1024

EPOCH_BITS: Final = 21
PLAIN_TIME_MAX: Final = (1 << 42) - 1  # The year 2109.

NO_EXPIRY: Final = -1

# The fields of an offset that its entry cannot hold: a row of `extras`.
COMMIT_TIMESTAMP: Final = 0  # in a free row: the next free row
EXPIRE_TIMESTAMP: Final = 1  # or NO_EXPIRY
METADATA_SPAN: Final = 2  # start << METADATA_SIZE_BITS | size, or UNDECODABLE
REPORTED_END: Final = 3  # the end offset that clients reported, + 1, or 0
STORED_EPOCH: Final = 4
LAG_WINDOW: Final = 5  # its row of `windows`, + 1, or 0
EXTRA_COLUMNS: Final = 6

METADATA_SIZE_BITS: Final = 24
UNDECODABLE: Final = -1  # as METADATA_SPAN: there is a record, but its value cannot be read

# The newest samples of an offset's lag, a ring: a row of `windows`. A sample has two words.
SAMPLE_COUNT: Final = 0  # of all samples ever; in a free row: the next free row
SAMPLES: Final = 1  # the offset; then the time in seconds << LAG_BITS | the lag
SAMPLES_MAX: Final = 10
WINDOW_COLUMNS: Final = SAMPLES + 2 * SAMPLES_MAX

LAG_BITS: Final = 31
LAG_MAX: Final = (1 << LAG_BITS) - 1  # a larger lag counts as this

# One name, of a group, a topic or both: a row of `names`.
NAME_SPAN: Final = 0  # start << NAME_SIZE_BITS | size
ENTRY_LIST: Final = 1  # for a group: its first block in the high half, its entry count in the low
TOPIC_ENTRIES: Final = 2  # for a topic: its entry count
NAME_COLUMNS: Final = 3

NAME_SIZE_BITS: Final = 16
NAME_SIZE_MAX: Final = 32_767

# One remembered request id, a row of `requests`.
REQUEST_HASH: Final = 0  # 128 bits over the group and the id
REQUEST_HASH_2: Final = 1
REQUEST_LAST_OFFSET: Final = 2
REQUEST_TIMESTAMP: Final = 3
REQUEST_COLUMNS: Final = 4

# The counters of a table.
ENTRY_COUNT: Final = 0
ENTRY_END: Final = 1  # this row and all later ones were never used
ENTRY_UNUSED: Final = 2  # rows below ENTRY_END that no block uses
BLOCK_COUNT: Final = 3  # `free_rows` needs these three in a row; so for extras and names
BLOCK_END: Final = 4
BLOCK_FREE: Final = 5  # the first free row below, + 1
EXTRA_COUNT: Final = 6
EXTRA_END: Final = 7
EXTRA_FREE: Final = 8
NAME_COUNT: Final = 9
NAME_END: Final = 10
NAME_FREE: Final = 11
NAME_BYTES_END: Final = 12
NAME_BYTES_UNUSED: Final = 13  # bytes below the end that no name uses
METADATA_END: Final = 14
METADATA_UNUSED: Final = 15
GROUP_COUNT: Final = 16  # groups with at least one entry
OPEN_TRANSACTIONS: Final = 17  # set by the caller: the number of producers with open transactions
OFFSET_NEXT: Final = 18  # the log offset after the last batch replayed
LEADER_EPOCH: Final = 19  # the leader epoch of the last batch replayed
REQUEST_FIRST: Final = 20  # the row of the oldest request id
REQUEST_COUNT: Final = 21
REQUEST_COUNT_MAX: Final = 22
REQUEST_WINDOW_MS: Final = 23
SEED: Final = 24  # four random numbers, here and in the next three counters
WINDOW_COUNT: Final = 28  # `free_rows` needs these three in a row
WINDOW_END: Final = 29
WINDOW_FREE: Final = 30
SAMPLE_DISTANCE_MS: Final = 31  # set by the caller; 0: no samples are kept
COUNTERS: Final = 32

# The position of a replay. RECORD_AT is 0 at the start of a batch. The slots RECORD_OFFSET to
# HEADER_COUNT are set when the kernel stops at a record. The caller sets MERGING: 1 if the batches
# are those of a transaction that is now committed; its offsets do not replace later offsets. The
# caller also sets SETTLED: the span of a group name in the batch for which no transaction is open,
# or 0. The LAST slots have the names of the previous record, their rows and its block; they are
# reset when a name may have been removed.
BATCH_AT: Final = 0
BATCH_END: Final = 1
RECORD_AT: Final = 2
RECORDS_LEFT: Final = 3
BASE_OFFSET: Final = 4
LAST_OFFSET: Final = 5
RECORD_OFFSET: Final = 6
RECORD_END: Final = 7
KEY_START: Final = 8
KEY_SIZE: Final = 9
VALUE_START: Final = 10
VALUE_SIZE: Final = 11
HEADER_COUNT: Final = 12
MERGING: Final = 13
SETTLED_START: Final = 14
SETTLED_END: Final = 15
LAST_GROUP_START: Final = 16
LAST_GROUP_SIZE: Final = 17  # -1: there is no previous record
LAST_GROUP: Final = 18
LAST_TOPIC_START: Final = 19
LAST_TOPIC_SIZE: Final = 20
LAST_TOPIC: Final = 21
LAST_BLOCK: Final = 22  # -1: not looked up yet
CURSOR_COLUMNS: Final = 23

# The reasons for which a replay stops.
DONE: Final = 0
NEEDS_ROOM: Final = 1  # the caller makes room for the record, then continues with it
NOT_PLAIN_RECORD: Final = 2  # the caller replays the record itself, then continues after it
NOT_PLAIN_BATCH: Final = 3  # the caller replays the batch itself, then continues after it
MALFORMED_BATCH: Final = 4  # the rest of the batch does not divide into records
BROKEN_BATCH: Final = 5  # the batch is not whole: a defect of the caller, or a file changed

# One partition of a commit.
TOPIC_START: Final = 0
TOPIC_SIZE: Final = 1
PARTITION: Final = 2
COMMIT_OFFSET: Final = 3
COMMIT_LEADER_EPOCH: Final = 4  # -1: none
METADATA_START: Final = 5
METADATA_SIZE: Final = 6
PRECONDITION: Final = 7
EXPECTED: Final = 8  # the offset or revision the precondition names, else 0
MONOTONIC: Final = 9  # 0 or 1
END_OFFSET: Final = 10  # -1: not reported
COMMIT_COLUMNS: Final = 11

# One offset that an administrator writes. The first seven columns are those of a commit. For a
# tombstone, the span of the topic is the span of its whole key.
PUT_EXPIRE_TIMESTAMP: Final = 7  # or NO_EXPIRY
PUT_IS_TOMBSTONE: Final = 8  # 0 or 1
PUT_COMMIT_TIMESTAMP: Final = 9  # -1: the timestamp of the batch
PUT_COLUMNS: Final = 10

# An offset that was read, a row of `OffsetRows`. It has the PUT columns, so that it can be written
# again, and these. If METADATA_SIZE is UNDECODABLE, only key and revision are known. If
# PUT_IS_TOMBSTONE is 1, the offset was deleted.
ROW_REVISION: Final = 10
ROW_END_OFFSET: Final = 11  # or -1
ROW_COLUMNS: Final = 12

# The position of a walk over the blocks of a table.
WALK_BLOCK: Final = 0  # the next block; -1: the walk is over
WALK_COUNT: Final = 1  # the number of entries found
WALK_COLUMNS: Final = 2

NO_PRECONDITION: Final = 0
EXPECTED_OFFSET: Final = 1
EXPECTED_REVISION: Final = 2
MUST_NOT_EXIST: Final = 3


class Commit(NamedTuple):
    """The arguments that describe a commit to a kernel: `columns` has a row for each partition."""

    names: Bytes
    columns: Int64s
    group_start: int
    group_size: int
    request_id_start: int
    request_id_size: int


COMMIT: Final = "uint8[::1], int64[:, ::1], int64, int64, int64, int64"
"""The types of a commit's fields, for signatures."""

# The outcome of a commit for which no batch is written.
TOO_LARGE: Final = -1
DUPLICATE: Final = -2
CONFLICTING: Final = -3
NOT_MONOTONIC: Final = -4
UNREADABLE: Final = -5  # the stored offset cannot be read, so no precondition can be judged
UNCHANGED: Final = -6  # the same was stored a short time ago: nothing is written

# Details of the outcome: `verdict`.
VERDICT_LAST_OFFSET: Final = 0  # that of the first commit, or for UNCHANGED the newest revision
VERDICT_CONFLICTS: Final = 1  # the number of partitions that conflict; the first ones are listed
VERDICT_ROW: Final = 2  # for UNREADABLE: the row in the commit
VERDICT_COLUMNS: Final = 3

# A stored offset that a commit conflicts with; offset and revision are -1 if there is none.
CONFLICT_ROW: Final = 0  # the row in the commit
CONFLICT_OFFSET: Final = 1
CONFLICT_REVISION: Final = 2
CONFLICT_COLUMNS: Final = 3
CONFLICTS_MAX: Final = 100

# A stored offset as it is read; its spans are in the table's `name_bytes` and `metadata`.
READ_TOPIC_START: Final = 0
READ_TOPIC_END: Final = 1
READ_PARTITION: Final = 2
READ_OFFSET: Final = 3
READ_LEADER_EPOCH: Final = 4
READ_METADATA_START: Final = 5  # start and end are UNDECODABLE if only key and revision are known
READ_METADATA_END: Final = 6
READ_COMMIT_TIMESTAMP: Final = 7
READ_EXPIRE_TIMESTAMP: Final = 8
READ_REVISION: Final = 9
READ_END_OFFSET: Final = 10
READ_COLUMNS: Final = 11

# The times of an expiry.
NEVER: Final = (1 << 63) - 1  # a time that never comes, or a retention without end
NO_TIME: Final = -1  # the time is not set
TIME_MAX: Final = 1 << 62  # later times never come; the sum of two earlier ones fits in 64 bits

# The time from which retention is counted.
BASE_LATEST: Final = 0  # the commit time or the time the group became empty: the later one
BASE_REPLACED: Final = 1  # the time the group became empty; if unknown, the commit time

# The rule by which the offsets of a group expire, a single row.
RULE_RETENTION: Final = 0
RULE_EMPTY: Final = 1  # the time the group became empty, or NO_TIME
RULE_BASE: Final = 2
RULE_WARNING: Final = 3  # an offset expires soon if it expires within this time
RULE_COLUMNS: Final = 4

# The result for the offsets of a group, a single row.
JUDGED_DUE: Final = 0  # the number of expired offsets
JUDGED_WARNED: Final = 1  # the number of offsets that expire soon
JUDGED_FIRST: Final = 2  # the time at which the next offset expires, or NEVER
JUDGED_COLUMNS: Final = 3

# A sample of lag as it is judged.
SAMPLE_OFFSET: Final = 0
SAMPLE_TIME_MS: Final = 1
SAMPLE_LAG: Final = 2
SAMPLE_COLUMNS: Final = 3

# The lag of an offset, a row for each.
LAG_ROW_VERDICT: Final = 0  # a verdict below
LAG_ROW_OFFSET: Final = 1
LAG_ROW_END: Final = 2  # -1: not known; then the lag is -1, too
LAG_ROW_LAG: Final = 3
LAG_ROW_COLUMNS: Final = 4

# Verdicts, with the numbers of Burrow and of `offsetd.v1.LagVerdict`. ERR is for groups only.
LAG_UNJUDGED: Final = 0
LAG_OK: Final = 1
LAG_WARN: Final = 2
LAG_ERR: Final = 3
LAG_STOP: Final = 4
LAG_STALL: Final = 5
LAG_REWIND: Final = 6
LAG_VERDICTS: Final = 7
