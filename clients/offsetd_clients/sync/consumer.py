# Made from aio/consumer.py by .ci/sync_from_aio: change that, then run `make sync`.
"""The consumer: reads the items of a source. The members of a group share its partitions."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Generic, Self, SupportsIndex, TypeVar

from offsetd_clients.change_values import Bounds
from offsetd_clients.consumer.errors import (
    ConsumerFenced,
    NotAssigned,
    StartUnknown,
    fenced_before,
    fenced_by,
)
from offsetd_clients.consumer.group_role import FENCED, Phase
from offsetd_clients.consumer.positions import Backlog, Position
from offsetd_clients.consumer.settings import ConsumerSettings
from offsetd_clients.consumer.source import Item, Source, checked, checked_counts
from offsetd_clients.errors import OffsetdError
from offsetd_clients.sync.client import OffsetClient
from offsetd_clients.sync.concurrency import called, sleep
from offsetd_clients.sync.consumer_keeper import Keeper
from offsetd_clients.values import CommittedOffset, OffsetToCommit, TopicPartition

Value = TypeVar("Value")
TopicPartitions = tuple[TopicPartition, ...]

log = logging.getLogger("offsetd_clients.consumer")

_END_S_MAX = 10.0
_TURN_S = 0.01
# If a signal handler sets a flag just before a wait begins, it is noticed after this time at the
# latest.
_REST_S_MAX = 1.0


class Consumer(Generic[Value]):
    """Hands out the items of the partitions that its group assigns to it, and commits them.

    Each item is handed out at least once, to one of the members. It counts as processed when the
    next item is asked for, and only processed items are ever committed. Asking for items may raise
    `ConsumerFenced` (the group has continued without this consumer), errors of the source, and
    `OffsetdError` for problems that retries cannot solve. An ordinary rebalance raises nothing.

    `on_assigned`, `on_revoked` and `on_lost` are called with partitions, while items are asked for.
    All assigned partitions are revoked or lost before others are assigned. Offsets of revoked
    partitions may still be committed in `on_revoked`; those of lost partitions may not. Only one
    task or thread at a time may use the consumer.
    """

    def __init__(
        self,
        client: OffsetClient,
        group_id: str,
        source: Source[Value],
        settings: ConsumerSettings | None = None,
        *,
        on_assigned: Callable[[TopicPartitions], Any] | None = None,
        on_revoked: Callable[[TopicPartitions], Any] | None = None,
        on_lost: Callable[[TopicPartitions], Any] | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """The consumer joins its group when it is first asked for items.

        It may share the client with others, and does not close it. `monotonic_s` is the clock of
        sessions and intervals.
        """
        self.group_id = group_id
        self.settings = settings or ConsumerSettings()
        self._source = source
        self._keeper = Keeper(client, group_id, self.settings, monotonic_s)
        self._role = self._keeper.role
        self._positions = self._keeper.positions
        self._guard = self._keeper.guard
        self._backlog = Backlog()
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        self._is_implicit = self.settings.acknowledgement == "implicit"
        self._is_woken = False
        self._look_s = -math.inf  # The time of the next check of the source.
        self._turn_s = -math.inf  # The time at which to let other tasks run.
        self._monotonic_s = monotonic_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except Exception:
            if error is None:
                raise
            log.warning("group %s: closing the consumer failed", self.group_id, exc_info=True)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item[Value]:
        """Waits for the next item. The iteration ends after `wakeup`."""
        items = self._at_once(1) or self._asked(1, math.inf)
        if not items:
            raise StopIteration
        return items[0]

    def poll(self, items_max: int = 500, *, timeout_s: float = 1.0) -> list[Item[Value]]:
        """Returns at most `items_max` items, as soon as there are some; none after `timeout_s`."""
        return self._asked(items_max, self._monotonic_s() + timeout_s)

    def wakeup(self) -> None:
        """Ends the present or next wait for items: the iteration ends, `poll` returns no items.

        Call it from any thread or signal handler; with asyncio, from the event loop.
        """
        self._is_woken = True
        self._keeper.changed.set()

    def ack(self, item: Item[Value]) -> None:
        """Marks an item as processed, and all earlier items of its partition.

        Raises NotAssigned if the consumer does not have the item's partition, or lost it since.
        """
        with self._guard:
            self._positions.acknowledge(item)

    def commit(
        self,
        what: Item[Value] | Mapping[TopicPartition, SupportsIndex | OffsetToCommit] | None = None,
    ) -> None:
        """Commits the processed items, or the given item or offsets.

        An item is first marked as processed, with those before it. Offsets must be of assigned
        partitions. Raises `ConsumerFenced` if other members have the partitions now, NotAssigned
        for partitions that this consumer does not have, and the errors of
        `OffsetClient.commit`.
        """
        offsets = None
        if isinstance(what, Item):
            self.ack(what)
        elif what is not None:
            offsets = self._offsets_to_commit(what)
        if self._role.phase is Phase.LOST:
            self._lose_or_say_so()
        try:
            self._keeper.commit(offsets)
        except (ConsumerFenced, *FENCED) as error:
            if self._role.phase is Phase.LOST:
                self._lose_or_say_so()
            if isinstance(error, ConsumerFenced):
                raise
            raise fenced_by(error, ()) from error

    def seek(self, topic_partition: TopicPartition, offset: SupportsIndex) -> None:
        """Continues a partition at `offset`, which will also be committed. Raises NotAssigned.

        It also works for a partition that could not begin because of `StartUnknown` or an error of
        the source.
        """
        position = OffsetToCommit(offset).offset
        if position < 0:
            raise ValueError(f"{topic_partition}: there is no offset {position}")
        with self._guard:
            if self._role.seek(topic_partition, position):
                return
            self._positions.seek(topic_partition, position)
            self._backlog.seek(topic_partition, position)

    def close(self) -> None:
        """Leaves the group. If commits are automatic, it commits the processed items before.

        The last item handed out does not count as processed, unless it was acknowledged. A static
        member does not leave: the group waits for it during one session timeout. Raises the errors
        of the commit.
        """
        if self._role.phase is Phase.CLOSED:
            return
        with self._guard:
            self._role.away_since_s = None
            self._role.give_up()
        try:
            if self._role.phase is Phase.YIELDING:
                self._revoke(is_last=True)
            if self._role.phase is Phase.LOST and self._positions.processed:
                self._lose()
        finally:
            self._keeper.end(_END_S_MAX)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the consumer has."""
        with self._guard:
            return frozenset(self._positions.processed)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next position of each partition, after its processed items."""
        with self._guard:
            return {each: it.offset for each, it in sorted(self._positions.processed.items())}

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The committed offsets, as far as the consumer knows them."""
        with self._guard:
            return dict(sorted(self._positions.committed.items()))

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """The number of offsets left to process, for partitions whose end the source knows."""
        with self._guard:
            return self._positions.lag()

    @property
    def generation_id(self) -> int | None:
        """The generation of its membership, or the epoch of its lease. None if it has neither."""
        with self._guard:
            standing = self._role.standing
        if standing is None:
            return None
        return standing.epoch if standing.membership is None else standing.membership.generation_id

    def _at_once(self, items_max: int) -> list[Item[Any]]:
        """Items that were already read, if nothing else must be done before."""
        now_s = self._monotonic_s()
        if self._is_woken or now_s >= self._look_s or now_s >= self._turn_s:
            return []
        with self._guard:
            if self._is_implicit:
                self._positions.acknowledge_all()
            if not self._role.may_give(now_s):
                return []
            items = self._backlog.take(items_max)
            for item in items:
                self._positions.give(item)
            if items:
                self._role.away_since_s = now_s
            return items

    def _asked(self, items_max: int, until_s: float) -> list[Item[Any]]:
        with self._guard:
            self._role.away_since_s = None
            if self._is_implicit:
                self._positions.acknowledge_all()
        try:
            return self._gathered(items_max, until_s)
        finally:
            with self._guard:
                self._role.away_since_s = self._monotonic_s()

    def _gathered(self, items_max: int, until_s: float) -> list[Item[Any]]:
        """Does pending work until there are items, or until `until_s`."""
        while True:
            # With asyncio, a loop that hardly waits would not let other tasks run.
            sleep(0)
            self._turn_s = self._monotonic_s() + _TURN_S
            self._keeper.changed.clear()
            if self._is_woken:
                self._is_woken = False
                return []
            self._get_on()
            if self._role.phase not in (Phase.ENTERING, Phase.HOLDING):
                continue  # There is more to do at once.
            if items := self._at_once(items_max):
                return items
            now_s = self._monotonic_s()
            may_give = self._role.may_give(now_s)
            if may_give and self._backlog.has_items:
                continue  # Something else was due first. Return these items before more are read.
            if may_give and not self._backlog.is_idle:
                self._read()
            elif now_s >= until_s:
                return []
            else:
                rest_s = self.settings.idle_wait_s if may_give else _REST_S_MAX
                self._keeper.changed.wait(min(rest_s, until_s - now_s))
                self._backlog.look_again()

    def _get_on(self) -> None:
        """Does the work that `GroupRole` leaves to the iterating caller."""
        match self._role.phase:
            case Phase.APART:
                counts = checked_counts(called(self._source.partition_counts))
                with self._guard:
                    if self._role.phase is Phase.APART:
                        self._role.enter(counts)
                self._keeper.start()
            case Phase.ARRIVED:
                self._take()
            case Phase.HOLDING:
                if self._monotonic_s() >= self._look_s:
                    self._look()
            case Phase.YIELDING:
                self._revoke()
            case Phase.LOST:
                self._lose()
            case Phase.CLOSED:
                raise RuntimeError("the consumer is closed")

    def _read(self) -> None:
        topic_partition, offset = self._backlog.next_read()
        read = self._source.read
        found = called(read, topic_partition, offset, self.settings.read_items_max)
        self._backlog.add(topic_partition, checked(found, topic_partition, offset))

    def _look(self) -> None:
        """Checks the source: its partitions, and the ends of the partitions that are read."""
        counts = checked_counts(called(self._source.partition_counts))
        with self._guard:
            reading = self._positions.reading()
        for each in sorted(reading):
            bounds = called(self._source.bounds, each)
            with self._guard:
                self._positions.note_end(each, bounds)
        with self._guard:
            self._role.note_source(counts)
        self._look_s = self._monotonic_s() + self.settings.source_interval_s

    def _take(self) -> None:
        """Takes assigned partitions: finds the start of each, and calls `on_assigned`."""
        with self._guard:
            if self._role.phase is not Phase.ARRIVED:
                return
            committed = self._role.committed
            sought = dict(self._role.sought)
            stored = {
                each: None if each in sought else committed.get(each)
                for each in self._role.topic_partitions
            }
        chosen = {**called(self._source.assign, stored), **sought}
        starts: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, Bounds] = {}
        for each, offset in stored.items():
            ends[each] = called(self._source.bounds, each)
            starts[each] = self._start_of(each, chosen.get(each), offset, ends[each])
        with self._guard:
            if self._role.committed is not committed or not self._role.take():
                return  # The group is already assigning the partitions again.
            starts.update(self._role.sought)  # Callbacks may have called `seek`.
            self._positions.assign(starts, committed)
            self._backlog.assign(starts)
            for each, bounds in ends.items():
                self._positions.note_end(each, bounds)
        self._look_s = self._monotonic_s() + self.settings.source_interval_s
        # Other members must later begin at the same place, so commit the chosen starts at once.
        self._keeper.prompt_commit()
        self._tell(self._on_assigned, tuple(stored))

    def _start_of(
        self,
        topic_partition: TopicPartition,
        chosen: int | None,
        stored: CommittedOffset | None,
        bounds: Bounds,
    ) -> int:
        if chosen is not None:
            return chosen
        if stored is not None:
            return stored.offset
        start = self.settings.start
        if callable(start):
            return OffsetToCommit(called(start, topic_partition)).offset
        if start == "earliest":
            return bounds.earliest or 0
        if start == "latest" and bounds.latest is not None:
            return bounds.latest
        raise StartUnknown(
            f"{topic_partition}: group {self.group_id} has committed nothing, and start={start!r}"
        )

    def _revoke(self, *, is_last: bool = False) -> None:
        """Gives up partitions: commits the processed items, and calls `on_revoked`."""
        problem: OffsetdError | None = None
        try:
            if self.settings.auto_commit_interval_s is not None:
                self._keeper.commit(None)
        except OffsetdError as error:
            problem = error
        with self._guard:
            if not self._role.begin_revoke():
                return  # They were lost.
            topic_partitions = self._role.topic_partitions
        if problem is not None:
            log.warning("group %s: revoked before committed: %s", self.group_id, problem)
        try:
            self._tell(self._on_revoked, topic_partitions)
        finally:
            with self._guard:
                self._drop()
                self._role.revoked()
            self._keeper.prompt()
        called(self._source.assign, {})
        if is_last and problem is not None:
            raise problem

    def _lose(self) -> None:
        """Handles lost partitions: calls `on_lost`, and raises the reason."""
        with self._guard:
            topic_partitions = self._role.topic_partitions
            self._drop()
        try:
            self._tell(self._on_lost, topic_partitions)
            called(self._source.assign, {})
        finally:
            with self._guard:
                problem = self._role.let_go()
        raise problem

    def _lose_or_say_so(self) -> None:
        """Calls `on_lost`, then raises the reason why a commit's partitions were lost."""
        if self._positions.processed:
            self._lose()
        raise fenced_before()

    def _drop(self) -> None:
        self._positions.clear()
        self._backlog.assign({})

    def _tell(
        self, callback: Callable[[TopicPartitions], Any] | None, topic_partitions: TopicPartitions
    ) -> None:
        if callback is not None and topic_partitions:
            called(callback, topic_partitions)

    def _offsets_to_commit(
        self, offsets: Mapping[TopicPartition, SupportsIndex | OffsetToCommit]
    ) -> dict[TopicPartition, OffsetToCommit]:
        batch = {}
        with self._guard:
            for each, offset in offsets.items():
                self._positions.of(each)
                if isinstance(offset, OffsetToCommit):
                    batch[each] = offset
                else:
                    position = Position(OffsetToCommit(offset).offset)
                    batch[each] = self._positions.offset_to_commit(each, position)
        if not batch:
            raise NotAssigned("no offsets were given")
        return batch
