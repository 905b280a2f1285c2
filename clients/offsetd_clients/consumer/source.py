"""The source of a consumer's items, which the user implements."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from offsetd_clients.change_values import Bounds
from offsetd_clients.consumer.errors import SourceBroken
from offsetd_clients.values import CommittedOffset, TopicPartition

Value_co = TypeVar("Value_co", covariant=True)


class Item(NamedTuple, Generic[Value_co]):
    """An item at `offset` of a partition. The next item is read at `offset_next`.

    Offsets are whole numbers, at least 0, that grow along a partition (lines, bytes, versions).
    There may be gaps between items. `leader_epoch` is for sources that have leader epochs; it is
    committed too.
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
        """The present topics, each with its number of partitions. The first partition is 0."""

    def read(
        self, topic_partition: TopicPartition, offset: int, items_max: int
    ) -> Iterable[Item[Value_co]]:
        """The items of a partition in order, starting at `offset`. Empty if there are none now.

        It must not wait for more items. If the item at `offset` is gone, the read starts with the
        next item that exists.
        """

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        """The first offset and the end of a partition now, as far as they are known.

        Default: unknown.

        The first offset is used for `start="earliest"` (0 if unknown). The end is used for
        `"latest"` and for lag.
        """
        del topic_partition
        return Bounds()

    def assign(
        self, committed: Mapping[TopicPartition, CommittedOffset | None]
    ) -> Mapping[TopicPartition, int]:
        """Sets the partitions that the consumer reads until the next call.

        `committed` has the committed offset of each. Returns a start for each partition that must
        not begin there. Default: none.
        """
        del committed
        return {}


class AsyncSource(Protocol[Value_co]):
    """A `Source` for asyncio. Each method may be a coroutine function, or a plain one."""

    def partition_counts(self) -> Mapping[str, int] | Awaitable[Mapping[str, int]]:
        """Does what `Source.partition_counts` does."""

    def read(
        self, topic_partition: TopicPartition, offset: int, items_max: int
    ) -> Iterable[Item[Value_co]] | Awaitable[Iterable[Item[Value_co]]]:
        """Does what `Source.read` does."""

    def bounds(self, topic_partition: TopicPartition) -> Bounds | Awaitable[Bounds]:
        """Does what `Source.bounds` does."""
        del topic_partition
        return Bounds()

    def assign(
        self, committed: Mapping[TopicPartition, CommittedOffset | None]
    ) -> Mapping[TopicPartition, int] | Awaitable[Mapping[TopicPartition, int]]:
        """Does what `Source.assign` does."""
        del committed
        return {}


Start: TypeAlias = Literal["earliest", "latest", "error"] | Callable[[TopicPartition], int]
"""The start of a partition without a committed offset. "error" raises `StartUnknown`.

If it is a function, its result is the offset.
"""


def checked(
    items: Iterable[Item[Value_co]], topic_partition: TopicPartition, offset: int
) -> list[Item[Value_co]]:
    """Returns the items of a source. Raises SourceBroken unless they continue in order."""
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
    """Returns the topics that have partitions. Raises SourceBroken for invalid counts."""
    for topic, count in counts.items():
        if not topic or count < 0:
            raise SourceBroken(f"topic {topic!r} with {count} partitions")
    return {topic: count for topic, count in sorted(counts.items()) if count}
