"""Consumers of one group in virtual time: with the server's own rules of membership, and a network
that loses calls and answers. What consumers do is looked at as they do it.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest
from classic_groups import GROUP, Calls
from offsetd_clients import (
    Bounds,
    CommittedOffset,
    DeadlineExceeded,
    JoinedGroup,
    JoinedMember,
    Membership,
    OffsetdError,
    OffsetToCommit,
    TopicPartition,
    Unavailable,
)
from offsetd_clients.aio.consumer import AsyncConsumer
from offsetd_clients.consumer.errors import ConsumerFenced
from offsetd_clients.consumer.group_role import Phase
from offsetd_clients.consumer.source import AsyncSource, Item
from offsetd_clients.errors import Failure, error_of
from offsetd_coordinator.errors import CoordinatorError

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from offsetd_clients.consumer.settings import ConsumerSettings

SESSION_S: Final = 10.0
POLL_S_MAX: Final = 60.0
_TICK_S: Final = 0.05
_CALL_S_MAX: Final = 3.0
_STEPS_OF_LATENCY: Final = 4
_NEVER = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def failure(code: str, reason: str = "", **details: str) -> OffsetdError:
    """What a client raises for it."""
    return error_of(Failure(code=code, message=reason or code, reason=reason, details=details))


class World:
    """One group, its source, its network, and what has happened."""

    def __init__(self, rng: random.Random, loop: asyncio.AbstractEventLoop) -> None:
        self.rng = rng
        self.loop = loop
        self.calls = Calls(initial_rebalance_delay_ms=500)
        self.offsets: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.handled: dict[TopicPartition, set[int]] = {}
        # In which generation a partition was last given to somebody who was told of it.
        self.generations: dict[TopicPartition, int] = {}
        self.lossy = 0.0
        self.workers: list[Worker] = []
        # What was wrong where nobody would be told: calls are made in the background, too.
        self.problems: list[str] = []
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    def now_s(self) -> float:
        """The loop's."""
        return self.loop.time()

    async def tick(self) -> None:
        """Lets the server's deadlines pass; never ends."""
        while True:
            await asyncio.sleep(_TICK_S)
            self._catch_up()

    async def answer(self, token: int) -> Any:
        """What a call that may wait is answered."""
        self._catch_up()
        if token not in self.calls.answers:
            await self._waiting.setdefault(token, self.loop.create_future())
        outcome = self.calls.answers[token]
        if isinstance(outcome, CoordinatorError):
            raise refusal(outcome.reason, **outcome.variables)
        return outcome

    def add(self, topic: str, partition: int, count: int) -> None:
        """A partition with this many items, or that many more."""
        topic_partition = TopicPartition(topic, partition)
        self.ends[topic_partition] = self.ends.get(topic_partition, 0) + count
        self.handled.setdefault(topic_partition, set())

    def is_done(self) -> bool:
        """Whether everything was handled, and is committed."""
        return all(
            len(self.handled[each]) == end and self.offsets.get(each) == end
            for each, end in self.ends.items()
        )

    def _catch_up(self) -> None:
        passed_ms = int(self.now_s() * 1000) - self.calls.now.monotonic_ms
        if passed_ms > 0:
            self.calls.advance(passed_ms)
        for token in [each for each in self._waiting if each in self.calls.answers]:
            future = self._waiting.pop(token)
            if not future.done():
                future.set_result(None)


def refusal(reason: str, **details: Any) -> OffsetdError:
    """What a client makes of a refusal of the server's."""
    code = "ABORTED" if reason == "REBALANCE_IN_PROGRESS" else "FAILED_PRECONDITION"
    return failure(code, reason, **{name: str(value) for name, value in details.items()})


class GrowingSource(AsyncSource[str]):
    """Reads what the world has; each item's value is its place."""

    def __init__(self, world: World) -> None:
        self._world = world

    def partition_counts(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for each in self._world.ends:
            counts[each.topic] = max(counts.get(each.topic, 0), each.partition + 1)
        return counts

    async def read(
        self, topic_partition: TopicPartition, offset: int, items_max: int
    ) -> list[Item[str]]:
        await asyncio.sleep(self._world.rng.random() * 0.01)
        end = min(self._world.ends[topic_partition], offset + min(items_max, 3))
        return [
            Item(topic_partition, each, each + 1, f"{topic_partition}@{each}")
            for each in range(offset, end)
        ]

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        return Bounds(0, self._world.ends[topic_partition])


class LossyClient:
    """The calls of a consumer; cut off, none of them arrives."""

    def __init__(self, world: World, worker: Worker) -> None:
        self._world = world
        self._worker = worker
        self.is_cut = False

    def with_retry(self, _policy: object) -> LossyClient:
        return self

    async def get_server_info(self) -> None:
        await self._arrive()

    async def join_group(
        self, _group_id: str, protocols: Mapping[str, bytes], **more: Any
    ) -> JoinedGroup:
        await self._arrive()
        assert not more.pop("takes_member_id")
        instance_id, member_id = more["instance_id"], more["member_id"]
        token = self._world.calls.join(
            member_id,
            instance_id=instance_id,
            protocols=tuple(protocols.items()),
            session_timeout_ms=int(more["session_timeout_s"] * 1000),
            rebalance_timeout_ms=int(more["rebalance_timeout_s"] * 1000),
        )
        joined = await self._world.answer(token)
        await self._return()
        return JoinedGroup(
            membership=Membership(
                group_id="g",
                member_id=joined.member_id,
                generation_id=joined.generation,
                instance_id=instance_id,
            ),
            protocol_type=joined.protocol_type,
            protocol=joined.protocol,
            leader_id=joined.leader_id,
            members=tuple(
                JoinedMember(
                    member_id=each.member_id,
                    instance_id=each.instance_id,
                    metadata=each.subscription,
                )
                for each in joined.members
            ),
            skip_assignment=joined.skips_assignment,
        )

    async def sync_group(
        self, membership: Membership, assignments: dict[str, bytes], *, wait_s: float
    ) -> bytes:
        await self._arrive()
        token = self._world.calls.sync(
            membership.member_id,
            membership.generation_id,
            instance_id=membership.instance_id,
            assignments=assignments,
        )
        synced = await self._world.answer(token)
        await self._return()
        assignment: bytes = synced.assignment
        return assignment

    async def heartbeat(self, membership: Membership) -> None:
        await self._arrive()
        reason = self._world.calls.heartbeat(
            membership.member_id, membership.generation_id, membership.instance_id
        )
        await self._return()
        if reason:
            raise refusal(reason)

    async def leave_group(self, _group_id: str, members: list[Any]) -> None:
        await self._arrive()
        self._world.calls.leave(*((each.member_id, each.instance_id) for each in members))

    async def fetch(
        self, _group_id: str, partitions: tuple[TopicPartition, ...], *, require_stable: bool
    ) -> dict[TopicPartition, CommittedOffset]:
        await self._arrive()
        stored = self._world.offsets
        found = {each: stored[each] for each in partitions if each in stored}
        await self._return()
        return {each: committed_offset(offset) for each, offset in found.items()}

    async def commit(
        self,
        _group_id: str,
        offsets: Mapping[TopicPartition, OffsetToCommit],
        *,
        membership: Membership | None,
        epoch: int | None,
    ) -> None:
        assert membership is not None
        self._worker.check_commit(offsets)
        await self._arrive()
        reason = "UNKNOWN_MEMBER_ID"
        if self._world.calls.membership.live(GROUP) is not None:
            reason = self._world.calls.commit(
                membership.member_id, membership.generation_id, membership.instance_id
            )
        if not reason:
            for each, offset in offsets.items():
                if missing := set(range(offset.offset)) - self._world.handled[each]:
                    self._world.problems.append(f"{each}: {offset.offset} without {missing}")
                self._world.offsets[each] = offset.offset
        await self._return()
        if reason:
            raise refusal(reason)

    async def _arrive(self) -> None:
        await self._pass("UNAVAILABLE")

    async def _return(self) -> None:
        await self._pass("DEADLINE_EXCEEDED")

    async def _pass(self, code: str) -> None:
        rng = self._world.rng
        await asyncio.sleep(rng.randrange(_STEPS_OF_LATENCY) * 0.005)
        if self.is_cut or rng.random() < self._world.lossy:
            await asyncio.sleep(_CALL_S_MAX)
            raise failure(code)


def committed_offset(offset: int) -> CommittedOffset:
    """As it is fetched."""
    return CommittedOffset(
        offset=offset,
        leader_epoch=None,
        metadata="",
        commit_time=_NEVER,
        expire_time=None,
        revision=0,
        end_offset=None,
    )


@attrs.define(eq=False)
class Worker:
    """A process that consumes: handles one item after the other, and looks at what it is told."""

    world: World
    settings: ConsumerSettings
    held: set[TopicPartition] = attrs.field(factory=set)
    fenced_count: int = 0
    slow_s: float = 0.0
    client: Any = None
    consumer: Any = None
    _tasks: list[asyncio.Task[Any]] = attrs.field(factory=list)

    def start(self) -> None:
        """It comes."""
        self.make()
        self._tasks = [asyncio.ensure_future(self.work())]

    def make(self) -> None:
        """Its consumer, which somebody else asks."""
        self.client = LossyClient(self.world, self)
        self.consumer = AsyncConsumer[str](
            self.client,
            "g",
            GrowingSource(self.world),
            self.settings,
            on_assigned=self.assigned,
            on_revoked=self.given_up,
            on_lost=self.lost,
            monotonic_s=self.world.now_s,
        )

    async def work(self) -> None:
        """Handles items for ever."""
        while True:
            try:
                async for item in self.consumer:
                    await self.handle(item)
                return
            except ConsumerFenced:
                self.fenced_count += 1
            except (Unavailable, DeadlineExceeded):
                continue  # At the start, where nobody could be reached.

    async def handle(self, item: Item[str]) -> None:
        """What is handed out may be handled, and nobody else has its partition."""
        where = item.topic_partition
        assert where in self.held
        generation = self.consumer.generation_id
        assert self.world.generations[where] == generation, f"{where}: given out when fenced"
        await asyncio.sleep(self.slow_s or self.world.rng.random() * 0.05)
        self.world.handled[where].add(item.offset)
        if self.settings.acknowledgement == "explicit":
            with contextlib.suppress(LookupError):
                self.consumer.ack(item)

    async def assigned(self, topic_partitions: tuple[TopicPartition, ...]) -> None:
        """Never beside others that it has."""
        assert not self.held, "assigned before revoked"
        self.held = set(topic_partitions)
        generation = self.consumer.generation_id
        for each in topic_partitions:
            # Fenced in this moment, it has none.
            if generation is not None:
                assert generation >= self.world.generations.get(each, 0)
                self.world.generations[each] = generation
        await asyncio.sleep(self.world.rng.random() * 0.02)

    async def given_up(self, topic_partitions: tuple[TopicPartition, ...]) -> None:
        """All that it has."""
        assert self.held == set(topic_partitions)
        try:
            await asyncio.sleep(self.world.rng.random() * 0.02)
        finally:
            self.held = set()

    async def lost(self, topic_partitions: tuple[TopicPartition, ...]) -> None:
        """All that it has, and it cannot commit any more."""
        with pytest.raises(ConsumerFenced):
            await self.consumer.commit()
        await self.given_up(topic_partitions)

    def check_commit(self, offsets: Mapping[TopicPartition, OffsetToCommit]) -> None:
        """Only what is held is committed, and nothing by one that knows itself to be fenced."""
        if not offsets.keys() <= self.held:
            self.world.problems.append(f"{offsets} committed by who has {self.held}")
        if self.consumer._role.phase is Phase.LOST:
            self.world.problems.append(f"{offsets} committed after they were lost")

    async def close(self) -> None:
        """It goes in good order, in the middle of an item perhaps."""
        await self._stop_work()
        with contextlib.suppress(OffsetdError):
            await self.consumer.close()
        assert not self.held

    async def kill(self) -> None:
        """It goes without a word."""
        self.client.is_cut = True
        await self._stop_work()
        for task in (self.consumer._keeper._keeping, self.consumer._keeper._committing):
            if task is not None:
                task._task.cancel()

    async def _stop_work(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()  # It never ends by itself.
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def check(self) -> None:
        """Raises what its work has raised, and what was seen beside it."""
        assert not self.world.problems, self.world.problems
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()
