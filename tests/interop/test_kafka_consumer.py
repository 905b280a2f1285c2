"""Consumers of a real broker's topics, whose offsets are here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from interop.kafka_topic import KafkaTopic
from offsetd_clients import (
    ConsumerFenced,
    ConsumerSettings,
    LeaseTerms,
    OffsetClient,
    OffsetToCommit,
    StartUnknown,
    TopicPartition,
)
from offsetd_clients.kafka import KafkaConsumer, PositionGone, PositionReset, TopicMissing, Why
from patience import PATIENCE_SECONDS
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interop.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=1)]

WORKER = Path(__file__).with_name("kafka_consumer_worker.py")


@pytest.fixture(scope="module")
def broker(
    used_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    copy = used_broker.copy_to(tmp_path_factory.mktemp("consumed") / "broker")
    with copy.running():
        yield copy


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {"group.initial.rebalance.delay.ms": 200, "group.min.session.timeout.ms": 100}
    with ServerProcess(tmp_path_factory.mktemp("offsets"), settings=settings) as process:
        yield process.wait_until_serving()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[OffsetClient]:
    with OffsetClient(server.address) as client:
        yield client


def settings(**changed: Any) -> ConsumerSettings:
    """A consumer under a lease, which commits when it is told to, and at its end."""
    defaults = {"lease": LeaseTerms(holder="first"), "idle_wait_s": 0.01}
    return ConsumerSettings(**{**defaults, **changed})


def consumer(
    client: OffsetClient, topic: KafkaTopic, group_id: str = "", **options: Any
) -> KafkaConsumer:
    """Of the group that bears the topic's name."""
    changed = options.pop("settings", None) or settings()
    config = {"bootstrap.servers": topic.address, "log_level": 0}
    return KafkaConsumer(client, group_id or topic.name, [topic.name], config, changed, **options)


def taken(consumer: KafkaConsumer, count: int) -> list[tuple[int, int, str]]:
    """The next messages: partition, offset, value."""
    found = []
    for item in consumer:
        value = item.value.value()
        assert isinstance(value, bytes)
        found.append((item.topic_partition.partition, item.offset, value.decode()))
        if len(found) == count:
            consumer.ack(item)
            break
    return found


def test_a_restart_goes_on_exactly_where_the_last_one_ended(
    broker: KafkaBroker, client: OffsetClient
) -> None:
    topic = KafkaTopic(broker.address, 2)
    topic.produce(0, range(30))
    topic.produce(1, range(30, 60))
    found = []
    for count in (7, 1, 22, 30):
        with consumer(client, topic) as reader:
            found += taken(reader, count)
    assert sorted(found) == [(each // 30, each % 30, str(each)) for each in range(60)]
    stored = client.fetch(topic.name)
    assert {
        where: (each.offset, each.leader_epoch, each.end_offset) for where, each in stored.items()
    } == {topic.at(0): (30, 0, 30), topic.at(1): (30, 0, 30)}
    assert topic.name not in broker.groups()  # Kafka has never heard of it.


def test_a_message_counts_as_processed_when_the_next_is_asked_for(
    broker: KafkaBroker, client: OffsetClient
) -> None:
    topic = KafkaTopic(broker.address)
    topic.produce(0, range(3))
    reader = consumer(client, topic)
    with reader:
        for item in reader:
            if item.offset == 2:
                break
    assert client.fetch(topic.name)[topic.at(0)].offset == 2


def test_a_killed_consumer_has_committed_nothing_that_it_did_not_process(
    broker: KafkaBroker, client: OffsetClient, server: ServerProcess, tmp_path: Path
) -> None:
    topic = KafkaTopic(broker.address, 3)
    for partition in range(3):
        topic.produce(partition, range(2000))
    processed = tmp_path / "processed"
    done: dict[int, set[int]] = {}
    while sum(map(len, done.values())) < 6000:
        command = [sys.executable, WORKER, server.address, topic.address, topic.name, processed]
        with subprocess.Popen(command) as worker:
            _wait_for_lines(processed, _lines(processed) + 1500)
            os.kill(worker.pid, signal.SIGKILL)
        done = _processed(processed)
        for where, stored in client.fetch(topic.name).items():
            assert set(range(stored.offset)) <= done.get(where.partition, set())


def _wait_for_lines(path: Path, count: int) -> None:
    """Until there are so many, or all."""
    poll(lambda: _lines(path) >= count or _is_whole(path), PATIENCE_SECONDS)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _is_whole(path: Path) -> bool:
    return path.exists() and sum(map(len, _processed(path).values())) == 6000


def _processed(path: Path) -> dict[int, set[int]]:
    """Offsets by partition; a last line that is cut was not processed."""
    done: dict[int, set[int]] = {}
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            partition, offset = line.split()
            done.setdefault(int(partition), set()).add(int(offset))
    return done


def test_a_second_writer_that_takes_over_fences_the_first(
    broker: KafkaBroker, client: OffsetClient
) -> None:
    topic = KafkaTopic(broker.address)
    topic.produce(0, range(20))
    first = consumer(client, topic)
    taken(first, 5)
    first.commit()
    client.acquire_group(topic.name, "second", force=True)
    item = next(first)
    with pytest.raises(ConsumerFenced, match="fenced"):
        first.commit(item)
    first.close()
    assert client.fetch(topic.name)[topic.at(0)].offset == 5


def test_a_writer_waits_while_another_has_the_lease(
    broker: KafkaBroker, client: OffsetClient
) -> None:
    topic = KafkaTopic(broker.address)
    topic.produce(0, range(4))
    first = consumer(client, topic)
    assert len(taken(first, 2)) == 2
    with consumer(
        client, topic, settings=settings(lease=LeaseTerms(holder="second", ttl_s=1))
    ) as second:
        assert second.poll(timeout_s=0.2) == []
        first.close()
        assert [each[1] for each in taken(second, 2)] == [2, 3]


@pytest.mark.parametrize(
    ("committed", "leader_epoch", "rule", "goes_on", "why"),
    [
        (3, None, "earliest", 10, Why.BEFORE_BEGIN),
        (3, None, "latest", 20, Why.BEFORE_BEGIN),
        (3, None, "error", None, Why.BEFORE_BEGIN),
        (500, None, "earliest", 10, Why.BEHIND_END),
        (500, None, "latest", 20, Why.BEHIND_END),
        (500, None, "error", None, Why.BEHIND_END),
        (15, 7, "earliest", 10, Why.TRUNCATED),
        (15, 7, "latest", 20, Why.TRUNCATED),
        (15, 7, "error", None, Why.TRUNCATED),
        (15, 0, "error", 15, None),
        (10, None, "error", 10, None),
        (20, None, "error", 20, None),
    ],
)
def test_what_was_committed_and_is_not_there_goes_by_the_rule(
    kept_topic: KafkaTopic,
    client: OffsetClient,
    committed: int,
    leader_epoch: int | None,
    rule: Any,
    goes_on: int | None,
    why: Why | None,
) -> None:
    group_id = f"{committed}-{leader_epoch}-{rule}"
    where = kept_topic.at(0)
    client.commit(group_id, {where: OffsetToCommit(committed, leader_epoch=leader_epoch)})
    resets: list[PositionReset] = []
    reader = consumer(client, kept_topic, group_id, out_of_range=rule, on_reset=resets.append)
    with reader:
        if goes_on is None:
            for _ in range(2):  # It stays so.
                with pytest.raises(PositionGone, match="Kafka has 10 to 20"):
                    taken(reader, 1)
            assert client.fetch(group_id)[where].offset == committed
        elif goes_on == 20:
            poll(
                lambda: not reader.poll(timeout_s=0.05) and reader.positions == {where: 20},
                PATIENCE_SECONDS,
            )
        else:
            assert taken(reader, 20 - goes_on)[0][1] == goes_on
    if goes_on is not None:
        assert client.fetch(group_id)[where].offset == 20
    assert {(each.why, each.offset) for each in resets} == ({(why, goes_on)} if why else set())


@pytest.mark.parametrize(("committed", "leader_epoch"), [(3, None), (500, None), (15, 7)])
def test_what_is_not_there_is_passed_by_a_seek(
    kept_topic: KafkaTopic, client: OffsetClient, committed: int, leader_epoch: int | None
) -> None:
    group_id = f"sought-from-{committed}"
    where = kept_topic.at(0)
    client.commit(group_id, {where: OffsetToCommit(committed, leader_epoch=leader_epoch)})
    with consumer(client, kept_topic, group_id) as reader:
        with pytest.raises(PositionGone) as gone:
            taken(reader, 1)
        for reset in gone.value.resets:
            reader.seek(reset.topic_partition, reset.earliest)
        assert [each[1] for each in taken(reader, 2)] == [10, 11]
    assert client.fetch(group_id)[where].offset == 12


@pytest.fixture(scope="module")
def kept_topic(broker: KafkaBroker) -> KafkaTopic:
    """Of its 20 messages the last 10 are left."""
    topic = KafkaTopic(broker.address)
    topic.produce(0, range(20))
    topic.delete_before(0, 10)
    return topic


@pytest.mark.parametrize(("start", "first"), [("earliest", 10), ("latest", 20), ("error", None)])
def test_where_nothing_was_committed_start_says_where_to_begin(
    kept_topic: KafkaTopic, client: OffsetClient, start: Any, first: int | None
) -> None:
    group_id = f"started-at-{start}"
    with consumer(client, kept_topic, group_id, settings=settings(start=start)) as reader:
        if first is None:
            with pytest.raises(StartUnknown):
                reader.poll()
            return
        poll(lambda: reader.poll(1, timeout_s=0.05) or reader.positions, PATIENCE_SECONDS)
        assert reader.positions == {kept_topic.at(0): first}
    # Also where nothing was read: whoever comes next begins here, and not at a later end.
    assert client.fetch(group_id)[kept_topic.at(0)].offset == first


def test_what_is_deleted_while_it_is_read_goes_by_the_rule(
    broker: KafkaBroker, client: OffsetClient
) -> None:
    topic = KafkaTopic(broker.address)
    topic.produce(0, range(10))
    resets: list[PositionReset] = []
    reader = consumer(client, topic, out_of_range="earliest", on_reset=resets.append)
    with reader:
        assert [each[1] for each in taken(reader, 10)] == list(range(10))
        topic.produce(0, range(10, 20))
        topic.delete_before(0, 15)
        reader.seek(topic.at(0), 3)
        assert [each[1] for each in taken(reader, 5)] == list(range(15, 20))
    assert [(each.why, each.position, each.offset) for each in resets] == [
        (Why.BEFORE_BEGIN, 3, 15)
    ]


def test_a_topic_that_was_made_anew_is_read_from_its_beginning_by_the_rule(
    broker: KafkaBroker, client: OffsetClient
) -> None:
    topic = KafkaTopic(broker.address)
    topic.produce(0, range(10))
    with consumer(client, topic) as reader:
        taken(reader, 10)
    topic.make_anew(1)
    topic.produce(0, ["new"])
    with consumer(client, topic, out_of_range="earliest") as reader:
        assert taken(reader, 1) == [(0, 0, "new")]
    assert client.fetch(topic.name)[topic.at(0)].offset == 1


def test_a_topic_that_is_not_there_is_named(broker: KafkaBroker, client: OffsetClient) -> None:
    config = {"bootstrap.servers": broker.address, "log_level": 0}
    with KafkaConsumer(client, "of-nothing", ["nosuch"], config, settings()) as reader:
        for _ in range(2):
            with pytest.raises(TopicMissing, match="nosuch"):
                reader.poll()


def test_new_partitions_are_noticed(broker: KafkaBroker, client: OffsetClient) -> None:
    topic = KafkaTopic(broker.address)
    topic.produce(0, ["old"])
    with consumer(client, topic, settings=settings(source_interval_s=0.05)) as reader:
        taken(reader, 1)
        topic.widen(2)
        topic.produce(1, ["new"])
        assert taken(reader, 1) == [(1, 0, "new")]
    assert {each.offset for each in client.fetch(topic.name).values()} == {1}


class Member(threading.Thread):
    """A member of a group, which reads until it is told to stop."""

    def __init__(self, server: ServerProcess, topic: KafkaTopic) -> None:
        super().__init__(daemon=True)
        self._client = OffsetClient(server.address)
        self.found: list[tuple[TopicPartition, int]] = []
        self.revoked: list[tuple[TopicPartition, int | None]] = []
        self.consumer = consumer(
            self._client,
            topic,
            settings=settings(
                lease=None,
                heartbeat_interval_s=0.1,
                session_timeout_s=60.0,
                # Only what is revoked is committed.
                auto_commit_interval_s=1000.0,
            ),
            on_revoked=self._note_revoked,
        )
        self.start()

    def run(self) -> None:
        with closing(self._client), self.consumer:
            for item in self.consumer:
                self.found.append((item.topic_partition, item.offset))

    def stop(self) -> None:
        self.consumer.wakeup()
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive()

    def _note_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        stored = self._client.fetch(self.consumer.group_id)
        positions = self.consumer.positions
        assert {each: stored[each].offset for each in partitions} == positions
        self.revoked += [(each, stored[each].offset) for each in partitions]


def test_members_share_the_partitions_and_commit_them_before_they_give_them_up(
    broker: KafkaBroker, client: OffsetClient, server: ServerProcess
) -> None:
    topic = KafkaTopic(broker.address, 4)
    for partition in range(4):
        topic.produce(partition, range(100))
    first = Member(server, topic)
    poll(lambda: len(first.found) >= 400, PATIENCE_SECONDS)
    second = Member(server, topic)
    poll(lambda: len(second.consumer.assignment) == 2, PATIENCE_SECONDS)
    assert {each for each, _ in first.revoked} == {topic.at(each) for each in range(4)}
    for partition in range(4):
        topic.produce(partition, range(100, 200))
    poll(lambda: len(first.found) + len(second.found) >= 800, PATIENCE_SECONDS)
    # What was revoked had been read to its end: nobody reads it twice.
    assert sorted(first.found + second.found) == [
        (topic.at(partition), offset) for partition in range(4) for offset in range(200)
    ]
    for member in (first, second):
        member.stop()
    assert {
        where: (each.offset, each.leader_epoch) for where, each in client.fetch(topic.name).items()
    } == {topic.at(partition): (200, 0) for partition in range(4)}
