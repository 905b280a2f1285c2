"""One Kafka cluster for all tests here. Without a Kafka they skip, or fail if asked to."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from interop.requirements import no_kafka

from deploy.kafka.kafka_runtime import KafkaUnavailable, find_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.real_cluster import RealCluster

    from deploy.kafka.kafka_runtime import Runtime

FOLDER: Final = Path(__file__).parent
BROKERS: Final = pytest.StashKey["RealCluster"]()


@pytest.fixture(scope="session")
def kafka_runtime() -> Runtime:
    """A way to run Kafka's classes, for several brokers on a small machine."""
    try:
        from deploy.kafka.kafka_cluster import JAVA_OPTIONS

        return find_runtime(JAVA_OPTIONS)
    except ModuleNotFoundError as missing:
        no_kafka(str(missing))
    except KafkaUnavailable as unavailable:
        no_kafka(str(unavailable))


@pytest.fixture(scope="session")
def started_cluster(
    request: pytest.FixtureRequest,
    kafka_runtime: Runtime,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RealCluster]:
    """Three brokers. Take `real_cluster`, which repairs them before and after a test."""
    try:
        from cluster.network import Network
        from cluster.real_cluster import RealCluster

        from deploy.kafka.kafka_cluster import JAVA_OPTIONS

        runtime = find_runtime(JAVA_OPTIONS)
    except ModuleNotFoundError as missing:
        no_kafka(str(missing))
    except KafkaUnavailable as unavailable:
        no_kafka(str(unavailable))
    network = Network()
    cluster = RealCluster(runtime, tmp_path_factory.mktemp("brokers"), network)
    request.config.stash[BROKERS] = cluster
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end_nodes()
        cluster.kill()
        network.close()


@pytest.fixture
def real_cluster(started_cluster: RealCluster) -> Iterator[RealCluster]:
    """Three brokers that are well. After the test its nodes are killed, and all is repaired."""
    if not all(broker.is_running for broker in started_cluster.brokers):
        started_cluster.repair()
    yield started_cluster
    started_cluster.end_nodes()
    started_cluster.repair()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The brokers end when a worker leaves this folder: they would take time from other tests."""
    brokers = item.config.stash.get(BROKERS, None)
    if brokers and not (nextitem and nextitem.path.is_relative_to(FOLDER)):
        brokers.kill()


@pytest.fixture
def cluster_id() -> str:
    """A `cluster.id` of the test's own: its topics and its consumer group begin with it."""
    return f"t{uuid.uuid4().hex[:12]}"
