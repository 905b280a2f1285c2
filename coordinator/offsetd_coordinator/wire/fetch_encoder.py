"""The answer to a fetch, encoded by kernels group by group."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import numpy as np

from offsetd_coordinator.errors import ResponseTooLarge, undecodable_offset
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.wire.fetch_fields import (
    FOUND_COLUMNS,
    FOUND_ENTRY,
    find_sorted,
    put_group,
    put_rows,
    rows_size,
)
from offsetd_coordinator.kernels.wire.fetch_request import PARTITION_COLUMNS
from offsetd_coordinator.wire.varints import encode_varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.committed_offsets import OffsetRows
    from offsetd_coordinator.expiry.expiry_rules import GroupRule
    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.state.offset_table import OffsetTable
    from offsetd_coordinator.wire.group_selections import GroupSelection

RESPONSE_BYTES_MAX: Final = 64 * 1024 * 1024

_ROWS_KEPT: Final = 2 * 4096
_BYTES_KEPT: Final = 128 * 1024
_NO_PARTITIONS: Final = np.empty((0, PARTITION_COLUMNS), np.int64)
_NONE_READ: Final = np.empty(0, np.uint8)
_PIECE_BYTES: Final = 256 * 1024  # More than the largest message.
_HEADER_BYTES_MAX: Final = 11
_GROUPS_FIELD: Final = b"\x0a"
_ID_FIELD: Final = b"\x0a"
_LOG_PARTITION_FIELD: Final = b"\x18"


class GroupEncoder:
    """Encodes groups as `FetchOffsetsResponse.groups`; for one thread.

    Its buffers are used again for the next group, unless the group is large.
    """

    def __init__(self) -> None:
        self._found = np.empty((_ROWS_KEPT, FOUND_COLUMNS), np.int64)
        self._out = np.empty(_BYTES_KEPT, np.uint8)

    def encode(
        self,
        offsets: OffsetTable,
        selection: GroupSelection,
        rule: GroupRule,
        *,
        log_partition: int,
        bytes_max: int,
    ) -> bytes | None:
        """The field `groups` for one selection, its offsets sorted by topic and partition.

        The offsets expire by `rule`. Returns None if the field is larger than `bytes_max`. Raises
        RecordUndecodable.
        """
        found, count = self._find(offsets, selection)
        is_read = _NONE_READ
        if rule.is_subscribed is not None:
            is_read = _are_read(offsets, found[:count, FOUND_ENTRY], rule.is_subscribed)
        out = self._out
        while True:
            size = put_group(
                offsets.arrays,
                selection.names,
                selection.group_start,
                len(selection.group_id),
                log_partition,
                not rule.holds_all,
                rule.retention_ms,
                rule.empty_ms,
                rule.base,
                is_read,
                found,
                count,
                out,
            )
            if size < 0:
                entry = found[-1 - size : -size, FOUND_ENTRY]
                raise undecodable_offset(selection.group_id, *offsets.partitions_of(entry)[0])
            if size > bytes_max:
                return None
            if size <= out.size:
                return out[:size].tobytes()
            out = np.empty(size, np.uint8)

    def _find(self, offsets: OffsetTable, selection: GroupSelection) -> tuple[Int64s, int]:
        """The rows of the selected offsets, sorted, and their number."""
        partitions = _NO_PARTITIONS if selection.partitions is None else selection.partitions
        found = self._found
        while True:
            count = find_sorted(
                offsets.arrays,
                selection.names,
                selection.group_start,
                len(selection.group_id),
                partitions,
                selection.partitions is None,
                found,
            )
            if 2 * count <= len(found):
                return found, count
            found = np.empty((2 * count, FOUND_COLUMNS), np.int64)


def _are_read(offsets: OffsetTable, rows: Int64s, is_subscribed: Callable[[str], bool]) -> Bytes:
    """1 for each row with a topic that a member is subscribed to, 0 for the other rows."""
    topics = [topic for topic, _ in offsets.partitions_of(rows)]
    read = {topic: is_subscribed(topic.decode()) for topic in set(topics)}
    return np.array([read[topic] for topic in topics], np.uint8)


class RowsEncoder:
    """Encodes rows of a group's offsets as messages; the offsets expire by `rule`."""

    def __init__(self, group_id: bytes, rows: OffsetRows, rule: GroupRule) -> None:
        self._group_id = group_id
        self._rows = rows
        is_read = _NONE_READ
        if rule.is_subscribed is not None:
            is_read = _rows_read(rows, rule.is_subscribed)
        self._rule = not rule.holds_all, rule.retention_ms, rule.empty_ms, rule.base, is_read

    def size(self) -> int:
        """The size of all messages in bytes. Raises RecordUndecodable."""
        size: int = rows_size(self._rows.rows, *self._rule)
        if size < 0:
            raise self._rows.refusal_of(self._group_id, -1 - size)
        return size

    def pieces(self) -> list[bytes]:
        """The messages as pieces of bytes, each small enough to be copied fast."""
        texts, rows = self._rows.texts, self._rows.rows
        pieces = []
        out, written = np.empty(_PIECE_BYTES, np.uint8), np.zeros(1, np.int64)
        while written[0] < len(rows):
            size = put_rows(texts, rows, written[0], *self._rule, out, written)
            pieces.append(out[:size].tobytes())
        return pieces


def _rows_read(rows: OffsetRows, is_subscribed: Callable[[str], bool]) -> Bytes:
    """1 for each row with a topic that a member is subscribed to, 0 for the other rows."""
    spans = rows.rows[:, columns.TOPIC_START]
    _, firsts, of_row = np.unique(spans, return_index=True, return_inverse=True)
    read = [is_subscribed(rows.topic(first).decode()) for first in firsts.tolist()]
    return np.array(read, np.uint8)[of_row]


class FetchAnswer:
    """A FetchOffsetsResponse to which groups are added one by one."""

    def __init__(self, encoder: GroupEncoder, *, bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        self.size = 0
        self._encoder = encoder
        self._bytes_max = bytes_max
        self._groups: list[bytes] = []

    def add(
        self,
        offsets: OffsetTable,
        selection: GroupSelection,
        rule: GroupRule,
        *,
        log_partition: int,
    ) -> None:
        """Adds a group whose offsets expire by `rule`.

        Raises RecordUndecodable, and ResponseTooLarge above `bytes_max`.
        """
        group = self._encoder.encode(
            offsets,
            selection,
            rule,
            log_partition=log_partition,
            bytes_max=self._bytes_max - self.size,
        )
        if group is None:
            raise self._too_large()
        self.size += len(group)
        self._groups.append(group)

    async def add_rows(
        self, group_id: bytes, rows: OffsetRows, rule: GroupRule, *, log_partition: int
    ) -> None:
        """Adds a group whose rows were read before. They are encoded outside the event loop.

        Raises the errors of `add`.
        """
        head = _ID_FIELD + encode_varint(len(group_id)) + group_id if group_id else b""
        end = _LOG_PARTITION_FIELD + encode_varint(log_partition) if log_partition else b""
        encoder = RowsEncoder(group_id, rows, rule)
        size = await asyncio.to_thread(encoder.size)
        content = len(head) + size + len(end)
        if self.size + content + _HEADER_BYTES_MAX > self._bytes_max:
            raise self._too_large()
        self._groups += [_GROUPS_FIELD + encode_varint(content), head]
        self._groups += await asyncio.to_thread(encoder.pieces)
        self._groups.append(end)
        self.size = sum(map(len, self._groups))

    def _too_large(self) -> ResponseTooLarge:
        return ResponseTooLarge(
            "the answer exceeds {bytes_max} bytes: request fewer groups or partitions at once",
            bytes_max=self._bytes_max,
        )

    def encoded(self) -> bytes:
        """The answer's bytes."""
        return b"".join(self._groups)
