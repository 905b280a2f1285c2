"""Shards over a store that is cleaned: what they know against what all batches ever written say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from cleaned_stores import CONFIG, LOG, SEGMENT_BYTES, CleanedStore
from expiries import batches_of, slices
from offsetd_coordinator.configuration.internal_topic_configs import topic_floors
from offsetd_coordinator.runtime.shard_loader import load_shard
from shards import new_shard, replay, replayed, state_of, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from offsetd_coordinator.expiry.expiry_rules import ExpiryTerms
    from offsetd_coordinator.expiry.expiry_sweep import SliceLimits
    from offsetd_coordinator.requests import Decision, Reply, Request
    from offsetd_coordinator.shard.shard import Shard
    from offsetd_storage.clock import ManualClock
    from offsetd_storage.disk.simulated_files import SimulatedFiles
    from offsetd_storage.log_store import LogStoreConfig

REQUEST_WINDOW_MS = 500
_LAG_FLOOR = topic_floors(request_id_window_ms=REQUEST_WINDOW_MS)[0]
NODE_CONFIG = attrs.evolve(CONFIG, log=attrs.evolve(LOG, compaction_lag_ms_min=_LAG_FLOOR.least))
_SHARD: dict[str, Any] = {
    "request_id_window_ms": REQUEST_WINDOW_MS,
    "message_bytes_max": SEGMENT_BYTES,
}


@attrs.frozen(kw_only=True)
class Answer:
    """What a client was told, and until where the log had to be durable for it."""

    asked_ms: int
    offset_next: int
    request: Request
    reply: Reply


class CompactedNode(CleanedStore):
    """A store with a shard for each partition of the offsets topic."""

    def __init__(
        self,
        files: SimulatedFiles,
        random: Random,
        clock: ManualClock,
        config: LogStoreConfig = NODE_CONFIG,
    ) -> None:
        # The last one to each request id, by partition, kind and group.
        self.answers: dict[tuple[int, type, bytes, bytes], Answer] = {}
        self._states: dict[tuple[int, int], dict[str, object]] = {}
        super().__init__(files, random, clock, config)

    def open(self) -> None:
        """Opens what is on the disk and fills the shards from it, as a start does."""
        super().open()
        self.shards = {partition: self.loaded(partition) for partition in self.partitions}

    def loaded(self, partition: int) -> Shard:
        """A shard filled from the log as it is written now."""
        shard = new_shard(partition, **_SHARD)
        load_shard(shard, self.log(partition))
        return shard

    def ask(self, partition: int, request: Request) -> Decision:
        """Decides, appends, replays, as the runtime does; the answer waits for `flush`."""
        now_ms, shard = self.clock.now_ms(), self.shards[partition]
        decision = shard.decide(request, now_ms)
        batches = [batch for batch, _ in decision.batches]
        if decision.batch is not None:
            batches = [decision.batch]
        for batch in batches:
            self.append_batch(partition, batch)
        shard.apply(decision)
        if batches and request.request_id:
            assert decision.reply is not None
            key = (partition, type(request), request.group_id, request.request_id)
            self.answers[key] = Answer(
                asked_ms=now_ms,
                offset_next=shard.offset_next,
                request=request,
                reply=decision.reply,
            )
        return decision

    def append(
        self, partition: int, make: Callable[..., bytes], *arguments: Any, **more: Any
    ) -> None:
        """What a broker wrote, if it fits into a segment."""
        shard = self.shards[partition]
        batch = make(shard.offset_next, *arguments, **more)
        if len(batch) <= SEGMENT_BYTES:
            self.append_batch(partition, batch)
            replay(shard, batch)

    def expire(self, partition: int, terms: ExpiryTerms, limits: SliceLimits) -> None:
        """A whole sweep over a shard, now."""
        shard = self.shards[partition]

        def write(decision: Decision) -> None:
            for batch in batches_of(decision):
                self.append_batch(partition, batch)
            shard.apply(decision)

        for _ in slices(shard, self.clock.now_ms(), terms, limits=limits, write=write):
            pass

    def settle(self) -> None:
        """Takes what a recovered folder holds for all that there is, and what was answered then."""
        super().settle()
        self._states = {
            (partition, offset_next): state
            for (partition, offset_next), state in self._states.items()
            if offset_next <= self.acknowledged[partition]
        }
        self.answers = {
            key: each
            for key, each in self.answers.items()
            if each.offset_next <= self.acknowledged[key[0]]
        }

    # What has to hold.

    def expected(self, partition: int, offset_next: int) -> dict[str, object]:
        """What a shard knows that has replayed the log as nobody has cleaned it."""
        key = partition, offset_next
        if key not in self._states:
            batches = self.appended[partition].before(offset_next)
            self._states[key] = state_of(replayed(*batches, **_SHARD))
        return self._states[key]

    def check(self) -> None:
        """Live shards, those that a start fills, and those without any cleaning are the same."""
        self.flush()
        for partition, shard in self.shards.items():
            assert state_of(shard) == self.expected(partition, shard.offset_next)
            restarted = self.loaded(partition)
            assert state_of(restarted) == state_of(shard)
            assert restarted.offset_next == shard.offset_next
            self.check_offsets(partition)
            self.check_answers(partition, shard)
            self.check_answers(partition, restarted)

    def check_answers(self, partition: int, shard: Shard) -> None:
        """A retry within the window is answered as the first time, and changes nothing."""
        now_ms = self.clock.now_ms()
        for (of_partition, *_), answer in self.answers.items():
            if (
                of_partition == partition
                and answer.asked_ms >= now_ms - REQUEST_WINDOW_MS
                and answer.offset_next <= shard.offset_next
            ):
                again = shard.decide(answer.request, now_ms)
                assert (told(again.reply), again.refusal) == (told(answer.reply), None)
                assert (again.batch, again.batches) == (None, ())


@attrs.frozen
class NodeLog:
    """One partition of a node, as drawn steps know it (`shard_steps`)."""

    node: CompactedNode
    partition: int = 0

    def ask(self, request: Request) -> None:
        """What a client asks."""
        self.node.ask(self.partition, request)

    def expire(self, terms: ExpiryTerms, limits: SliceLimits) -> None:
        """A whole sweep, now."""
        self.node.expire(self.partition, terms, limits)

    def append(self, make: Callable[..., bytes], *arguments: Any, **more: Any) -> None:
        """What a broker wrote before us."""
        self.node.append(self.partition, make, *arguments, **more)
