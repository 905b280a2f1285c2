"""A real Kafka broker is given partition folders that our cleaner has cleaned."""

import shutil
from collections.abc import Iterator
from contextlib import closing

import pytest
from compaction.cases import SHAPES, drawn
from compaction.comparison import segments_in
from compaction.logs import Case
from compaction.ours import clean_once
from interop.kafka_broker import CALL_S_MAX, KafkaBroker
from offsetd_storage.batch.record_batch import decode_batches

try:
    from confluent_kafka import OFFSET_BEGINNING, Consumer
    from confluent_kafka import TopicPartition as KafkaTopicPartition
except ModuleNotFoundError:
    pass  # Then there is no broker either.

pytestmark = pytest.mark.kafka

TOPIC = "compacted"
# A broker that was stopped in order goes by files that these folders have not: which producers are
# in a transaction, and leaders that this broker never had.
NAMES = [
    name for name, shape in SHAPES.items() if not (shape.leader_changes or shape.transactional)
]
NO_CLEANING = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(2**62)}


@pytest.fixture(scope="module")
def every_case(seed: int) -> list[Case]:
    """One of each shape; its place is its partition."""
    return [drawn(name, SHAPES[name], 0, seed) for name in NAMES]


@pytest.fixture(scope="module")
def broker(
    used_broker: KafkaBroker,
    every_case: list[Case],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[KafkaBroker]:
    """Running on our folders; the topic's id, in partition.metadata, stays its own."""
    broker = used_broker.copy_to(tmp_path_factory.mktemp("cleaned") / "broker")
    with broker.running():
        broker.create_topic(TOPIC, len(every_case), settings=NO_CLEANING)
    for partition, case in enumerate(every_case):
        folder = broker.data_folder / f"{TOPIC}-{partition}"
        topic_id = (folder / "partition.metadata").read_bytes()
        shutil.rmtree(folder)
        case.write(folder)
        first_dirty = None
        for number in range(len(case.rounds)):
            first_dirty = clean_once(folder, case, number, first_dirty=first_dirty).offset_next
        assert segments_in(folder) != case.segments
        (folder / "partition.metadata").write_bytes(topic_id)
    with broker.running():
        yield broker


@pytest.fixture(scope="module")
def served(broker: KafkaBroker, every_case: list[Case]) -> list[dict[bytes, bytes]]:
    """The last values of each partition, as a consumer reads them."""
    values: list[dict[bytes, bytes]] = [{} for _ in every_case]
    settings = {
        "bootstrap.servers": broker.address,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "log_level": 0,
    }
    reading = set(range(len(every_case)))
    with closing(Consumer(settings)) as consumer:
        consumer.assign([KafkaTopicPartition(TOPIC, each, OFFSET_BEGINNING) for each in reading])
        while reading:
            message = consumer.poll(CALL_S_MAX)
            assert message is not None, f"nothing comes of {sorted(reading)}"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                reading.remove(message.partition())
            else:
                take(values[message.partition()], message.key(), message.value())
    return values


@pytest.mark.parametrize("partition", range(len(NAMES)), ids=NAMES)
def test_a_broker_serves_the_last_values_of_a_log_that_was_cleaned(
    served: list[dict[bytes, bytes]], every_case: list[Case], partition: int, seed: int
) -> None:
    print(f"OFFSETD_TEST_SEED={seed}")
    expected: dict[bytes, bytes] = {}
    for batches in every_case[partition].segments.values():
        for batch in decode_batches(batches):
            for record in batch.records:
                take(expected, record.key, record.value)
    assert served[partition] == expected


def take(values: dict[bytes, bytes], key: bytes | None, value: bytes | None) -> None:
    """Has the last value of a key, or none."""
    if key is not None and value is not None:
        values[key] = value
    elif key is not None:
        values.pop(key, None)
