"""The settings of the server and of its topics: value, source, default, what each does."""

from collections.abc import Mapping
from typing import Any

from offsetd_clients.admin_values import ConfigSource
from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.web.pages.log import TOPICS


async def view(client: AsyncOffsetClient, parameters: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows. Raises ValueError for another topic."""
    topic = parameters.get("topic", "")
    if topic and topic not in TOPICS:
        raise ValueError(f"the log has no topic {topic[:60]!r}")
    wanted = parameters.get("q", "").strip().lower()
    only_set = parameters.get("set") == "yes"
    found = await client.describe_config(topic)
    return {
        "topic": topic,
        "topics": TOPICS,
        "wanted": wanted,
        "only_set": only_set,
        "all_count": len(found),
        "settings": [
            each
            for each in found
            if wanted in f"{each.name} {each.description}".lower()
            and (not only_set or each.source not in _BUILT_IN)
        ],
    }


_BUILT_IN = (ConfigSource.DEFAULT, ConfigSource.TOPIC_DEFAULT)
