"""One Kafka cluster for all tests here. Without a Kafka they skip, or fail if asked to."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from interop.requirements import no_kafka

from deploy.kafka.kafka_runtime import KafkaUnavailable, find_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.real_cluster import RealCluster

    from deploy.kafka.kafka_runtime import Runtime


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
    kafka_runtime: Runtime, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """Three brokers that run. Take `real_cluster`, which repairs them after a test."""
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
    yield started_cluster
    started_cluster.end_nodes()
    started_cluster.repair()


@pytest.fixture
def cluster_id() -> str:
    """A `cluster.id` of the test's own: its topics and its consumer group begin with it."""
    return f"t{uuid.uuid4().hex[:12]}"
