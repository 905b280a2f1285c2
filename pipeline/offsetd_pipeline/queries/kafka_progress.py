"""What Spark says of its Kafka sources, in the progress of a query and in its checkpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol

import attrs
from offsetd_clients import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KAFKA_SOURCES: Final = ("KafkaV2[", "KafkaSourceV1[", "KafkaSource[")
"""How the description of a source begins that is Kafka's, of any version of Spark."""


class SourceProgress(Protocol):
    """Of a source, as Spark's listeners are told: offsets as JSON."""

    description: str
    startOffset: str  # noqa: N815  Spark's name
    endOffset: str  # noqa: N815
    latestOffset: str  # noqa: N815


class QueryProgress(Protocol):
    """Spark's `StreamingQueryProgress`, as far as it is needed here."""

    id: object
    runId: object  # noqa: N815  Spark's name
    name: str | None
    batchId: int  # noqa: N815

    @property
    def sources(self) -> Sequence[SourceProgress]:
        """Of each source, in the query's order."""


@attrs.frozen
class Position:
    """The next offset to read, and the end of the partition as far as the query knows."""

    offset: int
    end_offset: int | None = None


@attrs.frozen(kw_only=True)
class BatchProgress:
    """How far a query is with what it reads from Kafka, behind one batch.

    `query_id` stays the same for a checkpoint, `run_id` until the query ends.
    """

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    positions: Mapping[TopicPartition, Position]

    @property
    def topics(self) -> frozenset[str]:
        """Those that it reads."""
        return frozenset(each.topic for each in self.positions)


def batch_progress(progress: QueryProgress) -> BatchProgress | None:
    """What a batch came to; None if the query reads nothing from Kafka.

    Raises ValueError for a source of Kafka's whose offsets are none.
    """
    ends: list[Mapping[TopicPartition, int]] = []
    latest: dict[TopicPartition, int] = {}
    for source in progress.sources:
        if not source.description.startswith(KAFKA_SOURCES):
            continue
        found = kafka_offsets(source.endOffset)
        if found is None:
            raise ValueError(f"{source.description} ends with {source.endOffset}: no offsets")
        ends.append(found)
        for where, offset in (kafka_offsets(source.latestOffset) or {}).items():
            latest[where] = max(offset, latest.get(where, 0))
    if not ends:
        return None
    return BatchProgress(
        query_id=str(progress.id),
        run_id=str(progress.runId),
        name=progress.name,
        batch_id=progress.batchId,
        # In real-time mode the latest is that of the batch's beginning, and may be below its end.
        positions={
            where: Position(offset, max(offset, latest[where]) if where in latest else None)
            for where, offset in least_offsets(ends).items()
        },
    )


def idle_progress(progress: QueryProgress) -> BatchProgress | None:
    """What the last batch came to, by the progress of a query that waits for something to read.

    None if it has read nothing yet, or does not wait by now.
    """
    found = batch_progress(progress)
    is_waiting = all(
        kafka_offsets(each.startOffset) == kafka_offsets(each.endOffset)
        for each in progress.sources
        if each.description.startswith(KAFKA_SOURCES)
    )
    if found is None or not is_waiting:
        return None
    # It bears the number of the batch that will be next.
    return attrs.evolve(found, batch_id=found.batch_id - 1)


def kafka_offsets(text: str) -> dict[TopicPartition, int] | None:
    """The offsets in a source's JSON, `{"orders":{"0":42}}`; None: it is not of this form."""
    try:
        by_topic = json.loads(text)
    except ValueError:
        return None
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


def least_offsets(sources: Iterable[Mapping[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """What all sources have read: where several read one partition, the one furthest behind."""
    least: dict[TopicPartition, int] = {}
    for offsets in sources:
        for where, offset in offsets.items():
            least[where] = min(offset, least.get(where, offset))
    return least
