"""`offsetd log clean` and `log retain` on topics of a stopped broker, which then serves them.

No journal of ours knows these logs, and nothing of ours is left in the folder.
"""

from collections.abc import Iterator
from contextlib import closing

import attrs
import pytest
from interop.kafka_broker import CALL_S_MAX, KafkaBroker
from log_commands import offsetd_log
from offsetd_storage.log.segment_list import SEGMENT_LIST_NAME
from offsetd_storage.recovery.clean_shutdown_marker import CLOSED_MARK_NAME

try:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
    from confluent_kafka import TopicPartition as KafkaTopicPartition
except ModuleNotFoundError:
    pass  # Then there is no broker either.

pytestmark = pytest.mark.kafka

COMPACTED, DELETED = "compacted", "deleted"
RECORDS, KEYS, VALUE_BYTES = 60, 7, 100_000
SEGMENT_BYTES = 1 << 20
KEPT_BYTES = 3 << 20
# The broker itself removes nothing.
NEVER = {
    "segment.bytes": str(SEGMENT_BYTES),
    "min.compaction.lag.ms": str(2**62),
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
Records = list[tuple[int, bytes | None, bytes | None]]  # Offsets, keys and values.


@attrs.frozen(kw_only=True)
class Serving:
    """A broker on what we have cleaned and shortened, and what it had served before."""

    broker: KafkaBroker
    before: dict[str, Records]
    after: dict[str, Records]


@pytest.fixture(scope="module")
def serving(
    used_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    broker = used_broker.copy_to(tmp_path_factory.mktemp("guests") / "broker")
    with broker.running():
        broker.create_topic(COMPACTED, 1, settings=NEVER | {"cleanup.policy": "compact"})
        broker.create_topic(DELETED, 1, settings=NEVER | {"cleanup.policy": "delete"})
        for topic in (COMPACTED, DELETED):
            produce(broker, topic)
        before = {topic: read(broker, topic) for topic in (COMPACTED, DELETED)}
    folder = broker.data_folder
    names = {path.name for path in folder.iterdir()}
    arguments = ("--data-dir", str(folder), "--set", f"internal.segment.bytes={SEGMENT_BYTES}")
    policy = ("--set", "cleanup.policy=compact")
    cleaned = offsetd_log("clean", *arguments, "--topic", COMPACTED, "--roll-active", *policy)
    assert cleaned.code == 0, cleaned.err
    limits = ("--set", "cleanup.policy=delete", "--set", f"retention.bytes={KEPT_BYTES}")
    retained = offsetd_log("retain", *arguments, "--topic", DELETED, *limits)
    assert retained.code == 0, retained.err
    ours = {CLOSED_MARK_NAME, SEGMENT_LIST_NAME, "offsetd.properties", "offsetd-journal-0"}
    assert not ours & {path.name for path in folder.rglob("*")}
    assert {path.name for path in folder.iterdir()} - names <= {".lock"}
    with broker.running():
        after = {topic: read(broker, topic) for topic in (COMPACTED, DELETED)}
        yield Serving(broker=broker, before=before, after=after)


def produce(broker: KafkaBroker, topic: str) -> None:
    """Keys that come again and again, also in transactions that are committed or aborted."""
    settings = {"bootstrap.servers": broker.address, "log_level": 0}
    plain = Producer(settings)
    transactional = Producer(settings | {"transactional.id": topic})
    transactional.init_transactions(CALL_S_MAX)
    for number in range(RECORDS):
        key, value = b"key-%d" % (number % KEYS), b"%d " % number * (VALUE_BYTES // 3)
        if number % 4:
            plain.produce(topic, key=key, value=value, partition=0)
            assert plain.flush(CALL_S_MAX) == 0
            continue
        transactional.begin_transaction()
        transactional.produce(topic, key=key, value=value, partition=0)
        if number % 8:
            transactional.commit_transaction(CALL_S_MAX)
        else:
            transactional.abort_transaction(CALL_S_MAX)
    plain.produce(topic, key=b"key-0", value=None, partition=0)
    assert plain.flush(CALL_S_MAX) == 0


def read(broker: KafkaBroker, topic: str) -> Records:
    """All that a consumer gets that reads what was committed."""
    settings = {
        "bootstrap.servers": broker.address,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "log_level": 0,
    }
    found: Records = []
    with closing(Consumer(settings)) as consumer:
        consumer.assign([KafkaTopicPartition(topic, 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(CALL_S_MAX)
            assert message is not None, f"nothing comes of {topic}"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return found
            found.append((message.offset(), message.key(), message.value()))


def test_of_a_topic_that_we_cleaned_a_broker_serves_the_last_record_of_each_key(
    serving: Serving,
) -> None:
    before, after = serving.before[COMPACTED], serving.after[COMPACTED]
    last = {key: offset for offset, key, _ in before}
    assert after == [each for each in before if each[0] == last[each[1]]]
    assert len(after) < len(before) / 3


def test_of_a_topic_that_we_shortened_a_broker_serves_the_newest_records(serving: Serving) -> None:
    before, after = serving.before[DELETED], serving.after[DELETED]
    assert after == before[-len(after) :]
    assert len(before) / 3 < len(after) < len(before)


@pytest.mark.parametrize("topic", [COMPACTED, DELETED])
def test_the_broker_goes_on_writing_there(serving: Serving, topic: str) -> None:
    producer = Producer({"bootstrap.servers": serving.broker.address, "log_level": 0})
    producer.produce(topic, key=b"new", value=b"1", partition=0)
    assert producer.flush(CALL_S_MAX) == 0
    last, after = read(serving.broker, topic)[-1], serving.after[topic]
    assert last == (after[-1][0] + 1, b"new", b"1")
