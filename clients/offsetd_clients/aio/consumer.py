"""The consumer: items of a source, shared out among the members of a group."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Generic, Self, SupportsIndex, TypeVar

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.aio.concurrency import called, sleep
from offsetd_clients.aio.consumer_keeper import AsyncKeeper
from offsetd_clients.change_values import Bounds
from offsetd_clients.consumer.errors import (
    ConsumerFenced,
    NotAssigned,
    StartUnknown,
    fenced_before,
    fenced_by,
)
from offsetd_clients.consumer.part import FENCED, Phase
from offsetd_clients.consumer.positions import Backlog, Position
from offsetd_clients.consumer.settings import ConsumerSettings
from offsetd_clients.consumer.source import AsyncSource, Item, checked, checked_counts
from offsetd_clients.errors import OffsetdError
from offsetd_clients.values import CommittedOffset, OffsetToCommit, TopicPartition

Value = TypeVar("Value")
TopicPartitions = tuple[TopicPartition, ...]

log = logging.getLogger("offsetd_clients.consumer")

_END_S_MAX = 10.0
_TURN_S = 0.01
# What is set by a signal's handler in just the wrong moment is seen so late.
_REST_S_MAX = 1.0


class AsyncConsumer(Generic[Value]):
    """Hands out the items of the partitions that its group assigns to it, and commits them.

    Each item is handed out at least once to some member. It counts as processed when the next is
    asked for, and only what is processed is ever committed. What it may raise when it is asked:
    `ConsumerFenced` when the group has gone on without it, what the source raises, and
    `OffsetdError` for what does not pass by itself. An ordinary rebalance is none of these.

    `on_assigned`, `on_revoked` and `on_lost` are called with partitions, while items are asked for:
    all that were assigned are revoked, or lost, before others are assigned. Revoked ones may still
    be committed, when they are told of; lost ones not. It is for one task, or thread, at a time.
    """

    def __init__(
        self,
        client: AsyncOffsetClient,
        group_id: str,
        source: AsyncSource[Value],
        settings: ConsumerSettings | None = None,
        *,
        on_assigned: Callable[[TopicPartitions], Any] | None = None,
        on_revoked: Callable[[TopicPartitions], Any] | None = None,
        on_lost: Callable[[TopicPartitions], Any] | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Joins when it is first asked for items. The client may be shared, and is not closed.

        `monotonic_s` is the clock of sessions and intervals.
        """
        self.group_id = group_id
        self.settings = settings or ConsumerSettings()
        self._source = source
        self._keeper = AsyncKeeper(client, group_id, self.settings, monotonic_s)
        self._part = self._keeper.part
        self._positions = self._keeper.positions
        self._guard = self._keeper.guard
        self._backlog = Backlog()
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        self._is_implicit = self.settings.acknowledgement == "implicit"
        self._is_woken = False
        self._look_s = -math.inf  # When the source is to be looked at.
        self._turn_s = -math.inf  # When others are to get a turn.
        self._monotonic_s = monotonic_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except Exception:
            if error is None:
                raise
            log.warning("group %s: while it was closed", self.group_id, exc_info=True)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item[Value]:
        """The next item; waits for it, and ends when it is woken up."""
        items = self._at_once(1) or await self._asked(1, math.inf)
        if not items:
            raise StopAsyncIteration
        return items[0]

    async def poll(self, items_max: int = 500, *, timeout_s: float = 1.0) -> list[Item[Value]]:
        """Items, as soon as there are some: at most `items_max`; none after `timeout_s`."""
        return await self._asked(items_max, self._monotonic_s() + timeout_s)

    def wakeup(self) -> None:
        """Ends the wait for items, or the next one: the iteration ends, `poll` returns none.

        From any thread or signal handler; with asyncio, from the event loop.
        """
        self._is_woken = True
        self._keeper.changed.set()

    def ack(self, item: Item[Value]) -> None:
        """This item is processed, and all that were handed out before it of its partition.

        Raises NotAssigned for an item that is not, or no longer, this consumer's.
        """
        with self._guard:
            self._positions.acknowledge(item)

    async def commit(
        self,
        what: Item[Value] | Mapping[TopicPartition, SupportsIndex | OffsetToCommit] | None = None,
    ) -> None:
        """Commits what is processed; an item, which then is; or offsets of assigned partitions.

        Raises `ConsumerFenced` where others have the partitions now, NotAssigned for those that
        this consumer has not, and what `AsyncOffsetClient.commit` raises.
        """
        offsets = None
        if isinstance(what, Item):
            self.ack(what)
        elif what is not None:
            offsets = self._offsets_to_commit(what)
        if self._part.phase is Phase.LOST:
            await self._lose_or_say_so()
        try:
            await self._keeper.commit(offsets)
        except (ConsumerFenced, *FENCED) as error:
            if self._part.phase is Phase.LOST:
                await self._lose_or_say_so()
            if isinstance(error, ConsumerFenced):
                raise
            raise fenced_by(error, ()) from error

    def seek(self, topic_partition: TopicPartition, offset: SupportsIndex) -> None:
        """A partition goes on at `offset`, which is what will be committed. Raises NotAssigned."""
        position = OffsetToCommit(offset).offset
        with self._guard:
            self._positions.seek(topic_partition, position)
            self._backlog.seek(topic_partition, position)

    async def close(self) -> None:
        """Commits what is processed, unless that is not automatic, and leaves the group.

        The last item that was handed out is not processed, unless it was acknowledged. A static
        member does not leave: it is waited for, for a session. Raises what the commit raises.
        """
        if self._part.phase is Phase.CLOSED:
            return
        with self._guard:
            self._part.away_since_s = None
            self._part.give_up()
        try:
            if self._part.phase is Phase.YIELDING:
                await self._revoke(is_last=True)
            if self._part.phase is Phase.LOST and self._positions.processed:
                await self._lose()
        finally:
            await self._keeper.end(_END_S_MAX)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that it has."""
        with self._guard:
            return frozenset(self._positions.processed)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where each partition goes on, of what is processed."""
        with self._guard:
            return {each: it.offset for each, it in sorted(self._positions.processed.items())}

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """What is committed, as far as this consumer knows."""
        with self._guard:
            return dict(sorted(self._positions.committed.items()))

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """How much is left to process, where the source says how far its partitions go."""
        with self._guard:
            return self._positions.lag()

    @property
    def generation_id(self) -> int | None:
        """The generation that it is a member in, or the epoch of its lease; None: neither."""
        with self._guard:
            standing = self._part.standing
        if standing is None:
            return None
        return standing.epoch if standing.membership is None else standing.membership.generation_id

    def _at_once(self, items_max: int) -> list[Item[Any]]:
        """Items that are there already, if nothing else is to be done first."""
        now_s = self._monotonic_s()
        if self._is_woken or now_s >= self._look_s or now_s >= self._turn_s:
            return []
        with self._guard:
            if self._is_implicit:
                self._positions.acknowledge_all()
            if not self._part.may_give(now_s):
                return []
            items = self._backlog.take(items_max)
            for item in items:
                self._positions.give(item)
            if items:
                self._part.away_since_s = now_s
            return items

    async def _asked(self, items_max: int, until_s: float) -> list[Item[Any]]:
        with self._guard:
            self._part.away_since_s = None
            if self._is_implicit:
                self._positions.acknowledge_all()
        try:
            return await self._gathered(items_max, until_s)
        finally:
            with self._guard:
                self._part.away_since_s = self._monotonic_s()

    async def _gathered(self, items_max: int, until_s: float) -> list[Item[Any]]:
        """Does what is to be done until there are items, or it is time."""
        while True:
            await sleep(0)  # With asyncio, whoever hardly waits keeps others from running.
            self._turn_s = self._monotonic_s() + _TURN_S
            self._keeper.changed.clear()
            if self._is_woken:
                self._is_woken = False
                return []
            await self._get_on()
            if self._part.phase not in (Phase.ENTERING, Phase.HOLDING):
                continue  # There is more to do at once.
            if items := self._at_once(items_max):
                return items
            now_s = self._monotonic_s()
            may_give = self._part.may_give(now_s)
            if may_give and not self._backlog.is_idle:
                await self._read()
            elif now_s >= until_s:
                return []
            else:
                rest_s = self.settings.idle_wait_s if may_give else _REST_S_MAX
                await self._keeper.changed.wait(min(rest_s, until_s - now_s))
                self._backlog.look_again()

    async def _get_on(self) -> None:
        """What the part in the group wants of who iterates."""
        match self._part.phase:
            case Phase.APART:
                counts = checked_counts(await called(self._source.partition_counts))
                with self._guard:
                    if self._part.phase is Phase.APART:
                        self._part.enter(counts)
                self._keeper.start()
            case Phase.ARRIVED:
                await self._take()
            case Phase.HOLDING:
                if self._monotonic_s() >= self._look_s:
                    await self._look()
            case Phase.YIELDING:
                await self._revoke()
            case Phase.LOST:
                await self._lose()
            case Phase.CLOSED:
                raise RuntimeError("the consumer is closed")

    async def _read(self) -> None:
        topic_partition, offset = self._backlog.next_read()
        read = self._source.read
        found = await called(read, topic_partition, offset, self.settings.read_items_max)
        self._backlog.add(topic_partition, checked(found, topic_partition, offset))

    async def _look(self) -> None:
        """At what the source has now, and where the partitions end that are read."""
        counts = checked_counts(await called(self._source.partition_counts))
        with self._guard:
            reading = self._positions.reading()
        for each in sorted(reading):
            bounds = await called(self._source.bounds, each)
            with self._guard:
                self._positions.note_end(each, bounds)
        with self._guard:
            self._part.note_source(counts)
        self._look_s = self._monotonic_s() + self.settings.source_interval_s

    async def _take(self) -> None:
        """Partitions were assigned: finds where they begin, and tells the user."""
        with self._guard:
            if self._part.phase is not Phase.ARRIVED:
                return
            committed = self._part.committed
            stored = {each: committed.get(each) for each in self._part.topic_partitions}
        chosen = await called(self._source.assign, stored)
        starts: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, Bounds] = {}
        for each, offset in stored.items():
            ends[each] = await called(self._source.bounds, each)
            starts[each] = await self._start_of(each, chosen.get(each), offset, ends[each])
        with self._guard:
            if self._part.committed is not committed or not self._part.take():
                return  # They are given out anew already.
            self._positions.assign(starts, committed)
            self._backlog.assign(starts)
            for each, bounds in ends.items():
                self._positions.note_end(each, bounds)
        self._look_s = self._monotonic_s() + self.settings.source_interval_s
        # What starts where nothing was committed is to start there for others, too.
        self._keeper.prompt_commit()
        await self._tell(self._on_assigned, tuple(stored))

    async def _start_of(
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
            return OffsetToCommit(await called(start, topic_partition)).offset
        if start == "earliest":
            return bounds.earliest or 0
        if start == "latest" and bounds.latest is not None:
            return bounds.latest
        raise StartUnknown(
            f"{topic_partition}: group {self.group_id} has committed nothing, and start={start!r}"
        )

    async def _revoke(self, *, is_last: bool = False) -> None:
        """Partitions are to be given up: commits what is processed, and tells the user."""
        problem: OffsetdError | None = None
        try:
            if self.settings.auto_commit_interval_s is not None:
                await self._keeper.commit(None)
        except OffsetdError as error:
            problem = error
        with self._guard:
            if not self._part.begin_revoke():
                return  # They were lost.
            topic_partitions = self._part.topic_partitions
        if problem is not None:
            log.warning("group %s: revoked before committed: %s", self.group_id, problem)
        try:
            await self._tell(self._on_revoked, topic_partitions)
        finally:
            with self._guard:
                self._drop()
                self._part.revoked()
            self._keeper.prompt()
        await called(self._source.assign, {})
        if is_last and problem is not None:
            raise problem

    async def _lose(self) -> None:
        """Partitions are others' by now: tells the user, and raises why."""
        with self._guard:
            topic_partitions = self._part.topic_partitions
            self._drop()
        try:
            await self._tell(self._on_lost, topic_partitions)
            await called(self._source.assign, {})
        finally:
            with self._guard:
                problem = self._part.let_go()
        raise problem

    async def _lose_or_say_so(self) -> None:
        """For a commit: the user may be told of the loss just now."""
        if self._positions.processed:
            await self._lose()
        raise fenced_before()

    def _drop(self) -> None:
        self._positions.clear()
        self._backlog.assign({})

    async def _tell(
        self, callback: Callable[[TopicPartitions], Any] | None, topic_partitions: TopicPartitions
    ) -> None:
        if callback is not None and topic_partitions:
            await called(callback, topic_partitions)

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
