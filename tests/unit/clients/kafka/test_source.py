"""offsetd_clients.kafka.source: what becomes of messages, and of what librdkafka says else."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from offsetd_clients import Bounds, CommittedOffset, TopicPartition
from offsetd_clients.kafka.out_of_range import PositionGone, Why
from offsetd_clients.kafka.source import GoesOn, KafkaSource, TopicMissing

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@attrs.frozen
class FakeMessage:
    """One of a partition, or an error."""

    at: TopicPartition
    number: int = 0
    epoch: int | None = 0
    problem: KafkaError | None = None

    def topic(self) -> str:
        return self.at.topic

    def partition(self) -> int:
        return self.at.partition

    def offset(self) -> int:
        return self.number

    def leader_epoch(self) -> int | None:
        return self.epoch

    def error(self) -> KafkaError | None:
        return self.problem


class FakeConsumer:
    """What librdkafka would have; `arrived` comes in its order."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.arrived: list[FakeMessage] = []
        self.fetched: dict[TopicPartition, tuple[int, int]] = {}
        self.bounds = {P0: (0, 100), P1: (0, 100)}
        self.cached = -1001
        self.counts: dict[str, Any] = {"t": 2}
        self.is_closed = False

    def list_topics(self, topic: str, timeout: float) -> Any:
        found = self.counts[topic]
        if isinstance(found, Exception):
            raise found
        error = found if isinstance(found, KafkaError) else None
        partitions = {} if error else dict.fromkeys(range(found))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions=partitions)})

    def get_watermark_offsets(
        self, at: KafkaTopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        if cached:
            return (-1001, self.cached)
        return self.bounds[TopicPartition(at.topic, at.partition)]

    def incremental_assign(self, partitions: list[KafkaTopicPartition]) -> None:
        for each in partitions:
            where = TopicPartition(each.topic, each.partition)
            assert where not in self.fetched
            self.fetched[where] = (
                each.offset,
                -1 if each.leader_epoch is None else each.leader_epoch,
            )

    def incremental_unassign(self, partitions: list[KafkaTopicPartition]) -> None:
        for each in partitions:
            del self.fetched[TopicPartition(each.topic, each.partition)]
        self._drop_outdated()

    def unassign(self) -> None:
        self.fetched.clear()
        self._drop_outdated()

    def _drop_outdated(self) -> None:
        """What arrived of a partition does not outlive its assignment, as librdkafka has it."""
        self.arrived = [each for each in self.arrived if each.at in self.fetched]

    def consume(self, count: int, timeout: float) -> list[FakeMessage]:
        taken, self.arrived = self.arrived[:count], self.arrived[count:]
        return taken

    def close(self) -> None:
        self.is_closed = True

    def arrive(self, at: TopicPartition, *offsets: int, epoch: int | None = 0) -> None:
        self.arrived += [FakeMessage(at, offset, epoch) for offset in offsets]

    def fail(self, code: int, at: TopicPartition = P0, number: int = 0) -> None:
        self.arrived.append(FakeMessage(at, number, problem=KafkaError(code)))


@pytest.fixture
def fake() -> FakeConsumer:
    return FakeConsumer({})


def source_of(fake: FakeConsumer, **options: Any) -> KafkaSource:
    made: Any = lambda _config: fake  # noqa: E731
    return KafkaSource(["t"], {}, group_id="g", make_consumer=made, **options)


def committed(offset: int, leader_epoch: int | None = None) -> Any:
    return CommittedOffset(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata="",
        commit_time=None,  # type: ignore[arg-type]
        expire_time=None,
        revision=0,
        end_offset=None,
    )


def offsets(source: KafkaSource, at: TopicPartition, offset: int, items_max: int = 10) -> list[int]:
    return [item.offset for item in source.read(at, offset, items_max)]


def test_each_partition_gives_its_own_messages_in_order(fake: FakeConsumer) -> None:
    source = source_of(fake)
    assert source.assign({P0: None, P1: None}) == {}
    assert offsets(source, P0, 5) == offsets(source, P1, 7) == []
    fake.arrive(P1, 7, 8)
    fake.arrive(P0, 5)
    assert offsets(source, P0, 5) == [5]
    assert offsets(source, P1, 7) == [7, 8]
    assert offsets(source, P0, 6) == []
    assert fake.fetched == {P0: (5, -1), P1: (7, -1)}


def test_messages_of_a_busy_partition_wait_at_librdkafka_and_not_here(fake: FakeConsumer) -> None:
    source = source_of(fake)
    source.assign({P0: None, P1: None})
    source.read(P0, 0, 10)
    fake.arrive(P0, *range(100))
    for _ in range(5):
        source.read(P1, 0, 10)
    assert len(fake.arrived) == 90
    assert offsets(source, P0, 0) == list(range(10))


def test_a_seek_drops_what_had_arrived(fake: FakeConsumer) -> None:
    source = source_of(fake)
    source.assign({P0: None, P1: None})
    source.read(P0, 0, 1)
    fake.arrive(P0, 0, 1, 2)
    assert offsets(source, P0, 0, 2) == [0, 1]
    assert offsets(source, P0, 50) == []
    assert fake.fetched[P0] == (50, -1)
    fake.arrive(P0, 50)
    assert offsets(source, P0, 50) == [50]


def test_another_assignment_drops_all_of_the_last_one(fake: FakeConsumer) -> None:
    source = source_of(fake)
    source.assign({P0: None, P1: None})
    fake.arrive(P0, 0, 1)
    fake.arrive(P1, 0)
    source.read(P0, 0, 1)
    source.assign({P1: None})
    assert fake.fetched == {}
    source.read(P1, 0, 1)
    fake.arrive(P1, 0)
    assert offsets(source, P1, 0) == [0]
    assert fake.fetched == {P1: (0, -1)}


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
    ],
)
def test_what_librdkafka_gets_over_is_logged(
    fake: FakeConsumer, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    source = source_of(fake)
    source.assign({P0: None})
    fake.fail(code)
    fake.arrive(P0, 0)
    assert offsets(source, P0, 0) == [0]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaException),
        (KafkaError._FATAL, KafkaException),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicMissing),
    ],
)
def test_what_it_does_not_get_over_is_raised(
    fake: FakeConsumer, code: int, raised: type[Exception]
) -> None:
    source = source_of(fake)
    source.assign({P0: None})
    fake.fail(code)
    with pytest.raises(raised):
        source.read(P0, 0, 10)


def test_what_arrived_behind_a_failure_is_given_to_who_reads_on(fake: FakeConsumer) -> None:
    source = source_of(fake)
    source.assign({P0: None, P1: None})
    source.read(P0, 0, 10)
    source.read(P1, 0, 10)
    fake.arrive(P0, 0)
    fake.fail(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    fake.arrive(P1, 0)
    fake.fail(KafkaError.UNKNOWN_TOPIC_OR_PART)
    fake.arrive(P0, 1, 2)
    with pytest.raises(KafkaException):  # The first one.
        source.read(P0, 0, 10)
    fake.arrive(P0, 3)
    assert offsets(source, P0, 0) == [0, 1, 2]
    assert offsets(source, P0, 3) == [3]
    assert offsets(source, P1, 0) == [0]


@pytest.mark.parametrize("code", [KafkaError._PARTITION_EOF, KafkaError.GROUP_AUTHORIZATION_FAILED])
def test_the_end_of_a_partition_and_a_group_that_is_not_used_are_no_errors(
    fake: FakeConsumer, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    source = source_of(fake)
    source.assign({P0: None})
    fake.fail(code)
    assert offsets(source, P0, 0) == []
    assert not caplog.records


@pytest.mark.parametrize(("rule", "offset"), [("earliest", 10), ("latest", 100)])
def test_a_position_that_went_meanwhile_goes_on_by_the_rule(
    fake: FakeConsumer, rule: Any, offset: int
) -> None:
    resets: list[Any] = []
    source = source_of(fake, out_of_range=rule, on_reset=resets.append)
    source.assign({P0: None})
    source.read(P0, 5, 10)
    fake.bounds[P0] = (10, 100)
    fake.fail(KafkaError._AUTO_OFFSET_RESET, number=5)
    with pytest.raises(GoesOn) as elsewhere:
        source.read(P0, 5, 10)
    assert (elsewhere.value.topic_partition, elsewhere.value.offset) == (P0, offset)
    assert [(each.why, each.position, each.offset) for each in resets] == [
        (Why.BEFORE_BEGIN, 5, offset)
    ]
    assert offsets(source, P0, offset) == []
    fake.arrive(P0, offset)
    assert offsets(source, P0, offset) == [offset]


def test_what_had_arrived_is_given_before_a_position_is_found_gone(fake: FakeConsumer) -> None:
    source = source_of(fake, out_of_range="earliest")
    source.assign({P0: None})
    fake.arrive(P0, 0, 1)
    fake.fail(KafkaError._AUTO_OFFSET_RESET, number=2)
    fake.bounds[P0] = (50, 100)
    assert offsets(source, P0, 0) == [0, 1]
    with pytest.raises(GoesOn):
        source.read(P0, 2, 10)


def test_an_error_of_the_position_before_a_seek_is_not_of_that_behind_it(
    fake: FakeConsumer,
) -> None:
    source = source_of(fake, out_of_range="latest")
    source.assign({P0: None})
    source.read(P0, 10, 10)
    source.read(P0, 20, 10)
    fake.fail(KafkaError._AUTO_OFFSET_RESET, number=10)  # Late: it outlives the assignment.
    assert offsets(source, P0, 20) == []
    assert fake.fetched[P0] == (20, -1)
    fake.arrive(P0, 20)
    assert offsets(source, P0, 20) == [20]


def test_an_error_of_another_offset_is_believed_when_it_comes_again(fake: FakeConsumer) -> None:
    source = source_of(fake, out_of_range="earliest")
    source.assign({P0: None})
    fake.bounds[P0] = (10, 100)
    fake.fail(KafkaError._AUTO_OFFSET_RESET, number=-1001)
    assert offsets(source, P0, 5) == []
    fake.fail(KafkaError._AUTO_OFFSET_RESET, number=-1001)
    with pytest.raises(GoesOn):
        source.read(P0, 5, 10)


def test_the_rule_error_is_raised_until_the_partition_is_sought(fake: FakeConsumer) -> None:
    source = source_of(fake)
    source.assign({P0: None})
    source.read(P0, 5, 10)
    fake.bounds[P0] = (10, 100)
    fake.fail(KafkaError._AUTO_OFFSET_RESET, number=5)
    for _ in range(2):
        with pytest.raises(PositionGone):
            source.read(P0, 5, 10)
    assert offsets(source, P0, 10) == []
    fake.arrive(P0, 10)
    assert offsets(source, P0, 10) == [10]


@pytest.mark.parametrize(
    ("stored", "first", "is_gone"),
    [(3, 2, True), (3, 3, False), (3, 4, False), (3, None, False), (None, 0, False)],
)
def test_a_message_that_is_older_than_what_was_committed_before_it_is_of_another_topic(
    fake: FakeConsumer, stored: int | None, first: int | None, is_gone: bool
) -> None:
    source = source_of(fake, out_of_range="earliest")
    source.assign({P0: committed(5, stored)})
    fake.arrive(P0, 5, epoch=first)
    if not is_gone:
        assert offsets(source, P0, 5) == [5]
        return
    with pytest.raises(GoesOn) as elsewhere:
        source.read(P0, 5, 10)
    assert elsewhere.value.offset == 0


def test_a_truncated_partition_stays_so_when_it_is_asked_again(fake: FakeConsumer) -> None:
    source = source_of(fake)
    source.assign({P0: committed(5, 3)})
    for _ in range(2):
        fake.arrive(P0, 5, epoch=2)
        with pytest.raises(PositionGone, match="truncated"):
            source.read(P0, 5, 10)


def test_all_partitions_that_begin_out_of_range_are_named_at_once(fake: FakeConsumer) -> None:
    source = source_of(fake)
    with pytest.raises(PositionGone) as gone:
        source.assign({P0: committed(101), P1: committed(102)})
    assert [each.position for each in gone.value.resets] == [101, 102]
    elsewhere = source_of(fake, out_of_range="latest")
    assert elsewhere.assign({P0: committed(101), P1: committed(99)}) == {P0: 100}


def test_a_topic_without_partitions_or_leave_is_raised_and_an_answer_before_stands(
    fake: FakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    source = source_of(fake)
    no_answer = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    fake.counts["t"] = no_answer
    with pytest.raises(KafkaException):
        source.partition_counts()
    fake.counts["t"] = 2
    assert source.partition_counts() == {"t": 2}
    fake.counts["t"] = no_answer
    assert source.partition_counts() == {"t": 2}
    assert len(caplog.records) == 1
    fake.counts["t"] = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    with pytest.raises(TopicMissing, match="t"):
        source.partition_counts()


def test_the_end_of_a_partition_that_is_read_is_the_one_that_fetches_told(
    fake: FakeConsumer,
) -> None:
    source = source_of(fake)
    source.assign({P0: None})
    assert source.bounds(P0) == Bounds(0, 100)
    source.read(P0, 0, 10)
    assert source.bounds(P0) == Bounds(0, 100)  # None has told it yet.
    fake.cached = 120
    assert source.bounds(P0) == Bounds(None, 120)


def test_a_rule_that_is_none_is_refused(fake: FakeConsumer) -> None:
    with pytest.raises(ValueError, match="earliest, latest, error"):
        source_of(fake, out_of_range="beginning")


def test_librdkafka_is_let_go_in_the_end(fake: FakeConsumer) -> None:
    source_of(fake).close()
    assert fake.is_closed
