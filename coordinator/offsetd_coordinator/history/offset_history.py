"""A group's offsets at an earlier time, if the log still has them; for the event loop.

A few threads read the log's files, up to the durable end. They leave a core to the event loop.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from offsetd_storage.errors import CorruptBatch, StorageFailed

from offsetd_coordinator.errors import (
    CoordinatorNotAvailable,
    RecordUndecodable,
)
from offsetd_coordinator.history.history_errors import HistoryCompacted
from offsetd_coordinator.history.history_rows import rows_before
from offsetd_coordinator.history.offset_events import compacted, end_of, end_of_batch, time_at
from offsetd_coordinator.rfc3339 import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.committed_offsets import OffsetRows
    from offsetd_coordinator.runtime.commit_log import PartitionReader
    from offsetd_coordinator.runtime.runtime import Runtime

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

_READERS_MAX: Final = 4
_readers: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]] = (
    WeakKeyDictionary()
)


async def state_at(
    runtime: Runtime, group_id: bytes, *, time_ms: int = -1, revision: int = -1
) -> tuple[int, OffsetRows]:
    """A group's offsets at `time_ms`, or after the batch with the log offset `revision`.

    Returns the log offset up to which the log was read, and the offsets, sorted. Raises
    HistoryCompacted if the log no longer has them, RecordUndecodable.
    """
    log, end = durable_log(runtime, runtime.partition_of(group_id))

    def read() -> tuple[int, OffsetRows]:
        try:
            limit = end_of(log, time_ms, end) if time_ms >= 0 else end_of_batch(log, revision, end)
            then = rows_before(log, limit, end, group_id)
        except HistoryCompacted as error:
            raise with_time(error, log, end) from error
        unreadable = np.flatnonzero(~then.are_decodable)
        if unreadable.size:
            topic, partition = then.partition(int(unreadable[0]))
            raise RecordUndecodable(
                "the offset that group {group!r} had in {topic}:{partition} cannot be read",
                group=group_id,
                topic=topic,
                partition=partition,
            )
        return limit, then

    return await reading(read)


def _reader_count() -> int:
    """The number of threads that read at one time. With more, commits would wait for a core."""
    return max(1, min(_READERS_MAX, len(os.sched_getaffinity(0)) - 1))


def with_time(error: HistoryCompacted, log: PartitionReader, end: int) -> HistoryCompacted:
    """Adds to the error the oldest time that can be reached.

    Raises CorruptBatch, OSError.
    """
    time_ms = time_at(log, error.oldest_revision, end)
    return compacted(error.oldest_revision, None if time_ms is None else rfc3339(time_ms))


def durable_log(runtime: Runtime, partition: int) -> tuple[PartitionReader, int]:
    """The log of a partition, and its durable end.

    Raises LogPartitionQuarantined, NotCoordinator, CoordinatorLoadInProgress, StorageUnavailable.
    """
    if runtime.failed is not None:
        raise runtime.log.unavailable()
    if not runtime.serves(partition):
        raise runtime.refusal(partition)
    return runtime.log.reader(partition), runtime.log.durable_end(partition)


async def reading(
    read: Callable[Arguments, Answer], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Answer:
    """Calls `read` on a thread, once one is free. Raises its errors, except disk errors.

    Disk errors become CoordinatorNotAvailable and RecordUndecodable.
    """
    readers = _readers.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_reader_count()))
    async with readers:
        try:
            return await asyncio.to_thread(read, *arguments, **named)
        except (OSError, StorageFailed) as error:
            raise CoordinatorNotAvailable(
                "the log could not be read: {cause}", cause=error
            ) from error
        except CorruptBatch as error:
            raise RecordUndecodable("the log cannot be read: {cause}", cause=error) from error
