"""What was committed at some time in the past, as far as the log has kept it; for the event loop.

The log's files are read by threads, a few at a time, up to what is durable.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from offsetd_storage.errors import CorruptBatch, StorageFailed
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.errors import (
    CoordinatorNotAvailable,
    LogPartitionQuarantined,
    RecordUndecodable,
)
from offsetd_coordinator.history import end_of, end_of_batch, offsets_before
from offsetd_coordinator.kernels.changes import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.partition_log import PartitionLog

    from offsetd_coordinator.history import Change
    from offsetd_coordinator.offset_changes import Partition
    from offsetd_coordinator.runtime import Runtime

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

_READERS_MAX: Final = 4
_readers: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]] = (
    WeakKeyDictionary()
)


async def offsets_at(runtime: Runtime, group_id: bytes, time_ms: int) -> dict[Partition, int]:
    """The offsets that a group had at `time_ms`, wall time.

    Raises HistoryCompacted where that is not known any more, RecordUndecodable.
    """
    _, then = await state_at(runtime, group_id, time_ms=time_ms)
    return {partition: change.offset for partition, change in then.items()}


async def state_at(
    runtime: Runtime, group_id: bytes, *, time_ms: int = -1, revision: int = -1
) -> tuple[int, dict[Partition, Change]]:
    """What a group had committed at a time, or else behind the batch of a log offset, sorted; and
    before which log offset that was.

    Raises HistoryCompacted where that is not known any more, RecordUndecodable.
    """
    log, end = durable_log(runtime, runtime.partition_of(group_id))

    def read() -> tuple[int, dict[Partition, Change]]:
        limit = end_of(log, time_ms, end) if time_ms >= 0 else end_of_batch(log, revision, end)
        then = offsets_before(log, limit, end, group_id)
        for (topic, partition), change in then.items():
            if change.kind == UNREADABLE:
                raise RecordUndecodable(
                    "the offset that group {group!r} had in {topic}:{partition} cannot be read",
                    group=group_id,
                    topic=topic,
                    partition=partition,
                )
        return limit, then

    return await reading(read)


def durable_log(runtime: Runtime, partition: int) -> tuple[PartitionLog, int]:
    """The log of a partition, and up to where it is durable.

    Raises LogPartitionQuarantined, StorageUnavailable.
    """
    if runtime.failed is not None:
        raise runtime.unavailable()
    if partition not in runtime.shards or runtime.damage(partition) is not None:
        raise LogPartitionQuarantined(
            "log partition {log_partition} is damaged: it needs an operator",
            log_partition=partition,
        )
    topic_partition = TopicPartition(OFFSETS_TOPIC, partition)
    return runtime.store.log(topic_partition), runtime.store.durable_end(topic_partition)


async def reading(
    read: Callable[Arguments, Answer], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Answer:
    """Calls `read` on a thread, once there is one. Raises what it does, but for the disk's errors.

    Those become CoordinatorNotAvailable and RecordUndecodable.
    """
    readers = _readers.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_READERS_MAX))
    async with readers:
        try:
            return await asyncio.to_thread(read, *arguments, **named)
        except (OSError, StorageFailed) as error:
            raise CoordinatorNotAvailable(
                "the log could not be read: {cause}", cause=error
            ) from error
        except CorruptBatch as error:
            raise RecordUndecodable("the log cannot be read: {cause}", cause=error) from error
