"""Where a streaming query of Spark's Kafka source begins, by what a group has committed."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_clients import CommittedOffset, TopicPartition


class Uncommitted(IntEnum):
    """Where a partition begins for which nothing is committed; the numbers are Spark's."""

    LATEST = -1
    EARLIEST = -2


class FetchesOffsets(Protocol):
    """An `OffsetClient`, as far as it is needed here."""

    def fetch(
        self, group_id: str, *, require_stable: bool = False
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """The stored offsets of a group."""


def starting_offsets(
    client: FetchesOffsets,
    group_id: str,
    topics: Mapping[str, int],
    *,
    uncommitted: Uncommitted = Uncommitted.EARLIEST,
) -> str:
    """The text for Spark's option `startingOffsets`, by which a new query goes on from a group.

    `topics` says how many partitions each has: Spark wants all of them named. It begins at the
    committed offset, which is the next to read. Waits while a transaction has offsets pending.
    Raises ValueError for a committed partition that is not among them, and what `fetch` does.
    """
    begin: dict[str, dict[str, int]] = {
        topic: dict.fromkeys(map(str, range(count)), int(uncommitted))
        for topic, count in topics.items()
    }
    for where, committed in client.fetch(group_id, require_stable=True).items():
        if where.topic not in topics:
            continue
        if where.partition >= topics[where.topic]:
            raise ValueError(
                f"group {group_id} has committed partition {where.partition} of {where.topic},"
                f" which is said to have {topics[where.topic]}"
            )
        begin[where.topic][str(where.partition)] = committed.offset
    return json.dumps(begin)
