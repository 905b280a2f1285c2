"""The fields of a record: a row of int64s, with a column for each field.

Spans point into the buffer that has the record; a size of -1 is null. The column numbers are plain
integers, so that kernels can use them as constants.
"""

from __future__ import annotations

from typing import Final

LOG_OFFSET: Final = 0
TIMESTAMP: Final = 1  # ms; -1 if there is none
POSITION: Final = 2  # The position of its batch in the file, in bytes.
ATTRIBUTES: Final = 3  # The attributes of its batch.
PARTITION_LEADER_EPOCH: Final = 4
PRODUCER_ID: Final = 5  # -1 if there is none
PRODUCER_EPOCH: Final = 6
SEQUENCE: Final = 7  # -1 if there is none
DELETE_HORIZON: Final = 8  # ms; -1 if there is none
KEY_START: Final = 9
KEY_SIZE: Final = 10
VALUE_START: Final = 11
VALUE_SIZE: Final = 12
RECORD_TYPE: Final = 13  # -1 if there is no key, or if it is too short
KIND: Final = 14
GROUP_START: Final = 15  # The size is -1 if the key names no group.
GROUP_SIZE: Final = 16
TOPIC_START: Final = 17  # Only offsets have this field and the following ones.
TOPIC_SIZE: Final = 18
PARTITION: Final = 19
OFFSET: Final = 20  # Only values that can be decoded have this field and the following ones.
LEADER_EPOCH: Final = 21  # -1 if there is none
METADATA_START: Final = 22
METADATA_SIZE: Final = 23
COMMIT_TIMESTAMP: Final = 24  # ms
EXPIRE_TIMESTAMP: Final = 25  # ms; -1 if there is none
RECORD_BYTES: Final = 26  # The size of its encoding in the batch, before compression.
DISK_BYTES: Final = 27  # Its share of the batch's bytes in the file: see `records`.
FIELDS: Final = 28

# Kinds.
COMMITTED: Final = 0
DELETED: Final = 1  # A tombstone of an offset.
UNREADABLE: Final = 2  # An offset whose value cannot be decoded.
OTHER: Final = 3  # A record of another type.
BAD_KEY: Final = 4  # The key is missing, too short, or invalid for its type.
CONTROL: Final = 5  # The end of a transaction, or another control record.
