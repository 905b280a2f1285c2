"""The node in its group: what it may write to, and when it says so. On a consumer that is told."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from confluent_kafka import KafkaError
from offsetd_coordinator.cluster.kafka_clients import ClusterNames
from offsetd_coordinator.cluster.partition_assignment import PartitionAssignment
from patience import PATIENCE_SECONDS
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@attrs.frozen
class Place:
    partition: int


@attrs.frozen
class Failure:
    is_fatal: bool
    number: int = KafkaError.UNKNOWN_MEMBER_ID

    def code(self) -> int:
        return self.number

    def fatal(self) -> bool:
        return self.is_fatal

    def str(self) -> str:
        return "as told"


@attrs.frozen
class ErrorMessage:
    failure: Failure

    def error(self) -> Failure:
        return self.failure


class FakeConsumer:
    """Carries out on the polling thread what a test puts into `told`."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self.generation = 1
        self.calls: list[str] = []
        self.on: dict[str, Callable[[Any, Any], None]] = {}

    def subscribe(self, topics: list[str], **callbacks: Callable[[Any, Any], None]) -> None:
        assert topics == ["__c_offsets"]
        self.on = callbacks

    def poll(self, _: float) -> Any:
        try:
            return self.told.get(timeout=0.005)()
        except queue.Empty:
            return None

    def consumer_group_metadata(self) -> str:
        return f"generation {self.generation}"

    def incremental_assign(self, _: Any) -> None:
        self.calls.append("assign")

    def pause(self, _: Any) -> None:
        self.calls.append("pause")

    def close(self) -> None:
        self.calls.append("close")


class Group:
    """A member, its consumer, and what it said, in order."""

    def __init__(self) -> None:
        self.consumer = FakeConsumer()
        self.names = ClusterNames(cluster_id="c")
        self.said: list[tuple[str, Any, Any]] = []
        self.errors: list[BaseException] = []
        clients: Any = self
        self.subject = PartitionAssignment(
            clients,
            "offsetd:n1@a:1",
            on_assigned=lambda terms: self._say("assigned", dict(terms)),
            on_revoked=lambda partitions: self._say("revoked", set(partitions)),
            on_lost=lambda partitions: self._say("lost", set(partitions)),
            on_failed=self.errors.append,
        )

    def member(self, client_id: str) -> FakeConsumer:
        """As `KafkaClients.member`."""
        assert client_id == "offsetd:n1@a:1"
        return self.consumer

    def _say(self, what: str, which: Any) -> None:
        self.said.append((what, which, self.subject.generation()))

    def tell(self, callback: str, *partitions: int, generation: int | None = None) -> None:
        """Kafka calls back with these partitions. Returns when the callback has begun."""
        begun = threading.Event()

        def call() -> None:
            if generation is not None:
                self.consumer.generation = generation
            begun.set()
            self.consumer.on[callback](self.consumer, [Place(each) for each in partitions])

        self.consumer.told.put(call)
        assert begun.wait(PATIENCE_SECONDS)

    def wait_for(self, count: int) -> tuple[str, Any, Any]:
        """The newest of so many that it said."""
        poll(lambda: len(self.said) == count, PATIENCE_SECONDS)
        return self.said[-1]


@pytest.fixture
def group() -> Iterator[Group]:
    made = Group()
    made.subject.start()
    yield made
    made.subject.leave()


def test_each_assignment_has_a_term_of_its_own_and_the_new_generation(group: Group) -> None:
    group.tell("on_assign", 0, 1, generation=2)
    assert group.wait_for(1) == ("assigned", {0: 1, 1: 1}, "generation 2")
    group.tell("on_assign", 2, generation=3)
    assert group.wait_for(2) == ("assigned", {2: 2}, "generation 3")
    assert group.subject.assigned == {0, 1, 2}
    # It reads no records.
    assert group.consumer.calls == ["assign", "pause"] * 2


def test_what_is_assigned_may_be_written_to_only_when_that_is_allowed(group: Group) -> None:
    group.tell("on_assign", 0, 1)
    group.wait_for(1)
    assert group.subject.owned == frozenset()
    assert group.subject.may_write({0: 1}) == {0}
    assert group.subject.owned == {0}


def test_a_term_that_has_ended_allows_nothing_though_the_partition_came_back(group: Group) -> None:
    group.tell("on_assign", 0)
    group.tell("on_revoke", 0)
    group.tell("on_assign", 0)
    group.wait_for(3)
    assert group.subject.may_write({0: 1}) == frozenset()
    assert group.subject.may_write({0: 2}) == {0}


def test_a_partition_is_given_up_after_its_release_and_after_the_running_attempt(
    group: Group,
) -> None:
    group.tell("on_assign", 0, 1)
    group.wait_for(1)
    group.subject.may_write({0: 1, 1: 1})
    with group.subject.turn:  # A transaction is running.
        group.tell("on_revoke", 0, generation=2)
        # The release itself is a transaction: the partition may be written to until then.
        assert group.wait_for(2) == ("revoked", {0}, "generation 2")
        assert group.subject.owned == {0, 1}
        assert group.subject.assigned == {1}
    poll(lambda: group.subject.owned == {1}, PATIENCE_SECONDS)


def test_what_was_lost_may_not_be_written_to_at_once(group: Group) -> None:
    """Another node may own it, so nothing is waited for."""
    group.tell("on_assign", 0, 1)
    group.wait_for(1)
    group.subject.may_write({0: 1, 1: 1})
    with group.subject.turn:
        group.tell("on_lost", 0, 1)
        assert group.wait_for(2)[:2] == ("lost", {0, 1})
        assert group.subject.owned == frozenset()


def test_an_error_that_is_not_fatal_is_survived(group: Group) -> None:
    group.consumer.told.put(lambda: ErrorMessage(Failure(is_fatal=False)))
    group.tell("on_assign", 0)
    group.wait_for(1)
    assert group.errors == []


def test_a_fatal_error_ends_the_node(group: Group) -> None:
    group.consumer.told.put(lambda: ErrorMessage(Failure(is_fatal=True)))
    poll(lambda: group.errors, PATIENCE_SECONDS)
    assert "cannot stay in its group" in str(group.errors[0])


def test_a_session_timeout_that_the_brokers_refuse_ends_the_node_and_is_named(
    group: Group,
) -> None:
    refused = Failure(is_fatal=False, number=KafkaError.INVALID_SESSION_TIMEOUT)
    group.consumer.told.put(lambda: ErrorMessage(refused))
    poll(lambda: group.errors, PATIENCE_SECONDS)
    for name in ("cluster.session.timeout.ms", "group.min.session.timeout.ms"):
        assert name in str(group.errors[0])


def test_leaving_closes_the_consumer(group: Group) -> None:
    group.subject.leave()
    assert group.consumer.calls == ["close"]
