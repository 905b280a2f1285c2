"""What a consumer reads: items of the partitions of a source, which the user brings."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from offsetd_clients.change_values import Bounds
from offsetd_clients.consumer.errors import SourceBroken
from offsetd_clients.values import CommittedOffset, TopicPartition

Value_co = TypeVar("Value_co", covariant=True)


class Item(NamedTuple, Generic[Value_co]):
    """What a source has at `offset` of a partition; behind it, reading goes on at `offset_next`.

    Offsets are whole numbers from 0 that grow along a partition: of lines, bytes, versions. There
    may be gaps between items. `leader_epoch` is for sources that have such; it is committed, too.
    """

    topic_partition: TopicPartition
    offset: int
    offset_next: int
    value: Value_co
    leader_epoch: int | None = None


class Source(Protocol[Value_co]):
    """What is consumed: to be derived from. `partition_counts` and `read` are needed, no more.

    The consumer asks from the thread that iterates over it, and no other. Whatever these raise goes
    to whoever asked the consumer for items; asked again, it goes on.
    """

    def partition_counts(self) -> Mapping[str, int]:
        """The topics there are now, and how many partitions each has, numbered from 0."""

    def read(
        self, topic_partition: TopicPartition, offset: int, items_max: int
    ) -> Iterable[Item[Value_co]]:
        """Items of a partition in order, from `offset` on; none if there are none now.

        It does not wait for more. Where what was at `offset` is gone, the next there is follows.
        """

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        """Where a partition begins, and ends now, as far as it is known: here, it is not.

        The beginning is for `start="earliest"` (unknown: 0), the end for `"latest"` and for lag.
        """
        del topic_partition
        return Bounds()

    def assign(
        self, committed: Mapping[TopicPartition, CommittedOffset | None]
    ) -> Mapping[TopicPartition, int]:
        """These partitions and no others are read from now on, until this is called again.

        With what is committed of each. Returns where those begin that are not to begin there: here,
        none.
        """
        del committed
        return {}


class AsyncSource(Protocol[Value_co]):
    """As `Source`; each of these may be a coroutine function, and need not."""

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
"""Where a partition is begun of which no offset is committed; "error" raises `StartUnknown`.

A function is asked for the offset.
"""


def checked(
    items: Iterable[Item[Value_co]], topic_partition: TopicPartition, offset: int
) -> list[Item[Value_co]]:
    """Items as they were read of a partition. Raises SourceBroken unless they go on in order."""
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
    """The partitions of topics, those with none left out. Raises SourceBroken for what is none."""
    for topic, count in counts.items():
        if not topic or count < 0:
            raise SourceBroken(f"topic {topic!r} with {count} partitions")
    return {topic: count for topic, count in sorted(counts.items()) if count}
