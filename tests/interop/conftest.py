"""What interop tests start from. Without a Kafka they skip, or fail if OFFSETD_REQUIRE asks."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from interop.kafka_runtime import KafkaUnavailable, Runtime, find_runtime
from interop.server_process import ServerProcess

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1.1"


@pytest.fixture(scope="session")
def kafka_runtime() -> Runtime:
    """A way to run Kafka's classes."""
    try:
        import confluent_kafka  # noqa: F401
    except ModuleNotFoundError:
        _no_kafka("confluent-kafka is not installed: pip install 'offsetd[kafka]'")
    try:
        return find_runtime()
    except KafkaUnavailable as unavailable:
        _no_kafka(str(unavailable))


@pytest.fixture
def golden() -> Path:
    """What a broker wrote (`data`), what its tool prints of it, and what it answered."""
    return GOLDEN


@pytest.fixture
def serve(tmp_path: Path) -> Callable[[Path], ServerProcess]:
    """Makes real `offsetd serve` processes on a data folder; their logs are the test's."""
    return lambda data: ServerProcess(data=data, log=tmp_path / "offsetd.log")


def _no_kafka(reason: str) -> NoReturn:
    if "kafka" in os.environ.get("OFFSETD_REQUIRE", "").split(","):
        pytest.fail(f"OFFSETD_REQUIRE asks for a Kafka broker: {reason}", pytrace=False)
    pytest.skip(f"no Kafka broker can be run here: {reason}")
