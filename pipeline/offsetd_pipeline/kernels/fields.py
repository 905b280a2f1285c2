"""What is known of a record: a row of int64s, a column for each field.

Spans are of the buffer that the record lies in; a size of -1 is null. Plain numbers, so that
kernels can take them for constants.
"""

from __future__ import annotations

from typing import Final

LOG_OFFSET: Final = 0
TIMESTAMP: Final = 1  # ms; -1: none
POSITION: Final = 2  # of its batch in the file, bytes
ATTRIBUTES: Final = 3  # of its batch
PARTITION_LEADER_EPOCH: Final = 4
PRODUCER_ID: Final = 5  # -1: none
PRODUCER_EPOCH: Final = 6
SEQUENCE: Final = 7  # -1: none
DELETE_HORIZON: Final = 8  # ms; -1: none
KEY_START: Final = 9
KEY_SIZE: Final = 10
VALUE_START: Final = 11
VALUE_SIZE: Final = 12
RECORD_TYPE: Final = 13  # -1: there is no key, or none that long
KIND: Final = 14
GROUP_START: Final = 15  # The size is -1 unless a group is named.
GROUP_SIZE: Final = 16
TOPIC_START: Final = 17  # These and what follows: of offsets alone.
TOPIC_SIZE: Final = 18
PARTITION: Final = 19
OFFSET: Final = 20  # These and what follows: of values that decode.
LEADER_EPOCH: Final = 21  # -1: none
METADATA_START: Final = 22
METADATA_SIZE: Final = 23
COMMIT_TIMESTAMP: Final = 24  # ms
EXPIRE_TIMESTAMP: Final = 25  # ms; -1: none
RECORD_BYTES: Final = 26  # As encoded in its batch, before compression.
DISK_BYTES: Final = 27  # Its share of what its batch takes of the file: see `records`.
FIELDS: Final = 28

# Kinds.
COMMITTED: Final = 0
DELETED: Final = 1  # A tombstone of an offset.
UNREADABLE: Final = 2  # An offset whose value does not decode.
OTHER: Final = 3  # Of some other record type.
BAD_KEY: Final = 4  # None, too short, or not as its type wants it.
CONTROL: Final = 5  # The end of a transaction, or another word to the broker.
