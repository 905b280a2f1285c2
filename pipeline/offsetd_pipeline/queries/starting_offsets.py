"""The start of a streaming query on Kafka, at the offsets that a group has committed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from offsetd_clients import Bounds, CommittedOffset, TopicPartition


class Uncommitted(IntEnum):
    """The start of a partition without a committed offset. The numbers are Spark's."""

    LATEST = -1
    EARLIEST = -2


class FetchesOffsets(Protocol):
    """The part of `OffsetClient` that this module needs."""

    def fetch(
        self, group_id: str, *, require_stable: bool = False
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """The stored offsets of a group."""

    def fetch_bounds(self, *, topics: Iterable[str] = ()) -> Mapping[TopicPartition, Bounds]:
        """The partitions of topics, as reported by the server's Kafka cluster."""


def starting_offsets(
    client: FetchesOffsets,
    group_id: str,
    topics: Mapping[str, int] | Iterable[str],
    *,
    uncommitted: Uncommitted = Uncommitted.EARLIEST,
) -> str:
    """The value of Spark's option `startingOffsets` that lets a new query continue a group.

    `topics` has the number of partitions of each topic: Spark requires all of them. Names alone are
    enough if the server knows the Kafka cluster (`kafka.bootstrap.servers`). A partition begins at
    its committed offset, which is the next one to read. Waits while a transaction has pending
    offsets.

    Raises ValueError for a committed partition beyond its topic's number, or a topic whose
    partitions are not known, and the client's errors.
    """
    counts = _partition_counts(client, topics)
    begin: dict[str, dict[str, int]] = {
        topic: dict.fromkeys(map(str, range(count)), int(uncommitted))
        for topic, count in counts.items()
    }
    for where, committed in client.fetch(group_id, require_stable=True).items():
        if where.topic not in counts:
            continue
        if where.partition >= counts[where.topic]:
            raise ValueError(
                f"group {group_id} has committed partition {where.partition} of {where.topic},"
                f" which is said to have {counts[where.topic]}"
            )
        begin[where.topic][str(where.partition)] = committed.offset
    return json.dumps(begin)


def _partition_counts(
    client: FetchesOffsets, topics: Mapping[str, int] | Iterable[str]
) -> Mapping[str, int]:
    if isinstance(topics, Mapping):
        return topics
    if isinstance(topics, str):
        raise TypeError("topics: one text where several are expected")
    counts = dict.fromkeys(topics, 0)
    for where in client.fetch_bounds(topics=counts):
        counts[where.topic] = max(counts[where.topic], where.partition + 1)
    unknown = [topic for topic, count in counts.items() if not count]
    if unknown:
        raise ValueError(
            f"the server knows no partitions of {', '.join(unknown)}: say how many there are, as"
            " {'orders': 12}, or set its kafka.bootstrap.servers"
        )
    return counts
