"""Bounds of source partitions, from the configured Kafka cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd.v1 import offset_service_pb2

from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.messages import validation

if TYPE_CHECKING:
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.services.kafka_bounds import KafkaBounds


TIMEOUT_S: Final = 4.0
"""It is short because a person waits. A client gives one try half of its 10 seconds."""


class BoundsService:
    """The method: it takes a request's bytes and returns the answer's bytes."""

    def __init__(self, node: Node, kafka: KafkaBounds | None) -> None:
        self._node = node
        self._kafka = kafka

    async def fetch_bounds(self, message: bytes) -> bytes:
        """The bounds of the named partitions, and of all partitions of the named topics.

        The answer is empty if no Kafka cluster is configured.
        """
        self._node.serving()
        turns = Turns()
        received = await validation.parse_in_turns(
            offset_service_pb2.FetchBoundsRequest, message, turns
        )
        named = validation.topic_partitions(received.partitions, "partitions")
        partitions = [each async for each in turns.each(named)]
        topics = await validation.read_topics(received.topics, turns)
        response = offset_service_pb2.FetchBoundsResponse()
        if self._kafka is None or not (partitions or topics):
            return response.SerializeToString()
        found = await self._kafka.bounds(partitions, topics, timeout_s=TIMEOUT_S)
        async for (topic, number), bounds in turns.each(sorted(found.items())):
            response.bounds.add(
                topic=topic.decode(),
                partition=number,
                earliest=bounds.earliest,
                latest=bounds.latest,
            )
        return response.SerializeToString()
