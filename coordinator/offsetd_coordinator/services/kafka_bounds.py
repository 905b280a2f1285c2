"""Reads the first and last offsets of partitions from a Kafka cluster. Needs the extra `kafka`."""

from __future__ import annotations

import asyncio
import importlib
import time
from typing import TYPE_CHECKING, Any, Final

from offsetd_coordinator.errors import KafkaUnavailable
from offsetd_coordinator.offset_changes import Bounds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from offsetd_coordinator.offset_changes import Partition

TIMEOUT_S: Final = 10.0


class KafkaBounds:
    """Queries a cluster on a thread, within a deadline. The first query opens the connection."""

    def __init__(self, bootstrap_servers: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._timeout_s = timeout_s
        self._admin: Any = None
        self._one_at_a_time = asyncio.Lock()

    async def bounds(
        self,
        partitions: Collection[Partition],
        topics: Collection[bytes],
        *,
        timeout_s: float | None = None,
    ) -> dict[Partition, Bounds]:
        """The bounds of these partitions, and of all partitions of these topics.

        Partitions that the cluster does not have are left out. One query runs at a time. Raises
        KafkaUnavailable if the cluster does not answer, or if an earlier query is still unanswered
        at the deadline.
        """
        timeout_s = timeout_s or self._timeout_s
        end_s = time.monotonic() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._one_at_a_time.acquire()
        except TimeoutError as error:
            raise KafkaUnavailable(
                "the Kafka cluster has not answered earlier questions about its partitions yet"
            ) from error
        asked = asyncio.create_task(asyncio.to_thread(self._bounds, partitions, topics, end_s))
        asked.add_done_callback(self._next)
        # The thread continues if this call is cancelled; the next query waits for the thread.
        await asyncio.wait([asked])
        return asked.result()

    def _next(self, asked: asyncio.Task[dict[Partition, Bounds]]) -> None:
        self._one_at_a_time.release()
        if not asked.cancelled():
            asked.exception()  # Retrieved here, because the call may have been cancelled.

    def _bounds(
        self, partitions: Collection[Partition], topics: Collection[bytes], end_s: float
    ) -> dict[Partition, Bounds]:
        try:
            # Any: the package's type stubs do not match its code.
            kafka: Any = importlib.import_module("confluent_kafka")
            kafka_admin: Any = importlib.import_module("confluent_kafka.admin")
        except ImportError as error:
            raise KafkaUnavailable(
                "kafka.bootstrap.servers is set, but confluent-kafka is not installed: {cause}",
                cause=error,
            ) from error
        try:
            if self._admin is None:
                self._admin = kafka_admin.AdminClient(
                    {"bootstrap.servers": self._bootstrap_servers, "error_cb": _pass_over}
                )
            known = self._known(partitions, topics, end_s)
            asked = [kafka.TopicPartition(topic.decode(), number) for topic, number in known]
            found: dict[Partition, list[int]] = {}
            for spec in (kafka_admin.OffsetSpec.earliest(), kafka_admin.OffsetSpec.latest()):
                futures = self._admin.list_offsets(
                    dict.fromkeys(asked, spec), request_timeout=_left_s(end_s)
                )
                for each, future in futures.items():
                    offset = _known_offset(future.result(timeout=_left_s(end_s)).offset)
                    found.setdefault((each.topic.encode(), each.partition), []).append(offset)
        except (kafka.KafkaException, TimeoutError) as error:
            raise KafkaUnavailable(
                "the Kafka cluster did not answer about its partitions: {cause}", cause=error
            ) from error
        return {
            partition: Bounds(earliest, latest) for partition, (earliest, latest) in found.items()
        }

    def _known(
        self, partitions: Collection[Partition], topics: Collection[bytes], end_s: float
    ) -> list[Partition]:
        """The requested partitions that the cluster has."""
        metadata: Mapping[str, Any] = self._admin.list_topics(timeout=_left_s(end_s)).topics
        numbers = {name.encode(): set(topic.partitions) for name, topic in metadata.items()}
        named = {each for each in partitions if each[1] in numbers.get(each[0], ())}
        return sorted(
            named | {(topic, number) for topic in topics for number in numbers.get(topic, ())}
        )


def _known_offset(offset: int) -> int:
    """The offset. Raises TimeoutError for librdkafka's answer while a leader changes."""
    if offset < 0:
        raise TimeoutError("the leader of a partition changes")
    return offset


def _pass_over(_: object) -> None:
    """Ignores the client's error events: each call raises its own errors."""


def _left_s(end_s: float) -> float:
    left_s = end_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("no answer in time")
    return left_s
