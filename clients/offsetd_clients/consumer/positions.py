"""A consumer's progress in its partitions: the items handed out, processed and committed.

A position is the offset at which reading continues: the `offset_next` of the last item. It moves
when an item is acknowledged, not when it is handed out. So a committed offset never passes the
processed items.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from offsetd_clients.change_values import Bounds
from offsetd_clients.consumer.errors import NotAssigned
from offsetd_clients.consumer.source import Item
from offsetd_clients.values import CommittedOffset, OffsetToCommit, TopicPartition


class Position(NamedTuple):
    """The offset at which reading continues. `leader_epoch` is that of the item before it."""

    offset: int
    leader_epoch: int | None = None


class Positions:
    """The positions of the assigned partitions; none at first."""

    def __init__(self) -> None:
        self.processed: dict[TopicPartition, Position] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self._given: dict[TopicPartition, Position] = {}
        # The positions after an acknowledgement of all items that were handed out.
        self._going_on: dict[TopicPartition, int] = {}
        # Partitions whose processed position may differ from the committed one.
        self._moved: set[TopicPartition] = set()

    def assign(
        self,
        starts: Mapping[TopicPartition, int],
        committed: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        """Replaces the partitions by the given ones, each with its start.

        A start that differs from the committed offset is committed. Otherwise, if a consumer began
        at the end of a partition and processed nothing, its successor would begin at a later end.
        """
        self.clear()
        for topic_partition, start in starts.items():
            stored = committed.get(topic_partition)
            if stored is not None:
                self.committed[topic_partition] = stored.offset
            if stored is not None and stored.offset == start:
                self.processed[topic_partition] = Position(start, stored.leader_epoch)
            else:
                self.processed[topic_partition] = Position(start)
                self._moved.add(topic_partition)

    def clear(self) -> None:
        """Drops all partitions: other members have them now."""
        self.processed.clear()
        self.committed.clear()
        self.ends.clear()
        self._given.clear()
        self._going_on.clear()
        self._moved.clear()

    def give(self, item: Item[Any]) -> None:
        """Notes that an item is handed out."""
        self._given[item.topic_partition] = Position(item.offset_next, item.leader_epoch)

    def acknowledge_all(self) -> None:
        """Marks all items handed out as processed."""
        if self._given:
            self.processed.update(self._given)
            self._moved.update(self._given)
            self._given.clear()

    def acknowledge(self, item: Item[Any]) -> None:
        """Marks an item as processed, and those handed out before it. Raises NotAssigned."""
        topic_partition = item.topic_partition
        processed = self.of(topic_partition)
        given = self._given.get(topic_partition, processed)
        if given.offset < item.offset_next:
            raise NotAssigned(f"{topic_partition}: offset {item.offset} was not given out")
        if item.offset_next > processed.offset:
            self.processed[topic_partition] = Position(item.offset_next, item.leader_epoch)
            self._moved.add(topic_partition)
        if given.offset == item.offset_next:
            self._given.pop(topic_partition, None)
            goes_on = self._going_on.pop(topic_partition, 0)
            if goes_on > item.offset_next:
                self.processed[topic_partition] = Position(goes_on)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Continues a partition at `offset`. Raises NotAssigned."""
        self.of(topic_partition)
        self._given.pop(topic_partition, None)
        self._going_on.pop(topic_partition, None)
        self.processed[topic_partition] = Position(offset)
        self._moved.add(topic_partition)

    def go_on(self, topic_partition: TopicPartition, offset: int) -> None:
        """Continues at `offset`, because the source does not have the next item.

        Raises NotAssigned.

        Items that were handed out can still be acknowledged; only then does the position pass the
        gap. If `offset` is below their end, the source has another history: they can no longer be
        acknowledged.
        """
        processed = self.of(topic_partition)
        given = self._given.get(topic_partition)
        if given is None:
            self.seek(topic_partition, offset)
        elif given.offset <= offset:
            self._going_on[topic_partition] = offset
        else:
            self.seek(topic_partition, min(processed.offset, offset))

    def of(self, topic_partition: TopicPartition) -> Position:
        """The processed position of a partition. Raises NotAssigned."""
        try:
            return self.processed[topic_partition]
        except KeyError:
            raise NotAssigned(f"{topic_partition} is not assigned to this consumer") from None

    def reading(self) -> set[TopicPartition]:
        """The partitions that had items handed out since their last commit."""
        return self._moved.union(self._given)

    def note_end(self, topic_partition: TopicPartition, bounds: Bounds) -> None:
        """Notes the end of a partition. Ignores a partition that was given up since."""
        if bounds.latest is not None and topic_partition in self.processed:
            self.ends[topic_partition] = bounds.latest

    def lag(self) -> dict[TopicPartition, int]:
        """The number of offsets left to process, for partitions whose end is known."""
        return {
            each: max(end - self.processed[each].offset, 0)
            for each, end in sorted(self.ends.items())
        }

    def to_commit(self) -> dict[TopicPartition, OffsetToCommit]:
        """The processed positions that are not committed yet. Unchanged positions are left out."""
        return {
            each: self.offset_to_commit(each, self.processed[each])
            for each in sorted(self._moved)
            if self.committed.get(each) != self.processed[each].offset
        }

    def offset_to_commit(
        self, topic_partition: TopicPartition, position: Position
    ) -> OffsetToCommit:
        """A position, with the end of its partition, from which others can compute the lag."""
        end = self.ends.get(topic_partition)
        return OffsetToCommit(
            position.offset,
            leader_epoch=position.leader_epoch,
            end_offset=None if end is None else max(end, position.offset),
        )

    def note_committed(self, offsets: Mapping[TopicPartition, OffsetToCommit]) -> None:
        """Notes an answered commit."""
        for topic_partition, committed in offsets.items():
            if topic_partition in self.processed:
                self.committed[topic_partition] = committed.offset
                if self.processed[topic_partition].offset == committed.offset:
                    self._moved.discard(topic_partition)

    def note_in_doubt(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Notes a commit with an unknown outcome: the processed positions must be sent again."""
        for topic_partition in topic_partitions:
            if topic_partition in self.processed:
                self.committed.pop(topic_partition, None)
                self._moved.add(topic_partition)


class Backlog:
    """Items that were read, but not handed out yet. Partitions are read in turn."""

    def __init__(self) -> None:
        self._items: deque[Item[Any]] = deque()
        self._turns: deque[TopicPartition] = deque()
        self._next: dict[TopicPartition, int] = {}
        self._idle_count = 0

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Replaces the partitions by the given ones, each with its start. Drops earlier items."""
        self._items.clear()
        self._next = dict(starts)
        self._turns = deque(sorted(starts))
        self._idle_count = 0

    def take(self, items_max: int) -> list[Item[Any]]:
        """The next items. Empty if more items must be read first."""
        items = self._items
        if items_max == 1:
            return [items.popleft()] if items else []
        return [items.popleft() for _ in range(min(items_max, len(items)))]

    @property
    def has_items(self) -> bool:
        """Whether there are items to hand out."""
        return bool(self._items)

    @property
    def is_idle(self) -> bool:
        """Whether each partition was read in turn and had no items."""
        return self._idle_count >= len(self._turns)

    def look_again(self) -> None:
        """Ends the idle state after a pause, so that all partitions are read again."""
        self._idle_count = 0

    def next_read(self) -> tuple[TopicPartition, int]:
        """The next partition to read, and its offset. There must be a partition."""
        return self._turns[0], self._next[self._turns[0]]

    def add(self, topic_partition: TopicPartition, items: list[Item[Any]]) -> None:
        """Adds the items of the partition from `next_read`, and moves on to the next partition."""
        self._turns.rotate(-1)
        if items:
            self._items.extend(items)
            self._next[topic_partition] = items[-1].offset_next
            self._idle_count = 0
        else:
            self._idle_count += 1

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Continues a partition at `offset`. Drops the items that were read from it."""
        kept = [item for item in self._items if item.topic_partition != topic_partition]
        self._items = deque(kept)
        self._next[topic_partition] = offset
        self._idle_count = 0
