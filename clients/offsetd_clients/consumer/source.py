"""The source of a consumer's items, which the user implements."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from offsetd_clients.change_values import Bounds
from offsetd_clients.consumer.errors import SourceBroken
from offsetd_clients.values import CommittedOffset, TopicPartition

Value_co = TypeVar("Value_co", covariant=True)


class Item(NamedTuple, Generic[Value_co]):
    """An item at `offset` of a partition. Reading goes on after it at `offset_next`.

    Offsets are whole numbers from 0 that grow along a partition (lines, bytes, versions). There may
    be gaps between items. `leader_epoch` is for sources that have leader epochs; it is committed
    too.
    """

    topic_partition: TopicPartition
    offset: int
    offset_next: int
    value: Value_co
    leader_epoch: int | None = None


class Source(Protocol[Value_co]):
    """The source of items: derive a class from it.

    Only `partition_counts` and `read` are required.

    The consumer calls it only from the thread that iterates over the consumer. An error of these
    methods is raised when that thread asks for items. When it asks again, the consumer continues.
    """

    def partition_counts(self) -> Mapping[str, int]:
        """The present topics and their number of partitions. Partitions are numbered from 0."""

    def read(
        self, topic_partition: TopicPartition, offset: int, items_max: int
    ) -> Iterable[Item[Value_co]]:
        """The items of a partition in order, from `offset` on. Empty if there are none now.

        It must not wait for more items. If the item at `offset` is gone, the read starts with the
        next item that exists.
        """

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        """The first offset and the end of a partition now, as far as they are known.

        Default: unknown.

        The first offset is for `start="earliest"` (unknown: 0). The end is for `"latest"` and for
        lag.
        """
        del topic_partition
        return Bounds()

    def assign(
        self, committed: Mapping[TopicPartition, CommittedOffset | None]
    ) -> Mapping[TopicPartition, int]:
        """From now on only these partitions are read, until the next call.

        `committed` has the committed offset of each. Returns a start for each partition that must
        not begin there. Default: none.
        """
        del committed
        return {}


class AsyncSource(Protocol[Value_co]):
    """As `Source`; each method may be a coroutine function, but need not."""

    def partition_counts(self) -> Mapping[str, int] | Awaitable[Mapping[str, int]]:
        """As `Source.partition_counts`."""

    def read(
        self, topic_partition: TopicPartition, offset: int, items_max: int
    ) -> Iterable[Item[Value_co]] | Awaitable[Iterable[Item[Value_co]]]:
        """As `Source.read`."""

    def bounds(self, topic_partition: TopicPartition) -> Bounds | Awaitable[Bounds]:
        """As `Source.bounds`."""
        del topic_partition
        return Bounds()

    def assign(
        self, committed: Mapping[TopicPartition, CommittedOffset | None]
    ) -> Mapping[TopicPartition, int] | Awaitable[Mapping[TopicPartition, int]]:
        """As `Source.assign`."""
        del committed
        return {}


Start: TypeAlias = Literal["earliest", "latest", "error"] | Callable[[TopicPartition], int]
"""Where a partition begins if no offset is committed for it. "error" raises `StartUnknown`.

A function is called for the offset.
"""


def checked(
    items: Iterable[Item[Value_co]], topic_partition: TopicPartition, offset: int
) -> list[Item[Value_co]]:
    """The items that a source returned. Raises SourceBroken unless they continue in order."""
    found = list(items)
    for item in found:
        if item.topic_partition != topic_partition:
            raise SourceBroken(f"{item.topic_partition} was read where {topic_partition} was asked")
        if not offset <= item.offset < item.offset_next:
            raise SourceBroken(
                f"{topic_partition}: an item from {item.offset} to {item.offset_next},"
                f" where {offset} was next"
            )
        offset = item.offset_next
    return found


def checked_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """The topics that have partitions. Raises SourceBroken for invalid counts."""
    for topic, count in counts.items():
        if not topic or count < 0:
            raise SourceBroken(f"topic {topic!r} with {count} partitions")
    return {topic: count for topic, count in sorted(counts.items()) if count}
