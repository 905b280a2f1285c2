"""Changes of offsets, read from a log partition's files. Not for the event loop's thread.

Cleaning removes records while they are read. So every reader checks afterwards whether it saw all
records (`PartitionReader.gapless_from`), and reports it if not. Callers pass the log's durable end,
so that only durable records are read.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from offsetd_storage.batch.record_batch import batch_header, decode_batch
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels import padded_copy
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, decode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord

from offsetd_coordinator.committed_offsets import OffsetRow, OffsetRows
from offsetd_coordinator.cooperative_scheduling import REST_SECONDS
from offsetd_coordinator.history.history_errors import HistoryCompacted
from offsetd_coordinator.kernels.records import change_records as columns
from offsetd_coordinator.kernels.records.change_records import (
    CHANGE_COLUMNS,
    COMMITTED,
    CURSOR_SLOTS,
    DELETED,
    OTHER_BATCH,
    OTHER_KEY,
    UNREADABLE,
    read_changes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from offsetd_coordinator.kernels.columns import Bytes
    from offsetd_coordinator.runtime.commit_log import PartitionReader

CHUNK_BYTES: Final = 1 << 18
_ROWS: Final = 256
# A thread that runs Python code rarely releases the interpreter's lock. So a reading thread sleeps
# after each `_ROWS` rows, for half as long as the event loop pauses between two turns.
_REST_SECONDS: Final = REST_SECONDS / 2
TRIES_MAX: Final = 8

Partition = tuple[bytes, int]


class Change(NamedTuple):
    """One record about an offset. `kind` is COMMITTED, DELETED or UNREADABLE.

    The fields after the kind are set only if it is COMMITTED; -1 means none.
    """

    log_offset: int
    time_ms: int
    group_id: bytes
    topic: bytes
    partition: int
    kind: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: bytes = b""
    commit_time_ms: int = -1
    expire_time_ms: int = -1


def changes(
    log: PartitionReader,
    start: int,
    end: int,
    group_id: bytes | None = None,
    *,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Change]:
    """Changes of one group or all groups, in order, from log offset `start` to a batch's `end`.

    Missing records are skipped. Raises CorruptBatch, OSError.
    """
    rows = np.empty((_ROWS, CHANGE_COLUMNS), np.int64)
    group = padded_copy(group_id or b"")
    group_size = -1 if group_id is None else len(group_id)
    for buffer, size in log.read_chunks(chunk_bytes, offset=start, offset_limit=end):
        cursor = np.zeros(CURSOR_SLOTS, np.int64)
        for change in _of_batches(buffer, size, group, group_size, cursor, rows):
            # The first batch may begin below `start`; a key of an old form may be another group's.
            if start <= change.log_offset and group_id in (None, change.group_id):
                yield change


class Stretch(NamedTuple):
    """The changes of a stretch of a log, and the offset after it."""

    changes: tuple[Change, ...]
    offset_next: int


def next_stretch(
    log: PartitionReader, start: int, end: int, group_id: bytes | None, *, chunk_bytes: int
) -> Stretch:
    """The changes in about `chunk_bytes` of the log, starting at `start`.

    Raises HistoryCompacted if one may be missing, CorruptBatch, OSError.
    """
    rows = np.empty((_ROWS, CHANGE_COLUMNS), np.int64)
    group = padded_copy(group_id or b"")
    group_size = -1 if group_id is None else len(group_id)
    found: list[Change] = []
    offset_next = end  # The result if there is nothing to read.
    for buffer, size in log.read_chunks(chunk_bytes, offset=start, offset_limit=end):
        cursor = np.zeros(CURSOR_SLOTS, np.int64)
        found += _of_batches(buffer, size, group, group_size, cursor, rows)
        offset_next = int(cursor[columns.OFFSET_NEXT])
        break
    oldest = log.gapless_from
    if start < oldest:
        raise compacted(oldest)
    wanted = (each for each in found if each.log_offset >= start)
    return Stretch(tuple(each for each in wanted if group_id in (None, each.group_id)), offset_next)


def _of_batches(
    buffer: Bytes,
    size: int,
    group: Bytes,
    group_size: int,
    cursor: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
) -> Iterator[Change]:
    while True:
        count = read_changes(buffer, size, group, group_size, cursor, rows)
        for row in rows[:count].tolist():
            yield from changes_of_row(buffer, row)
        if count < len(rows):
            return
        time.sleep(_REST_SECONDS)


def rows_of_changes(found: Iterable[Change]) -> OffsetRows:
    """A row for each change, in their order."""
    return OffsetRows.of(
        OffsetRow(
            each.topic,
            each.partition,
            each.offset,
            each.leader_epoch,
            each.metadata,
            each.expire_time_ms,
            each.commit_time_ms,
            each.log_offset,
            is_decodable=each.kind != UNREADABLE,
            is_tombstone=each.kind == DELETED,
        )
        for each in found
    )


def changes_of_row(buffer: Bytes, row: list[int]) -> Iterator[Change]:
    """The changes in a row that the kernel wrote."""
    kind = row[columns.KIND]
    if kind <= UNREADABLE:
        yield _change(buffer, row)
    elif kind == OTHER_KEY:
        yield from _of_other_key(buffer, row)
    else:
        assert kind == OTHER_BATCH
        start, size = row[columns.GROUP_START], row[columns.GROUP_SIZE]
        yield from _of_compressed(buffer[start : start + size].tobytes())


def _change(buffer: Bytes, row: list[int]) -> Change:
    """The change in a row. The row has the columns of `kernels.columns`, in their order."""
    at, time, kind, group_at, group_size, topic_at, topic_size, partition = row[:8]
    group_id = buffer[group_at : group_at + group_size].tobytes()
    topic = buffer[topic_at : topic_at + topic_size].tobytes()
    if kind != COMMITTED:
        return Change(at, time, group_id, topic, partition, kind)
    offset, leader_epoch, metadata_at, metadata_size, committed_ms, expires_ms = row[8:]
    metadata = b""
    if metadata_size:
        metadata = buffer[metadata_at : metadata_at + metadata_size].tobytes()
    return Change(
        at,
        time,
        group_id,
        topic,
        partition,
        kind,
        offset,
        leader_epoch,
        metadata,
        committed_ms,
        expires_ms,
    )


def _of_other_key(buffer: Bytes, row: list[int]) -> Iterator[Change]:
    """Yields the change of a key in the form of brokers before Kafka 0.9; none for other keys."""
    key_at, key_size = row[columns.GROUP_START], row[columns.GROUP_SIZE]
    value_at, value_size = row[columns.TOPIC_START], row[columns.TOPIC_SIZE]
    yield from _of_record(
        row[columns.LOG_OFFSET],
        row[columns.TIME],
        buffer[key_at : key_at + key_size].tobytes(),
        None if value_size < 0 else buffer[value_at : value_at + value_size].tobytes(),
    )


def _of_record(offset: int, time_ms: int, key: bytes, value: bytes | None) -> Iterator[Change]:
    try:
        decoded = decode_key(key)
    except UndecodableRecord:
        return
    if not isinstance(decoded, OffsetKey):
        return
    known = Change(
        offset,
        time_ms,
        decoded.group.encode(),
        decoded.topic.encode(),
        decoded.partition,
        DELETED if value is None else UNREADABLE,
    )
    if value is not None:
        try:
            committed = OffsetCommitValue.decode(value)
        except UndecodableRecord:
            pass
        else:
            known = known._replace(
                kind=COMMITTED,
                offset=committed.offset,
                leader_epoch=committed.leader_epoch,
                metadata=committed.metadata.encode(),
                commit_time_ms=committed.commit_timestamp_ms,
                expire_time_ms=committed.expire_timestamp_ms,
            )
    yield known


def _of_compressed(raw: bytes) -> Iterator[Change]:
    """Changes of a compressed batch (only brokers write them); none if it cannot be read."""
    try:
        records = decode_batch(raw, check_crc=False).records
    except (CorruptBatch, ValueError):
        return
    for record in records:
        yield from _of_record(record.offset, record.timestamp_ms, record.key or b"", record.value)


def whole_changes(
    log: PartitionReader,
    start: int | None,
    end: int,
    group_id: bytes,
    take: Callable[[Iterator[Change]], list[Change]] = list,
) -> tuple[int, list[Change]]:
    """The offset from which the history is complete, and the group's changes that `take` selects.

    `take` gets an iterator over the changes from `start` to `end`, in order. If `start` is None, it
    begins at the oldest offset from which the history is complete.

    Raises HistoryCompacted, CorruptBatch, OSError.
    """
    for _ in range(TRIES_MAX):
        oldest = log.gapless_from
        first = oldest if start is None else start
        found = take(changes(log, first, end, group_id)) if first >= oldest else []
        oldest = log.gapless_from
        if first >= oldest:
            return oldest, found
        if start is not None:
            raise compacted(oldest)
    raise compacted(oldest)


def end_of(log: PartitionReader, time_ms: int, end: int) -> int:
    """The offset of the first record written after this time, or `end`.

    A clock may go back, so a later record may have an earlier time. Raises HistoryCompacted if
    the record may have been cleaned away.
    """
    found = log.offset_for_timestamp(time_ms + 1)
    if found is None or found >= end:
        return end
    oldest = log.gapless_from
    if 0 < oldest >= found:
        raise compacted(oldest)
    return found


def end_of_batch(log: PartitionReader, offset: int, end: int) -> int:
    """The end of the batch that contains `offset`: a batch is never visible in part.

    Raises CorruptBatch, OSError.
    """
    for buffer, _ in log.read_chunks(1, offset=offset, offset_limit=end):
        header = batch_header(buffer.data)
        return header.last_offset + 1 if header.base_offset <= offset else offset + 1
    return end


def time_at(log: PartitionReader, offset: int, end: int) -> int | None:
    """The time of the first batch that ends at or after `offset`; None if there is none.

    Raises CorruptBatch, OSError.
    """
    for buffer, _ in log.read_chunks(1, offset=offset, offset_limit=end):
        return batch_header(buffer.data).max_timestamp_ms
    return None


def compacted(oldest: int, oldest_time: str | None = None) -> HistoryCompacted:
    """The error for requests below offset `oldest` or before `oldest_time`."""
    return HistoryCompacted(
        "the requested part may be cleaned away", oldest_revision=oldest, oldest_time=oldest_time
    )
