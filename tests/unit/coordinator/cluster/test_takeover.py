"""A takeover, step by step: what it waits for, and from which log offset it goes on."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from random import Random
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from confluent_kafka import IsolationLevel, KafkaError
from fake_producers import FakeKafka, failed
from log_stores import P0, opened
from offsetd_coordinator.cluster import takeover
from offsetd_coordinator.cluster.claims import Claim
from offsetd_coordinator.cluster.copy_checkpoint import CopyCheckpoint
from offsetd_coordinator.cluster.takeover import NodeIdentity, Takeovers
from offsetd_coordinator.counters import ClusterCounters
from offsetd_coordinator.shard.shard import ShardConfig
from offsetd_storage.disk.simulated_files import SimulatedFiles
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from offsetd_coordinator.shard.shard import Shard

LEASE_S = 5.0
NO_OFFSET = -1001
FORMER = Claim(epoch=6, node_id="n2", address="b:1", producers=2, first_offset=10)
PENDING = failed(KafkaError.UNSTABLE_OFFSET_COMMIT, retriable=True)


class Brokers(FakeKafka):
    """One partition: its end, its last stable offset, and what it says of pending offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.end = 40
        self.stable: deque[int] = deque()
        self.without_offset = 0  # So many answers have none.
        self.pending: deque[Any] = deque()
        self.steps: list[str] = []
        self.fenced: list[str | None] = []

    def admin(self) -> Brokers:
        return self

    def reader(self) -> Brokers:
        return self

    def producer(self, number: int, *, node_id: str | None = None) -> Any:
        self.fenced.append(node_id)
        self.steps.append("end its transactions")
        return super().producer(number)

    def committed(self, wanted: list[Any], _: float) -> list[Any]:  # type: ignore[override]
        self.steps.append("ask for offsets")
        if self.pending:
            raise self.pending.popleft()
        return [attrs.make_class("Found", ["error"])(None) for _ in wanted]

    def list_offsets(
        self, asked: dict[Any, Any], *, isolation_level: IsolationLevel, request_timeout: float
    ) -> dict[Any, Any]:
        assert request_timeout
        offset = self.end
        if isolation_level is IsolationLevel.READ_COMMITTED:
            offset = self.stable.popleft() if self.stable else self.end
            self.steps.append(f"stable up to {offset}")
        if self.without_offset:
            self.without_offset -= 1
            offset = NO_OFFSET
        futures = {}
        for each in asked:
            futures[each] = Future[Any]()
            futures[each].set_result(attrs.make_class("Listed", ["offset"])(offset))
        return futures


@attrs.define
class Member:
    """The group: what it has assigned, and what may be written to."""

    terms: dict[int, int] = attrs.field(factory=lambda: {0: 1})
    owned: set[int] = attrs.field(factory=set)

    def still_assigned(self, terms: Mapping[int, int]) -> frozenset[int]:
        return frozenset(each for each, term in terms.items() if self.terms.get(each) == term)

    def may_write(self, terms: Mapping[int, int]) -> frozenset[int]:
        self.owned |= self.still_assigned(terms)
        return frozenset(self.owned)


class Taking:
    """One takeover of partition 0, with a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kafka = Brokers()
        self.steps = self.kafka.steps
        self.member = Member()
        self.copies = CopyCheckpoint(topic_id="t", cluster_id="c")
        self.store = opened(SimulatedFiles(), random=Random(1))
        self.now_s = 100.0
        self.living: set[str] = set()
        self.claims: list[Claim] = []
        self.served: list[tuple[int, Shard]] = []
        self.errors: list[BaseException] = []
        self._done = threading.Event()
        clock = attrs.make_class("Clock", ["monotonic", "sleep"])(lambda: self.now_s, self._sleep)
        monkeypatch.setattr(takeover, "time", clock)

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def catch_up(self, ends: Mapping[int, int]) -> list[Future[None]]:
        futures = []
        for end in ends.values():
            self.steps.append(f"read up to {end}")
            futures.append(Future[None]())
            futures[-1].set_result(None)
        return futures

    def _commit_claims(self, claims: dict[int, Claim]) -> None:
        if claims:
            self.steps.append("claim")
            self.claims += claims.values()

    def _serve(self, partition: int, shard: Shard, term: int) -> None:
        assert term == 1
        self.steps.append(f"serve at {self.now_s - 100:.1f} s")
        self.served.append((partition, shard))

    def run(self) -> None:
        untyped: Any = self
        takeovers = Takeovers(
            untyped.kafka,
            self.store,
            self.copies,
            untyped,
            untyped.member,
            identity=NodeIdentity(node_id="n1", address="a:1", producers=3),
            shard_config=ShardConfig(partitions=3),
            read_lease_seconds=LEASE_S,
            counters=ClusterCounters(),
            is_member=self.living.__contains__,
            commit_claims=self._commit_claims,
            serve=self._serve,
            on_taken=self._done.set,
            on_failed=self.errors.append,
        )
        takeovers.start()
        takeovers.take({0: 1})
        takeovers.stop()
        assert self._done.wait(PATIENCE_SECONDS), self.errors
        assert not self.errors


@pytest.fixture
def taking(monkeypatch: pytest.MonkeyPatch) -> Taking:
    return Taking(monkeypatch)


def without(steps: list[str], *left_out: str) -> list[str]:
    return [each for each in steps if not each.startswith(left_out)]


def test_the_steps_come_in_order_and_a_claim_is_committed_before_the_partition_serves(
    taking: Taking,
) -> None:
    taking.run()
    assert taking.steps == [
        "ask for offsets",
        "stable up to 40",
        "read up to 40",
        "claim",
        "serve at 0.0 s",
    ]


def test_it_reads_to_the_end_and_not_only_to_what_was_decided_already(taking: Taking) -> None:
    """What a former owner has acknowledged may be above the last stable offset for a moment."""
    taking.kafka.stable = deque([25, 25, 31, 40])
    taking.run()
    assert [each for each in taking.steps if each.startswith("stable")][-1] == "stable up to 40"
    assert without(taking.steps, "stable") == [
        "ask for offsets",
        "read up to 40",
        "claim",
        "serve at 0.1 s",
    ]


def test_it_waits_until_no_offsets_are_pending_before_it_takes_the_end(taking: Taking) -> None:
    """A transaction that is refused later can be no longer in the way then."""
    taking.kafka.pending = deque([PENDING, PENDING])
    taking.copies.note_claim(0, attrs.evolve(FORMER, is_released=True))
    taking.run()
    last_question = max(at for at, each in enumerate(taking.steps) if each == "ask for offsets")
    assert taking.steps.count("ask for offsets") == 3
    assert without(taking.steps[last_question:], "stable", "end") == [
        "ask for offsets",
        "read up to 40",
        "claim",
        "serve at 0.0 s",
    ]


@pytest.mark.parametrize(
    ("former", "living", "fenced"),
    [
        (FORMER, set(), ["n2", "n2"]),
        (FORMER, {"n2"}, []),  # It ends its own transactions.
        (attrs.evolve(FORMER, node_id="n1"), set(), []),  # This node did when it began.
        (None, set(), []),
    ],
)
def test_it_ends_the_transactions_of_a_former_owner_that_is_gone(
    taking: Taking, former: Claim | None, living: set[str], fenced: list[str]
) -> None:
    taking.living = living
    if former is not None:
        taking.copies.note_claim(0, former)
    taking.kafka.stable = deque([25] * 20)
    taking.run()
    assert taking.kafka.fenced == fenced
    assert len(taking.served) == 1


@pytest.mark.parametrize(
    ("former", "wait_s"),
    [
        (None, 0.0),
        (FORMER, LEASE_S),
        (attrs.evolve(FORMER, read_lease_ms=round(500 * LEASE_S)), LEASE_S),
        (attrs.evolve(FORMER, read_lease_ms=round(3000 * LEASE_S)), 3 * LEASE_S),
        (attrs.evolve(FORMER, is_released=True), 0.0),
    ],
)
def test_it_waits_for_the_read_lease_of_a_former_owner_that_did_not_release(
    taking: Taking, former: Claim | None, wait_s: float
) -> None:
    if former is not None:
        taking.copies.note_claim(0, former)
    taking.run()
    assert taking.steps[-2:] == ["claim", f"serve at {wait_s:.1f} s"]
    assert taking.claims[0].read_lease_ms == round(1000 * LEASE_S)


def test_log_offsets_go_on_above_all_that_were_given_out_whatever_compaction_left(
    taking: Taking,
) -> None:
    """The copy is empty: all that was written were tombstones, and they are gone."""
    taking.kafka.end = 5000
    taking.copies.note_claim(0, attrs.evolve(FORMER, shift=70, is_released=True))
    taking.run()
    [claim] = taking.claims
    assert (claim.first_offset, claim.shift, claim.epoch) == (5070, 70, FORMER.epoch + 1)
    assert (claim.node_id, claim.producers, claim.is_released) == ("n1", 3, False)
    [(partition, shard)] = taking.served
    assert (partition, shard.offset_next) == (0, 5070)
    assert taking.store.log(P0).offset_next == 5070


def test_log_offsets_go_on_above_the_copy_if_it_ends_higher(taking: Taking) -> None:
    takeover.fill_gap(taking.store, P0, 99)
    taking.run()
    assert taking.claims[0].first_offset == 99
    assert taking.claims[0].epoch == 1


@pytest.mark.parametrize("step", ["ask for offsets", "stable", "read"])
def test_a_partition_that_is_given_up_meanwhile_is_neither_claimed_nor_served(
    taking: Taking, step: str
) -> None:
    class Steps(list[str]):
        def append(self, each: str) -> None:
            super().append(each)
            if each.startswith(step):
                taking.member.terms = {0: 2}  # Given up, and assigned again: another takeover's.

    taking.kafka.steps = taking.steps = Steps()
    taking.kafka.stable = deque([25] * 40)
    taking.run()
    assert not taking.claims
    assert not taking.served


def test_no_offset_is_no_end(taking: Taking) -> None:
    """While a leader changes, librdkafka gives no offset (-1001), and no error."""
    taking.kafka.without_offset = 2
    taking.run()
    assert without(taking.steps, "ask", "stable", "end", "serve") == ["read up to 40", "claim"]
    assert len(taking.served) == 1


def test_ends_are_asked_again_until_the_brokers_answer(
    taking: Taking, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, refusals = taking.kafka.list_offsets, deque([TimeoutError(), PENDING])

    def refused(asked: Collection[Any], **more: Any) -> Any:
        futures = listed(asked, **more)  # type: ignore[arg-type]
        if refusals:
            for each in futures:
                futures[each] = Future()
                futures[each].set_exception(refusals[0])
            refusals.popleft()
        return futures

    monkeypatch.setattr(taking.kafka, "list_offsets", refused)
    taking.run()
    assert len(taking.served) == 1
