"""The cluster: its nodes, the log partitions of each, how far copies are behind."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.web.pages.parameters import whole

SHOWN = 200


async def view(client: AsyncOffsetClient, parameters: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows."""
    number = whole(parameters, "page", 1, 1, 10**6)
    cluster = await client.describe_cluster()
    begin = (number - 1) * SHOWN
    return {
        "cluster": cluster,
        "counts_hidden": any(node.server and node.server.counts_hidden for node in cluster.nodes),
        "ranges": {node.node_id: ranges_text(node.log_partitions) for node in cluster.nodes},
        "partitions": cluster.partitions[begin : begin + SHOWN],
        "number": number,
        "has_more": begin + SHOWN < len(cluster.partitions),
        "unserved": sum(1 for each in cluster.partitions if not each.node_id),
    }


def ranges_text(numbers: Iterable[int]) -> str:
    """Numbers in ascending order, with ranges, as text."""
    runs = groupby(enumerate(sorted(numbers)), key=lambda each: each[1] - each[0])
    texts = []
    for _, members in runs:
        run = [number for _, number in members]
        texts.append(str(run[0]) if len(run) == 1 else f"{run[0]}\N{EN DASH}{run[-1]}")
    return ", ".join(texts)
