"""The offsets of Kafka sources in a query's progress and in its checkpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
from offsetd_clients import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KAFKA_SOURCES: Final = ("KafkaV2[", "KafkaSourceV1[", "KafkaSource[")
"""The beginning of a Kafka source's description, in any version of Spark."""


class QueryProgress(Protocol):
    """The part of Spark's `StreamingQueryProgress` that this module needs."""

    @property
    def json(self) -> str:
        """The whole progress. Its attributes have offsets in forms that differ by version."""


@attrs.frozen
class Position:
    """The next offset to read, and the end of the partition if the query knows it."""

    offset: int
    end_offset: int | None = None


@attrs.frozen(kw_only=True)
class BatchProgress:
    """A query's progress in Kafka after one batch.

    `query_id` stays the same for a checkpoint, `run_id` until the query ends.
    """

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    positions: Mapping[TopicPartition, Position]

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the query reads."""
        return frozenset(each.topic for each in self.positions)


def batch_progress(progress: QueryProgress) -> BatchProgress | None:
    """The progress of a batch; None if the query reads nothing from Kafka.

    Raises ValueError for invalid offsets of a Kafka source.
    """
    return _batch_progress(json.loads(progress.json))


def idle_progress(progress: QueryProgress) -> BatchProgress | None:
    """The progress after the last batch, from the report of a query that waits for data.

    None if it has read nothing yet, or no longer waits.
    """
    told = json.loads(progress.json)
    found = _batch_progress(told)
    if found is None or any(each["startOffset"] != each["endOffset"] for each in _kafkas(told)):
        return None
    # The report has the number of the next batch.
    return attrs.evolve(found, batch_id=found.batch_id - 1)


def kafka_offsets(text: str) -> dict[TopicPartition, int] | None:
    """The offsets in a source's JSON, `{"orders":{"0":42}}`; None if it has another form."""
    try:
        return _offsets(json.loads(text))
    except ValueError:
        return None


def least_offsets(sources: Iterable[Mapping[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """The offsets that all sources have read. If several read a partition, the smallest counts."""
    least: dict[TopicPartition, int] = {}
    for offsets in sources:
        for where, offset in offsets.items():
            least[where] = min(offset, least.get(where, offset))
    return least


def _batch_progress(told: Mapping[str, Any]) -> BatchProgress | None:
    ends: list[Mapping[TopicPartition, int]] = []
    latest: dict[TopicPartition, int] = {}
    for source in _kafkas(told):
        found = _offsets(source["endOffset"])
        if found is None:
            raise ValueError(f"{source['description']} ends with {source['endOffset']}: no offsets")
        ends.append(found)
        for where, offset in (_offsets(source["latestOffset"]) or {}).items():
            latest[where] = max(offset, latest.get(where, 0))
    if not ends:
        return None
    return BatchProgress(
        query_id=told["id"],
        run_id=told["runId"],
        name=told.get("name"),
        batch_id=told["batchId"],
        # In real-time mode, the latest offset is the one at the batch's beginning, and may be below
        # its end.
        positions={
            where: Position(offset, max(offset, latest[where]) if where in latest else None)
            for where, offset in least_offsets(ends).items()
        },
    )


def _kafkas(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in told["sources"] if each["description"].startswith(KAFKA_SOURCES)]


def _offsets(by_topic: object) -> dict[TopicPartition, int] | None:
    if not isinstance(by_topic, dict):
        return None
    offsets = {}
    for topic, by_partition in by_topic.items():
        if not isinstance(by_partition, dict):
            return None
        for partition, offset in by_partition.items():
            if not partition.isdecimal() or type(offset) is not int or offset < 0:
                return None
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets
