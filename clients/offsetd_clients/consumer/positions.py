"""How far a consumer is in its partitions: what it gave out, what is processed, what is committed.

A position is where to go on: the `offset_next` of the last item. It moves by being acknowledged,
never by being given out, so what is committed never passes what was processed.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from offsetd_clients.change_values import Bounds
from offsetd_clients.consumer.errors import NotAssigned
from offsetd_clients.consumer.source import Item
from offsetd_clients.values import CommittedOffset, OffsetToCommit, TopicPartition


class Position(NamedTuple):
    """Where to go on; `leader_epoch` is that of the item before."""

    offset: int
    leader_epoch: int | None = None


class Positions:
    """Of the partitions that are assigned now; none at first."""

    def __init__(self) -> None:
        self.processed: dict[TopicPartition, Position] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self._given: dict[TopicPartition, Position] = {}
        # Where partitions go on once all that was given out before is acknowledged.
        self._going_on: dict[TopicPartition, int] = {}
        # Processed as the last commit had it, and since: what may differ from what is committed.
        self._moved: set[TopicPartition] = set()

    def assign(
        self,
        starts: Mapping[TopicPartition, int],
        committed: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        """These partitions and no others, each from its start.

        A start that is not what is committed is to be: what began at an end, and has processed
        nothing when another takes over, must not begin at a later end there.
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
        """The partitions are others' now."""
        self.processed.clear()
        self.committed.clear()
        self.ends.clear()
        self._given.clear()
        self._going_on.clear()
        self._moved.clear()

    def give(self, item: Item[Any]) -> None:
        """An item is handed out."""
        self._given[item.topic_partition] = Position(item.offset_next, item.leader_epoch)

    def acknowledge_all(self) -> None:
        """All that was handed out is processed."""
        if self._given:
            self.processed.update(self._given)
            self._moved.update(self._given)
            self._given.clear()

    def acknowledge(self, item: Item[Any]) -> None:
        """An item is processed, and all that its partition gave before it. Raises NotAssigned."""
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
        """A partition goes on at `offset`. Raises NotAssigned."""
        self.of(topic_partition)
        self._given.pop(topic_partition, None)
        self._going_on.pop(topic_partition, None)
        self.processed[topic_partition] = Position(offset)
        self._moved.add(topic_partition)

    def go_on(self, topic_partition: TopicPartition, offset: int) -> None:
        """The source has not what is next, and goes on at `offset`. Raises NotAssigned.

        What was given out stays to be acknowledged: only then is what is missing passed. Where the
        source goes back, it has another history, in which that cannot be acknowledged any more.
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
        """What is processed of a partition. Raises NotAssigned."""
        try:
            return self.processed[topic_partition]
        except KeyError:
            raise NotAssigned(f"{topic_partition} is not assigned to this consumer") from None

    def reading(self) -> set[TopicPartition]:
        """Partitions of which something was given out since they were last committed."""
        return self._moved.union(self._given)

    def note_end(self, topic_partition: TopicPartition, bounds: Bounds) -> None:
        """What the source says of a partition, which may have gone meanwhile."""
        if bounds.latest is not None and topic_partition in self.processed:
            self.ends[topic_partition] = bounds.latest

    def lag(self) -> dict[TopicPartition, int]:
        """How much is left to process, of the partitions whose ends are known."""
        return {
            each: max(end - self.processed[each].offset, 0)
            for each, end in sorted(self.ends.items())
        }

    def to_commit(self) -> dict[TopicPartition, OffsetToCommit]:
        """What is processed and not committed; what is unchanged is not sent again."""
        return {
            each: self.offset_to_commit(each, self.processed[each])
            for each in sorted(self._moved)
            if self.committed.get(each) != self.processed[each].offset
        }

    def offset_to_commit(
        self, topic_partition: TopicPartition, position: Position
    ) -> OffsetToCommit:
        """A position, with the end of its partition, for others to see the lag."""
        end = self.ends.get(topic_partition)
        return OffsetToCommit(
            position.offset,
            leader_epoch=position.leader_epoch,
            end_offset=None if end is None else max(end, position.offset),
        )

    def note_committed(self, offsets: Mapping[TopicPartition, OffsetToCommit]) -> None:
        """A commit was answered."""
        for topic_partition, committed in offsets.items():
            if topic_partition in self.processed:
                self.committed[topic_partition] = committed.offset
                if self.processed[topic_partition].offset == committed.offset:
                    self._moved.discard(topic_partition)

    def note_in_doubt(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """A commit may have been done, or not: whatever is processed is to be sent."""
        for topic_partition in topic_partitions:
            if topic_partition in self.processed:
                self.committed.pop(topic_partition, None)
                self._moved.add(topic_partition)


class Backlog:
    """What was read and is not given out yet; and which partition is read next, each in turn."""

    def __init__(self) -> None:
        self._items: deque[Item[Any]] = deque()
        self._turns: deque[TopicPartition] = deque()
        self._next: dict[TopicPartition, int] = {}
        self._idle_count = 0

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """These partitions, each from its start; what was read before is dropped."""
        self._items.clear()
        self._next = dict(starts)
        self._turns = deque(sorted(starts))
        self._idle_count = 0

    def take(self, items_max: int) -> list[Item[Any]]:
        """The next items that were read; none: something is to be read first."""
        items = self._items
        if items_max == 1:
            return [items.popleft()] if items else []
        return [items.popleft() for _ in range(min(items_max, len(items)))]

    @property
    def has_items(self) -> bool:
        """Whether something was read and is not given out yet."""
        return bool(self._items)

    @property
    def is_idle(self) -> bool:
        """Whether each partition was read in turn, and had nothing."""
        return self._idle_count >= len(self._turns)

    def look_again(self) -> None:
        """After a rest, there may be something to read."""
        self._idle_count = 0

    def next_read(self) -> tuple[TopicPartition, int]:
        """Which partition is to be read, and from where. There has to be one."""
        return self._turns[0], self._next[self._turns[0]]

    def add(self, topic_partition: TopicPartition, items: list[Item[Any]]) -> None:
        """What `next_read` yielded; it is another partition's turn."""
        self._turns.rotate(-1)
        if items:
            self._items.extend(items)
            self._next[topic_partition] = items[-1].offset_next
            self._idle_count = 0
        else:
            self._idle_count += 1

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """A partition goes on at `offset`; what was read of it is dropped."""
        kept = [item for item in self._items if item.topic_partition != topic_partition]
        self._items = deque(kept)
        self._next[topic_partition] = offset
        self._idle_count = 0
