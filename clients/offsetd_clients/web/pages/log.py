"""The log: a map of its partitions, what the cleaner did, what is damaged, one partition."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from offsetd_clients.admin_values import CleaningRound, ConfigSetting, LogPartition
from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.web.pages.heat_map import MEASURES, heat_map
from offsetd_clients.web.pages.parameters import whole
from offsetd_clients.web.served_parts import part

SHOWN = 100
ROUNDS_SHOWN = 10
SEGMENTS_SHOWN = 100
TOPICS = ("__consumer_offsets", "__offsetd_audit", "__offsetd_config")
# What decides what is deleted, and what is cleaned.
SETTINGS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "history.ms",
    "min.cleanable.dirty.ratio",
    "delete.retention.ms",
    "segment.bytes",
)


@attrs.frozen
class RoundShown:
    """The last round of a partition. `rate`: bytes read a second. `saved`: from 0 to 1."""

    partition: int
    round: CleaningRound
    rate_bytes: float | None
    saved: float | None

    @classmethod
    def of(cls, each: LogPartition) -> "RoundShown | None":
        """The last round since the start of the server, if there was one."""
        found = None if each.cleaning is None else each.cleaning.last_round
        if found is None:
            return None
        seconds = found.duration.total_seconds()
        before = found.bytes_before
        return cls(
            each.partition,
            found,
            before / seconds if seconds > 0 else None,
            1 - found.bytes_after / before if before else None,
        )


async def view(client: AsyncOffsetClient, parameters: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows. Raises ValueError for another topic, partition or measure."""
    topic = parameters.get("topic") or TOPICS[0]
    if topic not in TOPICS:
        raise ValueError(f"the log has no topic {topic[:60]!r}")
    measure = parameters.get("by") or next(iter(MEASURES))
    if measure not in MEASURES:
        raise ValueError(f"the map is by {', '.join(MEASURES)}, not by {measure[:60]!r}")
    number = whole(parameters, "page", 1, 1, 10**6)
    partitions = await client.describe_log(topic)
    begin = (number - 1) * SHOWN
    shown = partitions[begin : begin + SHOWN]
    rounds = [each for each in map(RoundShown.of, partitions) if each is not None]
    rounds.sort(key=lambda each: each.round.start_time, reverse=True)
    return {
        "topic": topic,
        "topics": TOPICS,
        "measure": measure,
        "measures": MEASURES,
        "cells": heat_map(shown, measure),
        "count": len(partitions),
        "partitions": shown,
        "number": number,
        "has_more": begin + SHOWN < len(partitions),
        "total_bytes": sum(each.size_bytes for each in partitions),
        "largest_bytes": max((each.size_bytes for each in partitions), default=0),
        "segments": sum(len(each.segments) for each in partitions),
        "quarantined": [each for each in partitions if each.quarantine_reason],
        "uncleanable": [each for each in partitions if each.cleaning and each.cleaning.uncleanable],
        "blocked": [each for each in partitions if each.blocked_retention],
        "rounds": rounds[:ROUNDS_SHOWN],
        "settings": await part(_settings(client, topic)),
        "chosen": _chosen(parameters, partitions),
        "segments_shown": SEGMENTS_SHOWN,
    }


async def _settings(client: AsyncOffsetClient, topic: str) -> list[ConfigSetting]:
    found = {each.name: each for each in await client.describe_config(topic)}
    return [found[name] for name in SETTINGS if name in found]


def _chosen(
    parameters: Mapping[str, str], partitions: Sequence[LogPartition]
) -> LogPartition | None:
    if "partition" not in parameters:
        return None
    wanted = whole(parameters, "partition", 0, 0, 2**31 - 1)
    found = next((each for each in partitions if each.partition == wanted), None)
    if found is None:
        raise ValueError(f"partition={wanted}: this server has no such partition of the topic")
    return found
