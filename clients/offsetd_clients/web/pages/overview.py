"""The overview: is all well? Health, partitions, groups, sizes, warnings."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from offsetd_clients.admin_values import LogPartition
from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.cli.printing.server_summary import server_lines
from offsetd_clients.cluster_values import Cluster, LogPartitionState
from offsetd_clients.values import Group, LagVerdict, ServerInfo
from offsetd_clients.web.pages.groups import Choice, described
from offsetd_clients.web.served_parts import part

LISTED_MAX = 1000
DESCRIBED_MAX = 100
WORST_SHOWN = 8
_SERVICES = ("offsetd.cleaner", "offsetd.disk", "offsetd.clock")
_VERDICTS = (LagVerdict.ERR, LagVerdict.WARN, LagVerdict.OK)


@attrs.frozen
class WorstLag:
    """The lag of a group, summed over the partitions with a known end."""

    group_id: str
    verdict: LagVerdict | None
    lag: int


@attrs.frozen
class SampledGroups:
    """The states of the groups that were listed, and the lags of those that were described."""

    states: Mapping[str, int]
    listed: int
    is_complete: bool
    verdicts: Mapping[str, int]
    described: int
    worst: tuple[WorstLag, ...]


async def view(client: AsyncOffsetClient, _: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows."""
    cluster, log, groups, health = await asyncio.gather(
        part(client.describe_cluster()),
        part(client.describe_log()),
        part(sampled(client)),
        part(unhealthy(client)),
    )
    servers = [] if cluster.value is None else _servers(cluster.value)
    states = Counter(each.state for each in (cluster.value.partitions if cluster.value else ()))
    return {
        "cluster": cluster,
        "servers": servers,
        "group_count": sum(each.group_count for each in servers),
        "offset_count": sum(each.offset_count for each in servers),
        "serving": states[LogPartitionState.SERVING],
        "log": log,
        "log_bytes": sum(each.size_bytes for each in log.value or ()),
        "groups": groups,
        "warnings": list(warnings(cluster.value, log.value or (), health.value or ())),
    }


async def unhealthy(client: AsyncOffsetClient) -> list[str]:
    """The parts of the server that say that they are not healthy."""
    answers = await asyncio.gather(*map(client.is_serving, ("", *_SERVICES)))
    names = ("the server", *_SERVICES)
    return [name for name, serves in zip(names, answers, strict=True) if not serves]


async def sampled(client: AsyncOffsetClient) -> SampledGroups:
    """States of the first groups in the order of the log, lags of fewer."""
    page = await Choice("", None).page(client, LISTED_MAX, "")
    chosen = [each.group_id for each in page.groups[:DESCRIBED_MAX]]
    found = [each.value for each in await described(client, chosen) if each.value is not None]
    verdicts = Counter(each.lag_verdict or "none" for each in found)
    return SampledGroups(
        states=Counter(each.state for each in page.groups),
        listed=len(page.groups),
        is_complete=not page.next_page_token,
        verdicts={name: verdicts[name] for name in (*_VERDICTS, "none") if verdicts[name]},
        described=len(found),
        worst=await _worst(client, found),
    )


async def _worst(client: AsyncOffsetClient, groups: Sequence[Group]) -> tuple[WorstLag, ...]:
    """The largest lags. Groups without a verdict have none; large groups would cost too much."""

    async def lag_of(group: Group) -> WorstLag:
        page = await client.get_group_page(group.group_id, page_size=LISTED_MAX)
        lag = sum(each.lag for each in page.lags.values())
        return WorstLag(group.group_id, group.lag_verdict, lag)

    measured = [each for each in groups if each.lag_verdict and each.offset_count <= LISTED_MAX]
    parts = await asyncio.gather(*(part(lag_of(each)) for each in measured))
    lags = [each.value for each in parts if each.value is not None and each.value.lag > 0]
    return tuple(sorted(lags, key=lambda each: -each.lag)[:WORST_SHOWN])


def _servers(cluster: Cluster) -> list[ServerInfo]:
    return [node.server for node in cluster.nodes if node.server is not None]


def warnings(
    cluster: Cluster | None, log: Sequence[LogPartition], failing: Sequence[str]
) -> Iterator[str]:
    """What needs somebody, most urgent first."""
    yield from (f"{name} reports that it is not healthy" for name in failing)
    if cluster is not None:
        yield from cluster.problems
        yield from (
            f"node {node.node_id} at {node.address} does not answer"
            for node in cluster.nodes
            if node.server is None
        )
        for served in _servers(cluster):
            yield from served.problems
            if served.settings_problem:
                yield f"not all settings can be read: {served.settings_problem}"
            yield from (line for line in server_lines(served, {}) if _is_warning(line))
    for each in log:
        if each.quarantine_reason:
            yield f"log partition {each.partition} is quarantined: {each.quarantine_reason}"
        elif each.cleaning is not None and each.cleaning.uncleanable is not None:
            reason = each.cleaning.uncleanable.reason
            yield f"log partition {each.partition} cannot be cleaned: {reason}"


def _is_warning(line: str) -> bool:
    return line.startswith(("nothing expires", "the machine's clock"))
