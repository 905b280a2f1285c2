"""The log as the coordinator needs it: appends, tickets, durability, failure.

A ticket is the number of an append, so it belongs to one partition. Every answer of the runtime has
one: the newest append that its partition had when the answer was made. The answer may leave once
that append is durable. If the partition is lost before that, its tickets end with a refusal. The
tickets of other partitions are not affected.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from offsetd_storage.errors import StorageFailed

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from offsetd_storage.duration_histogram import Durations
    from offsetd_storage.errors import StorageFull
    from offsetd_storage.recovery.quarantine import Damage
    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.errors import CoordinatorError, StorageUnavailable
    from offsetd_coordinator.kernels.columns import Bytes, Int64s


class NodeFenced(StorageFailed):
    """Another process has taken this node's place in its cluster, or the cluster has changed."""


class OutcomeUnknown(StorageFailed):
    """The brokers did not say for a long time whether a transaction was committed."""


class PartitionState(enum.Enum):
    """The state of one partition of the offsets topic on one node."""

    LOADING = "loading"
    """This node owns it, and has not read all of its log yet."""
    SERVING = "serving"
    RELEASED = "released"
    """This node does not own it, or has given it up."""
    FAILED = "failed"
    """Its log is damaged: an operator has to repair it."""


class LoggedRuns(NamedTuple):
    """The number of batches of each run that are in the log now, and each run's ticket.

    If no batch of a run is in the log, the run has no ticket: ignore its number.
    """

    batch_counts: list[int]
    tickets: list[int]


class PartitionReader(Protocol):
    """A reader of one partition's log. For any thread."""

    @property
    def segments(self) -> Sequence[object]:
        """A list that differs after records that were read have been compacted or deleted."""

    @property
    def gapless_from(self) -> int:
        """No record at this offset or a later one was compacted away or deleted."""

    @property
    def superseders_end(self) -> int:
        """For each record that was compacted away, a later one of its key is below this offset."""

    @property
    def offset_next(self) -> int:
        """The offset of the next append."""

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the next append."""

    @property
    def size_bytes(self) -> int:
        """The size of the log in bytes."""

    def read_chunks(
        self, chunk_bytes: int, *, offset: int = 0, offset_limit: int | None = None
    ) -> Iterator[tuple[Bytes, int]]:
        """Yields (buffer, end): `buffer[:end]` holds whole batches; the first contains `offset`.

        It yields only batches that end at or below `offset_limit`; without a limit it yields all. A
        chunk has about `chunk_bytes`, or more if one batch is larger. The buffer is padded for the
        kernels, and the next chunk reuses it. Raises CorruptBatch, OSError, StorageFailed.
        """

    def offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        """The first record with this timestamp or a later one, or None."""


class CommitLog(Protocol):
    """The partitions of the offsets topic, and the internal logs. For the event loop's thread.

    After the whole log has failed, every call raises or returns StorageUnavailable, and `failed` is
    the cause.
    """

    on_durable: Callable[[], None] | None
    """Called when more appends became durable, or the log failed. None if nothing watches."""
    on_full: Callable[[StorageFull], object]
    """Called when an append finds no room on a local disk."""

    @property
    def partitions(self) -> int:
        """The number of partitions of the offsets topic, on all nodes."""

    @property
    def tickets(self) -> Mapping[int, int]:
        """The newest ticket of each partition; 0 before the first append. It changes in place."""

    @property
    def failed(self) -> StorageFailed | None:
        """The error after which no partition becomes durable any more; None without one."""

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether another program wrote this log before offsetd took it over."""

    def start(self) -> None:
        """Starts to make appends durable."""

    def close(self) -> None:
        """Makes all appends durable and closes the log; blocks. For any thread.

        Raises StorageFailed if that fails.
        """

    def append(
        self,
        partition: int,
        batch: bytes,
        *,
        last_offset: int,
        max_timestamp_ms: int,
        is_beside: bool = False,
    ) -> int:
        """Puts a record batch at the end of a partition; returns its ticket.

        The batch has its offsets already: its first offset is the partition's next one. `is_beside`
        means that it is not a caller's commit, so the flush does not expect more of them. Raises
        LogPartitionQuarantined, DiskFull, InvalidCommitSize, CoordinatorNotAvailable (nothing has
        changed) and StorageUnavailable.
        """

    def append_runs(self, partitions: list[int], content: Bytes, spans: Int64s) -> LoggedRuns:
        """Appends runs of commits: several batches to each of several partitions.

        `spans` has a row for each partition: the start and the end of its batches in `content`.
        Each batch is one commit. If a run does not fit, only its first batches are in the log, or
        none. The caller appends the others one by one, and that call refuses them.
        """

    def append_internal(
        self, topic_partition: TopicPartition, batch: bytes, *, replay: Callable[[bytes], None]
    ) -> int:
        """Appends a batch to an internal log (settings, audit), replays it, and returns the ticket.

        Raises the errors of `append`.
        """

    def state(self, partition: int) -> PartitionState:
        """The state of a partition now."""

    @property
    def serves_all(self) -> bool:
        """True only if every partition is SERVING. It may be False although all are."""

    def reader(self, partition: int) -> PartitionReader:
        """A partition's log. Raises PartitionQuarantined."""

    def durable_end(self, partition: int) -> int:
        """The end of the durable part of a partition (exclusive). For any thread."""

    def damage(self, topic_partition: TopicPartition) -> Damage | None:
        """The damage of a log, or None."""

    def durable(self, ticket: int) -> asyncio.Future[None] | None:
        """Returns None if the ticket is durable, else a future that ends when it is.

        The future raises StorageUnavailable if the log fails, and the error of `lost` if the
        append's partition is lost before that.
        """

    def lost(self, tickets: Iterable[int], /) -> CoordinatorError | None:
        """The refusal of answers that rest on these appends, if one was lost with its partition.

        NotCoordinator means that the change did not happen, or that only another node knows its
        outcome. LogPartitionQuarantined means that the partition's log is damaged.
        """

    @property
    def losses(self) -> int:
        """The number of times that `lost` got something to tell. For streams: it is cheaper."""

    def is_durable(self, ticket: int) -> bool:
        """Whether an answer with this ticket may leave."""

    def fail(self, error: BaseException) -> None:
        """Stops the log: nothing becomes durable any more, as memory may differ from the log."""

    def fail_soon(self, error: BaseException) -> None:
        """Calls `fail` in the event loop's next turn. For any thread."""

    def unavailable(self) -> StorageUnavailable:
        """The error that every call gets once the log has `failed`."""

    @property
    def batches_not_durable(self) -> int:
        """The number of appended batches that wait for their flush. For any thread."""

    @property
    def flush_durations(self) -> Durations:
        """The durations of flushes."""


async def until_durable(log: CommitLog, ticket: int) -> None:
    """Returns once the ticket is durable. Raises the errors of `CommitLog.durable`."""
    waiting = log.durable(ticket)
    if waiting is not None:
        await waiting


async def until_all_durable(log: CommitLog, tickets: Collection[int]) -> None:
    """Returns once all tickets are durable. Raises the errors of `CommitLog.durable`."""
    await until_durable(log, max(tickets, default=0))
    lost = log.lost(tickets)
    if lost is not None:
        raise lost
