"""The groups that a fetch asks for, read from a request's bytes by a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from offsetd_storage.kernels import padded_copy

from offsetd_coordinator.kernels.fetch_request import (
    GROUP_COLUMNS,
    PARTITION_COLUMNS,
    READ_COLUMNS,
    read_fetch,
)
from offsetd_coordinator.offset_table import fresh_hash_seeds

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from offsetd_coordinator.kernels.columns import Bytes, Int64s

GROUPS_MAX: Final = 512
PARTITIONS_MAX: Final = 4096
"""A request for more is not plain: what takes so long is not read in one go."""


class GroupSelection(NamedTuple):
    """All offsets of a group, or those of `partitions`, which names no partition twice.

    `names` is a writable, padded buffer that holds the group id from `group_start`; a row of
    `partitions` has the start and the size of a topic in it, and a number. `require_stable`: not
    while a transaction is open on what is asked for.
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
        """The plain way to make one, from Python values."""
        names = bytearray(group_id)
        if partitions is None:
            return cls(group_id, padded_copy(names), 0, None, require_stable)
        rows = []
        for topic, partition in partitions:
            rows.append((len(names), len(topic), partition))
            names += topic
        columns = np.array(rows, np.int64).reshape(len(rows), PARTITION_COLUMNS)
        return cls(group_id, padded_copy(names), 0, columns, require_stable)

    def has_any_of(self, partitions: AbstractSet[tuple[bytes, int]]) -> bool:
        """Whether it asks for any of these partitions of the group."""
        if self.partitions is None or not partitions:
            return bool(partitions)
        names = self.names.tobytes()
        return any(
            (names[start : start + size], partition) in partitions
            for start, size, partition in self.partitions.tolist()
        )


class SelectionReader:
    """Reads `FetchOffsetsRequest`; for one thread."""

    def __init__(self) -> None:
        # Who knew the seeds could make all partitions of a request collide.
        self._seeds = fresh_hash_seeds()[:2]
        self._groups = np.empty((GROUPS_MAX, GROUP_COLUMNS), np.int64)
        self._partitions = np.empty((PARTITIONS_MAX, PARTITION_COLUMNS), np.int64)
        self._slots = np.empty(2 * PARTITIONS_MAX, np.int64)
        self._read = np.empty(READ_COLUMNS, np.int64)

    def read(self, message: bytes) -> list[GroupSelection] | None:
        """The groups that a request asks for, none twice, or None if it is not plain."""
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
