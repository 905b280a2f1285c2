"""What interop tests start from. Without a Kafka they skip, or fail if OFFSETD_REQUIRE asks."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chance import session_seed
from interop.requirements import no_kafka
from interop.served_folder import ServedFolder

from deploy.kafka.kafka_runtime import KafkaUnavailable, Runtime, find_runtime

if TYPE_CHECKING:
    from interop.kafka_broker import KafkaBroker

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1.1"


@pytest.fixture(scope="session")
def kafka_runtime() -> Runtime:
    """A way to run Kafka's classes."""
    try:
        return find_runtime()
    except KafkaUnavailable as unavailable:
        no_kafka(str(unavailable))


@pytest.fixture(scope="session")
def used_broker(kafka_runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> "KafkaBroker":
    """A stopped broker with a topic `orders` and one commit, of group `first`. Take copies."""
    from interop.kafka_broker import KafkaBroker
    from interop.kafka_protocol import KafkaOffset

    broker = KafkaBroker.format(kafka_runtime, tmp_path_factory.mktemp("kafka") / "used")
    with broker.running():
        broker.create_topic("orders", 3)
        offset = KafkaOffset(offset=1, leader_epoch=None, metadata="")
        broker.commit("first", {("orders", 0): offset})
    return broker


@pytest.fixture(scope="session")
def seed() -> int:
    """Of what a test does at random; OFFSETD_TEST_SEED repeats a run."""
    seed = session_seed()
    print(f"OFFSETD_TEST_SEED={seed}")
    return seed


@pytest.fixture
def golden() -> Path:
    """What a broker wrote (`data`), what its tool prints of it, and what it answered."""
    return GOLDEN


@pytest.fixture
def serve() -> Callable[[Path], ServedFolder]:
    """Puts real `offsetd serve` processes on a data folder."""
    return ServedFolder
