"""A Kafka cluster that does not answer. What one answers is in tests/interop."""

from __future__ import annotations

import pytest
from offsetd_coordinator.errors import KafkaUnavailable
from offsetd_coordinator.kafka_bounds import KafkaBounds


async def test_a_cluster_that_is_not_there_is_told_so() -> None:
    cluster = KafkaBounds("127.0.0.1:1", timeout_s=0.2)
    with pytest.raises(KafkaUnavailable):
        await cluster.bounds([(b"orders", 0)], [])
    assert KafkaUnavailable.retriable
