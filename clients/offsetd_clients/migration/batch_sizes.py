"""The size of the record batch in which a group is stored."""

from typing import Final

from offsetd_clients.migration.values import PlannedGroup

MESSAGE_BYTES_DEFAULT: Final = 1_048_588
"""The largest batch of a server whose `max.message.bytes` is not set."""

_HEADER_BYTES: Final = 61
# The bytes of an offset's record without its texts, with the largest lengths and versions.
_RECORD_BYTES: Final = 66


def batch_bytes_most(group: PlannedGroup) -> int:
    """An upper bound of the size in bytes of a batch with all offsets of the group."""
    group_bytes = len(group.group_id.encode())
    texts = sum(len(each.topic.encode()) + len(each.metadata.encode()) for each in group.offsets)
    return _HEADER_BYTES + texts + len(group.offsets) * (_RECORD_BYTES + group_bytes)
