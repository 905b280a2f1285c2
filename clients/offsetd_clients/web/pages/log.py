"""The log: its partitions, what the cleaner does, what is damaged."""

from collections.abc import Mapping
from typing import Any

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.web.pages.parameters import whole

SHOWN = 100
TOPICS = ("__consumer_offsets", "__offsetd_audit", "__offsetd_config")


async def view(client: AsyncOffsetClient, parameters: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows. Raises ValueError for another topic."""
    topic = parameters.get("topic") or TOPICS[0]
    if topic not in TOPICS:
        raise ValueError(f"the log has no topic {topic[:60]!r}")
    number = whole(parameters, "page", 1, 1, 10**6)
    partitions = await client.describe_log(topic)
    begin = (number - 1) * SHOWN
    return {
        "topic": topic,
        "topics": TOPICS,
        "count": len(partitions),
        "partitions": partitions[begin : begin + SHOWN],
        "number": number,
        "has_more": begin + SHOWN < len(partitions),
        "total_bytes": sum(each.size_bytes for each in partitions),
        "largest_bytes": max((each.size_bytes for each in partitions), default=0),
        "segments": sum(len(each.segments) for each in partitions),
        "quarantined": [each for each in partitions if each.quarantine_reason],
        "uncleanable": [each for each in partitions if each.cleaning and each.cleaning.uncleanable],
    }
