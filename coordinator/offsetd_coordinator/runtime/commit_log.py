"""What the coordinator needs of a log: appends, tickets, durability, failure.

A ticket is the number of an append, so it belongs to one partition. Every answer of the runtime has
one: the newest append that its partition had when the answer was made. The answer may leave once
that append is durable. If the partition is lost before that, its tickets end with a refusal, and
those of other partitions go on.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from offsetd_storage.duration_histogram import Durations
    from offsetd_storage.errors import StorageFailed, StorageFull
    from offsetd_storage.recovery.quarantine import Damage
    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.errors import CoordinatorError, StorageUnavailable
    from offsetd_coordinator.kernels.columns import Bytes, Int64s


class PartitionState(enum.Enum):
    """What one node may do with one partition of the offsets topic."""

    LOADING = "loading"
    """This node owns it, and does not know all of its log yet."""
    SERVING = "serving"
    RELEASED = "released"
    """This node does not own it, or owns it no longer."""
    FAILED = "failed"
    """Its log is damaged: an operator has to repair it."""


class LoggedRuns(NamedTuple):
    """How many batches of each run are in the log now, and each run's ticket.

    If no batch of a run is in the log, the run has no ticket: ignore its number.
    """

    batch_counts: list[int]
    tickets: list[int]


class PartitionReader(Protocol):
    """One partition's log, to read. For any thread."""

    @property
    def segments(self) -> Sequence[object]:
        """Differs after what was read has been compacted or deleted."""

    @property
    def gapless_from(self) -> int:
        """From this offset on no record was compacted away or deleted."""

    @property
    def superseders_end(self) -> int:
        """Each record that was compacted away has a later one of its key below this offset."""

    @property
    def offset_next(self) -> int:
        """The offset of the next append."""

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the next append."""

    @property
    def size_bytes(self) -> int:
        """What there is to read."""

    def read_chunks(
        self, chunk_bytes: int, *, offset: int = 0, offset_limit: int | None = None
    ) -> Iterator[tuple[Bytes, int]]:
        """Yields (buffer, end): `buffer[:end]` holds whole batches, from the one with `offset` on.

        Only batches that end at or below `offset_limit`, else all that were appended. Chunks have
        about `chunk_bytes`, more where one batch does. The buffer is padded for the kernels, and
        used again for the next chunk. Raises CorruptBatch, OSError, StorageFailed.
        """

    def offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        """The first record with this timestamp or a later one; None: there is none."""


class CommitLog(Protocol):
    """The partitions of the offsets topic, and the logs beside them. For the event loop's thread.

    After the whole log has failed, every call raises or gets StorageUnavailable, and `failed` says
    why.
    """

    on_durable: Callable[[], None] | None
    """Called when more has become durable, or the log has failed; None: there is no watcher."""
    on_full: Callable[[StorageFull], object]
    """Called when an append finds no room on a local disk."""

    @property
    def partitions(self) -> int:
        """How many partitions the offsets topic has, on all nodes."""

    @property
    def tickets(self) -> Mapping[int, int]:
        """The newest ticket of each partition; 0: nothing was appended. It changes in place."""

    @property
    def failed(self) -> StorageFailed | None:
        """Why nothing becomes durable any more, in any partition; None: it may."""

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether another program wrote this log before offsetd took it over."""

    def start(self) -> None:
        """From now on appends become durable."""

    def close(self) -> None:
        """Makes all appends durable and closes the log; blocks. For any thread.

        Raises StorageFailed if it could not.
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

        The batch has its offsets already: it begins where the partition ends. `is_beside`: it is no
        caller's commit, so no flush is expected to wait for more of its kind. Raises
        LogPartitionQuarantined, DiskFull, InvalidCommitSize, CoordinatorNotAvailable (nothing has
        changed) and StorageUnavailable.
        """

    def append_runs(self, partitions: list[int], content: Bytes, spans: Int64s) -> LoggedRuns:
        """The same for runs of commits: several batches of each of several partitions.

        `spans` has a row for each partition: from where in `content` to where its batches lie, one
        after the other. Each batch is one commit. If a run does not fit, only its first batches are
        in the log, or none. The caller appends the others one by one, and that call refuses them.
        """

    def append_internal(
        self, topic_partition: TopicPartition, batch: bytes, *, replay: Callable[[bytes], None]
    ) -> int:
        """Appends a batch to an internal log (settings, audit), has it replayed; the ticket.

        Raises as `append` does.
        """

    def state(self, partition: int) -> PartitionState:
        """What may be done with a partition now."""

    @property
    def serves_all(self) -> bool:
        """Whether every partition is SERVING. May be False when they are."""

    def reader(self, partition: int) -> PartitionReader:
        """A partition's log. Raises PartitionQuarantined."""

    def durable_end(self, partition: int) -> int:
        """Below this offset a partition is durable. For any thread."""

    def damage(self, topic_partition: TopicPartition) -> Damage | None:
        """What is wrong with a log, if anything is."""

    def durable(self, ticket: int) -> asyncio.Future[None] | None:
        """None if the ticket is durable, else a future that ends when it is.

        The future raises StorageUnavailable if the log fails, and what `lost` says if the append's
        partition is lost before.
        """

    def lost(self, tickets: Iterable[int], /) -> CoordinatorError | None:
        """The refusal of answers that rest on these appends, if one was lost with its partition.

        NotCoordinator: nothing of it happened, or another node knows. LogPartitionQuarantined: its
        log is damaged.
        """

    def is_durable(self, ticket: int) -> bool:
        """Whether an answer with this ticket may leave."""

    def fail(self, error: BaseException) -> None:
        """From now on nothing becomes durable: what is in memory may not equal the log."""

    def fail_soon(self, error: BaseException) -> None:
        """The same from any thread, in the loop's next turn."""

    def unavailable(self) -> StorageUnavailable:
        """What every call gets once the log has `failed`."""

    @property
    def batches_not_durable(self) -> int:
        """Batches that were appended and wait for their flush. For any thread."""

    @property
    def flush_durations(self) -> Durations:
        """How long flushes took."""
