"""The groups of a fetch request. A kernel reads them from the request's bytes."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from offsetd_storage.kernels import padded_copy

from offsetd_coordinator.kernels.wire.fetch_request import (
    GROUP_COLUMNS,
    PARTITION_COLUMNS,
    READ_COLUMNS,
    read_fetch,
)
from offsetd_coordinator.state.offset_table import fresh_hash_seeds

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from offsetd_coordinator.kernels.columns import Bytes, Int64s

GROUPS_MAX: Final = 512
PARTITIONS_MAX: Final = 4096
"""Limits of a shared reader. A larger request gets a reader of its own, and is read on a thread."""

_NAMED_BYTES_MIN: Final = 5  # A topic of one character, partition 0.


class GroupSelection(NamedTuple):
    """All offsets of a group, or those of `partitions`, which are distinct.

    `names` is a writable, padded buffer with the group id at `group_start`. A row of `partitions`
    has the start and the size of a topic in that buffer, and the partition's number. With
    `require_stable`, the read is refused while a transaction has pending offsets for a selected
    partition.
    """

    group_id: bytes
    names: Bytes
    group_start: int
    partitions: Int64s | None
    require_stable: bool

    @classmethod
    def of(
        cls,
        group_id: bytes,
        partitions: Iterable[tuple[bytes, int]] | None = None,
        *,
        require_stable: bool = False,
    ) -> GroupSelection:
        """A selection made from Python values. `partitions` of None selects all offsets."""
        keys = PartitionKeys(group_id)
        for topic, partition in partitions or ():
            keys.add(topic, partition)
        return keys.selection(is_all=partitions is None, require_stable=require_stable)

    def has_any_of(self, partitions: AbstractSet[tuple[bytes, int]]) -> bool:
        """Whether the selection includes any of these partitions."""
        if self.partitions is None or not partitions:
            return bool(partitions)
        names = self.names.tobytes()
        return any(
            (names[start : start + size], partition) in partitions
            for start, size, partition in self.partitions.tolist()
        )


class PartitionKeys:
    """Packs partitions of a group one by one, as spans of a buffer of names.

    The group id comes first in the buffer. A topic's name is packed once if its partitions are
    added one after the other.
    """

    def __init__(self, group_id: bytes) -> None:
        self._group_id = group_id
        self._names = bytearray(group_id)
        self._keys = array("q")
        self._last: bytes | None = None
        self._last_at = 0

    def add(self, topic: bytes, partition: int) -> None:
        """Adds a partition."""
        if topic != self._last:
            self._last, self._last_at = topic, len(self._names)
            self._names += topic
        self._keys.extend((self._last_at, len(topic), partition))

    def packed(self) -> tuple[Bytes, Int64s]:
        """The padded buffer of names, and one row for each partition."""
        keys = np.array(self._keys, np.int64).reshape(-1, PARTITION_COLUMNS)
        return padded_copy(self._names), keys

    def selection(self, *, is_all: bool, require_stable: bool) -> GroupSelection:
        """A selection of these partitions; with `is_all`, of all partitions of the group."""
        names, keys = self.packed()
        return GroupSelection(self._group_id, names, 0, None if is_all else keys, require_stable)


class SelectionReader:
    """Reads `FetchOffsetsRequest`; for one thread at a time."""

    def __init__(self, partitions_max: int = PARTITIONS_MAX) -> None:
        # With known seeds, a client could make all partitions of a request collide.
        self._seeds = fresh_hash_seeds()[:2]
        self._groups = np.empty((GROUPS_MAX, GROUP_COLUMNS), np.int64)
        self._partitions = np.empty((partitions_max, PARTITION_COLUMNS), np.int64)
        self._slots = np.empty(2 * partitions_max, np.int64)
        self._read = np.empty(READ_COLUMNS, np.int64)

    @classmethod
    def for_size(cls, message_bytes: int) -> SelectionReader:
        """A reader with room for all partitions that a message of this size can name."""
        return cls(message_bytes // _NAMED_BYTES_MIN + 1)

    def read(self, message: bytes) -> list[GroupSelection] | None:
        """The selections of a request, one for each group; None if the request is not plain.

        `kernels.wire.fetch_request` defines plain requests. A request that names a group twice is
        not plain.
        """
        names = padded_copy(message)
        is_plain = read_fetch(
            names,
            len(message),
            *self._seeds,
            self._groups,
            self._partitions,
            self._slots,
            self._read,
        )
        if not is_plain:
            return None
        count, require_stable = self._read.tolist()
        selections = {}
        for start, size, first_row, rows in self._groups[:count].tolist():
            group_id = message[start : start + size]
            # A copy: the next request is read into the same rows.
            partitions = self._partitions[first_row : first_row + rows].copy() if rows else None
            selections[group_id] = GroupSelection(
                group_id, names, start, partitions, bool(require_stable)
            )
        if len(selections) < count:
            return None  # A group is named twice.
        return list(selections.values())
